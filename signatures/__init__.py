"""Every prompt of the program as a DSPy signature, named for what it asks; a file for each paper or topic."""
