"""What is asked over somebody's own documents in the place of the papers' prompts, and whether an answer is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import dspy

from keqa.data.question import AnswerType
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.predictor import trained_on_prompts
from keqa.programs.sentences import content_words, language_of, stands_in, words_of
from keqa.programs.stages.stage import Stage
from keqa.retrievers.base import Passage
from keqa.signatures import AnswerFromDocuments, AnswerQuizIfSure, JudgeSupport

# Symbols that tell answers apart, as in C++, C# and -3, and how much longer a form of a word may be.
_SYMBOLS = re.compile(r"\w+[+#*]+|(?<![\w-])[-−]\d[\d.,]*\b")
_ENDING = 2
UNREADABLE = "the judge said nothing that can be read"
"""How `QuizRecord.support` ends where words alone decided."""
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_AS_DIGITS = {word: str(number) for number, word in enumerate(_NUMBERS)}


class OwnDocuments(Stage):
    """The prompts of a program that says what the documents do not say.

    A language model that was trained on the papers' prompts is asked these, for it knows no others.
    """

    roles: ClassVar[Mapping[str, str]] = {"support": "utility"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {
        "quiz": AnswerQuizIfSure,
        "answer": AnswerFromDocuments,
        "support": JudgeSupport,
    }

    @property
    def own_prompts(self) -> bool:
        """Whether the language model of the task is asked the prompts of this stage."""
        return not trained_on_prompts(self.answer.lm or dspy.settings.lm)

    def shown(self, passage: Passage) -> str:
        """A passage as the language model reads it."""
        return passage.headed if self.own_prompts else passage.rendered

    async def run(
        self,
        question: str,
        answer: str,
        passages: Sequence[str],
        answer_type: AnswerType = "short",
        choices: Sequence[str] = (),
        number: int | None = None,
    ) -> tuple[bool | None, str]:
        """Whether passages carry an answer: they have its words, or else the judge of utility says so, in one call.

        Where they lack more than half of its words, nobody is asked: of 1.5 billion parameters and fewer, judges were
        seen to agree with whatever they are shown. Passages of another language than the question's lack any, and
        whether a yes or a choice is in passages, words do not tell. Where the judge's replies are of no use, words
        alone decide; it is None where it could not be asked. With it comes by what that was found.
        """
        lacking: list[str] = []
        if answer_type == "short" and not choices:
            lacking = words_lacking(answer, passages)
            if not lacking:
                return True, "the passages have its words"
            why = f"the passages lack “{' '.join(lacking)}”"
            language = language_of(question)
            if 2 * len(lacking) > len(_words(answer)) and any(language_of(one) == language for one in passages):
                return False, why
        else:
            why = "its words prove nothing"
        asked: dict[str, Any] = {"passage": "\n\n".join(passages), "question": question, "answer": answer}
        try:
            found = (await ask(self.support, "judge_support", number, **asked)).support
        except CallError as error:
            if error.unusable and lacking:
                note("judge_support", error.cause, error.message, "went by the answer's words", number)
                return False, f"{why}; {UNREADABLE}"
            note("judge_support", error.cause, error.message, "took the answer unchecked", number)
            return None, f"{why}; the judge could not be asked"
        return found != "no", f"{why}; judged: {found}"


def words_lacking(answer: str, passages: Sequence[str]) -> list[str]:
    """The names, numbers and other words of an answer that stand in none of some passages, in any of their forms.

    A yes or a no has words of its own.
    """
    there = {_AS_DIGITS.get(word, word) for text in passages for word in words_of(text)}
    lacking = [word for word in _words(answer) if not _stands_there(_AS_DIGITS.get(word, word), there)]
    return lacking + [one for one in _SYMBOLS.findall(answer) if not any(one in text for text in passages)]


def _words(answer: str) -> list[str]:
    return list(dict.fromkeys(content_words(answer) or words_of(answer)))


def _stands_there(word: str, there: set[str]) -> bool:
    """Whether a word is there, or a form of it that is about as long: Johnson is no form of John."""
    return stands_in(word, {other for other in there if abs(len(other) - len(word)) <= _ENDING})
