"""What the KEQA paper's experiments ask language models beside their runs: to learn (section 4.1), and for labels."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dspy

from keqa.data.question import Question
from keqa.errors import InputError, KeqaError
from keqa.evaluation.questions import Questions
from keqa.evaluation.reports.judge import PairKey, compared_answers, key_of
from keqa.evaluation.reports.rows import Entry
from keqa.evaluation.reproduction.experiments import SETTINGS
from keqa.metrics.answers import f1
from keqa.optimize.asking import COUNTED, Asking, Progress, Spending
from keqa.optimize.compile import compile_program
from keqa.optimize.reference import build_reference
from keqa.programs.build import Parts, make
from keqa.programs.calls.batch import in_parallel
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.predictor import NOTHING, Predictor, whole_prompt
from keqa.programs.calls.session import CallLimiter, Session, run_blocking
from keqa.programs.examination import means_the_same
from keqa.programs.fingerprint import digest, lm_spec
from keqa.programs.keqa import KEQA
from keqa.programs.reference.embedding import HASHING, LOCAL, Embedder
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import Spec
from keqa.programs.saving import save
from keqa.programs.stage import RoleLMs
from keqa.retrievers import Retriever
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import JudgeConsistency
from keqa.storage.journal import Journal

REFERENCE = "reference"
"""The folder of the KEQA with its utility reference, beside those of the data sets."""

# The data sets whose test questions the paper takes from the train file.
_SAME_FILE = ("strategyqa",)
_Pair = tuple[str, str, str]
_Asked = TypeVar("_Asked", bound=tuple[str | None, ...])


class Built(NamedTuple):
    """A program, or none where no passage made a difference; entries that helped and harmed; what has no label."""

    folder: Path | None
    helpful: int = 0
    harmful: int = 0
    problems: Sequence[str] = ()


def training_sources(named: Mapping[str, str], given: Sequence[str]) -> list[str]:
    """Where the training questions of each data set come from, as `keqa.evaluation.questions.of_training` takes it."""
    found: dict[str, str] = {}
    for one in given:
        name = one.partition(":")[0].strip().lower()
        if name not in named:
            raise InputError(f"--train {one}: test questions are asked of {', '.join(named)}, and of no {name}")
        if name in found:
            raise InputError(f"--train {name} is there twice: give each data set once")
        found[name] = one
    for name, source in named.items():
        path = source.partition(":")[2]
        if name in found or not path or Path(path).expanduser().is_dir() or name in _SAME_FILE:
            continue
        raise InputError(
            f"{source} is one file, of test questions: name with --train {name}:PATH the training questions that the "
            "utility reference R is built from, or leave R out with --no-reference; rows are then called w/o R"
        )
    return [found.get(name, source) for name, source in named.items()]


def of_set(training: Questions, name: str) -> list[Any]:
    """The training questions of one data set; where there are several, their ids begin with its name."""
    before = f"{name}/"
    several = "+" in training.dataset
    return [one for one in training.examples if not several or one.id.startswith(before)]


def embedder_of(name: str | None) -> Embedder | str:
    """What R_u embeds with: what is named, or MiniLM where it is installed, or n-grams."""
    from keqa.programs.reference.embedding import open_embedder

    if name is not None:
        return open_embedder(name)
    try:
        found = open_embedder(LOCAL)
        found.embed(["Is it there?"])
    # A package or its weights may be missing, or not fit the machine.
    except (KeqaError, ImportError, OSError):
        return HASHING
    return found


def build_program(
    retriever: Retriever,
    lms: RoleLMs | None,
    training: Questions,
    folder: Path,
    *,
    embedder: Embedder | str = HASHING,
    settings: Mapping[str, Any] | None = None,
    in_flight: int = 8,
    progress: Progress,
    command: str = "",
) -> Built:
    """Build R from the training questions of all sets, each by its set's rule, and save KEQA with it."""
    program = KEQA(retriever, lms=lms, **SETTINGS, **(settings or {}))
    # R_u finds the nearest, whatever their labels. An embedding model is opened before anything is asked.
    reference, examples = UtilityReference(embedder, least=0, form="joint"), list(training.examples)
    place = folder.with_name(f"{folder.name}.work") / "calls.journal"
    with Journal.open(place, {"task": "utility reference"}) as journal, Spending(journal).counting() as spending:
        entries, problems = build_reference(program, examples, Asking(journal, f1, in_flight, progress))
    spent = spending.earlier + spending.spent
    if not entries:
        return Built(None, problems=problems)
    program.picking.reference = reference.fit(entries)
    program.learned = NOTHING.and_from(examples, [])
    counts = reference.counts()
    save(
        program,
        folder,
        questions={"train": len(examples), "validation": 0},
        reference=counts,
        spent=spent.model_dump(include=COUNTED),
        problems=problems,
        command=command,
    )
    return Built(folder, **counts, problems=problems)


def compile_baseline(
    spec: Spec,
    parts: Parts,
    examples: Iterable[Any],
    folder: Path,
    *,
    command: str,
    **options: Any,
) -> bool:
    """Let a method learn from training questions, and save it; whether it learned any demonstrations."""
    work = folder.with_name(f"{folder.name}.work")
    compiled = compile_program(make(spec, parts), list(examples), folder=work, out=folder, **options)
    compiled.save(folder, command=command)
    return any(change.demos_after for change in compiled.report.predictors)


def publish_questions(path: Path, training: Questions | None, tests: Mapping[str, Questions]) -> None:
    """Write down which questions were learned from and which were asked, by id, with the run."""
    names = list(tests)
    published = {
        "seed": 0,
        "train": {} if training is None else {name: [one.id for one in of_set(training, name)] for name in names},
        "test": {name: [one.id for one in found.examples] for name, found in tests.items()},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(published, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def pairs_to_label(entry: Entry, datasets: Iterable[str]) -> list[_Pair]:
    """The quizzes and answers that KEQA's judge compared, each pair once."""
    wanted = set(datasets)
    found: dict[PairKey, _Pair] = {}
    for (dataset, _, _), line in entry.lines.items():
        for quiz in line.quizzes if dataset in wanted else ():
            for first, second, _ in compared_answers(quiz):
                text = str(quiz.resolved)
                found.setdefault(key_of(text, first, second), (text, first, second))
    return list(found.values())


def label_pairs(
    pairs: Iterable[_Pair], lm: dspy.BaseLM, path: Path, *, in_flight: int, progress: Progress
) -> tuple[dict[PairKey, bool], int]:
    """Ask, as D_s is asked, whether the answers of each pair mean the same: the labels, and how many calls failed."""
    pairs = list(pairs)
    judge = Predictor(JudgeConsistency)
    judge.lm = lm
    bound = CallLimiter(in_flight)
    about = {"task": "labels of pairs of answers", "model": lm_spec(lm), "prompt": digest(whole_prompt(judge))}

    def same(pair: _Pair) -> bool | None:
        session, (quiz, first, second) = Session(bound, blocking=True), pair
        try:
            return run_blocking(lambda: session.run(means_the_same(judge, Question(quiz), first, second)))
        except CallError:
            return None

    with dspy.context(adapter=dspy.settings.adapter or adapter(), trace=None):
        found = verdicts(pairs, same, path, about, "same", in_flight, partial(progress, "labelling pairs of answers"))
    return {key_of(*pair): verdict for pair, verdict in found.items()}, len(pairs) - len(found)


def verdicts(
    asked: Collection[_Asked],
    ask: Callable[[_Asked], bool | None],
    path: Path,
    about: Mapping[str, Any],
    name: str,
    in_flight: int,
    progress: Callable[[int, int], None],
) -> dict[_Asked, bool]:
    """What is said of each pair of texts, kept in a journal as it comes; what failed is asked again."""
    found: dict[_Asked, bool] = {}

    def one(pair: _Asked) -> tuple[_Asked, bool | None]:
        key = digest(list(pair))
        if (kept := journal.get(key)) is not None:
            return pair, bool(kept[name])
        if (verdict := ask(pair)) is not None:
            journal.put(key, {name: verdict})
        return pair, verdict

    with Journal.open(path, about) as journal:
        for done, (pair, verdict) in enumerate(in_parallel(one, asked, in_flight), start=1):
            if verdict is not None:
                found[pair] = verdict
            progress(done, len(asked))
    return found
