"""Boundary models: from what a quiz asks and a few cheap signals, how probably the answer from memory is right.

There are three kinds: light, trained in seconds; fine-tuned, as KBM's; and prompted.
`keqa.optimize.boundary` makes them, `keqa.programs.gates.BoundaryGate` decides by one.
"""

from keqa.programs.boundary.asked import FinetunedModel, PromptedModel
from keqa.programs.boundary.files import read_model
from keqa.programs.boundary.light import LightModel
from keqa.programs.boundary.model import BoundaryError, BoundaryModel, Judgement, Reads

__all__ = [
    "BoundaryError",
    "BoundaryModel",
    "FinetunedModel",
    "Judgement",
    "LightModel",
    "PromptedModel",
    "Reads",
    "read_model",
]
