"""Questions with passages: the SQuAD layout, Baidu WebQA, SogouQA and RGB; and Chinese SimpleQA without any.

The SQuAD layout (Rajpurkar et al., 2016, 2018) is that of SQuAD, XQuAD, ChineseSquad and CMRC 2018. WebQA is of Li et
al. (2016), RGB of Chen et al. (2024), Chinese SimpleQA of He et al. (2024).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count, islice, product
from pathlib import Path
from typing import Any, Literal

from keqa.data.benchmark import Benchmark, HubSource, field, items, listed_below, make, one_text, usable
from keqa.data.example import ContextPassage, Example, PassageRole
from keqa.data.loading import Converted, NotAsked
from keqa.data.rows import SourceRow, json_document, json_list
from keqa.errors import InputError


def _squad_rows(path: Path) -> Iterator[SourceRow]:
    numbers = count(1)
    for place, article in enumerate(listed_below(json_document(path), "data", path, "SQuAD has it"), start=1):
        try:
            questions = list(_questions(article))
        except InputError as error:
            yield SourceRow(path, place, error, "article")
        else:
            yield from (SourceRow(path, next(numbers), question, "question") for question in questions)


def _questions(article: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(article, Mapping):
        raise InputError(f"an article with paragraphs is expected, not {type(article).__name__}")
    for paragraph in items(article, "paragraphs"):
        more = {"context": field(paragraph, "context", str), "title": article.get("title", "")}
        yield from ({**question, **more} for question in items(paragraph, "qas"))


def _squad(record: Mapping[str, Any]) -> Converted:
    """A question with its context, of a file or of the hub; one that it does not answer (SQuAD 2) is left out."""
    listed = field(record, "answers", (list, tuple, dict))
    if isinstance(listed, dict):
        texts = field(listed, "text", (list, tuple))
    else:
        texts = [field(answer, "text", (str, int, float)) for answer in items(record, "answers")]
    if record.get("is_impossible") is True or not texts:
        return NotAsked("unanswerable")
    title = one_text(record.get("title") or "", "the title").replace("_", " ")
    passage = ContextPassage(title, one_text(field(record, "context", str), "the context"), "supporting")
    identity, question = field(record, "id", (str, int)), record.get("question")
    return make(id=identity, question=question, answers=usable(texts), context=[passage])


def _webqa_rows(path: Path) -> Iterator[SourceRow]:
    """The records of Baidu's files, whose keys are the ids."""
    document = json_document(path)
    if not isinstance(document, Mapping):
        raise InputError(f"{path}: an object from id to question and evidences is expected")
    for number, (identity, record) in enumerate(document.items(), start=1):
        yield SourceRow(path, number, {**record, "id": identity} if isinstance(record, Mapping) else record)


def _webqa(record: Mapping[str, Any]) -> Converted:
    """A record of Baidu WebQA; an evidence without the answer says ``no_answer``."""
    evidences = list(field(record, "evidences", dict).values())
    if not all(isinstance(evidence, Mapping) for evidence in evidences):
        raise InputError("evidences must hold objects with answer and evidence")
    found = []
    for evidence in evidences:
        answers = [one for one in field(evidence, "answer", (list, tuple)) if one != "no_answer"]
        found.append((one_text(field(evidence, "evidence", str), "an evidence"), answers))
    return _most_given(record, found)


def _sogouqa(record: Mapping[str, Any]) -> Converted:
    """A record of SogouQA, or of WebQA in the same layout; passages without the answer have an empty one."""
    found = []
    for passage in items(record, "passages"):
        answer = field(passage, "answer", str).strip()
        found.append((one_text(field(passage, "passage", str), "a passage"), [answer] if answer else []))
    return _most_given(record, found)


def _most_given(record: Mapping[str, Any], found: list[tuple[str, list[Any]]]) -> Converted:
    """The answer that most passages give comes first; where none gives one, the record is left out."""
    listed = [answer for _, answers in found for answer in answers]
    for answer in listed:
        if isinstance(answer, list | dict):
            raise InputError(f"the answer must be text, not {type(answer).__name__}")
    counts = Counter(listed)
    if found and not counts:
        return NotAsked("unanswerable")
    context = [ContextPassage("", text, "supporting" if answers else "distractor") for text, answers in found if text]
    answers = usable([answer for answer, _ in counts.most_common()])
    return make(id=record.get("id"), question=record.get("question"), answers=answers, context=context)


def _simpleqa(record: Mapping[str, Any]) -> Example:
    field(record, "primary_category", str)
    answers = usable(field(record, "answer", str))
    return make(id=field(record, "id", str), question=record.get("question"), answers=answers)


_ROLES: dict[str, PassageRole] = {
    "positive": "supporting",
    "negative": "distractor",
    "positive_wrong": "counterfactual",
}
# A question of five parts with six spellings each has 7,776 full answers.
_FULL_ANSWERS = 64


def _rgb(record: Mapping[str, Any]) -> Example:
    """A record of any subset; its answer is a text or a list of parts, each a text or a list of its spellings."""
    context = [
        ContextPassage("", text, role)
        for name, role in _ROLES.items()
        if record.get(name) is not None
        for text in _documents(field(record, name, (list, tuple)), name)
    ]
    answers = usable(list(_answers(field(record, "answer", (str, list, tuple)))))
    identity, question = field(record, "id", (str, int)), field(record, "query", str)
    return make(id=identity, question=question, answers=answers, context=context)


def _answers(value: Any) -> Iterator[str]:
    parts = [value] if isinstance(value, str) else value
    spellings = [usable(part) for part in parts]
    if not spellings:
        raise InputError("there is no answer")
    yield from (", ".join(chosen) for chosen in islice(product(*spellings), _FULL_ANSWERS))


def _documents(value: Any, name: str) -> Iterator[str]:
    """Documents, which the integration subset groups by the part of the answer that they state."""
    for document in value:
        if isinstance(document, list | tuple):
            yield from _documents(document, name)
        else:
            yield one_text(document, f"a document of {name}")


_SQUAD = Benchmark(
    "squad",
    "SQuAD",
    files={"dev": "dev-v1.1.json", "train": "train-v1.1.json"},
    hub=HubSource("rajpurkar/squad"),
    licence="CC BY-SA 4.0",
    expected="a JSON object whose data holds articles, their paragraphs and qas",
    rows=_squad_rows,
    convert=_squad,
)
_CHINESE = _SQUAD.peer(
    "chinesesquad",
    "ChineseSquad",
    language="zh",
    files={"dev": "dev-v2.0-zh.json", "train": "train-v2.0-zh.json"},
    hub=HubSource("lighteval/ChineseSquad"),
    licence="no licence file; a translation of SQuAD, which is CC BY-SA 4.0",
)


def _xquad(language: Literal["en", "zh"], title: str) -> Benchmark:
    hub = HubSource("google/xquad", f"xquad.{language}", ("validation",))
    files = {"dev": f"xquad.{language}.json"}
    return _SQUAD.peer(f"xquad-{language}", title, files=files, hub=hub, language=language)


_WEBQA = Benchmark(
    "webqa",
    "Baidu WebQA",
    files={"test": "me_test.ann.json", "dev": "me_validation.ann.json", "train": "me_train.json"},
    language="zh",
    licence="for research; no licence file",
    expected="a JSON object from id to question and evidences",
    rows=_webqa_rows,
    convert=_webqa,
)
_RGB = Benchmark(
    "rgb-en",
    "RGB (English)",
    files={"test": "en_fact.json"},
    licence="CC BY-NC-SA 4.0 (no commercial use)",
    expected="lines of JSON objects with id, query, answer, positive and negative",
    convert=_rgb,
)
_SQUAD_2 = {"dev": "dev-v2.0.json", "train": "train-v2.0.json"}
_CMRC = {"dev": "cmrc2018_dev.json", "train": "cmrc2018_train.json"}

BENCHMARKS = (
    _SQUAD,
    _SQUAD.peer("squad2", "SQuAD 2", files=_SQUAD_2, hub=HubSource("rajpurkar/squad_v2")),
    _xquad("en", "XQuAD (English)"),
    _xquad("zh", "XQuAD (Chinese)"),
    _CHINESE,
    _SQUAD.peer("cmrc2018", "CMRC 2018", language="zh", files=_CMRC, hub=HubSource("hfl/cmrc2018")),
    _WEBQA,
    _WEBQA.peer(
        "sogouqa",
        "SogouQA",
        files={"train": "SogouQA.json"},
        expected="a JSON list of objects with id, question and passages (passage and answer)",
        rows=json_list,
        convert=_sogouqa,
    ),
    Benchmark(
        "chinese-simpleqa",
        "Chinese SimpleQA",
        files={"test": "chinese_simpleqa.jsonl"},
        hub=HubSource("OpenStellarTeam/Chinese-SimpleQA", splits=("train",)),
        language="zh",
        licence="MIT (the authors' repository)",
        expected="lines of JSON objects with id, primary_category, question and answer",
        convert=_simpleqa,
    ),
    _RGB,
    _RGB.peer("rgb-zh", "RGB (Chinese)", language="zh", files={"test": "zh_fact.json"}),
)
