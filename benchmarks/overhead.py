"""What a call to a language model costs in CPU before anything is computed: KEQA beside the libraries it stands on.

    python benchmarks/overhead.py [--calls 300] [--questions 24] [--rounds 3]

A chat server of its own process answers at once, so what is measured is the client: the openai library, LiteLLM, a bare
DSPy predictor with DSPy's own client and with LiteLLM, the closed book and KEQA, the last two over many questions at
once as `answer_many` asks them. CPU seconds of this process divided by requests, the median of several rounds that take
turns, since the machine is never quiet. What counts are the ratios over bare DSPy with its own client (target: at most
1.5). KEQA asks this server without LiteLLM; "closed book, LiteLLM" is what a model costs that has to go through it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import dspy
import openai
from latency import lakes, replying
from rich.console import Console
from rich.table import Table

from keqa.lms import build_lm
from keqa.lms.adapter import adapter
from keqa.lms.direct import quiet_litellm
from keqa.programs import KEQA
from keqa.programs.baselines import ClosedBook
from keqa.signatures import AnswerQuiz

QUIZZES, PASSAGES, TARGET = 4, 5, 1.5


class Client:
    """The ways to make calls, and how many requests each of them makes."""

    def __init__(self, api_base: str, calls: int, questions: int) -> None:
        """Set up every way once; nothing is cached."""
        self.calls, self.questions, self.api_base = calls, questions, api_base
        self.lm = build_lm("openai/scripted", api_base=api_base, api_key="any", cache=False, num_retries=0)
        self.openai = openai.OpenAI(base_url=api_base, api_key="any", max_retries=0)
        self.litellm = quiet_litellm()
        self.predict, self.predict_litellm = dspy.Predict(AnswerQuiz), dspy.Predict(AnswerQuiz)
        for predict, engine in ((self.predict, "lm15"), (self.predict_litellm, "litellm")):
            settings = {"api_base": api_base, "api_key": "any", "cache": False, "num_retries": 0, "temperature": 0.0}
            predict.lm = dspy.LM("openai/scripted", engine=engine, **settings)
        self.messages = adapter().format(AnswerQuiz, [], self._inputs(0))
        self.closed_book = ClosedBook()
        self.closed_book.set_lm(self.lm)
        # LiteLLM knows its price.
        self.closed_book_litellm = ClosedBook()
        self.closed_book_litellm.set_lm(
            build_lm("openai/gpt-4o-mini", api_base=api_base, api_key="any", cache=False, num_retries=0)
        )
        self.keqa = KEQA(lakes(PASSAGES))
        self.keqa.set_lm(self.lm)

    @staticmethod
    def _inputs(number: int) -> dict[str, Any]:
        return {"quiz": f"How deep is lake {number}?", "answer_type": "short", "choices": []}

    def ways(self) -> dict[str, Callable[[], Any]]:
        """Each way by its name."""
        return {
            "openai client": self._openai,
            "LiteLLM": self._litellm,
            "DSPy": lambda: self._dspy(self.predict),
            "DSPy, LiteLLM": lambda: self._dspy(self.predict_litellm),
            "closed book": lambda: self._program(self.closed_book, self.calls),
            "closed book, LiteLLM": lambda: self._program(self.closed_book_litellm, self.calls),
            "KEQA": lambda: self._program(self.keqa, self.questions),
        }

    def _openai(self) -> None:
        for _ in range(self.calls):
            self.openai.chat.completions.create(model="scripted", messages=self.messages, temperature=0.0)

    def _litellm(self) -> None:
        for _ in range(self.calls):
            self.litellm.completion(
                "openai/scripted", messages=self.messages, api_base=self.api_base, api_key="any", temperature=0.0
            )

    def _dspy(self, predict: dspy.Predict) -> None:
        with dspy.context(adapter=adapter()):
            for number in range(self.calls):
                predict(**self._inputs(number))

    def _program(self, program: Any, questions: int) -> None:
        asked = [f"Which of the lakes is the deepest, {number}?" for number in range(questions)]
        failed = [outcome.error for outcome in program.answer_many(asked) if outcome.error]
        assert not failed, failed[0]


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--calls", type=int, default=300, help="calls of each way but KEQA in a round")
    parser.add_argument("--questions", type=int, default=24, help="questions of KEQA in a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with replying(QUIZZES) as server:
        client = Client(server.api_base, options.calls, options.questions)
        cpu: dict[str, list[float]] = {name: [] for name in client.ways()}
        rate: dict[str, list[float]] = {name: [] for name in client.ways()}
        for turn in range(options.rounds + 1):
            for name, run in client.ways().items():
                before, clock, burnt = server.ask("count"), time.perf_counter(), time.process_time()
                run()
                burnt, clock = time.process_time() - burnt, time.perf_counter() - clock
                made = server.ask("count") - before
                if turn:  # The first turn imports and connects.
                    cpu[name].append(burnt / made)
                    rate[name].append(made / clock)
    middle = {name: statistics.median(found) for name, found in cpu.items()}
    table = Table("way", "CPU ms a call", "over DSPy", "over DSPy, LiteLLM", "calls a second")
    for name, seconds in middle.items():
        over = [f"{seconds / middle[bare]:.2f}" for bare in ("DSPy", "DSPy, LiteLLM")]
        table.add_row(name, f"{1000 * seconds:.2f}", *over, f"{statistics.median(rate[name]):.0f}")
    Console().print(table)
    return 0 if max(middle["closed book"], middle["KEQA"]) <= TARGET * middle["DSPy"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
