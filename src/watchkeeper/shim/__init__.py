"""The process that outlives the daemon: one shim supervises one execution. Standard library only."""
