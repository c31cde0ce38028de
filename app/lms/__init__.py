"""Language models by name."""
