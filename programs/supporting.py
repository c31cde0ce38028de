"""The sentences of a passage that carried an answer, and sentences of other passages that say otherwise.

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
# Of the words beside the answer, what another sentence must have as well to be about the same.
_SAME = 0.8
_LEAST_WORDS = 2
_MORE_WORDS = 4
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
        return [_as_written(text, part) for part in selected[:_MOST]]
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
        return [_as_written(text, parts[place]) for place in kept]
    scores = [shared(bag, asked | _words(answer or "")) for bag in bags]
    best = max(scores, default=0.0)
    return [_as_written(text, parts[scores.index(best)])] if best > 0 else []


def says_otherwise(text: str, supporting: str, answer: str) -> str:
    """The sentence of a passage that says what another says, but for the answer; empty where none does.

    It has nearly all words of the other sentence beside the answer, not the whole answer, and something in its place: a
    name or a number. So it finds only what is said in the same words, and is a hint and no proof.

    Args:
        text: The passage.
        supporting: A sentence of another passage.
        answer: What that sentence holds.
    """
    said = tokens(answer)
    if not _holds(supporting, said):
        return ""
    beside = _words(supporting) - set(said)
    if len(beside) < _LEAST_WORDS:
        return ""
    for part in sentences_of(text):
        words = _words(part)
        instead = words - beside - set(said)
        same = len(words & beside) >= _SAME * len(beside)
        if (
            same
            and 0 < len(instead) <= len(said) + _MORE_WORDS
            and not words.issuperset(said)
            and _names(part, instead)
        ):
            return _as_written(text, part)
    return ""


def sentences_of(text: str) -> list[str]:
    """The sentences of a passage on one line each, without the headings above them, unless these are all."""
    text = text[:_LONGEST]
    return stripped_sentences(_HEADINGS.sub("\n\n", text)) or stripped_sentences(text)


def _as_written(text: str, sentence: str) -> str:
    """A sentence with the white space that it has in the text."""
    found = re.search(r"\s+".join(map(re.escape, sentence.split())), text)
    return found.group() if found else sentence


def _words(text: str) -> set[str]:
    return {word for word in tokens(text) if word not in _FUNCTION_WORDS}


def _holds(sentence: str, answer: Sequence[str]) -> bool:
    """Whether a sentence has the words of an answer, in their order and without others between."""
    words, size = tokens(sentence), len(answer)
    return size > 0 and any(words[at : at + size] == answer for at in range(len(words) - size + 1))


def _names(sentence: str, words: set[str]) -> bool:
    """Whether one of some words is a name or a number, as it is written in a sentence."""
    for written in sentence.split()[1:]:
        bare = tokens(written)
        if words.intersection(bare) and (written.lstrip("\"'“„«(")[:1].isupper() or any(map(str.isdigit, written))):
            return True
    return any(not word.isascii() and not word.islower() for word in words)
