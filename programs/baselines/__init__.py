"""The methods that KEQA is compared with, asked and recorded in the same way."""

from keqa.programs.baselines.always_retrieve import AlwaysRetrieve
from keqa.programs.baselines.closed_book import ClosedBook

__all__ = ["AlwaysRetrieve", "ClosedBook"]
