"""A language model by rules, three passages, and KEQA over them: what all uses are tried with."""

import json
import re
from collections.abc import AsyncIterator, Iterator

import dspy
from dspy.lm15 import Message, Request, Response, Usage, response_to_events

import keqa

QUESTION = "In which country does Ann live?"


TEXTS = {"Ann": "Ann lives in Bergen.", "Bergen": "Bergen is a city in Norway.", "Rome": "Rome is a city in Italy."}


class Engine:
    """A language model by rules: it knows where Ann lives, and guesses in which country that is."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.seeds: list[object] = []

    def __deepcopy__(self, memo: dict) -> "Engine":
        return self

    def complete(self, request: Request) -> Response:
        """Answer in the fields and the form that are asked for."""
        last = request.messages[-1].text or ""
        self.prompts.append("\n".join([str(request.system), *(message.text or "" for message in request.messages)]))
        self.seeds.append(request.config.seed)
        form = last.split("Respond with")[-1]
        names = [name for name in re.findall(r"\[\[ ## (\w+) ## \]\]|`<?(\w+)>?`|<(\w+)>", form)]
        wanted = dict.fromkeys(name for found in names for name in found if name and name not in ("completed", "XML"))
        values = {name: self.value(name, last, request) for name in wanted}
        if "JSON object" in form:
            text = json.dumps(values)
        elif "[[ ## " in form:
            text = "\n\n".join(f"[[ ## {name} ## ]]\n{_written(value)}" for name, value in values.items())
        elif values:
            text = "\n".join(f"<{name}>\n{_written(value)}\n</{name}>" for name, value in values.items())
        else:
            text = "```\nAnswer in as few words as you can.\n```"
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        return Response(
            id=None, model=request.model, message=Message.assistant(text), finish_reason="stop", usage=usage
        )

    def stream(self, request: Request) -> Iterator[object]:
        """Answer in pieces."""
        yield from response_to_events(self.complete(request))

    def value(self, name: str, prompt: str, request: Request) -> object:
        """The value of a field."""
        quizzes = ["In which city does Ann live?", "In which country is #1?"]
        known = {"quizzes": quizzes, "same": False, "helpful": "Norway" in prompt.split("quiz ## ]]")[0]}
        if name == "answer" and "answered_quizzes" not in prompt and "passages" not in prompt:
            return "Bergen" if "which city" in prompt else f"Land {request.config.seed}"
        return known.get(name, "Norway" if name == "answer" else "Answer in as few words as you can.")

    def close(self) -> None:
        """Nothing to close."""


class AsyncEngine:
    """The same, awaited."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict) -> "AsyncEngine":
        return self

    async def complete(self, request: Request) -> Response:
        """Answer."""
        return self.engine.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[object]:
        """Answer in pieces."""
        for event in response_to_events(self.engine.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing to close."""


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def search(query: str, k: int) -> list[dict[str, str]]:
    """Passages with a word of the query; an own retriever can be as short as this."""
    return [{"id": key, "title": key, "text": text} for key, text in TEXTS.items() if key in query][:k]


# They are a benchmark's and not somebody's own documents: over these the rules would have to know other prompts.
vars(search)["own_documents"] = False


def language_model(name: str = "scripted/rules") -> dspy.LM:
    """A language model of DSPy's over the rules."""
    engine = Engine()
    return dspy.LM(name, engine=engine, async_engine=AsyncEngine(engine), cache=False, temperature=0.0)


def program(lm: dspy.LM | None = None, **settings: object) -> keqa.KEQA:
    """KEQA over the three passages."""
    made = keqa.KEQA(search, **settings)
    made.set_lm(lm or language_model())
    return made


def roles() -> keqa.Roles:
    """Three language models, one a role."""
    return keqa.Roles(*(language_model(f"scripted/{name}") for name in ("task", "consistency", "utility")))
