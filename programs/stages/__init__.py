"""The steps of a question's way through the program, one module each."""
