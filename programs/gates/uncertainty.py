"""Gates that measure how uncertain a language model is of a quiz, by other means than KEQA's vote."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from keqa.errors import ConfigurationError
from keqa.metrics.samples import CERTAINTIES, CertaintyForm, SimilarityForm, answer_type_sizes, lexical_similarity
from keqa.programs.arguments import Certainty, Share, Word, checked
from keqa.programs.boundary.model import Signals
from keqa.programs.gates.base import AllSamplesGate, LeaderGate
from keqa.programs.gates.votes import Votes, reaches
from keqa.programs.stages.gate_question import RetrievalDecision, StatedConfidence


@checked
@dataclass(frozen=True)
class CertaintyGate(AllSamplesGate):
    """Known where the certainty over the samples reaches a threshold (KBM, section 2.2).

    An abstention agrees with nothing, so each is a group of its own; without any answer a quiz is unknown.

    Attributes:
        threshold: What certainty is compared with.
        form: One of `keqa.metrics.samples.CERTAINTIES`.
        over: ``clusters`` of one meaning, or ``types``: answers equal after normalisation.
    """

    method = "gate-certainty"
    title = "Certainty"
    kind = "certainty"

    threshold: Annotated[Fraction, Certainty] = Fraction(4, 5)
    form: CertaintyForm = "by_types"
    over: Literal["clusters", "types"] = "clusters"
    needs_all_draws: bool = True

    @property
    def name(self) -> str:
        """For records, such as ``certainty by_types over clusters``."""
        return f"certainty {self.form} over {self.over}"

    def decide(self, votes: Votes) -> bool | None:
        """Known or not, from all draws; without an answer not."""
        return super().decide(votes) and bool(votes.sizes)

    def measure(self, votes: Votes) -> float:
        """The certainty; see `AllSamplesGate.measure`."""
        self.require_all(votes)
        sizes = list(votes.sizes)
        if self.over == "types":
            said = [answer for answer in votes.answers if answer is not None]
            sizes = answer_type_sizes(said, votes.answer_type, votes.choices)
        alone = votes.drawn - sum(sizes)
        return CERTAINTIES[self.form](sizes + [1] * alone)


@checked
@dataclass(frozen=True)
class LexicalSimilarityGate(AllSamplesGate):
    """Known where the samples resemble each other in their words (Fomicheva et al., 2020).

    `keqa.metrics.samples` has the measure. The gate needs no judge: of those that read samples it is the cheapest,
    and a hard one to beat.

    Attributes:
        threshold: What the mean similarity over all pairs is compared with.
        form: One of `keqa.metrics.samples.SIMILARITIES`.
    """

    method = "gate-lexical"
    title = "Lexical similarity"
    kind = "lexical similarity"

    threshold: Annotated[Fraction, Share] = Fraction(4, 5)
    form: SimilarityForm = "rouge_l"
    needs_all_draws: bool = True

    @property
    def name(self) -> str:
        """For records."""
        return f"lexical similarity {self.form}"

    def measure(self, votes: Votes) -> float:
        """The mean similarity over pairs; see `AllSamplesGate.measure`."""
        self.require_all(votes)
        return lexical_similarity(votes.answers, self.form, votes.answer_type, votes.choices)


@checked
@dataclass(frozen=True)
class ConfidenceGate(LeaderGate):
    """Known where the LM states a high confidence in the leading answer.

    Verbalised confidence in two stages (Verb. 2S of Tian et al., 2023, Just Ask for Calibration): first the answer,
    here the largest cluster's, then the probability that it is right, which is one further call to the LM.

    Attributes:
        threshold: What the stated confidence is compared with.
    """

    method = "gate-confidence"
    title = "Verbalised confidence"
    kind = "verbalised confidence"
    asks = StatedConfidence

    threshold: Annotated[Fraction, Share] = Fraction(4, 5)
    name: Word = "verbalised confidence"
    needs_all_draws: bool = False

    def knows(self, votes: Votes) -> bool:
        """Whether the confidence in it reaches the threshold; without an answer not.

        Raises:
            ConfigurationError: The LM was not asked.
        """
        return bool(votes.sizes) and reaches(self.measure(votes), self.threshold)

    def measure(self, votes: Votes) -> float:
        """The stated confidence; 0 where there is no answer.

        Raises:
            ConfigurationError: The LM was not asked.
        """
        if not votes.sizes:
            return 0.0
        if votes.reply is None:
            raise ConfigurationError(f"the gate '{self.name}' needs an examination that asks for the confidence")
        return float(votes.reply)


@checked
@dataclass(frozen=True)
class ProbabilityGate(AllSamplesGate):
    """Known where the LM gives the answers it draws a high probability.

    The mean over the draws of each answer's probability, normalised by its length (the geometric mean over its tokens):
    Malinin and Gales (2021), in probabilities. An abstention or a failed draw counts as 0.

    Attributes:
        threshold: What the mean probability is compared with.
    """

    method = "gate-probability"
    title = "Token probability"
    kind = "token probability"
    asks = "probabilities"

    threshold: Annotated[Fraction, Share] = Fraction(1, 2)
    name: Word = "token probability"
    needs_all_draws: bool = True

    def measure(self, votes: Votes) -> float:
        """The mean probability.

        Raises:
            ConfigurationError: The set was stopped early, or drawn without probabilities.
        """
        self.require_all(votes)
        if not any(answer is not None for answer in votes.answers):
            return 0.0
        if not Signals.of(votes).has_probabilities:
            raise ConfigurationError(f"the gate '{self.name}' needs draws that were made with their probabilities")
        pairs = zip(votes.answers, votes.probabilities, strict=True)
        return sum(probability or 0.0 for answer, probability in pairs if answer is not None) / votes.tries


@checked
@dataclass(frozen=True)
class PromptGate(LeaderGate):
    """Known where the LM says that it needs no retrieval: the baseline Prompt of KBM (section 3.2).

    It is asked once a quiz, before any draw; a known quiz is answered by the largest cluster, however small. KBM asks
    in words of its own; here the question is that of Self-RAG's token Retrieve (`keqa.signatures.DecideRetrieval`).
    The reply is a verdict and no score, so the gate ranks nothing.
    """

    method = "gate-prompt"
    title = "Prompt"
    kind = "prompt"
    asks = RetrievalDecision

    name: Word = "prompt"
    needs_all_draws: bool = False
    threshold: None = None

    def retrieves(self, votes: Votes) -> bool:
        """Where the LM says that it needs passages.

        Raises:
            ConfigurationError: The LM was not asked.
        """
        if votes.reply is None:
            raise ConfigurationError(f"the gate '{self.name}' needs an examination that asks whether to retrieve")
        return bool(votes.reply)
