"""Programs over the world of `fixtures.town`, and language models of it that can be fine-tuned."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dspy
import pytest
from conftest import Reply, ScriptedEngine, over
from dspy.clients.provider import Provider, TrainingJob
from fixtures.town import Town, TownRetriever, WatchingEngine, example

from keqa.data.example import Example
from keqa.programs.keqa import KEQA
from keqa.storage.journal import Journal


@dataclass
class Setting:
    """A program over the world."""

    town: Town
    engine: WatchingEngine
    lm: dspy.LM
    program: KEQA
    train: list[Example]
    val: list[Example]

    def fail(self, error: Exception, where: Callable[[str, str], bool] = lambda name, inputs: True) -> Reply:
        """Let requests fail from now on, where something holds of signature and inputs; returns the old replies."""
        reply = self.engine.reply

        def failing(name, inputs, config):
            if where(name, str(inputs)):
                raise error
            return reply(name, inputs, config)

        self.engine.reply = failing
        return reply


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "journal", {}) as opened:
        yield opened


@pytest.fixture
def setting():
    """Makes a program over the world."""

    def make(town: Town | None = None, train: int = 6, val: int = 4, **settings: Any) -> Setting:
        town = town or Town()
        engine = WatchingEngine(town)
        lm = dspy.LM("scripted/town", **over(engine))
        examples = [example(number) for number in range(train + val)]
        known = {"top_k": 2, "tries": 3, "threshold": "2/3", "demonstrations": False}
        program = KEQA(TownRetriever(train + val), **known | settings)
        program.set_lm(lm)
        return Setting(town, engine, lm, program, examples[:train], examples[train:])

    return make


@pytest.fixture
def drawing():
    """Lets the language model of a world write a name in full in every other draw: SIMBA learns from the difference."""

    def make(world: Setting) -> Setting:
        always, turns = world.engine.reply, Counter[str]()

        def reply(name: str, inputs: dict[str, str], config: Any) -> Any:
            said = always(name, inputs, config)
            if name != "AnswerWithKnowledge" or not config.temperature:
                return said
            turns[inputs["question"]] += 1
            return said | {"answer": f"Ann {said['answer'].split()[-1]}"} if turns[inputs["question"]] % 2 else said

        world.engine.reply = reply
        return world

    return make


class Training(TrainingJob):
    """A training that reports each of some states, or raises one, before it has ended."""

    def __init__(self, outcome: Any, states: Sequence[Any]) -> None:
        super().__init__()
        self.outcome, self.states, self.state = outcome, iter(states), None
        self.stopped = False

    def done(self) -> bool:
        self.state = next(self.states, None)
        return self.state is None

    def status(self) -> Any:
        if isinstance(self.state, BaseException):
            raise self.state
        return self.state

    def result(self, timeout: float | None = None) -> Any:
        return self.outcome

    def cancel(self) -> bool:
        self.stopped = True
        return True


class TrainableLM(dspy.LM):
    """Is trained on nothing, and becomes another language model, or an error, as soon as it shall be."""

    def __init__(
        self, engine: ScriptedEngine, becomes: Any, states: Sequence[Any], provider: Any, **names: str
    ) -> None:
        super().__init__(names.get("model", "scripted/town"), provider=provider, **over(engine))
        self.becomes, self.states = becomes, states
        self.trained: list[dict[str, Any]] = []
        self.jobs: list[Training] = []

    def finetune(self, **how: Any) -> Training:
        self.trained.append(how)
        self.jobs.append(Training(self.becomes, self.states))
        return self.jobs[-1]


@pytest.fixture
def trainable():
    """Makes a language model of a world that can be fine-tuned, into one with the whole names unless told otherwise."""

    def make(
        town: Town | None = None, *, states: Sequence[Any] = (), path: Any = None, provider: Any = None, **given: Any
    ) -> TrainableLM:
        if provider is None:
            provider = Provider()
            provider.finetunable = True
        becomes = given.get("becomes") or TrainableLM(
            WatchingEngine(Town(advised="fields")), None, (), provider, model="scripted/finetuned"
        )
        if path is not None:
            becomes.engine.path = path
        return TrainableLM(WatchingEngine(town or Town()), becomes, states, provider)

    return make


@pytest.fixture
def as_dspy():
    """Turns examples into those of DSPy, as a user would write them, with further fields."""

    def make(examples, **more):
        def written(one):
            parts = {"quizzes": list(one.quizzes), "quiz_answers": list(one.quiz_answers)}
            return dspy.Example(id=one.id, question=one.question, answer=one.answers[0], **parts, **more)

        return [written(one).with_inputs("question") for one in examples]

    return make
