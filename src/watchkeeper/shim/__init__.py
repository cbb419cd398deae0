"""The process that outlives the daemon: standard library only, imports nothing of ours."""
