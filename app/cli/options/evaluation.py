"""All options of the commands that measure methods."""

from __future__ import annotations

from dataclasses import dataclass

from keqa.cli.options.method import MethodOptions
from keqa.cli.options.models import LanguageModels
from keqa.cli.options.questions import QuestionOptions
from keqa.cli.options.risk import RiskOptions
from keqa.cli.options.run import RunOptions


@dataclass(frozen=True)
class EvaluationOptions:
    """What ``keqa evaluate`` and ``keqa compare`` take: which questions, asked how, and where the answers go."""

    questions: QuestionOptions
    run: RunOptions
    method: MethodOptions
    models: LanguageModels
    risk: RiskOptions
