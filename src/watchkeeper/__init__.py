"""Watchkeeper: runs coding agents in the background, and can be trusted with them."""

__version__ = "0.1.0"
