"""Boundary models: from what a quiz asks and a few cheap signals, how probably the answer from memory is right.

KBM trains such a model of its own (mastery and certainty); the one here is light, trained in seconds by
`keqa.optimize.boundary`. `keqa.programs.gates.BoundaryGate` decides by one.
"""

from keqa.programs.boundary.light import LightModel, read_model
from keqa.programs.boundary.model import BoundaryError, BoundaryModel, Judgement, Reads, Signals

__all__ = ["BoundaryError", "BoundaryModel", "Judgement", "LightModel", "Reads", "Signals", "read_model"]
