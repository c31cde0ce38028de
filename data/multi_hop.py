"""Questions of several steps: HotpotQA, 2WikiMultihopQA, MuSiQue and StrategyQA.

HotpotQA is of Yang et al. (2018), 2WikiMultihopQA of Ho et al. (2020), which has the same layout and triples; both are
read in the authors' layout (pairs) or that of the Hugging Face hub (columns of lists). MuSiQue is of Trivedi et al.
(2022), StrategyQA of Geva et al. (2021).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, field, items, make, one_text, usable
from keqa.data.example import ContextPassage, Example, PassageRole, SupportingFact, Triple
from keqa.data.loading import Converted, NotAsked
from keqa.data.rows import SourceRow, json_lines, json_list
from keqa.errors import InputError

# The file of 2WikiMultihopQA with the aliases of each answer's Wikidata id; it is used where it lies beside.
_ALIASES = "id_aliases.json"


def _hotpotqa(record: Mapping[str, Any]) -> Example:
    if "evidences" in record:
        raise InputError("it has evidences, as a record of 2WikiMultihopQA")
    return _hop(record, (), ())


def _two_wiki(record: Mapping[str, Any]) -> Example:
    """Evidences, which HotpotQA has not, become triples."""
    triples = tuple(_triple(evidence) for evidence in field(record, "evidences", (list, tuple)))
    return _hop(record, triples, record.get("answer_aliases") or ())


def _two_wiki_rows(path: Path) -> Iterator[SourceRow]:
    """The records of 2WikiMultihopQA, with the aliases of their answers where the file of aliases lies beside."""
    beside = path.parent / _ALIASES
    aliases = _aliases(beside) if beside.is_file() else {}
    for row in json_list(path):
        identity = row.value.get("answer_id") if isinstance(row.value, Mapping) else None
        found = aliases.get(identity) if isinstance(identity, str) else None
        yield SourceRow(row.path, row.number, {**row.value, "answer_aliases": found}, row.unit) if found else row


def _aliases(path: Path) -> dict[str, list[str]]:
    """Aliases and demonyms by Wikidata id; the authors' scores count both."""
    found: dict[str, list[str]] = {}
    for row in json_lines(path):
        if not isinstance(row.value, Mapping) or not isinstance(row.value.get("Q_id"), str):
            raise InputError(f"{path}, line {row.number}: an object with Q_id and aliases is expected")
        found[row.value["Q_id"]] = [*(row.value.get("aliases") or ()), *(row.value.get("demonyms") or ())]
    return found


def _hop(record: Mapping[str, Any], triples: tuple[Triple, ...], aliases: Sequence[str]) -> Example:
    answer = field(record, "answer", str)
    facts = [
        SupportingFact(one_text(title, "a title of supporting_facts"), field({"sent_id": number}, "sent_id", int))
        for title, number in _pairs(record, "supporting_facts", "title", "sent_id")
    ]
    titles = {fact.title for fact in facts}
    context = []
    for title, sentences in _pairs(record, "context", "title", "sentences") if record.get("context") else ():
        page = one_text(title, "a title of the context")
        role: PassageRole = "supporting" if page in titles else "distractor"
        context.append(ContextPassage(page, one_text(sentences, f"the context {page!r}"), role))
    return make(
        id=record["_id"] if "_id" in record else field(record, "id", str),
        question=record.get("question"),
        answers=usable(answer, aliases),
        # Only the gold answer says whether a question wants yes or no, and no prompt may show what that says.
        answer_type="short",
        scored_as="hotpotqa",
        supporting_facts=facts,
        triples=triples,
        context=context,
    )


def _pairs(record: Mapping[str, Any], name: str, first: str, second: str) -> list[tuple[Any, Any]]:
    """Pairs from a list of them or of objects, or from the two columns that the hub makes of it."""
    value = field(record, name, (list, tuple, dict))
    if isinstance(value, dict):
        columns = [field(value, column, (list, tuple)) for column in (first, second)]
        if len(columns[0]) != len(columns[1]):
            raise InputError(f"{name} has {len(columns[0])} of {first} and {len(columns[1])} of {second}")
        value = list(zip(*columns, strict=True))
    value = [(pair.get(first), pair.get(second)) if isinstance(pair, Mapping) else pair for pair in value]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        raise InputError(f"{name} must hold pairs of {first} and {second}")
    return [(pair[0], pair[1]) for pair in value]


def _triple(value: Any) -> Triple:
    """A triple as a list of three, or as the hub's object."""
    if isinstance(value, Mapping):
        value = [value.get("fact"), value.get("relation"), value.get("entity")]
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise InputError("evidences must hold subject, relation and object")
    subject, relation, target = (one_text(part, "a part of evidences") for part in value)
    return Triple(subject, relation, target)


_DISTRACTOR = Benchmark(
    "hotpotqa",
    "HotpotQA (distractor)",
    files={"dev": "hotpot_dev_distractor_v1.json", "train": "hotpot_train_v1.1.json"},
    hub=HubSource("hotpotqa/hotpot_qa", "distractor"),
    multi_hop=True,
    licence="CC BY-SA 4.0",
    expected="a JSON list of objects with _id, question, answer, supporting_facts and context",
    convert=_hotpotqa,
)


def _musique(record: Mapping[str, Any]) -> Converted:
    """A record of MuSiQue-Ans or MuSiQue-Full, whose hops refer to each other as #1, #2 already."""
    if record.get("answerable") is False:
        return NotAsked("unanswerable")
    hops = items(record, "question_decomposition")
    facts, context = [], []
    for place, passage in enumerate(items(record, "paragraphs") if record.get("paragraphs") is not None else ()):
        title = one_text(passage.get("title"), "the title of a paragraph")
        text = one_text(passage.get("paragraph_text"), "the paragraph_text of a paragraph")
        supporting = passage.get("is_supporting") is True
        context.append(ContextPassage(title, text, "supporting" if supporting else "distractor"))
        facts += [SupportingFact(title, place, text)] if supporting else []
    return make(
        id=record.get("id"),
        question=record.get("question"),
        answers=usable(field(record, "answer", str), record.get("answer_aliases") or ()),
        quizzes=[field(hop, "question", str) for hop in hops],
        quiz_answers=[field(hop, "answer", (str, int, float)) for hop in hops],
        supporting_facts=facts,
        context=context,
    )


def _strategyqa(record: Mapping[str, Any]) -> Example:
    """The facts are the sentences of `facts`, then the paragraphs that any annotator named as evidence."""
    answer = field(record, "answer", bool)
    facts = record.get("facts") or []
    sentences = [facts] if isinstance(facts, str) else field(record, "facts", (list, tuple)) if facts else []
    decomposition = field(record, "decomposition", (list, tuple)) if record.get("decomposition") else ()
    named = dict.fromkeys(_paragraphs(record.get("evidence")))
    return make(
        id=field(record, "qid", str),
        question=record.get("question"),
        answers=("yes" if answer else "no",),
        answer_type="yes/no",
        quizzes=[one_text(quiz, "a quiz of the decomposition") for quiz in decomposition],
        supporting_facts=[
            *(SupportingFact(text=one_text(sentence, "a fact")) for sentence in sentences),
            *(SupportingFact(title, position) for title, position in named),
        ],
    )


def _paragraphs(evidence: Any) -> Iterator[tuple[str, int]]:
    """Title and number of each paragraph in the nested lists; ``operation`` and ``no_evidence`` name none."""
    if isinstance(evidence, str):
        title, dash, number = evidence.rpartition("-")
        if dash and number.isdecimal():
            yield one_text(title, "the title of an evidence"), int(number)
    elif isinstance(evidence, list | tuple):
        for part in evidence:
            yield from _paragraphs(part)


BENCHMARKS = (
    _DISTRACTOR,
    _DISTRACTOR.peer(
        "hotpotqa-fullwiki",
        "HotpotQA (fullwiki)",
        files={**_DISTRACTOR.files, "dev": "hotpot_dev_fullwiki_v1.json"},
        hub=HubSource("hotpotqa/hotpot_qa", "fullwiki"),
    ),
    _DISTRACTOR.peer(
        "2wikimultihopqa",
        "2WikiMultihopQA",
        files={"dev": "dev.json", "train": "train.json"},
        hub=HubSource("framolfese/2WikiMultihopQA"),
        licence="Apache-2.0",
        expected=f"{_DISTRACTOR.expected}, and evidences; {_ALIASES} beside it is used",
        rows=_two_wiki_rows,
        convert=_two_wiki,
    ),
    Benchmark(
        "musique",
        "MuSiQue",
        multi_hop=True,
        files={"dev": "musique_ans_v1.0_dev.jsonl", "train": "musique_ans_v1.0_train.jsonl"},
        hub=HubSource("dgslibisey/MuSiQue"),
        licence="CC BY 4.0",
        expected="lines of JSON objects with id, question, answer, question_decomposition and paragraphs",
        convert=_musique,
    ),
    Benchmark(
        "strategyqa",
        "StrategyQA",
        files={"train": "strategyqa_train.json"},
        hub=HubSource("ChilleD/StrategyQA", splits=("test", "train")),
        multi_hop=True,
        licence="MIT",
        expected="a JSON list of objects with qid, question, answer (true or false), facts and decomposition",
        convert=_strategyqa,
    ),
)
