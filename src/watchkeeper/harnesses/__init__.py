"""Agent programs, one file each."""
