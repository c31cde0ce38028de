"""Runs of methods over questions: what is asked, how it is kept, and how it goes on after a stop."""
