"""Where agents work: directories and git."""
