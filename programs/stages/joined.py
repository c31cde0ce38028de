"""Forms of KEQA's stages that take one call where the papers take several: plan and draft, read and cite."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import dspy

from keqa.data.question import Question, Quiz
from keqa.metrics.answers import UNKNOWN, is_abstention, same_answer
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.probabilities import first_tokens, item_likelihoods
from keqa.programs.calls.session import note
from keqa.programs.calls.texts import answer_of
from keqa.programs.gate import Draw
from keqa.programs.records import QuizRecord
from keqa.programs.stage import Stage, is_the_question, not_decomposed, written_quizzes
from keqa.programs.today import dated
from keqa.signatures.keqa import AnswerAndCite, DraftQuizzes


class Drafting(Stage):
    """Decomposes a question and answers its quizzes from memory, in one call; further quizzes are left out."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"draft": DraftQuizzes}
    follows = ("max_quizzes",)

    async def run(self, question: str, *, own: bool = False) -> tuple[list[Quiz], dict[int, Draw]]:
        """As of `Decomposition`, with the draft of each quiz by its number; without any where they do not match."""
        asking = partial(ask, self.draft, "decompose", uncopied="quizzes" if own else None, question=question)
        try:
            reply = await self.likely(asking, self.draft)
        except CallError as error:
            return not_decomposed(question, error), {}
        quizzes = written_quizzes(reply, question, self.max_quizzes)
        if not quizzes:
            return not_decomposed(question), {}
        drafts = [answer_of(draft) for draft in reply.drafts or []]
        places = {quiz.index: quiz.index - 1 for quiz in quizzes}
        again = next((quiz.index for quiz in quizzes if is_the_question(quiz.text, question)), None)
        if again is not None:
            # Small language models repeat the question among its quizzes, and add what is none.
            quizzes, places = [Quiz(1, question)], {1: again - 1}
        likely = item_likelihoods(first_tokens(reply), "drafts", len(drafts))
        found = [Draw(text, probability=p, first_token=f) for text, (p, f) in zip(drafts, likely, strict=True)]
        count = len(reply.quizzes)
        unmatched = drafts[count:] if len(drafts) >= count else drafts
        if not drafts or not all(map(is_abstention, unmatched)):
            message = f"{len(drafts)} drafts of {count} quizzes"
            note("decompose", "MissingDrafts", message, "examined each quiz by itself")
            return quizzes, {}
        # Of refusals it makes no difference whose they are, nor how many.
        found += [Draw(UNKNOWN) for _ in range(len(found), count)]
        return quizzes, {index: found[place] for index, place in places.items()}


def draft_of_whole(drafts: Mapping[int, Draw], asked: Question, quiz: Quiz) -> Draw | None:
    """The draft of the question, which was written without its options, where it is one of them, or a refusal."""
    draft = drafts.get(quiz.index)
    if draft is None:
        return None
    options = asked.choices or (["yes", "no"] if asked.answer_type == "yes/no" else [])
    text, kind = draft.text or "", (asked.answer_type, asked.choices)
    fits = not options or is_abstention(text, options) or any(same_answer(text, one, *kind) for one in options)
    return draft if fits else None


def outdated_by(earlier: Mapping[int, QuizRecord], drafts: Mapping[int, Draw]) -> str:
    """Which of the earlier quizzes that a draft builds on has another answer than its own draft; empty for none."""
    for number, record in earlier.items():
        draft = drafts.get(number)
        if draft is not None and not same_answer(str(draft.text), str(record.answer)):
            return f"its draft was written with another answer to quiz {number}"
    return ""


class Citing(Stage):
    """Answers a quiz from passages and says which of them carry the answer, in one call."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"cite": AnswerAndCite}

    async def run(
        self, asked: Question, passages: Sequence[str], number: int | None = None, *, own: bool = False
    ) -> tuple[str, list[int], int]:
        """The answer, the positions of what it cites, and how many passages were read, of too many the first half."""
        shown = dict(enumerate(passages, 1))
        prediction = await ask(
            self.cite,
            "answer",
            number,
            for_answer=True,
            fitting=shown,
            uncopied="answer" if own else None,
            question=dated(asked.question, self.cite),
            **asked.kind,
        )
        cited = list(dict.fromkeys(prediction.get("citations") or []))
        if strange := [one for one in cited if one not in shown]:
            message = f"no passage has the number {', '.join(map(str, strange))}"
            note("answer", "UnknownCitation", message, "ignored the citation", number)
        answer = answer_of(prediction.answer, asked.question, asked.choices)
        return answer, [one - 1 for one in cited if one in shown], len(shown)
