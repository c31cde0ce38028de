"""Abstention: a program that says "I do not know" where its answer is too probably wrong for the risk it may take."""

from keqa.programs.abstention.confidence import Confidence
from keqa.programs.abstention.withholding import WITHHELD, Abstention

__all__ = ["WITHHELD", "Abstention", "Confidence"]
