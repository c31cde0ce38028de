"""Tables and figures for the terminal, for files and for matplotlib."""
