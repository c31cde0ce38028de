"""Pure functions from predictions to numbers."""
