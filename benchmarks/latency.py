"""How close the program comes to the calls that must wait for each other, against a server of fixed latency.

    python benchmarks/latency.py [--latency 0.25] [--quizzes 4] [--passages 10] [--repeat 3]

Three figures, each from one run of one process:

* wall time over the latency of the calls that must wait for each other (target: at most 1.15);
* wall time of Algorithms 1 and 2 run plainly, one call after the other, over the program's (target: at least 5);
* the program's requests and samples over those of the full algorithms, with the same verdicts.

Half of the quizzes are known to the server, the others are answered differently each time. The program has workers for
all calls that may go side by side, since waiting for a worker is no part of that.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
import threading
import time
from typing import Any

import common
import dspy
from common import Beside, Finds
from servers.openai_server import OpenAIServer, markers

from keqa.lms import build_lm
from keqa.lms.adapter import adapter
from keqa.metrics.answers import same_answer
from keqa.programs import KEQA

_AFTER_ONE_ANOTHER = 8
"""Decomposition, two waves of draws, two turns of judging answers, judging passages, answer and summary."""
QUESTION = "Which of the lakes is the deepest?"


def lakes(count: int) -> Finds:
    """So many passages for every query, of which the first helps."""
    return Finds("Lakes", [f"Passage {number} on lakes." for number in range(count)])


class Replies:
    """What the server says."""

    def __init__(self, quizzes: int) -> None:
        self.quizzes = [f"How deep is lake {i}?" for i in range(quizzes)]
        self.known = set(self.quizzes[: quizzes // 2])
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def __call__(self, messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        """A reply of each kind, recognised by the instructions."""
        system, prompt = messages[0]["content"], messages[-1]["content"]
        if "Answer the quiz from memory" in system:
            if re.search(r"\[\[ ## quiz ## \]\]\n(.*)", prompt)[1].strip() in self.known:  # type: ignore[index]
                return [markers(answer="100 metres")] * n
            with self._lock:
                return [markers(answer=f"{next(self._numbers)} feet") for _ in range(n)]
        fields = {
            "Break the question": {"quizzes": json.dumps(self.quizzes)},
            "Judge whether the two": {"same": "False"},
            "Judge whether the passage": {"helpful": str("Passage 0 " in prompt)},
            "Explain what": {"explanation": "The deepest is lake 0.", "answer": "lake 0"},
        }
        said = next((said for begin, said in fields.items() if begin in system), {"answer": "90 metres"})
        return [markers(**said)] * n


def replying(quizzes: int) -> Beside:
    """A server that replies at once, in a process of its own; its `count` is how many requests came."""
    return Beside(_server, quizzes)


def _server(quizzes: int) -> OpenAIServer:
    return OpenAIServer(reply=Replies(quizzes))


def plain(program: KEQA, retriever: Finds, question: str) -> tuple[list[bool], int, int]:
    """Algorithms 1 and 2 as they are written: verdicts, requests and samples."""
    asked = {"answer_type": "short", "choices": []}
    requests = samples = 0
    verdicts, answered = [], []
    for quiz in program.decomposition.decompose(question=question).quizzes:
        clusters: list[list[str]] = []
        for _ in range(program.examination.tries):
            draw = {"temperature": 1.0, "rollout_id": samples}
            text = program.examination.quiz(quiz=quiz, **asked, config=draw).answer
            requests, samples = requests + 1, samples + 1
            for members in clusters:
                if not same_answer(text, members[0]):
                    requests += 1
                    judged = program.examination.same(quiz=quiz, first_answer=text, second_answer=members[0])
                    if not judged.same:
                        continue
                members.append(text)
                break
            else:
                clusters.append([text])
        largest = max(clusters, key=len)
        verdicts.append(len(largest) * 5 >= 4 * program.examination.tries)
        answer = largest[0]
        if not verdicts[-1]:
            passages = [hit.passage.rendered for hit in retriever.search(quiz)]
            kept = [text for text in passages if program.picking.judge(quiz=quiz, passage=text).helpful]
            requests += len(passages) + 1
            given = {"passages": kept, "evidence": [], "triples": [], "question": quiz}
            answer = program.answering.answer(**given, **asked).answer
        answered.append(f"{quiz} {answer}")
    program.summarizing.summarize(question=question, answered_quizzes=answered, **asked)
    return verdicts, requests + 2, samples


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--latency", type=float, default=0.25)
    parser.add_argument("--quizzes", type=int, default=4)
    parser.add_argument("--passages", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    retriever = lakes(options.passages)
    with OpenAIServer(reply=Replies(options.quizzes), latency=options.latency) as server:
        lm = build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False)
        # The algorithms as the papers have them: they end in a guess where the passages say nothing.
        program = KEQA(retriever, workers=options.quizzes * options.passages, unanswered="guess")
        program.set_lm(lm)
        program(question=QUESTION)  # imports LiteLLM and opens connections
        runs = []
        for _ in range(options.repeat):
            server.calls.clear()
            started = time.perf_counter()
            record = program(question=QUESTION).record
            runs.append((time.perf_counter() - started, record, len(server.calls), sum(c.n for c in server.calls)))
        server.calls.clear()
        started = time.perf_counter()
        with dspy.context(adapter=adapter()):
            verdicts, requests, _ = plain(program, retriever, QUESTION)
        sequential = time.perf_counter() - started
        assert requests == len(server.calls)
    wall, record, ours, drawn = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    assert [quiz.known for quiz in record.quizzes] == verdicts, "the verdicts differ"
    path = _AFTER_ONE_ANOTHER * options.latency
    over = statistics.median(run[0] / path for run in runs)
    print(f"latency of a call             {options.latency:.3f} s, {options.quizzes} independent quizzes")
    print(f"wall time                     {wall:.2f} s (median of {len(runs)} runs)")
    print(f"calls after one another       {_AFTER_ONE_ANOTHER}, {path:.2f} s (the search takes no time)")
    print(f"wall / these                  {over:.3f} (target: at most 1.15)")
    print(f"plain sequential run          {sequential:.2f} s, {requests} requests")
    print(f"sequential / ours             {sequential / wall:.2f} (target: at least 5)")
    print(f"requests, ours / full         {ours}/{requests} = {ours / requests:.2f}")
    print(f"replies, ours / full          {drawn}/{requests} = {drawn / requests:.2f} (each of n samples counted)")
    return 0 if over <= 1.15 and sequential / wall >= 5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
