"""Boundary models: from what a quiz asks and a few cheap signals, how probably the answer from memory is right.

There are three kinds: light, trained in seconds, and stepwise from two light ones; fine-tuned, as KBM's; and prompted.
`keqa.optimize.boundary` makes them, `keqa.programs.gates.BoundaryGate` decides by one.
"""

from keqa.programs.boundary.files import read_model
from keqa.programs.boundary.finetuned import FinetunedModel
from keqa.programs.boundary.light import LightModel
from keqa.programs.boundary.model import BoundaryError, BoundaryModel, Judgement, Reads, Signals
from keqa.programs.boundary.prompted import PromptedModel
from keqa.programs.boundary.stepwise import StepwiseModel

__all__ = [
    "BoundaryError",
    "BoundaryModel",
    "FinetunedModel",
    "Judgement",
    "LightModel",
    "PromptedModel",
    "Reads",
    "Signals",
    "StepwiseModel",
    "read_model",
]
