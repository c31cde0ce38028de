"""How close the program comes to the calls that must wait for each other, against a server of fixed latency.

    python benchmarks/latency.py [--latency 0.25]

Four independent quizzes, of which the server knows half and answers the others differently each time; ten passages a
quiz. Wall time over the latency of the calls that must wait for each other is to be at most 1.15, that of Algorithms 1
and 2 run plainly, one call after the other, at least 5 times the program's. The program has workers for all calls that
may go side by side, since waiting for a worker is no part of that.
"""

import itertools
import json
import threading
from statistics import median
from typing import Any

import common
import dspy
from common import Beside, Finds, show, timed
from servers.openai_server import OpenAIServer, inputs_of, markers

from keqa.lms import build_lm
from keqa.metrics.answers import same_answer
from keqa.programs import KEQA
from keqa.signatures.chat_format import adapter

_AFTER_ONE_ANOTHER = 8
"""Decomposition, two waves of draws, two turns of judging answers, judging passages, answer and summary."""
QUIZZES, PASSAGES, REPEAT = 4, 10, 3
QUESTION = "Which of the lakes is the deepest?"


def lakes(count: int) -> Finds:
    """So many passages for every query, of which the first helps."""
    return Finds("Lakes", [f"Passage {number} on lakes." for number in range(count)])


class Replies:
    def __init__(self, quizzes: int) -> None:
        self.quizzes = [f"How deep is lake {i}?" for i in range(quizzes)]
        self.known = set(self.quizzes[: quizzes // 2])
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def __call__(self, messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        """A reply of each kind, recognised by the instructions."""
        system, prompt = messages[0]["content"], messages[-1]["content"]
        if "Answer the quiz from memory" in system:
            if inputs_of(prompt)["quiz"] in self.known:
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


def plain(program: KEQA, retriever: Finds, question: str) -> tuple[list[bool], int]:
    """Algorithms 1 and 2 as they are written: verdicts and requests."""
    asked = {"answer_type": "short", "choices": []}
    requests, verdicts, answered = 2, [], []
    for quiz in program.decomposition.decompose(question=question).quizzes:
        clusters: list[list[str]] = []
        for _ in range(program.examination.tries):
            draw = {"temperature": 1.0, "rollout_id": requests}
            text = program.examination.quiz(quiz=quiz, **asked, config=draw).answer
            requests += 1
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
    return verdicts, requests


def main() -> int:
    latency = common.options(__doc__, latency=0.25).latency
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    retriever = lakes(PASSAGES)
    with OpenAIServer(reply=Replies(QUIZZES), latency=latency) as server:
        # The algorithms as the papers have them: they end in a guess where the passages say nothing.
        program = KEQA(retriever, workers=QUIZZES * PASSAGES, unanswered="guess")
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        program(question=QUESTION)  # imports LiteLLM and opens connections
        times = []
        for _ in range(REPEAT):
            server.calls.clear()
            seconds, said = timed(lambda: program(question=QUESTION))
            times.append(seconds)
        ours = len(server.calls)
        server.calls.clear()
        with dspy.context(adapter=adapter()):
            sequential, (verdicts, requests) = timed(lambda: plain(program, retriever, QUESTION))
        assert requests == len(server.calls)
    assert [quiz.known for quiz in said.record.quizzes] == verdicts, "the verdicts differ"
    wall, path = median(times), _AFTER_ONE_ANOTHER * latency
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


if __name__ == "__main__":
    raise SystemExit(main())
