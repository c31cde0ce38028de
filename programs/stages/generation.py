"""Evidence documents from an LM's memory, in place of retrieved ones (GenRead; KS-LLM, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import dspy

from keqa.programs.runtime.attempts import ANSWER, ask
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.stage import Stage
from keqa.signatures import GenerateDocument


class Generation(Stage):
    """Writes a background document for a question."""

    roles: ClassVar[Mapping[str, str]] = {"write": "task"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"write": GenerateDocument}

    write: dspy.Predict

    async def run(self, session: Session, question: str) -> tuple[str, str]:
        """Write.

        Args:
            session: The calls of the question.
            question: What the document is to help with.

        Returns:
            Title, which may be empty, and text.

        Raises:
            CallError: There is no document.
        """
        from keqa.lms.adapter import adapter

        with dspy.context(adapter=dspy.settings.adapter or adapter()):
            prediction = await ask(
                session, self.write, "task", "document", draws=ANSWER, usable=_has_text, question=question
            )
        return text_of(prediction.title), text_of(prediction.document)


def _has_text(prediction: Any) -> None:
    if not any(char.isalnum() for char in text_of(prediction.document)):
        raise CallError("EmptyDocumentError", "the document was empty", unusable=True)
