"""Runs made by hand, as fixtures."""

from fixtures.run_files import line, no_encoder, quiz, run, scored

__all__ = ["line", "no_encoder", "quiz", "run", "scored"]
