"""Asking more than once: rollouts of a program, and samples in one request."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dspy

import keqa
from dspy_uses.checks import Module, expect
from dspy_uses.scripted import QUESTION, language_model, program, roles, search


def best_of_n_and_refine() -> None:
    """BestOfN, Refine."""
    for kind in (dspy.BestOfN, dspy.Refine):
        best = kind(program(), 2, lambda arguments, prediction: float(prediction.answer == "Norway"), 1.0)
        expect(best(question=QUESTION).record.answer, "Norway")


def best_of_n_and_refine_in_a_parent() -> None:
    """BestOfN, Refine over a module with a program in it."""
    for kind in (dspy.BestOfN, dspy.Refine):
        lm, drawn = language_model(), []

        def reward(arguments: dict, prediction: dspy.Prediction, drawn: list = drawn, lm: dspy.LM = lm) -> float:
            drawn.append({str(seed) for seed in lm.engine.seeds})
            return 0.0

        with dspy.context(lm=lm):
            answered = kind(Module(keqa.KEQA(search)), 2, reward, 1.0)(question=QUESTION)
        expect((answered.answer, drawn[0] < drawn[1]), ("Norway", True))


def best_of_n_with_an_lm_a_role() -> None:
    """get_lm and BestOfN with an LM a role."""
    asked = keqa.KEQA(search, lms=roles())
    expect(asked.get_lm().model, "scripted/task")
    expect(dspy.BestOfN(asked, 2, lambda arguments, prediction: 1.0, 1.0)(question=QUESTION).answer, "Norway")


def rollouts_differ() -> None:
    """Rollouts differ."""
    drawn = []
    for rollout in (0, 1):
        lm = language_model()
        program(lm.copy(rollout_id=rollout, temperature=1.0))(question=QUESTION)
        drawn.append(sorted({str(seed) for seed in lm.engine.seeds}))
    expect(drawn[0] == drawn[1], False)


def a_plain_lm_draws_in_one_request() -> None:
    """A plain dspy.LM draws samples in one request."""
    asked: list[int] = []

    class Server(BaseHTTPRequestHandler):
        """A server of OpenAI's interface."""

        def do_POST(self) -> None:
            """Answer as often as is asked for."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body.get("n") or 1)
            message = {"role": "assistant", "content": "[[ ## answer ## ]]\nBergen\n\n[[ ## completed ## ]]"}
            choices = [{"index": n, "message": message, "finish_reason": "stop"} for n in range(asked[-1])]
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
            data = json.dumps(reply | {"usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *line: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        lm = dspy.LM("openai/m", api_base=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", cache=False)
        expect(program(lm, decompose=False)(question=QUESTION).answer, "Bergen")
        server.shutdown()
    expect(asked, [4])
