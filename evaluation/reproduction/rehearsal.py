"""A stand-in for the language model, with which an experiment is rehearsed: only the replies are not the real ones.

Once it knows everything, so that all its samples agree and its first thought concludes, and once nothing, so that every
gate retrieves and every loop runs to its end: what a real LM costs lies between, as long as it decomposes into no more
quizzes than the stand-in.
"""

import ast
import itertools
import json
import math
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from dspy import lm15

from keqa.data.example import Example
from keqa.lms.local.tokenizing import Texts
from keqa.lms.local.weights import place_of
from keqa.programs.calls.predictor import SHIPPED
from keqa.programs.keqa import KEQA
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving import save
from keqa.retrievers import Retriever

_ASKED = re.compile(r"`\[\[ ## (\w+) ## \]\]`(?: \(must be formatted as a valid Python (.+?)\)(?=[,.]))?")
_SENTENCE = "a sentence of the length that a language model gives to its reasons when it is asked to explain itself "
_LONG = ("reasoning", "explanation", "thought", "next_thought")
_SAME = "one and the same answer"
# So many training questions' passages take the place of a utility reference.
_SHOWN = 5


def known_answer(example: Example) -> Example:
    """A question whose gold answer is the one that the stand-in gives where it knows everything."""
    return replace(example, answers=(_SAME,), answer_type="short", choices=(), scored_as="")


class Spent(NamedTuple):
    """Calls to language models, and the tokens of their prompts and replies."""

    calls: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def times(self, factor: float) -> "Spent":
        return Spent(*(factor * part for part in self))


def rehearsed_program(questions: Sequence[Any], retriever: Retriever, folder: Path, top_k: int) -> Path:
    """A compiled KEQA that is none: its reference shows real passages with labels that nobody gave."""
    entries = [
        UtilityEntry(one.id, one.question, hit.passage.rendered, place % 2 == 0)
        for one in questions[:_SHOWN]
        for place, hit in enumerate(retriever.search(one.question, top_k))
    ]
    save(KEQA(None, reference=UtilityReference(least=0, form="joint").fit(entries) if entries else None), folder)
    return folder


class StandIn:
    """The engine of a language model that is none; copies of the language model spend together."""

    def __init__(self, model: str, knows: bool, tokens: Callable[[str], int]) -> None:
        self._knows, self._tokens = knows, tokens
        # The model that ships is shown no demonstrations, and has tokens of its own for whole lines of its prompts.
        shipped = model.startswith(SHIPPED)
        self._shipped = _texts_of_shipped() if shipped else None
        self._count = itertools.count(1)
        self._lock = threading.Lock()
        self.spent = Spent()
        self.lm = dspy.LM(
            f"{SHIPPED if shipped else 'rehearsal/'}{'known' if knows else 'unknown'}",
            engine=self,
            temperature=0.0,
            max_tokens=256,
            num_retries=0,
            cache=False,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "StandIn":
        return self

    def complete(self, request: lm15.Request) -> lm15.Response:
        texts = [str(request.system or ""), *(message.text or "" for message in request.messages)]
        asked = [(name, kind) for name, kind in _ASKED.findall(texts[-1]) if name != "completed"]
        sections = [f"[[ ## {name} ## ]]\n{self._value(name, kind)}" for name, kind in asked]
        reply = "\n\n".join([*sections, "[[ ## completed ## ]]"])
        if self._shipped is None:
            read, written = self._tokens("\n".join(texts)), self._tokens(reply)
        else:
            # It is stopped before that marker.
            read, written = len(self._shipped.encode(request)[0]), len(self._shipped.tokens("\n\n".join(sections)))
        with self._lock:
            self.spent = Spent(*map(sum, zip(self.spent, (1, read, written), strict=True)))
        score = math.log(0.99 if self._knows else 0.01)
        words = re.findall(r"\s*\S+", reply) if request.config.logprobs is not None else None
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(reply),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=read, output_tokens=written, total_tokens=read + written),
            logprobs=words and tuple(lm15.TokenLogprob(token=word, logprob=score) for word in words),
        )

    def _value(self, name: str, kind: str) -> str:
        if kind.startswith("list"):
            return json.dumps(self._items(name))
        if kind.startswith("dict"):
            return json.dumps({"query": "What does the question ask for?"})
        if kind.startswith("Literal"):
            options: Sequence[Any] = ast.literal_eval(kind.removeprefix("Literal"))
            return str(options[-1 if self._knows else 0])
        if kind == "bool":
            # Who knows does not ask for passages.
            return str(self._knows != (name == "retrieve"))
        if name == "confidence" or kind in ("int", "float"):
            return "1" if self._knows else "0"
        if name in _LONG:
            # A method that thinks sentence by sentence stops where one concludes, or comes again.
            ending = f"so the answer is {_SAME}." if self._knows else f"number {next(self._count)}."
            return f"{_SENTENCE * 2}{ending}"
        return self._answer()

    def _answer(self) -> str:
        return _SAME if self._knows else f"answer number {next(self._count)}"

    def _items(self, name: str) -> list[str]:
        """Two of them; the answers of a plan are such as its queries have by themselves."""
        if name == "answers":
            return [self._answer(), self._answer()]
        items = ("What is the first thing that the question asks for{}?", "What is known of #1{}?")
        return [item.format("" if self._knows else f", number {next(self._count)}") for item in items]


def _texts_of_shipped() -> Texts:
    from keqa.lms.local.plain_llama import PlainTokenizer

    return Texts(PlainTokenizer(Path(place_of("keqa", "tiny"))))
