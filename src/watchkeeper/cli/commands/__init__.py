"""One command a file; each has a `command` that `main` loads when it is asked for."""
