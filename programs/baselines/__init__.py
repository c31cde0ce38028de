"""The methods that KEQA is compared with, asked and recorded in the same way."""

from keqa.programs.baselines.always_retrieve import AlwaysRetrieve
from keqa.programs.baselines.closed_book import ClosedBook
from keqa.programs.baselines.flare import FLARE
from keqa.programs.baselines.ircot import IRCoT
from keqa.programs.baselines.react import ReAct
from keqa.programs.baselines.searchain import SearChain

__all__ = ["FLARE", "AlwaysRetrieve", "ClosedBook", "IRCoT", "ReAct", "SearChain"]
