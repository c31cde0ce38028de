"""The options of all commands, a module each group: one declaration each of language models, method, questions and run.

A command takes a group as one argument, annotated with its class, and `with_groups` shows Typer each field of the class
as an option of its own. A marker beside an option says how its value is written where the command is kept.
"""

from keqa.cli.options.groups import (
    MisplacedOptionError,
    Panel,
    Places,
    Server,
    argument,
    as_command,
    flag_of,
    given,
    invocation,
    option,
    refuse_empty,
    with_groups,
)
from keqa.cli.options.method import Index, KeqaOptions, MethodOptions, ProgramOptions, RiskOptions, setting_of
from keqa.cli.options.models import BoundaryLMOptions, LanguageModel, LanguageModels, lm_option, server_of
from keqa.cli.options.presets import PRESETS, KSOptions, PaperOptions, PresetOptions
from keqa.cli.options.run import AsJson, EvaluationOptions, InFlight, NoToken, QuestionOptions, RunOptions

__all__ = [
    "PRESETS",
    "AsJson",
    "BoundaryLMOptions",
    "EvaluationOptions",
    "InFlight",
    "Index",
    "KSOptions",
    "KeqaOptions",
    "LanguageModel",
    "LanguageModels",
    "MethodOptions",
    "MisplacedOptionError",
    "NoToken",
    "Panel",
    "PaperOptions",
    "Places",
    "PresetOptions",
    "ProgramOptions",
    "QuestionOptions",
    "RiskOptions",
    "RunOptions",
    "Server",
    "argument",
    "as_command",
    "flag_of",
    "given",
    "invocation",
    "lm_option",
    "option",
    "refuse_empty",
    "server_of",
    "setting_of",
    "with_groups",
]
