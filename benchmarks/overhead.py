"""What a call to a language model costs in CPU before anything is computed: KEQA beside the libraries it stands on.

    python benchmarks/overhead.py [--calls 300] [--questions 24] [--rounds 3]

A chat server of its own process answers at once, so what is measured is the client: the openai library, LiteLLM, a bare
DSPy predictor with DSPy's own client and with LiteLLM, the closed book and KEQA, the last two over many questions at
once as `answer_many` asks them. CPU seconds of this process divided by requests, the median of several rounds that take
turns, since the machine is never quiet. What counts are the ratios over bare DSPy with its own client (target: at most
1.5). KEQA asks this server without LiteLLM; "closed book, LiteLLM" is what a model costs that has to go through it.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import common
import dspy
import openai
from common import show
from latency import lakes, replying

from keqa.lms import build_lm
from keqa.lms.direct import quiet_litellm
from keqa.programs import KEQA
from keqa.programs.baselines import ClosedBook
from keqa.signatures import AnswerQuiz
from keqa.signatures.chat_format import adapter

QUIZZES, PASSAGES, TARGET = 4, 5, 1.5


def ways(api_base: str, calls: int, questions: int) -> dict[str, Callable[[], Any]]:
    """The ways to make calls, each set up once; nothing is cached."""
    at: dict[str, Any] = {"api_base": api_base, "api_key": "any"}
    uncached = {**at, "cache": False, "num_retries": 0}
    inputs = [{"quiz": f"How deep is lake {number}?", "answer_type": "short", "choices": []} for number in range(calls)]
    said = {"messages": adapter().format(AnswerQuiz, [], inputs[0]), "temperature": 0.0}
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
        "openai client": times(lambda: client.chat.completions.create(model="scripted", **said)),
        "LiteLLM": times(lambda: litellm.completion("openai/scripted", **at, **said)),
        "DSPy": bare("lm15"),
        "DSPy, LiteLLM": bare("litellm"),
        "closed book": whole(ClosedBook(), "openai/scripted", calls),
        # LiteLLM knows its price.
        "closed book, LiteLLM": whole(ClosedBook(), "openai/gpt-4o-mini", calls),
        "KEQA": whole(KEQA(lakes(PASSAGES)), "openai/scripted", questions),
    }


def main() -> int:
    options = common.options(__doc__, calls=300, questions=24, rounds=3)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with replying(QUIZZES) as server:
        every = ways(server.api_base, options.calls, options.questions)
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in every}
        for turn in range(options.rounds + 1):
            for name, run in every.items():
                before, clock, burnt = server.ask("count"), time.perf_counter(), time.process_time()
                run()
                burnt, clock = time.process_time() - burnt, time.perf_counter() - clock
                made = server.ask("count") - before
                if turn:  # The first turn imports and connects.
                    spent[name].append((1000 * burnt / made, made / clock))
    cpu = {name: median(burnt for burnt, _ in found) for name, found in spent.items()}
    rate = {name: median(rates for _, rates in found) for name, found in spent.items()}
    over = [
        {"way": name, "CPU ms a call": used, "over DSPy": used / cpu["DSPy"], "calls a second": rate[name]}
        for name, used in cpu.items()
    ]
    show(over, digits=2)
    return 0 if max(cpu["closed book"], cpu["KEQA"]) <= TARGET * cpu["DSPy"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
