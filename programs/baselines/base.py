"""How the methods that KEQA is compared with are set up: their settings are the fields of a dataclass."""

# Annotations are evaluated here: the modules of the methods, which inherit them, do not have the names in them.
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any

from keqa.programs.arguments import LMS, RETRIEVER, Characters, Workers
from keqa.programs.program import Program
from keqa.programs.runtime.concurrency import NoCopy
from keqa.programs.stages.stage import RoleLMs
from keqa.retrievers.base import Retriever

__all__ = ["Baseline", "SearchingBaseline"]


@dataclass(kw_only=True, eq=False, repr=False)
class Baseline(Program):
    """A method that KEQA is compared with; the fields that it adds are its settings, and `set_up` makes its parts.

    Attributes:
        lms: An argument only: a language model for each role; ``dspy.settings.lm`` where None.
        max_question_chars: Longer questions are refused.
        workers: An argument only: how many calls may be in flight, over all questions.
    """

    lms: InitVar[Annotated[RoleLMs, LMS] | None] = None
    max_question_chars: Characters = 8000
    workers: InitVar[Workers] = 16

    def __post_init__(self, lms: Any, workers: int, *retriever: Any) -> None:
        """Set up.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(lms, workers, self.max_question_chars)
        if retriever:
            self._retriever = NoCopy(*retriever)
        self.set_up()
        self.bind_lms(lms)

    def set_up(self) -> None:
        """Make the predictors and stages that the settings ask for.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class SearchingBaseline(Baseline):
    """A method that searches.

    Attributes:
        retriever: The first argument: where the passages come from; with None nothing can be asked.
    """

    retriever: InitVar[Annotated[Retriever | None, RETRIEVER]] = field(kw_only=False)
