"""Reasoning and acting by turns (ReAct, Yao et al., 2023): the two prompts of `dspy.ReAct`, with search for a tool.

DSPy builds them, so that the method is the one that its users know; here they get names of their own.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import dspy

from keqa.signatures.baselines import AnswerQuestion
from keqa.signatures.chat_format import broken_up

TURN_MARKER = re.compile(r"^(\[\[ ## (?:thought|tool_name|tool_args|observation)_\d+ ## \]\])$", re.MULTILINE)
"""The markers within a trajectory, which are none of a field."""

Turn = tuple[str, str, dict[str, Any], str]
"""Thought, name of the tool, its arguments, and what was observed."""


class _Research(AnswerQuestion):
    """Find out the answer to the question and give it as briefly as possible."""


_SEARCH = dspy.Tool(
    func=lambda query: query,
    name="search",
    desc="Finds passages. The query is a short question that asks for one piece of knowledge and is complete in itself.",
    args={"query": {"type": "string"}},
)
_REACT = dspy.ReAct(_Research, tools=[_SEARCH])

ChooseAction: type[dspy.Signature] = _REACT.react.signature
ChooseAction.__name__ = ChooseAction.__qualname__ = "ChooseAction"
AnswerFromTrajectory: type[dspy.Signature] = _REACT.extract.predict.signature
AnswerFromTrajectory.__name__ = AnswerFromTrajectory.__qualname__ = "AnswerFromTrajectory"


def written_trajectory(turns: Sequence[Turn], first: int = 0) -> str:
    """The turns, of which the first has a number, as `dspy.ReAct` writes them; what is in one cannot begin another."""
    parts = []
    for number, (thought, tool, arguments, observation) in enumerate(turns, first):
        values = {
            "thought": thought,
            "tool_name": tool,
            "tool_args": json.dumps(arguments, ensure_ascii=False),
            "observation": observation,
        }
        parts += [f"[[ ## {name}_{number} ## ]]\n{broken_up(value)}" for name, value in values.items()]
    return "\n\n".join(parts)
