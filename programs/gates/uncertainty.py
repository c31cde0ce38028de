"""Gates that measure how uncertain a language model is of a quiz, by other means than a vote, and what they ask."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import dspy

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.metrics.samples import CERTAINTIES, CertaintyForm, SimilarityForm, answer_type_sizes, lexical_similarity
from keqa.programs.arguments import Certainty, Share, Word, checked
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import noted
from keqa.programs.calls.texts import text_of
from keqa.programs.gate import AllSamplesGate, Draws, GateQuestion, LeaderGate, Verdict, reaches
from keqa.signatures.boundary import DecideRetrieval, StateConfidence

_NUMBER = re.compile(
    r"(?<![\w.])(-?(?:\d++(?:\.\d++)?+|\.\d++))(?![^\W\d])\s*+(%|percent\b|(?:/|out of)\s*+([1-9]\d{0,2})\b)?",
    re.IGNORECASE,
)
_LEADING = re.compile(r"[\s*_`#\[~]*+(?:[^\W_]++[*_`]*+[:：]\s*+[*_`~]*+)?")


async def wants_retrieval(decide: dspy.Predict, question: str, number: int | None = None) -> bool:
    """Ask once, at temperature 0 or whatever the LM is set to; without a usable reply passages are wanted."""
    with noted("decide_retrieval", "retrieved", number):
        return bool((await ask(decide, "decide_retrieval", number, question=question)).retrieve)
    return True


class RetrievalDecision(GateQuestion):
    """Asks whether a quiz calls for retrieval, before anything is drawn."""

    attribute = "decision"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"decide": DecideRetrieval}

    async def run(self, quiz: str, *, number: int | None = None) -> bool:
        return await wants_retrieval(self.decide, quiz, number)


def read_confidence(text: str) -> float | None:
    """The confidence that a text states, from 0 to 1; None where there is no number, or one out of bounds.

    The number with a unit counts, else the one that the text begins with, else the only one. One with a decimal point
    and at most 1 is a probability, any other a percentage, for that is what is asked for: ``85``, ``85 %``, ``0.85``
    and ``85 / 100`` are the same, ``8 / 10`` is 0.8, ``1`` is 0.01.
    """
    numbers = [*_NUMBER.finditer(text)]
    first = [one for one in numbers[:1] if _LEADING.fullmatch(text[: one.start()])]
    stated = [one for one in numbers if one[2]] or first or numbers
    if len({one[0] for one in stated}) != 1:
        return None
    found = stated[0]
    number = float(found[1])
    probability = "." in found[1] and abs(number) <= 1 and not found[2]
    confidence = number if probability else number / int(found[3] or 100)
    return confidence if 0 <= confidence <= 1 else None


class StatedConfidence(GateQuestion):
    """Asks for the confidence in an answer; one that cannot be had is 0, so that a failure never passes for knowing."""

    attribute = "confidence"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"state": StateConfidence}
    before_samples = False

    @staticmethod
    def inputs(draws: Draws) -> dict[str, Any]:
        return {"asked": draws.asked, "answer": draws.leading}

    async def run(self, asked: Question, answer: str, *, number: int | None = None) -> float:
        """The confidence, from 0 to 1, asked for at temperature 0 or whatever the LM is set to."""
        about = {"quiz": asked.question, **asked.kind, "proposed_answer": answer}
        with noted("state_confidence", "taken for no confidence", number):
            return _stated(await ask(self.state, "state_confidence", number, usable=_stated, **about))
        return 0.0


def _stated(prediction: dspy.Prediction) -> float:
    text = text_of(prediction.confidence)
    confidence = read_confidence(text)
    if confidence is None:
        raise CallError("UnreadableConfidenceError", f"{text!r} states no confidence", unusable=True)
    return confidence


@checked
@dataclass(frozen=True)
class CertaintyGate(AllSamplesGate):
    """Known where the certainty over the samples reaches a threshold (KBM, section 2.2).

    It is over clusters of one meaning, or over types: answers equal after normalisation. An abstention agrees with
    nothing, so each is a group of its own; without any answer a quiz is unknown.
    """

    method = "gate-certainty"
    title = "Certainty"
    kind = "certainty"

    threshold: Annotated[Fraction, Certainty] = Fraction(4, 5)
    form: CertaintyForm = "by_types"
    over: Literal["clusters", "types"] = "clusters"

    @property
    def name(self) -> str:
        return f"certainty {self.form} over {self.over}"

    def decide(self, draws: Draws) -> Verdict | int:
        decision = super().decide(draws)
        return replace(decision, known=False) if isinstance(decision, Verdict) and not draws.sizes else decision

    def measure(self, draws: Draws) -> float:
        sizes = draws.sizes
        if self.over == "types":
            answers = [answer for answer in draws.answers if answer is not None]
            sizes = answer_type_sizes(answers, draws.answer_type, draws.choices)
        return CERTAINTIES[self.form](sizes + [1] * (draws.drawn - sum(sizes)))


@checked
@dataclass(frozen=True)
class LexicalSimilarityGate(AllSamplesGate):
    """Known where the samples resemble each other in their words, on average (Fomicheva et al., 2020).

    It needs no judge: of the gates that read samples it is the cheapest, and a hard one to beat.
    """

    method = "gate-lexical"
    title = "Lexical similarity"
    kind = "lexical similarity"

    threshold: Annotated[Fraction, Share] = Fraction(4, 5)
    form: SimilarityForm = "rouge_l"

    @property
    def name(self) -> str:
        return f"lexical similarity {self.form}"

    def measure(self, draws: Draws) -> float:
        return lexical_similarity(draws.answers, self.form, draws.answer_type, draws.choices)


@checked
@dataclass(frozen=True)
class ProbabilityGate(AllSamplesGate):
    """Known where the LM gives its answers a high probability, on average over the draws (Malinin and Gales, 2021).

    It is the geometric mean over an answer's tokens; an abstention or a failed draw counts as 0.
    """

    method = "gate-probability"
    title = "Token probability"
    kind = "token probability"
    asks = "probabilities"

    threshold: Annotated[Fraction, Share] = Fraction(1, 2)
    name: Word = "token probability"

    def measure(self, draws: Draws) -> float:
        answered = [draw for draw in draws.made if draw.answer is not None]
        if answered and not draws.has_probabilities:
            raise ConfigurationError(f"the gate '{self.name}' needs draws that were made with their probabilities")
        return sum(draw.probability or 0.0 for draw in answered) / draws.tries


@checked
@dataclass(frozen=True)
class ConfidenceGate(LeaderGate):
    """Known where the LM states a high confidence in the leading answer, in one further call.

    It is verbalised confidence in two stages (Verb. 2S of Tian et al., 2023, Just Ask for Calibration).
    """

    method = "gate-confidence"
    title = "Verbalised confidence"
    kind = "verbalised confidence"
    asks = StatedConfidence

    threshold: Annotated[Fraction, Share] = Fraction(4, 5)
    name: Word = "verbalised confidence"

    def on_leader(self, draws: Draws) -> Verdict:
        if not draws.sizes:
            return Verdict(False, 0.0)
        if draws.reply is None:
            raise ConfigurationError(f"the gate '{self.name}' needs an examination that asks for the confidence")
        return Verdict(reaches(float(draws.reply), self.threshold), float(draws.reply))


@checked
@dataclass(frozen=True)
class PromptGate(LeaderGate):
    """Known where the LM says that it needs no retrieval: the baseline Prompt of KBM (section 3.2).

    It is asked before any draw, in the words of Self-RAG's token Retrieve (`keqa.signatures.DecideRetrieval`); a known
    quiz is answered by the largest cluster, however small. A verdict is no score, so the gate ranks nothing.
    """

    method = "gate-prompt"
    title = "Prompt"
    kind = "prompt"
    asks = RetrievalDecision

    name: Word = "prompt"
    threshold: None = None

    def at_once(self, draws: Draws) -> Verdict | None:
        if draws.reply is None:
            raise ConfigurationError(f"the gate '{self.name}' needs an examination that asks whether to retrieve")
        return Verdict(False) if draws.reply else None
