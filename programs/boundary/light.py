"""What every boundary model is given and says, and the light one.

The light one weighs an embedding of the quiz and a few signals by a calibrated logistic regression. Draws are compared
by their exact answers after normalisation, as in KBM, and not by a judge: so that collecting labels asks none. Its file
holds nothing but bounded numbers and names, and may name built-in embedders only.
"""

import hashlib
import math
import re
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from keqa.errors import KeqaError
from keqa.metrics.answers import tokens
from keqa.metrics.samples import CERTAINTIES, CertaintyForm, answer_type_sizes, lexical_similarity
from keqa.programs.gate import Draws
from keqa.programs.records import digest
from keqa.programs.reference.embedding import Embedder, Remembering, is_built_in, open_built_in
from keqa.storage.untrusted import parse_json, read_path

Reads = Literal["quiz", "draft", "draws"]
"""What a boundary model reads, which is what it costs: the quiz alone, one draw beside it, or all draws."""


CertaintyTarget = Literal["by_types", "by_samples"]
"""The certainty of draws that a boundary model learns: KBM's, over its k types of answers, or over all N samples."""


class BoundaryError(KeqaError):
    """A boundary model has no judgement on a quiz; a gate takes the quiz for unknown."""


class Judgement(NamedTuple):
    """How probably the answer to a quiz from memory is right, and how much draws would agree, each from 0 to 1."""

    mastery: float
    certainty: float


class BoundaryModel(Protocol):
    """Judges whether a language model knows the answer to a quiz. Safe to call from many threads."""

    @property
    def reads(self) -> Reads:
        """What it needs before it can judge."""

    @property
    def uses_probabilities(self) -> bool:
        """Whether its judgement is better where the draws come with the probabilities of their tokens."""

    def judge(self, quiz: str, draws: Draws, reference: str | None = None) -> Judgement:
        """Judge a quiz by its resolved text, of the draws by as many as it reads; a `BoundaryError` where it cannot.

        `reference` is the passages that the LM would be given, for models that judge with them.
        """

    def written(self) -> dict[str, Any]:
        """All that it is, as JSON values."""

    def spec(self) -> Mapping[str, Any]:
        """What its judgements depend on, in short: for fingerprints and the headers of run files."""


_LARGEST_FILE = 8 << 20
FORMAT: Literal["keqa-boundary"] = "keqa-boundary"
VERSION: Literal[1] = 1
ROLE = "boundary"
"""The role that calls of models that ask a language model are made in, and counted under."""

Root = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""Digest of the id of a question; see `root_digest`."""

QuestionDigest = Annotated[str, Field(pattern="^[0-9a-f]{20}$")]
"""Digest of the text of a question; see `keqa.data.question.question_digest`."""


def _built_in(embedder: str) -> str:
    if not is_built_in(embedder):
        raise ValueError(f"the embedder {embedder!a:.80} is none of the built-in ones")
    return embedder


EmbedderName = Annotated[str, Field(max_length=100), AfterValidator(_built_in)]
"""An embedder that a file may name."""


class Strict(BaseModel):
    """Values of a file that may come from a stranger: nothing converted, nothing unknown, no changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def read_json(path: str | Path) -> Any:
    return parse_json(read_path(path, _LARGEST_FILE), path)


class SavedModel(Strict):
    """A boundary model that is written to a file."""

    format: Literal["keqa-boundary"] = FORMAT
    version: Literal[1] = VERSION
    # Digests of what it learned from, the ids of questions and the texts of their quizzes; and how it came to be, on
    # which nothing depends.
    roots: Annotated[list[Root], Field(max_length=100_000)] = Field(default_factory=list)
    quizzes: Annotated[list[QuestionDigest], Field(max_length=200_000)] = Field(default_factory=list)
    # Which certainty of draws it learned to tell.
    certainty: CertaintyTarget = "by_samples"
    about: dict[str, JsonValue] = Field(default_factory=dict)

    def written(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What its judgements depend on, in short."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.spec().items())})"

    __str__ = __repr__


def root_digest(root: str) -> str:
    """The id of a question as a model keeps it: what is in it stays with its owner."""
    return hashlib.blake2b(root.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@cache
def shared_embedder(name: str) -> Embedder:
    return Remembering(open_built_in(name))


Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Aspect = Literal["mastery", "certainty"]
Variant = Literal["probabilities", "texts"]

_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_NAMES = re.compile(r"(?:<name>\s+)+<name>")
# Keeps the logarithm of a draw without probability finite.
_LEAST = 1e-3


def masked(quiz: str) -> str:
    """What kind of quiz it is: ``<name>`` stands for capitalised words after the first, ``<number>`` for a number."""

    def mask(match: re.Match[str]) -> str:
        word = match[0]
        if word[0].isdigit():
            return "<number>"
        return "<name>" if word[0].isupper() and match.start() > 0 else word.lower()

    return _NAMES.sub("<name>", _WORD.sub(mask, quiz.strip()))


def consistency(draws: Draws) -> float:
    """The share of the most frequent answer in all draws: T_c over exact answers."""
    return max(_sizes(draws), default=0) / max(draws.drawn, 1)


def certainty(draws: Draws, form: CertaintyForm = "by_samples") -> float:
    """The certainty over exact answers, an abstention agreeing with nothing; in `by_samples` from 0 to 1."""
    sizes = _sizes(draws)
    groups = sizes + [1] * (draws.drawn - sum(sizes))
    return CERTAINTIES[form](groups) if groups else 0.0


def signal_values(reads: Reads, draws: Draws, probabilities: bool) -> dict[str, float]:
    if reads == "quiz":
        return {}
    draws = draws.first(1) if reads == "draft" else draws
    answers, count = draws.answers, max(draws.drawn, 1)
    likely = _likelihoods(draws) if probabilities else {}
    if reads == "draft":
        (answer,) = answers or (None,)
        found = {"abstained": float(answer is None), "length": math.log1p(len(tokens(answer or "")))} | likely
        return found | ({"log first token": math.log(likely["first token"] + _LEAST)} if likely else {})
    return {
        "consistency": consistency(draws),
        "certainty by types": certainty(draws, "by_types"),
        "certainty by samples": certainty(draws, "by_samples"),
        "lexical similarity": lexical_similarity(answers or (None,), "rouge_l", draws.answer_type, draws.choices),
        "abstained": answers.count(None) / count,
    } | likely


def _likelihoods(draws: Draws) -> dict[str, float]:
    """The mean probability of the answers and of their first tokens; what is no answer counts as 0."""
    answered = [draw for draw in draws.made if draw.answer is not None]
    whole = sum(draw.probability or 0.0 for draw in answered) / max(draws.drawn, 1)
    firsts = ((draw.probability or 0.0) if draw.first_token is None else draw.first_token for draw in answered)
    first = sum(firsts) / max(draws.drawn, 1)
    return {"probability": whole, "log probability": math.log(whole + _LEAST), "first token": first}


def _sizes(draws: Draws) -> list[int]:
    answers = [answer for answer in draws.answers if answer is not None]
    return answer_type_sizes(answers, draws.answer_type, draws.choices)


class Signal(Strict):
    """The weight of one signal."""

    mean: Number
    scale: Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
    weight: Number


class Regression(Strict):
    """A logistic regression with Platt's calibration of its score."""

    bias: Number
    signals: Annotated[dict[str, Signal], Field(max_length=256)]
    words: Annotated[list[Number], Field(max_length=16_384)]
    slope: Number
    offset: Number

    def probability(self, signals: Mapping[str, float], embedding: Any) -> float:
        import numpy as np

        if len(embedding) != len(self.words):
            places = f"{len(embedding)} places, the model weights for {len(self.words)}"
            raise BoundaryError(f"the embedding of a quiz has {places}")
        score = self.bias + float(embedding @ np.asarray(self.words))
        score += sum(one.weight * (signals[name] - one.mean) / one.scale for name, one in self.signals.items())
        calibrated = self.slope * score + self.offset
        return 1 / (1 + math.exp(-calibrated)) if calibrated > -700 else 0.0


class LightModel(SavedModel):
    """A light boundary model; see `keqa.optimize.boundary.train_light`, which makes one."""

    kind: Literal["light"] = "light"
    reads: Reads
    embedder: EmbedderName
    heads: dict[Aspect, dict[Variant, Regression]]

    def model_post_init(self, context: Any) -> None:
        if self.heads.keys() != {"mastery", "certainty"}:
            raise ValueError("heads has mastery and certainty")
        for aspect, variants in self.heads.items():
            if "texts" not in variants:
                raise ValueError(f"{aspect} lacks the weights of texts")
            for variant, head in variants.items():
                wanted = signal_values(self.reads, Draws.of((None,)), variant == "probabilities").keys()
                if head.signals.keys() != wanted:
                    raise ValueError(f"{aspect}, {variant}: the signals of this version are {', '.join(wanted)}")
        shared_embedder(self.embedder)

    @property
    def uses_probabilities(self) -> bool:
        """Whether it was trained on draws with the probabilities of their tokens."""
        return all("probabilities" in variants for variants in self.heads.values()) and self.reads != "quiz"

    def judge(self, quiz: str, draws: Draws, reference: str | None = None) -> Judgement:
        if self.reads != "quiz" and not draws.drawn:
            raise BoundaryError(f"the boundary model reads {self.reads}, and nothing was drawn")
        read = draws.first(1) if self.reads == "draft" else draws
        likely = self.uses_probabilities and read.has_probabilities
        try:
            embedding = shared_embedder(self.embedder).embed([masked(quiz)])[0]
        except (RuntimeError, OSError, ValueError) as error:
            raise BoundaryError(f"the embedder {self.embedder} failed: {error}") from error
        values = signal_values(self.reads, read, likely)
        variant: Variant = "probabilities" if likely else "texts"
        judged = {aspect: heads[variant].probability(values, embedding) for aspect, heads in self.heads.items()}
        return Judgement(judged["mastery"], judged["certainty"])

    def spec(self) -> dict[str, Any]:
        weights = {"embedder": self.embedder, "heads": self.written()["heads"]}
        return {"kind": self.kind, "reads": self.reads, "weights": digest(weights)}
