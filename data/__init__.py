"""Questions with their gold answers, read from files into one example type."""

from keqa.data.example import Answered, Example, as_examples
from keqa.data.own import Problem, Reading, read_examples, sort_examples

__all__ = ["Answered", "Example", "Problem", "Reading", "as_examples", "read_examples", "sort_examples"]
