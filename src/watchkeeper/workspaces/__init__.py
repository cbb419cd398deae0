"""The directories that agents work in: git checkouts and plain directories."""
