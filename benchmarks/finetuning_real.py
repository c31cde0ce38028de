"""A small real language model, fine-tuned on gold annotations of real train questions: what it parses and gets right.

    python benchmarks/finetuning_real.py --data FOLDER [--out runs/finetuning-real] [--train 70] [--test 40]

Each prompt of KEQA is learned from annotations that tell its right reply: decompositions and answered quizzes of
MuSiQue (CC BY 4.0), readings of SQuAD (XQuAD's English part, CC BY-SA 4.0) and NQ (CC BY-SA 3.0) from their gold
passages, utility by gold passages and others that came with the question, consistency by aliases and answers to other
questions. No question is both learned from and asked. The model is then asked unseen ones: as it comes, with the fixed
demonstrations, and fine-tuned, without demonstrations. Everything finished is kept: the same command resumes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import dspy
import typer
from common import DATA, Lines
from dspy.utils.exceptions import AdapterParseError
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from keqa.data import Example, load
from keqa.data.quiz_references import references
from keqa.lms import build_lm
from keqa.lms.adapter import adapter
from keqa.lms.local.training import Conversation, TrainingOptions, fine_tune
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import exact_match, normalize
from keqa.optimize.alignment import gold_quizzes
from keqa.programs.predictor import fixed_for
from keqa.signatures import (
    AnswerQuiz,
    AnswerWithKnowledge,
    DecomposeQuestion,
    JudgeConsistency,
    JudgeUtility,
    Summarize,
)

WAYS = ("as it comes", "fixed demonstrations", "fine-tuned")


@dataclass(frozen=True)
class Call:
    """A call whose right reply is known.

    Attributes:
        signature: What is asked.
        inputs: With what.
        outputs: The right reply.
    """

    signature: type[dspy.Signature]
    inputs: dict[str, Any]
    outputs: dict[str, Any]


def learned_from(text: str) -> bool:
    """Whether a question or article without a split of its own is one to learn from; the others are asked."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 1


def readings(data: Path, train: bool) -> list[tuple[str, str, list[str], str]]:
    """Questions with the text and title of the passage that states the answer, and the gold answers."""
    found = []
    for example in load(f"squad:{data / 'squad/xquad.en.json'}").examples:
        [passage] = example.context
        if learned_from(passage.text) == train:
            found.append((example.question, _shown(passage.title, passage.text), list(example.answers), passage.text))
    for line in (data / "nq/nq-open-oracle.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        [context] = record["ctxs"]
        if learned_from(record["question"]) == train:
            passage = _shown(context["title"], context["text"])
            found.append((record["question"], passage, list(record["answers"]), context["text"]))
    return found


def _shown(title: str, text: str) -> str:
    return f"{title}: {text}" if title else text


def calls(data: Path, train: bool, count: int, seed: int) -> list[Call]:
    """At most so many calls of each prompt, in an order of their own."""
    rng = random.Random(seed)
    split = "train" if train else "dev"
    musique = list(load(f"musique:{data / f'musique/musique_ans_v1.0_{split}.jsonl'}").examples)
    read = readings(data, train)
    makers: tuple[Callable[[list[Example], list[Any], random.Random], Iterator[Call]], ...] = (
        _decompositions,
        _memories,
        _readings,
        _utilities,
        _consistencies,
        _summaries,
    )
    found = []
    for make in makers:
        rng.shuffle(musique)
        rng.shuffle(read)
        found += list(itertools.islice(make(musique, read, rng), count))
    return found


def _decompositions(musique: list[Example], read: list[Any], rng: random.Random) -> Iterator[Call]:
    """MuSiQue's own, but for hops written as relations; and as many questions that are their own quiz."""
    for example, (question, *_) in zip(musique, itertools.cycle(read)):
        if not any(">>" in quiz for quiz in example.quizzes):
            yield Call(DecomposeQuestion, {"question": example.question}, {"quizzes": list(example.quizzes)})
            yield Call(DecomposeQuestion, {"question": question}, {"quizzes": [question]})


def _memories(musique: list[Example], read: list[Any], rng: random.Random) -> Iterator[Call]:
    for question, _, answers, _ in read:
        yield Call(AnswerQuiz, {"quiz": question, **_KIND}, {"answer": answers})


def _readings(musique: list[Example], read: list[Any], rng: random.Random) -> Iterator[Call]:
    """From the passage that states it, every second time beside one that does not."""
    for place, (question, passage, answers, text) in enumerate(read):
        stated = [answer for answer in answers if answer in text]
        passages = [passage] if place % 2 else [passage, read[place - 1][1]]
        rng.shuffle(passages)
        if stated:
            inputs = {"passages": passages, "evidence": [], "triples": [], "question": question, **_KIND}
            yield Call(AnswerWithKnowledge, inputs, {"answer": [*stated, *answers]})


def _utilities(musique: list[Example], read: list[Any], rng: random.Random) -> Iterator[Call]:
    """A hop with the paragraph that supports it, and with the most similar one that does not name the answer."""
    for example in musique:
        quizzes = gold_quizzes(example)
        if not quizzes or ">>" in quizzes[0][0]:
            continue
        quiz, answer = quizzes[0]
        useful = [one for one in example.context if one.role == "supporting" and contains_answer(one.text, [answer])]
        others = [
            one for one in example.context if one.role != "supporting" and not contains_answer(one.text, [answer])
        ]
        if useful and others:
            alike = max(others, key=lambda one: len(_words(one.title + one.text) & _words(quiz)))
            for passage, helpful in ((useful[0], True), (alike, False)):
                shown = {"passage": _shown(passage.title, passage.text), "quiz": quiz}
                yield Call(JudgeUtility, shown, {"helpful": helpful})


def _consistencies(musique: list[Example], read: list[Any], rng: random.Random) -> Iterator[Call]:
    with_aliases = [example for example in musique if len(example.answers) > 1]
    for example, (question, _, answers, _), other in zip(
        with_aliases, itertools.cycle(read), itertools.cycle(read[1:])
    ):
        first, second = example.answers[:2]
        pairs = ((example.question, first, second, True), (question, answers[0], other[2][0], False))
        for quiz, one, another, same in pairs:
            asked = {"quiz": quiz, "first_answer": one, "second_answer": another}
            yield Call(JudgeConsistency, asked, {"same": same})


def _summaries(musique: list[Example], read: list[Any], rng: random.Random) -> Iterator[Call]:
    for example in musique:
        quizzes = gold_quizzes(example)
        if quizzes and not any(">>" in quiz for quiz, _ in quizzes):
            pairs = [f"{quiz} {answer}" for quiz, answer in quizzes]
            inputs = {"question": example.question, "answered_quizzes": pairs, **_KIND}
            yield Call(
                Summarize,
                inputs,
                {"explanation": " ".join(f"{pair}." for pair in pairs), "answer": list(example.answers)},
            )


_KIND: dict[str, Any] = {"answer_type": "short", "choices": []}


def _words(text: str) -> set[str]:
    return set(normalize(text).split())


def conversations(shown: Sequence[Call], seed: int) -> list[Conversation]:
    """What is trained on, in random order."""
    format_ = adapter()
    found = []
    for call in shown:
        outputs = {name: value[0] if name == "answer" else value for name, value in call.outputs.items()}
        found.append(Conversation.of(format_.format_finetune_data(call.signature, [], call.inputs, outputs)))
    random.Random(seed).shuffle(found)
    return found


def right(call: Call, said: dspy.Prediction) -> float:
    """Whether a reply says what the right one says: of a decomposition, whether its quizzes refer to each other so."""
    if "answer" in call.outputs:
        return exact_match(said.answer, call.outputs["answer"])
    if "quizzes" in call.outputs:
        shapes = [[sorted(set(references(quiz))) for quiz in some] for some in (said.quizzes, call.outputs["quizzes"])]
        return float(shapes[0] == shapes[1])
    [(name, value)] = call.outputs.items()
    return float(getattr(said, name) is value)


def ask(call: Call, lm: dspy.LM, demonstrated: bool) -> dict[str, Any]:
    """One call at temperature 0: whether its reply could be read, and was right."""
    demos = fixed_for(call.signature.__name__, call.signature, lm) if demonstrated else []
    try:
        with dspy.context(lm=lm, adapter=adapter()):
            said = dspy.Predict(call.signature)(**call.inputs, demos=demos)
        parsed, score = True, right(call, said)
    except AdapterParseError:
        parsed, score = False, 0.0
    return {"parsed": parsed, "right": score}


def main(
    data: Annotated[Path, typer.Option(help="Folder with musique, squad and nq in their original layouts.")] = DATA,
    out: Annotated[Path, typer.Option(help="Folder where finished work is kept.")] = Path("runs/finetuning-real"),
    lm: Annotated[str, typer.Option(help="The language model, of this process.")] = "local/smollm2",
    train: Annotated[int, typer.Option(help="Calls of each prompt to learn from.")] = 70,
    test: Annotated[int, typer.Option(help="Calls of each prompt to ask.")] = 40,
    epochs: Annotated[int, typer.Option(help="Of training.")] = 1,
    rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 1e-3,
    rank: Annotated[int, typer.Option(help="Of LoRA.")] = 16,
    in_flight: Annotated[int, typer.Option(help="Calls at once.")] = 16,
) -> None:
    console = Console()
    options = TrainingOptions(epochs=epochs, rate=rate, rank=rank)
    folder = out / f"{lm.replace('/', '-')}-{train}-{epochs}-{rate:g}-{rank}"
    shown = conversations(calls(data, True, train, 0), 0)
    with Progress(console=console) as bars:
        bar = bars.add_task("fine-tuning", total=None)
        trained = fine_tune(
            lm,
            shown,
            folder,
            options,
            progress=lambda step, steps, loss: bars.update(
                bar, completed=step, total=steps, description=f"fine-tuning, loss {loss:.2f}"
            ),
        )
    asked = calls(data, False, test, 1)
    lines = Lines(out / f"{folder.name}.jsonl")
    done = {(line["way"], line["number"]) for line in lines.done}
    for way in WAYS:
        model = build_lm(trained.model if way == "fine-tuned" else lm, cache=False, max_tokens=128)
        wanted = [(number, call) for number, call in enumerate(asked) if (way, number) not in done]

        def one(item: tuple[int, Call], way: str = way, model: dspy.LM = model) -> dict[str, Any]:
            number, call = item
            found = ask(call, model, way == "fixed demonstrations")
            return {"way": way, "number": number, "signature": call.signature.__name__, **found}

        with ThreadPoolExecutor(in_flight) as pool, Progress(console=console) as bars:
            for line in bars.track(pool.map(one, wanted), total=len(wanted), description=way):
                lines.add(line)
    report(lines.done, console)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    console.print(
        f"{trained.conversations} conversations, {trained.minutes:.0f} minutes, {size:.1f} MB", highlight=False
    )
    print(json.dumps(summary(lines.done) | {"minutes": round(trained.minutes, 1), "megabytes": round(size, 1)}))


def summary(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The share that parsed and was right, by way and prompt."""
    found: dict[str, Any] = {}
    for way in WAYS:
        names = sorted({line["signature"] for line in lines if line["way"] == way})
        of = {name: [line for line in lines if (line["way"], line["signature"]) == (way, name)] for name in names}
        found[way] = {
            name: {
                "asked": len(some),
                **{what: round(fmean(line[what] for line in some), 3) for what in ("parsed", "right")},
            }
            for name, some in of.items()
        }
    return found


def report(lines: Sequence[dict[str, Any]], console: Console) -> None:
    """A table of `summary`."""
    table = Table("prompt", *(f"{way}: {what}" for way in WAYS for what in ("parsed", "right")))
    shares = summary(lines)
    for name in sorted({line["signature"] for line in lines}):
        cells = (shares[way].get(name, {}).get(what) for way in WAYS for what in ("parsed", "right"))
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" for cell in cells))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
