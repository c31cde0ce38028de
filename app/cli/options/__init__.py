"""The options of all commands, a module each group: one declaration each of language models, method, questions and run.

A command takes a group as one argument, annotated with its class, and `with_groups` shows Typer each field of the class
as an option of its own. A marker beside an option says how its value is written where the command is kept.
"""

from keqa.cli.options.evaluation import EvaluationOptions
from keqa.cli.options.groups import Panel, as_command, with_groups
from keqa.cli.options.invocation import Places, Server, invocation
from keqa.cli.options.method import KeqaOptions, MethodOptions
from keqa.cli.options.models import BoundaryLMOptions, LanguageModel, LanguageModels, server_of
from keqa.cli.options.presets import PRESETS, KSOptions, PaperOptions, PresetOptions
from keqa.cli.options.program import Embedder, Index, ProgramOptions
from keqa.cli.options.questions import QuestionOptions
from keqa.cli.options.risk import RiskOptions
from keqa.cli.options.run import AllowOverlap, AsJson, InFlight, RetryFailed, RunOptions
from keqa.cli.options.values import given, refuse_empty

__all__ = [
    "PRESETS",
    "AllowOverlap",
    "AsJson",
    "BoundaryLMOptions",
    "Embedder",
    "EvaluationOptions",
    "InFlight",
    "Index",
    "KSOptions",
    "KeqaOptions",
    "LanguageModel",
    "LanguageModels",
    "MethodOptions",
    "Panel",
    "PaperOptions",
    "Places",
    "PresetOptions",
    "ProgramOptions",
    "QuestionOptions",
    "RetryFailed",
    "RiskOptions",
    "RunOptions",
    "Server",
    "as_command",
    "given",
    "invocation",
    "refuse_empty",
    "server_of",
    "with_groups",
]
