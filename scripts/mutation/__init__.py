"""The parts of `just mutate`: the changes, the tests that can notice one, and the namespace in which changed code runs."""
