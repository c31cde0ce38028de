"""The preset paper of ``keqa reproduce``: what is run, what it will cost, what is learned before, and the tables."""
