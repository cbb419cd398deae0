"""Watchkeeper: runs coding agents in the background, and can be trusted with them."""
