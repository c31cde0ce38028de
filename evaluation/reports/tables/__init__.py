"""The tables of the papers, one module each, drawn from run files."""
