"""Which answer to a question to believe, and whether to ask on: memory first, then one reading, then taking it apart.

After each of these steps a logistic regression says of every answer so far how probably it is right, seeing all of
them: whether they agree says most. Another says what asking on is worth, as expected of the best answer there would be
less what it costs. `keqa.optimize.boundary.choosing` learns both from recorded outcomes; the file holds numbers alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from zlib import crc32

from pydantic import Field, ValidationError

from keqa.errors import ConfigurationError
from keqa.metrics.accuracy import in_one_piece
from keqa.metrics.answers import is_abstention, overlap, tokens
from keqa.programs.boundary.light import Regression, Root, Strict, read_json
from keqa.programs.declared import Way
from keqa.programs.records import digest
from keqa.storage.untrusted import reasons

if TYPE_CHECKING:
    from numpy.typing import NDArray

WAYS: tuple[Way, ...] = ("draft", "reading", "quizzes")
"""The steps by what settles a question, in their order, each of which gives an answer."""

PLACES = 4096
"""So many places hashed terms have."""
_LONGEST = 20

_CONCLUSION = re.compile(r"\s*\bSo the answer is\b.*", re.DOTALL | re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")
_CAPITAL = re.compile(r"\b[A-Z]")
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w'’.-]+")
_HEDGE = re.compile(
    r"\b(?:not?|none|unknown|unclear|cannot|unable|unspecified|available|specified|mentioned|likely|possibly|probably"
    r"|perhaps|may|might|fictional|information)\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:1\d{3}|20\d\d)\b")
_MONTH = re.compile(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b", re.IGNORECASE
)
_NO_ANSWER = re.compile(r"\bnot? (?:available|specified|mentioned|provided|stated|information|answer)|^none\b", re.I)
_ASKS = re.compile(r"\b(?:how (?:many|much|old|long|far|big|tall)|who|whose|when|where|which|what|how|why)\b")
_POLAR = re.compile(r"^(?:are|is|was|were|do|does|did|has|have|can)\b")
_COMPARES = re.compile(r"\b(?:first|earlier|later|older|younger|longer|recently|same|both)\b(?=.*\b(?:or|and)\b)")
_NOUN = re.compile(r"\b(?:which|what)\s+(?:(?:is|was|are|were)\s+)?(?:the\s+)?(\w+)")
_OF = re.compile(r"'s\b|\bof\b")
_CLAUSE = re.compile(r"\b(?:who|that|which|where|whose)\b")


@dataclass(frozen=True)
class Seen:
    """A question and what it has been answered so far.

    The answers are from memory, after one reading, and from its quizzes, as far as there are any yet. Of the first one
    `chain` is the reasoning, and `probability` that of its tokens; `further` are other answers from memory.
    """

    question: str
    chain: str
    answers: tuple[str, ...]
    probability: float | None = None
    further: tuple[str, ...] = ()

    def first(self, count: int) -> Seen:
        return Seen(self.question, self.chain, self.answers[:count], self.probability, self.further)


class _Answer:
    """An answer as it is compared."""

    def __init__(self, text: str) -> None:
        self.words = tokens(text)
        joined = " ".join(self.words)
        self.length, self.joined = len(text), joined
        self.grams = {joined[place : place + 3] for place in range(len(joined) - 2)}
        self.abstains = is_abstention(text) or _NO_ANSWER.search(text) is not None
        self.year = (_YEAR.findall(text) or [""])[-1]
        self.note = "(" in text
        self.type = self._type(text)

    def _type(self, text: str) -> str:
        if self.joined in ("yes", "no"):
            return "verdict"
        if self.abstains:
            return "none"
        if any(sign.isdigit() for sign in text):
            if _MONTH.search(text):
                return "day" if self.year and re.search(r"\b\d{1,2}\b", text) else "month"
            return "year" if self.joined == self.year else "number" if len(self.words) == 1 else "number and words"
        return f"name {min(len(self.words), 4)}" if text[:1].isupper() else "words"

    def like(self, other: _Answer, chain: Sequence[str]) -> str:
        if self.joined == other.joined:
            return "same"
        if other.abstains:
            return "none"
        if other.joined and other.joined in self.joined:
            return "within"
        if self.joined and self.joined in other.joined:
            return "around"
        if in_one_piece(other.words, chain):
            return "in the chain"
        return "alike" if overlap(self.words, other.words) else "different"


class Features:
    """What is to be seen of a question and its answers, from which signals and terms are made."""

    def __init__(self, seen: Seen) -> None:
        question, self.seen = seen.question, seen
        lower, body = question.lower(), _CONCLUSION.sub("", seen.chain)
        self.answers = [_Answer(text) for text in seen.answers]
        self.asked, self.chain = tokens(question), tokens(body)
        asked, chain = set(self.asked), set(self.chain)
        sentences = [one for one in _SENTENCE.split(body) if one.strip()]
        names = {name for name in _NAME.findall(body) if not asked.issuperset(tokens(name))}
        self.opening = tokens(sentences[0]) if sentences else []
        self.plain = question == lower
        asks = _ASKS.search(lower)
        self.asks = "polar" if _POLAR.match(lower) else asks[0] if asks else ""
        self.compares = "compares" if _COMPARES.search(lower) else ""
        noun = _NOUN.search(lower)
        self.noun = noun[1] if noun else ""
        self.sentences = min(len(sentences), 5)
        self.long = sum(len(self.asked) > bound for bound in (6, 9, 12, 16))
        of = [_Answer(text) for text in seen.further]
        self.common = {
            "question: words": math.log1p(len(self.asked)),
            "question: names": len(_CAPITAL.findall(question)) / max(1, len(question.split())),
            "question: digits": float(any(sign.isdigit() for sign in question)),
            "question: plain": float(self.plain),
            "question: mark": float(question.rstrip().endswith(("?", "？"))),
            "question: of": float(len(_OF.findall(lower))),
            "question: clauses": float(len(_CLAUSE.findall(lower))),
            "chain: words": math.log1p(len(self.chain)),
            "chain: sentences": math.log1p(len(sentences)),
            "chain: digits": 10 * sum(sign.isdigit() for sign in body) / max(1, len(body)),
            "chain: hedges": float(min(3, len(_HEDGE.findall(body)))),
            "chain: new words": math.log1p(len(chain - asked)),
            "chain: new names": math.log1p(len(names)),
            "chain: copied": len(asked & chain) / max(1, len(asked)),
            "chain: repeats": len(self.chain) / max(1, len(chain)),
            "chain: dates": _dates_bear_out(lower, sentences, self.answers[0]) if self.compares else 0.0,
            "draft: log probability": math.log(max(seen.probability, 1e-3)) if seen.probability is not None else 0.0,
            "draft: further alike": _mean([overlap(self.answers[0].words, one.words) for one in of]),
        }

    def signals(self, place: int) -> dict[str, float]:
        own, chain, asked = self.answers[place], set(self.chain), set(self.asked)
        found = {
            "words": math.log1p(len(own.words)),
            "length": math.log1p(own.length),
            "in question": sum(word in asked for word in own.words) / max(1, len(own.words)),
            "in chain": float(in_one_piece(own.words, self.chain)),
            "in first sentence": float(in_one_piece(own.words, self.opening)),
            "of chain": sum(word in chain for word in own.words) / max(1, len(own.words)),
            "none": float(own.abstains),
            "note": float(own.note),
            "long": float(len(own.words) > 10),
        }
        others = [(k, self._compared(own, other)) for k, other in enumerate(self.answers) if k != place]
        if others:
            found |= {f"others: {name}": sum(one[name] for _, one in others) for name in others[0][1]}
            alike = max(one["overlap"] for _, one in others)
            found |= {f"alike, {name}": alike * self.common[name] for name in _WITH_ALIKE} | {"alike": alike}
        found = self.common | found
        if not others:
            return found
        # What says much of memory may say little of a reading: each way has weights of its own beside those of all.
        ways: dict[str, float] = {}
        for k, way in enumerate(WAYS[: len(self.answers)]):
            here = float(k == place)
            of_way = {f"{way}: {name}": here * value for name, value in found.items()}
            pairs = {
                f"{way} by {WAYS[j]}: {name}": here * value
                for j, other in enumerate(self.answers)
                if j != k
                for name, value in self._compared(self.answers[k], other).items()
            }
            ways |= {f"{way}: here": here} | of_way | pairs
        return found | ways

    def _compared(self, own: _Answer, other: _Answer) -> dict[str, float]:
        return {
            "overlap": overlap(own.words, other.words),
            "same": float(own.joined == other.joined),
            "within": float(bool(own.joined) and own.joined in other.joined),
            "around": float(bool(other.joined) and other.joined in own.joined),
            "letters": len(own.grams & other.grams) / max(1, min(len(own.grams), len(other.grams))),
            "type": float(own.type == other.type),
            "last word": float(own.words[-1:] == other.words[-1:]),
            "none": float(other.abstains),
            "words": math.log1p(len(other.words)),
            "in chain": float(in_one_piece(other.words, self.chain)),
        }

    def terms(self, place: int) -> NDArray[Any]:
        import numpy as np

        own, asks, noun = self.answers[place], self.asks, f"noun {self.noun}"
        way = WAYS[place] if len(self.answers) > 1 else ""
        kinds = [asks, self.compares, noun, own.type, f"{asks}|{own.type}", f"{noun}|{own.type}"]
        kinds += [f"{self.compares}{asks}|{self.sentences}", f"{own.type}|long {self.long}"]
        kinds += [f"{self.sentences}|long {self.long}", f"{self.sentences}|{own.type}"]
        compared = []
        likes = [own.like(other, self.chain) for other in self.answers]
        for k, other in enumerate(self.answers):
            if k != place:
                with_what = [likes[k], f"{likes[k]}|{asks}", f"{likes[k]}|{own.type}", f"{likes[k]}|{noun}"]
                with_what += [f"{likes[k]}|{self.compares}{asks}", f"{own.type}|{other.type}", f"{asks}|{other.type}"]
                with_what += [f"{likes[k]}|{one}" for one in (self.sentences, f"long {self.long}", self.plain)]
                compared += [f"{way} by {WAYS[k]} {one}" for one in with_what]
        if len(self.answers) > 2:
            others = [one for k, one in enumerate(self.answers) if k != place]
            compared.append(" ".join([way, *likes, others[0].like(others[1], self.chain)]))
        fields = [_grams("q", self.asked), _grams("c", self.chain), _grams("a", own.words[:_LONGEST]), kinds, compared]
        if way:
            fields += [[f"{way} {one}" for one in field] for field in fields[2:4]]
        found = np.zeros(PLACES)
        for field in fields:
            found += _hashed(field)
        return found


def _dates_bear_out(question: str, sentences: Sequence[str], answer: _Answer) -> float:
    """Whether the years of the reasoning bear out (1) or contradict (-1) which of two it says is earlier or later."""
    later = re.search(r"\b(?:later|younger|recently|last)\b", question) is not None
    if " or " not in question or not (later or re.search(r"\b(?:first|earlier|older)\b", question)):
        return 0.0
    names, years = {answer.joined}, {True: 0, False: 0}
    for sentence in sentences:
        words, found = " ".join(tokens(sentence)), _YEAR.findall(sentence)
        if answer.joined in words and " by " in words:
            # A film stands for who directed it.
            names.add(words.rpartition(" by ")[2])
        if found and not words.startswith("thus"):
            years[any(name in words for name in names)] = int(found[-1])
    mine, other = years[True], years[False]
    return 0.0 if not mine or not other or mine == other else 1.0 if (mine > other) == later else -1.0


_WITH_ALIKE = ("question: words", "question: plain", "question: of", "question: names", "chain: sentences")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _grams(mark: str, words: Sequence[str]) -> list[str]:
    return [f"{mark} {word}" for word in words] + [f"{mark} {one} {two}" for one, two in pairwise(words)]


def _hashed(terms: Sequence[str]) -> NDArray[Any]:
    import numpy as np

    found = np.zeros(PLACES)
    for term, count in Counter(terms).items():
        place = crc32(term.encode("utf-8", "surrogatepass"))
        found[place % PLACES] += (1 + math.log(count)) * (1 if place >> 31 else -1)
    return found / max(float(np.linalg.norm(found)), 1e-9)


class Choice(NamedTuple):
    """The most probably right answer, how probably each is, and what asking on is worth, where there is more to ask."""

    believed: Way
    right: tuple[float, ...]
    onward: float | None = None

    @property
    def asks_on(self) -> bool:
        """Whether the next step is worth its cost."""
        return self.onward is not None and self.onward > max(self.right)


class Step(Strict):
    """What is judged once there are so many answers; `onward` is for all steps but the last."""

    right: Regression
    onward: Regression | None = None
    cost: Annotated[float, Field(ge=0, le=1000)] = 0.0


class Chooser(Strict):
    """Chooses between memory, a reading and taking a question apart; `keqa.optimize.boundary.choosing` learns one."""

    format: Literal["keqa-chooser"] = "keqa-chooser"
    version: Literal[1] = 1
    steps: Annotated[list[Step], Field(min_length=1, max_length=len(WAYS))]
    roots: Annotated[list[Root], Field(max_length=100_000)] = Field(default_factory=list)

    def model_post_init(self, context: Any) -> None:
        for count, step in enumerate(self.steps, 1):
            names = Features(Seen("?", "", ("?",) * count)).signals(0).keys()
            for one in filter(None, (step.right, step.onward)):
                if not one.signals.keys() <= names or len(one.words) != PLACES:
                    raise ValueError(f"step {count} weighs what this version does not see")

    def choose(self, seen: Seen) -> Choice:
        count = len(seen.answers)
        if not 1 <= count <= len(self.steps):
            raise ConfigurationError(f"this chooser judges 1 to {len(self.steps)} answers, not {count}")
        step, features = self.steps[count - 1], Features(seen)
        values = [(features.signals(place), features.terms(place)) for place in range(count)]
        right = tuple(step.right.probability(*one) for one in values)
        onward = step.onward.probability(*values[0]) - step.cost if step.onward is not None else None
        return Choice(WAYS[max(range(count), key=right.__getitem__)], right, onward)

    def written(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def spec(self) -> Mapping[str, Any]:
        """What its choices depend on, in short: for fingerprints and the headers of run files."""
        return {"steps": len(self.steps), "digest": digest(self.model_dump(mode="json", exclude={"roots"}))}


def chooser_from(value: Any, where: str | Path) -> Chooser:
    try:
        return Chooser.model_validate(value)
    except ValidationError as error:
        raise ConfigurationError(f"{where} is no chooser that can be used: {reasons(error)}") from None


def read_chooser(path: str | Path) -> Chooser:
    return chooser_from(read_json(path), path)
