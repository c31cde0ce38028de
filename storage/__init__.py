"""Work on disk: files and folders that are whole or not at all, one store, and what must not be written."""
