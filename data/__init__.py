"""Questions with their gold answers: benchmarks by name, and the user's own files, as one example type."""

from keqa.data.benchmark import Benchmark
from keqa.data.benchmarks import BENCHMARKS, load
from keqa.data.example import ContextPassage, Example, SupportingFact, Triple, as_examples
from keqa.data.loading import Loaded, Problem
from keqa.data.own import read_examples, sort_examples

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "ContextPassage",
    "Example",
    "Loaded",
    "Problem",
    "SupportingFact",
    "Triple",
    "as_examples",
    "load",
    "read_examples",
    "sort_examples",
]
