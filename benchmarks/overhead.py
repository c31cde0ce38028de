"""What a call to a language model costs in CPU, beside the libraries below; or what waiting for slow calls costs.

    python benchmarks/overhead.py [--calls 300] [--questions 24] [--rounds 3]

A chat server of its own process answers at once, so what is measured is the client: the openai library, LiteLLM, a bare
DSPy predictor with DSPy's own client and with LiteLLM, the closed book and KEQA, the last two over many questions at
once. CPU seconds divided by requests, the median of several rounds that take turns, since the machine is never quiet.
What counts are the ratios over bare DSPy with its own client (target: at most 1.5). KEQA asks this server without
LiteLLM; "closed book, LiteLLM" is what a model costs that has to go through it.

    python benchmarks/overhead.py --latency 0.25

Every call takes so long; four independent quizzes, of which the server knows half and answers the others differently
each time; ten passages a quiz, and workers for all calls that may go side by side. Wall time over the latency of the
calls that must wait for each other is to be at most 1.15, that of Algorithms 1 and 2 run plainly, one call after the
other, at least 5 times the program's.

    python benchmarks/overhead.py --run 10000

How many questions a second a closed-book run keeps, and whether its memory stays flat: a tenth of the questions, then
all, in processes of their own. What counts is the ratio of the peaks of memory.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import dspy
import openai
from common import Finds, alone, options, show, timed
from lakes import QUESTION, Replies, lakes, replying
from servers.openai_server import OpenAIServer

from keqa.evaluation.evaluate import evaluate
from keqa.lms import build_lm, build_roles
from keqa.metrics.answers import same_answer
from keqa.programs import KEQA
from keqa.programs.baselines import ClosedBook
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz
from keqa.storage.replies import quiet_litellm

QUIZZES, PASSAGES, TARGET = 4, 5, 1.5
WAITED_PASSAGES, REPEAT = 10, 3
AFTER_ONE_ANOTHER = 8
"""Decomposition, two waves of draws, two turns of judging answers, judging passages, answer and summary."""


def ways(api_base: str, calls: int, questions: int) -> dict[str, Callable[[], Any]]:
    at: dict[str, Any] = {"api_base": api_base, "api_key": "any"}
    uncached = {**at, "cache": False, "num_retries": 0}
    inputs = [{"quiz": f"How deep is lake {number}?", "answer_type": "short", "choices": []} for number in range(calls)]
    request = {"messages": adapter().format(AnswerQuiz, [], inputs[0]), "temperature": 0.0}
    client, litellm = openai.OpenAI(base_url=api_base, api_key="any", max_retries=0), quiet_litellm()

    def times(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [call() for _ in range(calls)]

    def bare(engine: str) -> Callable[[], None]:
        predict = dspy.Predict(AnswerQuiz)
        predict.lm = dspy.LM("openai/scripted", engine=engine, temperature=0.0, **uncached)

        def run() -> None:
            with dspy.context(adapter=adapter()):
                for one in inputs:
                    predict(**one)

        return run

    def whole(program: Any, model: str, count: int) -> Callable[[], None]:
        program.set_lm(build_lm(model, **uncached))

        def run() -> None:
            asked = [f"Which of the lakes is the deepest, {number}?" for number in range(count)]
            failed = [outcome.error for outcome in program.answer_many(asked) if outcome.error]
            assert not failed, failed[0]

        return run

    return {
        "openai client": times(lambda: client.chat.completions.create(model="scripted", **request)),
        "LiteLLM": times(lambda: litellm.completion("openai/scripted", **at, **request)),
        "DSPy": bare("lm15"),
        "DSPy, LiteLLM": bare("litellm"),
        "closed book": whole(ClosedBook(), "openai/scripted", calls),
        # LiteLLM knows its price.
        "closed book, LiteLLM": whole(ClosedBook(), "openai/gpt-4o-mini", calls),
        # Bare DSPy shows no demonstrations either.
        "KEQA": whole(KEQA(lakes(PASSAGES), demonstrations=False), "openai/scripted", questions),
    }


def costs(calls: int, questions: int, rounds: int) -> int:
    spent: dict[str, list[tuple[float, float]]] = {}
    with replying(QUIZZES) as server:
        every = ways(server.api_base, calls, questions)
        for turn in range(rounds + 1):
            for name, run in every.items():
                before, burnt = server.ask("count"), time.process_time()
                clock, _ = timed(run)
                burnt, made = time.process_time() - burnt, server.ask("count") - before
                if turn:  # The first turn imports and connects.
                    spent.setdefault(name, []).append((1000 * burnt / made, made / clock))
    cpu, rate = ({name: median(one[place] for one in found) for name, found in spent.items()} for place in (0, 1))
    over = {name: used / cpu["DSPy"] for name, used in cpu.items()}
    columns = {"CPU ms a call": cpu, "over DSPy": over, "calls a second": rate}
    show(({"way": name, **{column: of[name] for column, of in columns.items()}} for name in cpu), digits=2)
    return 0 if max(over["closed book"], over["KEQA"]) <= TARGET else 1


def plain(program: KEQA, retriever: Finds, question: str) -> list[bool]:
    """Algorithms 1 and 2 as they are written, one call after the other: the verdicts."""
    asked = {"answer_type": "short", "choices": []}
    verdicts, answered = [], []
    judge, tries = program.examination.same, program.examination.tries
    for quiz in program.decomposition.decompose(question=question).quizzes:
        clusters: list[list[str]] = []
        for number in range(tries):
            draw = {"temperature": 1.0, "rollout_id": number}
            text = program.examination.quiz(quiz=quiz, **asked, config=draw).answer
            for members in clusters:
                one = members[0]
                if same_answer(text, one) or judge(quiz=quiz, first_answer=text, second_answer=one).same:
                    members.append(text)
                    break
            else:
                clusters.append([text])
        largest = max(clusters, key=len)
        verdicts.append(len(largest) * 5 >= 4 * tries)
        answer = largest[0]
        if not verdicts[-1]:
            passages = [hit.passage.rendered for hit in retriever.search(quiz)]
            kept = [text for text in passages if program.picking.judge(quiz=quiz, passage=text).helpful]
            given = {"passages": kept, "evidence": [], "triples": [], "question": quiz}
            answer = program.answering.answer(**given, **asked).answer
        answered.append(f"{quiz} {answer}")
    program.summarizing.summarize(question=question, answered_quizzes=answered, **asked)
    return verdicts


def waits(latency: float) -> int:
    retriever = lakes(WAITED_PASSAGES)
    with OpenAIServer(reply=Replies(QUIZZES), latency=latency) as server:
        # The algorithms as the papers have them: they end in a guess where the passages say nothing.
        program = KEQA(retriever, workers=QUIZZES * WAITED_PASSAGES, unanswered="guess")
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        # The first one imports LiteLLM and opens connections.
        times = [timed(lambda: program(question=QUESTION)) for _ in range(REPEAT + 1)][1:]
        ours = server.count / (REPEAT + 1)
        server.calls.clear()
        with dspy.context(adapter=adapter()):
            sequential, verdicts = timed(lambda: plain(program, retriever, QUESTION))
        requests = server.count
    assert [quiz.known for quiz in times[-1][1].record.quizzes] == verdicts, "the verdicts differ"
    wall, path = median(seconds for seconds, _ in times), AFTER_ONE_ANOTHER * latency
    figures = {
        "wall time, s": wall,
        "calls after one another, s": path,
        "wall time over these (at most 1.15)": wall / path,
        "plain sequential run, s": sequential,
        "that over the wall time (at least 5)": sequential / wall,
        "requests over those of the plain run": ours / requests,
    }
    show({"figure": name, "measured": value} for name, value in figures.items())
    return 0 if wall / path <= 1.15 and sequential / wall >= 5 else 1


def kept(count: int, api_base: str, folder: Path) -> dict[str, float]:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    rows = [{"id": f"q{one}", "question": f"How deep is lake {one}?", "answer": "90 metres"} for one in range(count)]
    program = ClosedBook(lms=build_roles("openai/scripted", api_base=api_base, api_key="any"))
    seconds, tally = timed(lambda: evaluate(program, rows, out=folder / f"{count}.jsonl", in_flight=16))
    return {"questions": tally.done, "a second": tally.done / seconds, "failed": tally.failed}


def runs(count: int) -> int:
    with tempfile.TemporaryDirectory() as folder, replying(QUIZZES) as server:
        rows = [alone(kept, questions, server.api_base, Path(folder)) for questions in (count // 10, count)]
    show(rows, digits=1)
    print(f"ten times the questions take {rows[1]['peak_mb'] / rows[0]['peak_mb']:.2f} times the memory")
    return 0


def main() -> int:
    given = options(__doc__, calls=300, questions=24, rounds=3, latency=float, run=int)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    if given.run:
        return runs(given.run)
    return waits(given.latency) if given.latency else costs(given.calls, given.questions, given.rounds)


if __name__ == "__main__":
    raise SystemExit(main())
