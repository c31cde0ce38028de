"""The papers' experiments and the figures that this version should reproduce."""
