"""Asks the model of a folder through vLLM's engine in this process, and prints as JSON what comes of it."""

import json
import sys

import dspy
from dspy.lm15 import Config, Message, Request

from keqa.lms import build_lm
from keqa.programs.baselines import ClosedBook


def main():
    lm = build_lm(f"vllm/{sys.argv[1]}", cache=False, max_tokens=64)
    program = ClosedBook(demonstrations=False)
    program.set_lm(lm)
    found = {"answers": {outcome.item: outcome.answer for outcome in program.answer_many(json.load(sys.stdin))}}

    def drawn(seed):
        return str(lm("Hello.", temperature=1.0, seed=seed)[0])

    found["drawn"], found["again"] = ([drawn(seed) for seed in range(5)] for _ in range(2))
    long = Request(model=lm.model, messages=(Message.user("Hi"),), config=Config(max_tokens=4000, temperature=1.0))
    lm.engine.submit(long).cancel()
    found["after a cancelled one"] = drawn(0)
    try:
        lm("word " * 5000)
    except dspy.LMError as error:
        found["too long"] = str(error)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
