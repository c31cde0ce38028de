"""Passages from anywhere: a retriever is an object with two methods; a function of a query will do as well.

    python examples/own_retriever.py

Here it searches a list of notes by shared words; yours may ask a search service or a database. It is used from several
threads at once, returns an empty list where nothing fits, and raises `keqa.RetrievalError` where searching failed.
"""

import re
from collections.abc import Sequence

import keqa


class Notes:
    """Finds the notes that share the most words with a query."""

    # Over one's own documents a program says what they do not say; over the testbed's it answers as its paper does.
    own_documents = False

    def __init__(self, notes: Sequence[keqa.Passage]) -> None:
        self._notes = [(note, set(re.findall(r"\w+", note.rendered.lower()))) for note in notes]

    def search(self, query: str, k: int = 10) -> list[keqa.Hit]:
        """Return at most `k` notes, best first."""
        wanted = set(re.findall(r"\w+", query.lower()))
        hits = [keqa.Hit(note, float(len(words & wanted))) for note, words in self._notes if words & wanted]
        return sorted(hits, key=lambda hit: -hit.score)[:k]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[keqa.Hit]]:
        """Return the notes of each query."""
        return [self.search(query, k) for query in queries]


testbed = keqa.Testbed()
program = keqa.KEQA(Notes(testbed.passages), lms=keqa.build_roles("keqa/tiny"))
for outcome in program.answer_many([question.question for question in testbed.dev[:3]]):
    print(outcome.answer, "|", outcome.record.cost.retrievals, "retrievals")
