"""A program as a folder: saved whole or not at all, read as what a stranger may have written."""
