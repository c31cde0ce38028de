"""Table 2 of the KEQA paper: how often the judge of consistency (D_s) is right, beside measures that need no LM."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keqa.data.question import quiz_key
from keqa.errors import ConfigurationError, MissingExtraError
from keqa.evaluation.reports.grid import Grid, count, number, table, text
from keqa.evaluation.reports.questions import QuizRow, mean
from keqa.evaluation.reports.rows import KEQA, Entry, Group, groups_of, of_method
from keqa.metrics.answers import f1
from keqa.metrics.samples import bert_score, rouge_l
from keqa.programs.records import QuizRecord

PairKey = tuple[str, frozenset[str]]
"""A quiz in normal form and two answers to it."""

Labels = Mapping[PairKey, bool]
"""What a language model says of pairs: whether they mean the same."""

_ENCODER = "local/minilm"
# From which similarity on a measure calls two answers the same.
_SAME_FROM = 0.5


class JudgedPair(NamedTuple):
    """Two answers that Algorithm 1 compared, what the judge said of them, and what is so."""

    first: str
    second: str
    same: bool
    truly: bool


Pairs = Mapping[PairKey, JudgedPair]
"""Pairs by quiz and answers, so that each counts once."""


def compared_answers(quiz: QuizRecord) -> Iterator[tuple[str, str, bool]]:
    """The pairs of answers to a quiz that Algorithm 1 compares (lines 5 to 13), each once, and what the judge said."""
    heads: list[str] = []
    seen: set[tuple[str, str]] = set()
    for sample in quiz.samples:
        if sample.text is None or sample.cluster is None:
            continue
        founds = sample.cluster >= len(heads)
        # A sample is compared with the clusters in their order until one takes it.
        for place, head in enumerate(heads if founds else heads[: sample.cluster + 1]):
            if (head, sample.text) not in seen:
                seen.add((head, sample.text))
                yield head, sample.text, place == sample.cluster
        if founds:
            heads.append(sample.text)


def key_of(quiz: str, first: str, second: str) -> PairKey:
    return quiz_key(quiz), frozenset((first, second))


def pairs_by_group(entries: Sequence[Entry], groups: Sequence[Group], labels: Labels | None = None) -> list[Pairs]:
    """The judged pairs of each group of questions, each once, by the first of the runs that compared them."""
    found: list[Pairs] = []
    for group in groups:
        pairs: dict[PairKey, JudgedPair] = {}
        for quiz, golds in (one for entry in entries for one in _quizzes(entry, group, checked=labels is None)):
            for first, second, same in compared_answers(quiz):
                key = key_of(str(quiz.resolved), first, second)
                truly = golds.same(first, second) if golds is not None else (labels or {}).get(key)
                if truly is not None:
                    pairs.setdefault(key, JudgedPair(first, second, same, truly))
        found.append(pairs)
    return found


def _quizzes(entry: Entry, group: Group, *, checked: bool) -> Iterator[tuple[QuizRecord, QuizRow | None]]:
    """The quizzes of a group, those with their gold answers, or all of them."""
    if checked:
        return ((one.quiz, one) for one in entry.checked(group))
    return ((quiz, None) for line in entry.within(group) for quiz in line.quizzes)


def same_judge(entries: Iterable[Entry], keqa: Entry) -> list[Entry]:
    """KEQA's run, and after it the others with the same judge: ablations, thresholds and gates judge more pairs."""

    def judge(entry: Entry) -> tuple[object, int | None]:
        # The language model, and how many demonstrations it is shown.
        return entry.settings.models.get("consistency"), entry.header.demonstrations.get("examination.same")

    return [keqa, *(entry for entry in entries if entry is not keqa and judge(entry) == judge(keqa))]


def accuracies(groups: Sequence[Pairs]) -> tuple[dict[str, list[float | None]], str]:
    """How often D_s and its rivals say what the gold answers say, by name, and what is to be said of them."""
    judges: dict[str, Callable[[JudgedPair], bool]] = {
        "D_s": lambda pair: pair.same,
        "token F1": lambda pair: f1(pair.first, [pair.second]) >= _SAME_FROM,
        "ROUGE-L": lambda pair: rouge_l(pair.first, pair.second) >= _SAME_FROM,
    }
    note = f"The measures call two answers the same from {number(_SAME_FROM, 1).text} on."
    pairs = {(pair.first, pair.second) for some in groups for pair in some.values()}
    try:
        scores = _bert_scores(pairs)
    except (ConfigurationError, MissingExtraError) as error:
        note = f"{note} BERTScore is left out: {error}"
    else:
        judges["BERTScore"] = lambda pair: scores[pair.first, pair.second] >= _SAME_FROM
        note = f"{note} BERTScore is F1 over the token embeddings of {_ENCODER}, not rescaled."

    def right(judge: Callable[[JudgedPair], bool]) -> list[float | None]:
        return [mean([judge(pair) == pair.truly for pair in pairs.values()]) for pairs in groups]

    return {name: right(judge) for name, judge in judges.items()}, note


def _bert_scores(pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], float]:
    from keqa.retrievers.embedding import open_model

    texts = list(dict.fromkeys(one for pair in pairs for one in pair))
    vectors = dict(zip(texts, open_model(_ENCODER).embed_tokens(texts), strict=True))
    return {(first, second): bert_score(vectors[first], vectors[second]) for first, second in pairs}


def discriminator(entries: Sequence[Entry]) -> Grid | None:
    """Table 2, from the quizzes of KEQA's run and of those with the same judge; None where no pair was judged."""
    keqa = of_method(entries, KEQA)
    judged = [] if keqa is None else same_judge(entries, keqa)
    groups = groups_of(judged)
    pairs, names = pairs_by_group(judged, groups), [group.name for group in groups]
    if not any(pairs):
        return None
    if len(groups) > 1:
        pairs.append({key: pair for some in pairs for key, pair in some.items()})
        names.append("all")
    measured, judged_by = accuracies(pairs)
    lines = {name: list(map(number, found)) for name, found in measured.items()}
    lines["pairs"] = [count(len(some)) for some in pairs]
    lines["the same"] = [count(sum(pair.truly for pair in some.values())) for some in pairs]
    heads: list[str | tuple[str, str]] = ["judge", *(("accuracy", name) for name in names)]
    rows = (zip(heads, [text(name), *cells], strict=True) for name, cells in lines.items())
    note = (
        "Pairs of answers that differ in words, at least one of them right in whatever form: the same where both are. "
        f"Each counts once, whichever of the runs with KEQA's judge compared it. {judged_by}"
    )
    title = "The judge of consistency and measures of similarity"
    return table("table2", title, rows, note, ruled=[len(measured)])
