"""Boundary models from a train split: their labels are collected, they are trained, and they are checked."""

from keqa.optimize.boundary.choosing import Learner
from keqa.optimize.boundary.collect import collect
from keqa.optimize.boundary.outcomes import read_outcomes
from keqa.optimize.boundary.train import train_light

__all__ = ["Learner", "collect", "read_outcomes", "train_light"]
