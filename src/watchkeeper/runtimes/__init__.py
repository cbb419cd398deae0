"""Agents as processes of this machine: execution directories, shims, evidence, signals. The adapters behind `ports.runtime`."""
