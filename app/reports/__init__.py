"""Tables and figures, drawn from run files alone."""
