"""The preset paper of ``keqa reproduce``: what is run, what it will cost, what is learned before, and the tables."""

from keqa.cli.paper.preset import reproduce_paper

__all__ = ["reproduce_paper"]
