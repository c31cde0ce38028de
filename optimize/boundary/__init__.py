"""Boundary models from a train split: their labels are collected, they are trained, and they are checked."""

from keqa.optimize.boundary.check import Figures, check_model
from keqa.optimize.boundary.choosing import Chosen, Learner
from keqa.optimize.boundary.collect import Collected, CollectedQuiz, collect, read_collected, write_collected
from keqa.optimize.boundary.outcomes import RecordedOutcome, as_collected, read_outcomes
from keqa.optimize.boundary.train import compile_prompted, train_finetuned, train_light, train_prompted

__all__ = [
    "Chosen",
    "Collected",
    "CollectedQuiz",
    "Figures",
    "Learner",
    "RecordedOutcome",
    "as_collected",
    "check_model",
    "collect",
    "compile_prompted",
    "read_collected",
    "read_outcomes",
    "train_finetuned",
    "train_light",
    "train_prompted",
    "write_collected",
]
