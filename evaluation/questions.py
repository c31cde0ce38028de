"""The questions of a run: the testbed's, a benchmark's, or the user's own."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.data.benchmarks import BENCHMARKS, load
from keqa.data.example import Example
from keqa.errors import InputError
from keqa.programs.build import merged

if TYPE_CHECKING:
    from keqa.programs.calls.predictor import LearnedQuestions

_Settings = Mapping[str, Mapping[str, Any]]
# Rowen's other language must be another one than that of the questions.
_CHINESE: _Settings = {"rowen": {"language": "English"}}
# There is nothing to reason about, and the papers of these do not.
_ONE_HOP: _Settings = {name: {"reason": False} for name in ("rowen", "self-rag", "slimplm")}
# So many passages the language model that ships was trained to read at once; IRCoT's own limit is 15.
_TESTBED: _Settings = {"ircot": {"max_passages": 8}}


@dataclass(frozen=True)
class Questions:
    """What a run asks."""

    dataset: str
    split: str
    seed: int
    examples: Iterable[Any]
    problems: list[str] = field(default_factory=list)
    settings: _Settings = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


def of_testbed(split: str = "test", limit: int | None = None) -> Questions:
    """The testbed's questions, whose four shapes come in turn."""
    from keqa.testbed.testbed import Testbed

    if split not in ("train", "dev", "test", "lists"):
        raise InputError(f"the testbed has the splits train, dev, test and lists, not {split!r}")
    found = getattr(Testbed(), split)
    if limit is not None and not 1 <= limit <= len(found):
        raise InputError(f"the testbed's split {split} has {len(found)} questions; ask for 1 to {len(found)} of them")
    return Questions("testbed", split, 0, found[:limit], settings=_TESTBED)


def of_name(
    name: str,
    folder: Path | None = None,
    *,
    split: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> Questions:
    """The questions of a benchmark or of the user's own file: the first so many of a sample, which the seed draws.

    The name is a benchmark of `keqa.data.benchmarks`, also as ``NAME:PATH``, whose files are in the folder or else from
    the hub, or a .jsonl, .json or .csv file.
    """
    seed = seed if sample is not None else 0
    source = name if folder is None else f"{name}:{folder}"
    loaded = load(source, split=split, sample=sample, seed=seed, unanswerable=True)
    benchmark = name.partition(":")[0]
    known = BENCHMARKS.get(benchmark.strip().lower())
    title = Path(name).name if known is None else benchmark
    chinese = known is not None and known.language == "zh"
    settings = merged(_CHINESE if chinese else {}, {} if known is None or known.multi_hop else _ONE_HOP)
    return Questions(title, split or "", seed, loaded.examples[:limit], loaded.remarks, settings, loaded.left_out)


def of_training(
    sources: Sequence[str], *, split: str | None = None, sample: int | None = None, seed: int = 0
) -> Questions:
    """Questions of benchmarks to learn from, each marked as of one hop or several, as its data set is."""
    names = [source.partition(":")[0].strip().lower() for source in sources]
    for name in names:
        if name not in BENCHMARKS:
            raise InputError(f"{name!r} is no benchmark; there are {', '.join(BENCHMARKS)}")
        if names.count(name) > 1:
            raise InputError(f"{name} is named twice: give each benchmark once")
    found: list[Example] = []
    problems: list[str] = []
    left_out: Counter[str] = Counter()
    for name, source in zip(names, sources, strict=True):
        benchmark, path = BENCHMARKS[name], source.partition(":")[2]
        whole = bool(path) and Path(path).expanduser().is_file() and not benchmark.splits_itself
        loaded = load(source, split=None if whole else split or "train", sample=sample, seed=seed)
        before = f"{name}/" if len(sources) > 1 else ""
        found += [replace(one, id=f"{before}{one.id}", one_hop=not benchmark.multi_hop) for one in loaded.examples]
        problems += loaded.remarks
        left_out.update(loaded.left_out)
    return Questions("+".join(names), split or "train", seed, found, problems, {}, left_out)


def without_learned(questions: Questions, learned: "LearnedQuestions", most: int) -> Questions:
    """So many of a sample without what a program learned from; a larger sample holds the smaller."""
    kept: list[Any] = []
    passed = 0
    for one in questions.examples:
        if len(kept) == most:
            break
        if learned.ids_of(one.question, one.choices):
            passed += 1
        else:
            kept.append(one)
    if not kept:
        raise InputError(
            f"all {passed} questions of {questions.dataset} are learned from, and none is left to ask: learn from "
            "fewer, such as with --train-sample, or ask others"
        )
    left_out = {**questions.left_out, **({"learned from": passed} if passed else {})}
    return replace(questions, examples=kept, left_out=left_out)
