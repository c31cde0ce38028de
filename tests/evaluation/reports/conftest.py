"""Runs made by hand, as fixtures."""

from fixtures.run_files import line, no_encoder, quiz, run, scored, undrawn

__all__ = ["line", "no_encoder", "quiz", "run", "scored", "undrawn"]
