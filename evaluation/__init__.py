"""Runs of methods over questions: what is asked, how it is kept, and how it resumes after a stop."""
