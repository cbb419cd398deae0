"""The scripted agent: a real process that does what its prompt says, without a model; see docs/harnesses/demo.md."""
