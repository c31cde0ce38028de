"""DSPy's streaming of a program's steps."""

import asyncio
import json

import dspy
from dspy.streaming import StatusMessage, streaming_response

import keqa
from dspy_uses.checks import expect
from dspy_uses.scripted import QUESTION, program, search


def _streamed(asked: dspy.Module, **how: bool) -> None:
    async def last() -> object:
        *_, found = [one async for one in dspy.streamify(asked, **how)(question=QUESTION)]
        return found

    expect(isinstance(asyncio.run(last()), dspy.Prediction), True)


def streamify() -> None:
    """Streamify."""
    _streamed(program())


def streamify_async_with_a_local_lm() -> None:
    """streamify, async, local LM."""
    asked = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"))
    _streamed(asked, is_async_program=True)


def serializer_of_streaming() -> None:
    """The serializer of streaming."""

    async def written() -> list[str]:
        streamed = dspy.streamify(program())(question=QUESTION)
        # It refuses status messages, of any module.
        values = (one async for one in streamed if not isinstance(one, StatusMessage))
        return [line async for line in streaming_response(values)]

    expect(json.loads(asyncio.run(written())[0][6:])["prediction"]["sources"][0]["title"], "Bergen")
