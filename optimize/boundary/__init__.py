"""Boundary models from a train split: their labels are collected, they are trained, and they are checked."""

from keqa.optimize.boundary.check import Figures, check_model
from keqa.optimize.boundary.collect import Collected, CollectedQuiz, collect, read_collected, write_collected
from keqa.optimize.boundary.train import train_light

__all__ = [
    "Collected",
    "CollectedQuiz",
    "Figures",
    "check_model",
    "collect",
    "read_collected",
    "train_light",
    "write_collected",
]
