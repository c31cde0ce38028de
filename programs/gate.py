"""The draws of a quiz, and the gates that decide by them whether the language model knows its answer.

Boundary models read draws as well. `keqa.programs.gates` has the gates beside KEQA's own, the consistency of samples.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import zip_longest
from math import isfinite
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

from keqa.data.question import AnswerType, Question
from keqa.errors import ConfigurationError
from keqa.programs.arguments import Threshold, Word, checked
from keqa.programs.records import ClusterRecord, Degradation, SampleRecord
from keqa.programs.stage import Stage
from keqa.retrievers.text import shown


@dataclass
class Draw:
    """One try: its text, or the class name of the error that it failed with, and the position of its cluster.

    An abstention says that it does not know (also before a guess), says nothing, or asks back. A probability, where
    asked for, is normalised by length.
    """

    text: str | None = None
    error: str | None = None
    abstained: bool = False
    cluster: int | None = None
    probability: float | None = None
    first_token: float | None = None

    @property
    def answer(self) -> str | None:
        """Its text; None for an abstention or a failure."""
        return None if self.abstained else self.text


@dataclass
class Draws:
    """What is known of a quiz after some of its draws.

    Attributes:
        quiz: Its resolved text.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        tries: N_c, the draws there will be at most.
        made: The draws so far, in the order in which Algorithm 1 reads them.
        reply: What the LM replied to the gate's own question (`keqa.programs.gates.GateQuestion`); None where it was
            not asked.
    """

    quiz: str = ""
    answer_type: AnswerType = "short"
    choices: tuple[str, ...] = ()
    tries: int = 1
    made: list[Draw] = field(default_factory=list)
    reply: Any = None

    @classmethod
    def of(
        cls,
        answers: Sequence[str | None],
        probabilities: Sequence[float | None] = (),
        first_tokens: Sequence[float | None] = (),
        **asked: Any,
    ) -> Self:
        """Draws of these answers, None for an abstention, that are in no clusters."""
        drawn = zip_longest(answers, probabilities, first_tokens)
        made = [Draw(one, None, one is None, None, whole, first) for one, whole, first in drawn]
        return cls(**{"made": made, "tries": len(made), **asked})

    @property
    def asked(self) -> Question:
        return Question(self.quiz, self.answer_type, self.choices)

    @property
    def drawn(self) -> int:
        """Draws made, abstentions and failures included."""
        return len(self.made)

    @property
    def left(self) -> int:
        """Draws not made yet."""
        return self.tries - self.drawn

    @property
    def answers(self) -> tuple[str | None, ...]:
        """The text of each draw; None for an abstention or a failure."""
        return tuple(draw.answer for draw in self.made)

    @property
    def clusters(self) -> list[list[int]]:
        """Positions of draws by cluster, in the order of their first members; CS of Algorithm 1."""
        found: dict[int, list[int]] = {}
        for place, draw in enumerate(self.made):
            if draw.cluster is not None:
                found.setdefault(draw.cluster, []).append(place)
        return list(found.values())

    @property
    def sizes(self) -> list[int]:
        """Sizes of the clusters, in the order of their first members."""
        return [len(members) for members in self.clusters]

    @property
    def largest(self) -> int:
        """Size of the largest cluster, 0 where there is none."""
        return max(self.sizes, default=0)

    @property
    def consistency(self) -> Fraction:
        """T_c, exactly: the largest cluster over all tries."""
        return Fraction(self.largest, self.tries)

    @property
    def leading(self) -> str | None:
        """A_c so far, the first member of the largest cluster; None where there is none."""
        position = leader(self.sizes)
        return None if position is None else self.made[self.clusters[position][0]].text

    @property
    def leader_is_fixed(self) -> bool:
        """Whether no outcome of the draws that are left changes which cluster is the largest."""
        return leader_is_fixed(self.sizes, self.left)

    @property
    def has_probabilities(self) -> bool:
        """Whether every answer was drawn with its probability; an abstention needs none."""
        return bool(self.made) and all(draw.answer is None or draw.probability is not None for draw in self.made)

    def first(self, count: int) -> Self:
        return replace(self, made=self.made[:count])

    def as_record(self) -> dict[str, Any]:
        names = ("text", "abstained", "cluster", "error", "probability")
        clusters = [
            ClusterRecord(answer=str(self.made[members[0]].text), size=len(members), members=members)
            for members in self.clusters
        ]
        samples = [SampleRecord(**{name: getattr(draw, name) for name in names}) for draw in self.made]
        return {"samples": samples, "clusters": clusters, "tries": self.tries}


def leader(sizes: Sequence[int]) -> int | None:
    """Position of the largest cluster, the first one of equals (Algorithm 1, line 15)."""
    return max(range(len(sizes)), key=lambda position: sizes[position]) if sizes else None


def leader_is_fixed(sizes: Sequence[int], left: int) -> bool:
    """Whether no outcome of the remaining draws changes which cluster is the largest."""
    first = leader(sizes)
    if first is None:
        return left == 0
    # An earlier cluster overtakes by drawing level; a later one, or a new one, has to be larger.
    rivals = [other + (position < first) for position, other in enumerate(sizes) if position != first]
    return max([0, *rivals]) + left <= sizes[first]


class GateQuestion(Stage):
    """A stage that a gate brings along: its class is what the gate `asks`, its reply what the gate reads in `Draws`.

    It is asked once a quiz. A failed call must not pass for knowing: `run` notes it and returns a reply that has the
    gate retrieve.

    Attributes:
        attribute: Under which name an examination holds it, so that ``examination.ATTRIBUTE.PREDICTOR`` names each of
            its predictors in saved programs.
        before_samples: Whether it is asked before any sample is drawn, and not about the leading answer, as soon as
            that is fixed and where there is one.
    """

    attribute: ClassVar[str]
    before_samples: ClassVar[bool] = True

    @staticmethod
    def inputs(draws: Draws) -> dict[str, Any]:
        """The arguments of `run` for a quiz, beside the quiz's number."""
        return {"quiz": draws.quiz}


IF_ANY: Literal["probabilities, if any"] = "probabilities, if any"
"""What a gate asks that decides by token probabilities as well, and without them where the LM gives none."""

Asks: TypeAlias = type[GateQuestion] | Literal["probabilities", "probabilities, if any"] | None
"""What a gate wants beyond the samples' texts: a question to the LM, the samples' token probabilities, or nothing."""


@dataclass(frozen=True)
class Verdict:
    """What a gate says of a quiz.

    Attributes:
        known: Whether the language model knows its answer.
        measure: What the gate found, where it is not T_c; records hold it, and quizzes are ranked by it.
        why: Why no further draw is made, where records shall say more than usual.
        note: What went wrong in the measure; whose quiz it is is filled in.
    """

    known: bool
    measure: float | None = None
    why: str | None = None
    note: Degradation | None = None

    def __post_init__(self) -> None:
        """Refuse what a gate may not say; NumPy's values are as good as Python's."""
        number = isinstance(self.measure, Real) and isfinite(self.measure)
        allowed = {
            "True or False of known": self.known in (True, False),
            "a finite measure or None": number or self.measure is None,
            "text or None of why": isinstance(self.why, str | None),
            "a Degradation or None of note": isinstance(self.note, Degradation | None),
        }
        if wrong := next((what for what, holds in allowed.items() if not holds), None):
            raise ConfigurationError(f"a gate must say {wrong}, which this is not: {self!r:.200}")
        object.__setattr__(self, "known", bool(self.known))


@runtime_checkable
class Gate(Protocol):
    """Decides whether a quiz is known."""

    @property
    def name(self) -> str:
        """For records."""

    @property
    def threshold(self) -> Fraction | None:
        """What its measure is compared with; None where it has none."""

    def decide(self, draws: Draws) -> Verdict | int:
        """A verdict that no further draw changes, or how many draws to make next: the fewest that could bring one."""


class NamedGate:
    """A gate that has a name in comparisons, tables and saved programs; see `keqa.programs.registry.register_gate`.

    Attributes:
        method: The method's name, such as ``gate-votes``; None where the gate is no method by itself.
        title: What tables call the method.
        kind: What figures and tables call this kind of gate, its form and threshold left out.
        asks: What it wants beyond the samples' texts.
        needs: What it needs beyond samples and arguments: ``golds`` are given to it as `golds`.
        savable: Whether a saved program may hold it: all it is must be in its arguments.
        shares_draws: Whether it decides in a comparison on the draws that all gates share, and not on its own.
        waits: Whether `decide` may wait, such as for a call of its own: it runs in a thread then, and no other quiz
            waits with it.
    """

    method: ClassVar[str | None] = None
    title: ClassVar[str] = ""
    kind: ClassVar[str]
    asks: ClassVar[Asks] = None
    needs: ClassVar[Literal["golds"] | None] = None
    savable: ClassVar[bool] = True
    shares_draws: ClassVar[bool] = True
    waits: Any = False

    @classmethod
    def check_saved(cls, values: Mapping[str, Any]) -> None:
        """Refuse arguments of a saved program, which may be a stranger's, that only a user may give."""


class LeaderGate(NamedGate):
    """A gate that decides about the leading answer, as soon as no further draw can change which one leads."""

    def at_once(self, draws: Draws) -> Verdict | None:
        """A verdict that takes no draw; usually none."""
        return None

    def on_leader(self, draws: Draws) -> Verdict:
        """The verdict on the leading answer, which is fixed; it is known where a gate does not say otherwise."""
        return Verdict(True)

    def decide(self, draws: Draws) -> Verdict | int:
        if (verdict := self.at_once(draws)) is not None:
            return verdict
        return self.on_leader(draws) if draws.leader_is_fixed else smallest_wave(draws)


class AllSamplesGate(NamedGate, ABC):
    """A gate whose measure takes all samples of a quiz, and that is compared with a threshold."""

    threshold: Any

    @abstractmethod
    def measure(self, draws: Draws) -> float:
        """What is compared with the threshold, of all draws."""

    def decide(self, draws: Draws) -> Verdict | int:
        if draws.left:
            return draws.left
        measure = self.measure(draws)
        return Verdict(reaches(measure, self.threshold), measure)


@checked
@dataclass(frozen=True)
class VoteGate(NamedGate):
    """KEQA's gate: known where T_c reaches α (section 3.3), compared as fractions, so that 27 of 30 reach .9."""

    method = "gate-votes"
    title = "KEQA's vote"
    kind = "votes"

    threshold: Annotated[Fraction, Threshold] = Fraction(4, 5)
    name: Word = "votes"

    def decide(self, draws: Draws) -> Verdict | int:
        """Known once enough agree and none can overtake them; unknown once too few draws are left."""

        def known(sizes: Sequence[int], left: int) -> bool | None:
            largest = max(sizes, default=0)
            if Fraction(largest, draws.tries) >= self.threshold:
                return True if leader_is_fixed(sizes, left) else None
            return False if Fraction(largest + left, draws.tries) < self.threshold else None

        verdict = known(draws.sizes, draws.left)
        if verdict is not None:
            return Verdict(verdict)
        return smallest_wave(draws, lambda sizes, left: known(sizes, left) is not None)


def smallest_wave(draws: Draws, settled: Callable[[Sequence[int], int], bool] = leader_is_fixed) -> int:
    """The smallest number of draws that could settle something: if they all joined the largest cluster."""
    sizes, left = draws.sizes or [0], draws.left
    first = leader(sizes) or 0
    for more in range(1, left):
        sizes[first] += 1
        if settled(sizes, left - more):
            return more
    return left


def as_fraction(value: Fraction | float | int | str) -> Fraction:
    """A threshold as the exact fraction that its writing says: 0.8 is 4/5, not the nearest binary number."""
    try:
        found: Fraction = Threshold.read(value)
    except ValueError:
        raise ConfigurationError(f"a threshold must be {Threshold.allowed}, not {shown(value)}") from None
    return found


def reaches(measure: float, threshold: Fraction) -> bool:
    """Whether a measure is at least a threshold, by its writing: a stated 0.7 reaches 7/10, which no float equals."""
    return Fraction(str(round(measure, 12))) >= threshold


def asks(gate: Any) -> Asks:
    """What a gate, or a class of gates, wants beyond the texts of the samples; None for most."""
    wanted: Any = getattr(gate, "asks", None)
    if wanted in (None, "probabilities", IF_ANY) or (isinstance(wanted, type) and issubclass(wanted, GateQuestion)):
        return wanted  # type: ignore[no-any-return]
    raise ConfigurationError(f"a gate asks 'probabilities' or a GateQuestion class, not {wanted!r:.80}")


def question_of(gate: Any) -> type[GateQuestion] | None:
    """What a gate, or a class of gates, asks the LM in a call of its own; None for most."""
    wanted = asks(gate)
    return wanted if isinstance(wanted, type) else None
