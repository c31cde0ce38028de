"""DSPy's own optimizers over the program."""
