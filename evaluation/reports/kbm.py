"""KBM's Tables 1 to 5 and its Figures 4 to 6, 8 and 9, by the rows of a comparison, the published figures beside.

Of the first version there are Table 1, which has FreshQA and C-Eval, and Figure 8, double judgement.

The rows are the paper's: the language model alone (``closed-book``), retrieval for every question (``rag``), a language
model that is asked (``kbm`` without a model), ``self-rag``, and ``kbm`` with a boundary model, of mastery (KBM-Acc) and
of certainty (KBM-Cer). Random retrieval at a row's own ratio needs no run: of each question it is, in expectation, the
ratio's part of what ``rag`` scores and the rest of what ``closed-book`` does.
"""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from keqa.data.question import quiz_key
from keqa.evaluation.reports.grid import EMPTY, Cell, Grid, Named, count, number, share, table, text
from keqa.evaluation.reports.published import datasets, paper, published
from keqa.evaluation.reports.questions import QuestionRow, mean, measure
from keqa.evaluation.reports.rows import Entry, Group, by_lm, groups_of, of_method, parted, shared, title_of, whole
from keqa.evaluation.tally import MARK

COLUMNS = ("A/E", "Rnd", "Rat")
"""What the paper's tables have of a row on a data set."""

_RATIO = "question retrieval ratio"
_AVERAGE = "Avg."
_EFFICIENCY = ("A/E", "call rate", "tokens", "milliseconds")
_READ = "task tokens read"
_BOUNDS = (0.2, 0.4, 0.6, 0.8)
# From how many of the passages that name the answer on a group of questions begins.
_FREQUENCIES = {0: "none", 1: "1", 2: "2", 3: "3 to 5", 6: "6 or more"}
_OF_TASK = "Tokens are those of the LM that answers: the paper's seem to leave out the boundary model's."
_SCORED = (
    "A/E: exact match, and accuracy of yes/no questions and choices. Rnd: what random retrieval at the row's own ratio"
)


@dataclass(frozen=True)
class Compared:
    """The paper's rows on one language model: all rows on it, and of those ``closed-book``, ``rag`` and ``kbm``."""

    lm: str
    entries: list[Entry]
    memory: Entry
    retrieval: Entry
    judged: list[Entry]

    @property
    def rows(self) -> list[Entry]:
        """The rows in the paper's order."""
        reflecting = (entry for entry in self.entries if entry.method == "self-rag")
        return [self.memory, self.retrieval, *reflecting, *self.judged]

    def figures(self, entry: Entry, group: Group) -> list[Named]:
        """A/E, Rnd and Rat of a row on a group of questions; of those that leave no choice, chance has none either."""
        lines = entry.within(group)
        chance = None if entry in (self.memory, self.retrieval) else self._by_chance(entry, group)
        cells = (number(_score(lines)), number(chance), share(measure(_RATIO, lines)))
        return [((name, group.name), cell) for name, cell in zip(COLUMNS, cells, strict=True)]

    def means(self, entry: Entry, groups: Sequence[Group]) -> list[Cell]:
        """The means of A/E, Rnd and Rat over groups, each of which counts alike."""
        values = zip(*([cell.value for _, cell in self.figures(entry, group)] for group in groups), strict=True)
        score, chance, ratio = (mean([float(one) for one in some if one is not None]) for some in values)
        return [number(score), number(chance), share(ratio)]

    def _by_chance(self, entry: Entry, group: Group) -> float | None:
        """What random retrieval at a row's own ratio scores in expectation, over questions that all three have."""
        asked = shared([entry, self.memory, self.retrieval], group)
        ratio = _searched(entry.of(asked))
        if ratio is None:
            return None
        passages, memory = (sum(line.right for line in row.of(asked)) for row in (self.retrieval, self.memory))
        return (ratio * passages + (1 - ratio) * memory) / len(asked)


def kbm_tables(entries: Sequence[Entry], accuracies: Mapping[str, float] | None = None) -> list[Grid]:
    """The tables of KBM; `accuracies` are those of draws that no row has, by the question (see `quiz_key`)."""
    models = []
    for lm, found in by_lm(entries).items():
        memory, retrieval = of_method(found, "closed-book"), of_method(found, "rag")
        judged = [entry for entry in found if entry.method == "kbm"]
        if memory is not None and retrieval is not None and judged:
            models.append(Compared(lm, found, memory, retrieval, judged))
    intervals = partial(_intervals, drawn=dict(accuracies or {}))
    makers = (_efficiency, _known, intervals, _judged_again)
    grids = [grid for found in models[:1] for grid in (*_tables_of_scores(found), *(make(found) for make in makers))]
    grids += [_plug_in(models), *map(_frequencies, models[:1]), _masked(entries)]
    return [grid for grid in grids if grid is not None]


def _score(lines: Sequence[QuestionRow]) -> float | None:
    """A/E: the share of right answers; a failed question is none."""
    return mean([line.right for line in lines])


def _searched(lines: Sequence[QuestionRow]) -> float | None:
    """The share that was searched for, of which a failed question is none."""
    return mean([line.number(_RATIO) or 0.0 for line in lines])


def _published_row(entry: Entry) -> str:
    """The row of the paper that an entry stands for, whose boundary model is fine-tuned; empty where there is none."""
    if entry.method != "kbm":
        return {"closed-book": "llm", "rag": "rag", "self-rag": "self-rag"}.get(entry.method, "")
    settings = entry.settings.settings
    model = settings.get("model")
    if settings.get("rejudge"):
        return ""
    if model is None:
        return "prompt"
    finetuned = isinstance(model, Mapping) and model.get("kind") == "finetuned"
    return ("kbm-cer" if settings.get("of") == "certainty" else "kbm-acc") if finetuned else ""


def _place(group: Group) -> str:
    """What the paper's figures for a group are kept under: a data set, or a kind of questions where it is of one."""
    dataset, *others = {dataset for dataset, _, _ in group.questions}
    if others:
        return ""
    return dataset if group.name in ("", dataset) else group.name


def _kinds(entries: Sequence[Entry], table: str) -> list[Group]:
    """The kinds of FreshQA's questions that a table of the paper has."""
    wanted = {column[0] for column in paper("kbm")[table]["columns"]}
    lines = [{one: line for one, line in entry.lines.items() if one[0] == "freshqa"} for entry in entries]
    found = groups_of([replace(entry, lines=some) for entry, some in zip(entries, lines, strict=True)])
    return [group for group in found if group.name in wanted]


def _remark(place: str) -> str:
    """What is to be said of the paper's figures of a table."""
    return str(paper("kbm")["remarks"][place])


def _printed(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(value, f"{value} %")


def _plain(entry: Entry) -> str:
    """The title of a row where its language model stands beside it."""
    title = title_of(entry.method, entry.label, entry.settings.settings)
    return f"{title}{MARK}" if entry.learned else title


def _tables_of_scores(found: Compared) -> Iterator[Grid]:
    """Tables 1 to 3 and Table 1 of the first version, of what was asked for them."""
    asked = {dataset for row in found.rows for dataset, _, _ in row.lines}
    # Every data set with the means over them, or the kinds of question of one.
    groups = groups_of(found.rows)
    groups += [whole(found.rows)] if len(groups) > 1 and len(asked) == 1 else []
    first = [column[0] for column in paper("kbm")["first"]["columns"]]
    several_hops = [*_kinds(found.rows, "table3"), whole(found.rows, "hotpotqa")]
    tables = {
        "table1": ("KBM's Table 1", groups),
        "first": (
            "KBM's Table 1 in its first version",
            # Where one of its own data sets was asked.
            [whole(found.rows, name) for name in first if name in asked and asked & {*first} - {*datasets("kbm")}],
        ),
        "table2": ("KBM's Table 2: answers that change", _kinds(found.rows, "table2")),
        "table3": ("KBM's Table 3: several hops", [group for group in several_hops if group.questions]),
    }
    for name, (title, shown) in tables.items():
        if shown:
            yield _scores(found, name, title, shown, average=name == "table1" and len(asked) > 1)


def _scores(found: Compared, name: str, title: str, groups: Sequence[Group], *, average: bool) -> Grid:
    """A/E, Rnd and Rat of each row on each group, the paper's beside on those that its table of this name has."""
    papers = published("kbm", name)
    known = [group for group in groups if ("llm", "A/E", _place(group)) in papers]
    rows = []
    for entry in found.rows:
        cells: list[Named] = [("method", text(entry.title))]
        row = _published_row(entry)
        for group in groups:
            cells += found.figures(entry, group)
            for of in COLUMNS if group in known else ():
                cells.append(((f"{of} in the paper", group.name), _printed(papers.get((row, of, _place(group))))))
        if average:
            # The paper's mean is that over its data sets, whatever others are asked.
            over = known or groups
            cells += [((of, _AVERAGE), cell) for of, cell in zip(COLUMNS, found.means(entry, over), strict=True)]
            if _all_of_the_paper(known):
                means = published("kbm", "averages")
                cells += [((f"{of} in the paper", _AVERAGE), _printed(means.get((row, of)))) for of in COLUMNS]
        rows.append(cells)
    notes = [
        f"{_SCORED} scores in expectation, from the rows of closed book and always retrieve. Rat: the share of "
        "questions that were searched for.",
        *([f"{_AVERAGE}: the mean over data sets{' of the paper' if known else ''}."] if average else []),
        *([_remark("table1")] if known else []),
        *([_remark(name)] if known and name != "table1" and name in paper("kbm")["remarks"] else []),
    ]
    return table(f"kbm-{'first-table1' if name == 'first' else name}", title, rows, *notes)


def _all_of_the_paper(groups: Sequence[Group]) -> bool:
    return {_place(group) for group in groups} == set(datasets("kbm"))


def _efficiency(found: Compared) -> Grid:
    """Table 5: score, searches, tokens read and time of a question, the means over data sets."""
    asked = dict.fromkeys(dataset for row in found.rows for dataset, _, _ in row.lines)
    groups = [whole(found.rows, dataset) for dataset in asked]
    known = [group for group in groups if group.name in datasets("kbm")]
    over, papers = known or groups, published("kbm", "table5")
    rows: list[list[Named]] = []
    for entry in found.rows:
        row, (score, _, ratio) = _published_row(entry), found.means(entry, over)
        lines = [entry.within(group) for group in over]
        spent = [[value for some in lines if (value := measure(of, some)) is not None] for of in (_READ, "seconds")]
        tokens, seconds = map(mean, spent)
        milliseconds = None if seconds is None else 1000 * seconds
        cells = (score, ratio, number(tokens, 0), number(milliseconds, 0))
        rows.append([("method", text(entry.title)), *zip(_EFFICIENCY, cells, strict=True)])
        for of in _EFFICIENCY if _all_of_the_paper(known) else ():
            value = papers.get((row, of))
            cell = _printed(value) if of in _EFFICIENCY[:2] else number(value, 0)
            rows[-1].append((f"{of} in the paper", cell))
    note = (
        "Tokens read and milliseconds are for one question, the latter where no cache answered; means over data sets. "
        f"{_OF_TASK}"
    )
    return table("kbm-table5", "KBM's Table 5: efficiency", rows, note)


def _judged_again(found: Compared) -> Grid | None:
    """Figure 8 of the first version: what judging again with the passages leaves unread, and what that changes."""
    if not any(entry.settings.settings.get("rejudge") for entry in found.judged):
        return None
    rows: list[list[Named]] = []
    for entry in (found.memory, found.retrieval, *found.judged):
        lines = entry.within()
        read = [any(quiz.source == "passages" for quiz in line.quizzes) for line in lines]
        read = [entry is found.retrieval] * len(lines) if entry not in found.judged else read
        rows.append([("method", text(entry.title)), ("A/E", number(_score(lines)))])
        rows[-1] += [("Rat", share(_searched(lines))), ("passages read", share(mean(read)))]
        rows[-1].append(("tokens read", number(measure(_READ, lines), 0)))
    note = (
        "With double judgement a question that was searched for is judged again with its passages, which are read only "
        f"where they settle it (KBM, first version, Figures 7 and 8, which print no numbers). {_OF_TASK}"
    )
    return table("kbm-first-figure8", "Double judgement", rows, note)


def _known(found: Compared) -> Grid:
    """Figure 4: what is called known and unknown, and what memory and passages make of each."""
    rows = []
    for entry in found.judged:
        beside = {"closed book": found.memory, "always retrieve": found.retrieval, "this method": entry}
        asked = shared([entry, *beside.values()])
        calls = {one: next((quiz.known for quiz in entry.lines[one].quizzes), None) for one in asked}
        called = parted(asked, calls.get)
        for known, name in ((True, "known"), (False, "unknown")):
            some = called.get(known, [])
            cells: list[Named] = [
                ("method", text(entry.title)),
                ("called", text(name)),
                ("questions", count(len(some))),
            ]
            rows.append([*cells, *((head, number(_score(row.of(some)))) for head, row in beside.items())])
    note = "A/E over the questions that the row called known, and over those that it called unknown (KBM, Figure 4)."
    return table("kbm-figure4", "What is called known and unknown", rows, f"{note} {_remark('figure4')}")


def _intervals(found: Compared, drawn: dict[str, float]) -> Grid | None:
    """Figures 5 and 8: gains and losses by how often memory is right, where a row has draws of the questions."""
    for one in (one for entry in found.entries for one in entry.checked()):
        if one.quiz.complete and one.quiz.samples:
            right = sum(one.right(sample.text) for sample in one.quiz.samples if not sample.abstained)
            drawn.setdefault(one.text, right / len(one.quiz.samples))
    memory, *others = found.rows
    accuracies = ((one, drawn.get(quiz_key(memory.lines[one].question))) for one in shared(found.rows))
    places = {one: bisect(_BOUNDS, accuracy) for one, accuracy in accuracies if accuracy is not None}
    bounds, rows = ["0", *(f"{bound:g}" for bound in _BOUNDS), "1"], []
    for place, asked in parted(places, places.get).items():
        interval = f"[{bounds[place]}, {bounds[place + 1]}{')' if place < len(_BOUNDS) else ']'}"
        cells: list[Named] = [("accuracy of the draws", text(interval)), ("questions", count(len(asked)))]
        cells.append((("A/E", memory.title), number(_score(memory.of(asked)))))
        for row in others:
            change = [row.lines[one].right - memory.lines[one].right for one in asked]
            cells.append((("A/E", row.title), number(_score(row.of(asked)))))
            cells += [((head, row.title), count(change.count(by))) for head, by in (("beneficial", 1), ("harmful", -1))]
        rows.append(cells)
    note = (
        "Accuracy: the share of the draws from memory that are right, of the first row with all draws of the question. "
        "Beneficial and harmful: questions that the row answers better, and worse, than the language model alone "
    )
    return table("kbm-figure8", "By how often memory is right", rows, note + _remark("figure8")) if rows else None


def _plug_in(models: Sequence[Compared]) -> Grid | None:
    """Table 4: the boundary model in front of several language models; None where there are not two of them."""
    if len(models) < 2:
        return None
    groups = groups_of([row for one in models for row in one.rows])
    # The first language model may have been asked further data sets, which compare nothing.
    if not (groups := [group for group in groups if all(one.judged[0].within(group) for one in models)]):
        return None
    rows: list[list[Named]] = []
    ruled = set()
    for one in models:
        ruled.add(len(rows))
        for entry in (row for row in one.rows if any(row.within(group) for group in groups)):
            cells = [cell for group in groups for cell in one.figures(entry, group)]
            rows.append([("language model", text(one.lm)), ("method", text(_plain(entry))), *cells])
    notes = [f"{_SCORED} scores in expectation. Rat: the share of questions that were searched for."]
    papers, places = published("kbm", "table4"), [_place(group) for group in groups]
    printed = list(dict.fromkeys(lm for _, _, lm, dataset in papers if dataset in places))
    for lm in printed:
        ruled.add(len(rows))
        for row, name in paper("kbm")["names"].items():
            figures = [_printed(papers.get((row, column, lm, place))) for place in places for column in COLUMNS]
            rows.append([("", text(f"{lm}, in the paper")), ("", text(name)), *(("", cell) for cell in figures)])
    notes += [_remark("table4")] if printed else []
    title = "KBM's Table 4: the boundary model with other language models"
    return table("kbm-table4", title, rows, *notes, ruled=ruled)


def _frequencies(found: Compared) -> Grid | None:
    """Figure 6: scores by how often the gold answer is in the passages that ``rag`` found; None where it has none."""
    naming = ((one, found.retrieval.lines[one].naming) for one in shared([found.retrieval, *found.rows]))
    places = {one: max(least for least in _FREQUENCIES if least <= some) for one, some in naming if some is not None}
    rows = []
    for least, asked in parted(places, places.get).items():
        cells: list[Named] = [("passages with the answer", text(_FREQUENCIES[least])), ("questions", count(len(asked)))]
        for row in found.rows:
            lines, title = row.of(asked), _plain(row)
            cells += [(("A/E", title), number(_score(lines))), (("Rat", title), share(_searched(lines)))]
        rows.append(cells)
    note = (
        "Open questions, by how many of the passages that always retrieving found name a gold answer (KBM, Figure 6)."
    )
    notes = f"{note} {_remark('figure6')}"
    return table("kbm-figure6", "By how often the answer is found", rows, notes) if rows else None


def _masked(entries: Sequence[Entry]) -> Grid | None:
    """Figure 9: what language models answer of each data set from passages in which the gold answers are masked."""
    names = ("closed-book", "rag", "rag-masked")
    found = {lm: [of_method(rows, name) for name in names] for lm, rows in by_lm(entries).items()}
    masked = {lm: [row for row in rows if row is not None] for lm, rows in found.items() if None not in rows}
    if not masked:
        return None
    several = len(masked) > 1
    titles = [_plain(row) for row in next(iter(masked.values()))]
    sets = dict.fromkeys(one for found in masked.values() for row in found for one, _, _ in row.lines)
    rows: list[list[Named]] = []
    for dataset, (lm, (memory, retrieval, hidden)) in product(sets, masked.items()):
        asked = shared([hidden, memory, retrieval], whole([memory], dataset))
        for name, wanted in (("right", (True,)), ("wrong", (False,)), ("all", (True, False))) if asked else ():
            some = [one for one in asked if memory.lines[one].right in wanted]
            lines = [row.of(some) for row in (memory, retrieval, hidden)]
            rows.append([("data set", text(dataset))] if len(sets) > 1 else [])
            rows[-1] += [("language model", text(lm))] if several else []
            rows[-1] += [("from memory", text(name)), ("questions", count(len(some)))]
            rows[-1] += [(title, number(_score(one))) for title, one in zip(titles, lines, strict=True)]
            rows[-1].append(("says it does not know", share(mean([not line.answered for line in lines[-1]]))))
            rows[-1].append(("answers MASK", share(mean([line.masked for line in lines[-1]]))))
    notes = [
        "A/E of the language model alone, with passages, and with passages in which the gold answers are masked: what "
        "it then answers rightly is from memory. Of the questions that memory answers rightly, what is lost with "
        "masked passages is what the passages led astray; what answers MASK copies (KBM, section 2.1 and Figure 9).",
        *([_remark("sizes")] if several else []),
    ]
    return table("kbm-figure9", "With the answers masked", rows, *notes, ruled=range(3, len(rows), 3))
