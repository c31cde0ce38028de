"""KBM's boundary model: a causal LM that was fine-tuned to say of a question whether it is mastered (KBM, section 2.3).

It is asked once, before any draw, in KBM's words, and replies with JSON. What counts is not the word that it writes
but how probable it found it: P(True) / (P(True) + P(False)) at each field.

The file of one holds no weights: it names a folder beside it, an adapter or a whole model of
`keqa.lms.local.training`, and the fingerprint of what was trained. Whatever language model answers the questions, this
one judges: it is a plug-in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import dspy
from dspy import lm15
from dspy.utils.exceptions import DSPyError
from pydantic import Field

from keqa.errors import ConfigurationError
from keqa.programs.boundary.model import BoundaryError, Judgement, Signals
from keqa.programs.boundary.saved import ROLE, AskedModel
from keqa.programs.runtime.asides import counted, given_lm_of_role
from keqa.signatures.boundary import Language, assessment_prompt

MASTERY = '{"mastery": "'
"""How every reply begins; the probability of its next token is what is read."""
_ALTERNATIVES, _LONGEST_REPLY = 1000, 48
_SAID = ("True", "False")


class FinetunedModel(AskedModel):
    """A fine-tuned boundary model; see `keqa.optimize.boundary.train_finetuned`, which makes one."""

    kind: Literal["finetuned"] = "finetuned"
    language: Language = "en"
    weights: Annotated[str, Field(max_length=100)]
    lm: Annotated[str, Field(max_length=4096)] | None = None

    def judge(self, quiz: str, signals: Signals, reference: str | None = None) -> Judgement:
        """Judge a quiz; see `keqa.programs.boundary.BoundaryModel`."""
        prompt = assessment_prompt(quiz, signals.choices, reference, self.language)
        lm = self._asked()

        def asked() -> Judgement:
            try:
                said = _said(lm, prompt, MASTERY)
                mastery = _probability(said, "mastery")
                certainty = _probability(said, "certainty")
                if certainty is None:
                    # A model that was trained little may write something else than the rest of its reply.
                    first = mastery is not None and mastery >= 0.5
                    certainty = _probability(_said(lm, prompt, f'{MASTERY}{first}", "certainty": "'), "certainty")
            except DSPyError as error:
                raise BoundaryError(f"the boundary model's language model failed: {error}") from error
            if mastery is None or certainty is None:
                raise BoundaryError("the boundary model's language model takes neither True nor False for likely")
            return Judgement(mastery, certainty)

        return counted(ROLE, (lm.model, prompt), asked)

    def _asked(self) -> Any:
        lm = given_lm_of_role(ROLE) or (None if self.lm is None else _opened(self.lm))
        if lm is None:
            raise ConfigurationError(
                "the program's boundary model was fine-tuned, and programs hold no language model: name it with "
                "--boundary-lm transformers/FOLDER, or boundary_lm of keqa.build_roles"
            )
        path = getattr(getattr(lm, "engine", None), "path", None)
        if not isinstance(path, str) or _weights(path) != self.weights:
            raise ConfigurationError(
                f"the language model {lm.model} is not the one that the boundary model was trained as: name that with "
                "--boundary-lm transformers/FOLDER"
            )
        return lm

    def written(self) -> dict[str, Any]:
        """All that it is, as JSON values; where its language model is, is left out."""
        return self.model_dump(mode="json", exclude={"lm"})

    def spec(self) -> dict[str, Any]:
        """Kind, what it reads, its language, and the fingerprint of its weights."""
        return {"kind": self.kind, "reads": self.reads, "language": self.language, "weights": self.weights}


def _said(lm: Any, prompt: str, begun: str) -> list[lm15.TokenLogprob]:
    """The reply to a prompt, which has begun already; what it begins with is its first token."""
    config = lm15.Config(max_tokens=_LONGEST_REPLY, temperature=0.0, logprobs=_ALTERNATIVES)
    messages = (lm15.Message.user(prompt), lm15.Message.assistant(begun))
    drawn = lm(lm15.Request(model=lm.model, messages=messages, config=config)).logprobs or ()
    return [lm15.TokenLogprob(token=begun, logprob=0.0), *drawn]


def _probability(tokens: Sequence[lm15.TokenLogprob], name: str) -> float | None:
    """P(True) / (P(True) + P(False)) where the value of a field begins; None where there is none."""
    text = "".join(token.token for token in tokens)
    field = re.search(rf'"{name}"\s*:\s*"?', text)
    if field is None:
        return None
    place = 0
    for token in tokens:
        if place + len(token.token) > field.end():
            break
        place += len(token.token)
    else:
        return None
    # What the token holds before the value, such as the quotation mark, every alternative has to hold as well.
    before = token.token[: max(0, field.end() - place)]
    masses = dict.fromkeys(_SAID, 0.0)
    for text, score in {token.token: token.logprob, **{one.token: one.logprob for one in token.top}}.items():
        value = text[len(before) :]
        for said in _SAID if text.startswith(before) and value else ():
            if value.startswith(said) or said.startswith(value):
                masses[said] += math.exp(score)
    total = sum(masses.values())
    return masses["True"] / total if total > 0 else None


@cache
def _opened(folder: str) -> dspy.LM:
    from keqa.lms import build_lm

    return build_lm(f"transformers/{folder}", cache=False)


@cache
def _weights(path: str) -> str:
    from keqa.lms.local.weights import fingerprint

    return fingerprint(path)


def beside(file: str | Path, name: str) -> str:
    """The folder that the file of a model names: one beside it."""
    place = Path(file).resolve().parent / name
    if Path(name).name != name or name in ("", ".", "..") or not place.is_dir():
        raise ConfigurationError(f"{file} names {name[:80]!a}, which is no folder beside it")
    return str(place)
