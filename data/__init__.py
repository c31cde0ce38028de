"""Questions with their gold answers: benchmarks by name, and the user's own files, as one example type."""

from keqa.data.benchmark import Benchmark
from keqa.data.benchmarks import BENCHMARKS
from keqa.data.evidence import ContextPassage, SupportingFact, Triple
from keqa.data.example import Answered, Example, as_examples
from keqa.data.load import load
from keqa.data.loading import Loaded
from keqa.data.own import Problem, Reading, read_examples, sort_examples

__all__ = [
    "BENCHMARKS",
    "Answered",
    "Benchmark",
    "ContextPassage",
    "Example",
    "Loaded",
    "Problem",
    "Reading",
    "SupportingFact",
    "Triple",
    "as_examples",
    "load",
    "read_examples",
    "sort_examples",
]
