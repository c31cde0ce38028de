"""The sentences of a passage that carried an answer.

Which sentence an LM drew an answer from, nobody can look up; asking it once more would cost a call and could be made
up. So it is found in the text, by rules that anyone can check:

1. where sentences were selected as evidence (KS-LLM), those of the passage;
2. else the sentences that hold the answer, those that share most of their words with the question;
3. else, where the answer is in other words (a yes, a number that was counted), the sentence that shares most words with
   the question and the answer, where it shares any.

Words are compared without function words, and the rarer a word is in the passage, the more it counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from keqa.metrics.answers import tokens
from keqa.retrievers.splitting import stripped_sentences
from keqa.retrievers.stopwords import CHINESE, ENGLISH
from keqa.retrievers.text import one_line

_MOST = 3
# A sentence that holds the answer is passed over where another one that does shares twice as much with the question.
_NEARLY = 0.5
# Passages are a hundred words long; records of a corpus may be books.
_LONGEST = 20_000
_HEADINGS = re.compile(r"^#{1,6} [^\n]*(?:\n|\Z)", re.MULTILINE)
_FUNCTION_WORDS = ENGLISH | CHINESE


def supporting_sentences(text: str, question: str, answer: str | None, evidence: Sequence[str] = ()) -> list[str]:
    """The sentences of a passage that carried an answer, in their order in it; three at most.

    Args:
        text: The passage.
        question: What was answered from it.
        answer: The answer; None where there is none.
        evidence: Sentences that were selected of all passages, which decide where any is of this one.

    Returns:
        Parts of the text as they stand there; none where nothing in it has to do with the question.
    """
    parts = sentences_of(text)
    chosen = {one_line(sentence) for sentence in evidence}
    if selected := [part for part in parts if any(part in one or one in part for one in chosen)]:
        return [as_written(text, part) for part in selected[:_MOST]]
    bags = [_words(part) for part in parts]
    spread = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(1 + len(bags) / count) for word, count in spread.items()}

    def shared(bag: set[str], wanted: Iterable[str]) -> float:
        return math.fsum(weight[word] for word in bag.intersection(wanted))

    asked, said = _words(question), tokens(answer or "")
    near = {place: shared(bags[place], asked) for place, part in enumerate(parts) if _holds(part, said)}
    if near:
        best = max(near.values())
        ranked = sorted(near, key=lambda place: (-near[place], place))
        kept = sorted(place for place in ranked[:_MOST] if near[place] >= _NEARLY * best)
        return [as_written(text, parts[place]) for place in kept]
    scores = [shared(bag, asked | _words(answer or "")) for bag in bags]
    best = max(scores, default=0.0)
    return [as_written(text, parts[scores.index(best)])] if best > 0 else []


def sentences_of(text: str) -> list[str]:
    """The sentences of a passage on one line each, without the headings above them, unless these are all."""
    text = text[:_LONGEST]
    return stripped_sentences(_HEADINGS.sub("\n\n", text)) or stripped_sentences(text)


def as_written(text: str, sentence: str) -> str:
    """A sentence with the white space that it has in the text."""
    found = re.search(r"\s+".join(map(re.escape, sentence.split())), text)
    return found.group() if found else sentence


def _words(text: str) -> set[str]:
    return {word for word in tokens(text) if word not in _FUNCTION_WORDS}


def _holds(sentence: str, answer: Sequence[str]) -> bool:
    """Whether a sentence has the words of an answer, in their order and without others between."""
    words, size = tokens(sentence), len(answer)
    return size > 0 and any(words[at : at + size] == answer for at in range(len(words) - size + 1))
