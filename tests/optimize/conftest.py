"""A small world with something to learn: its language model writes names by the surname until it is shown otherwise."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import dspy
import pytest
from conftest import AsyncScriptedEngine, Reply, ScriptedEngine, ScriptedRetriever
from dspy.clients.provider import Provider, TrainingJob
from dspy.lm15 import InvalidRequestError, Request, Response
from fixtures.prompts import PROMPTS

from keqa.data.example import Example
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA
from keqa.retrievers.base import Hit, Passage
from keqa.storage.journal import Journal

# Those for documents of one's own have the fields of the papers', which are asked here.
_FIELDS = {
    frozenset(PROMPTS[name].fields): PROMPTS[name]
    for name in sorted(PROMPTS, key=lambda name: name not in ("AnswerFromDocuments", "AnswerQuizIfSure"))
}
_OBJECTIVE = "your objective is:"


class WatchingEngine(ScriptedEngine):
    """Tells the reply function how many demonstrations it is shown, and knows a signature whatever its instruction."""

    local = threading.local()

    def complete(self, request: Request) -> Response:
        system = str(request.system)
        self.local.demos, self.local.system = (len(request.messages) - 1) // 2, system
        fields = frozenset(re.findall(r"\[\[ ## (\w+) ## \]\]", system)) - {"completed"}
        head = system.partition(_OBJECTIVE)[0]
        return super().complete(replace(request, system=f"{head}{_OBJECTIVE}\n{_FIELDS[fields].instructions}"))


def example(number: int) -> Example:
    return Example(
        f"t{number}",
        f"To whom is the mayor of Town{number} married?",
        (f"Ann Spouse{number}",),
        quizzes=(f"Who governs Town{number}?", "To whom is #1 married?"),
        quiz_answers=(f"Bo Mayor{number}", f"Ann Spouse{number}"),
    )


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Town:
    """The world; attributes say what its language model does."""

    fails: str = ""  # the signature whose replies cannot be used
    refuses: str = ""  # the signature for which every request is refused
    spoilt: bool = False  # whether demonstrations make it worse
    killed_after: int | None = None  # the call after which the process is killed
    advised: str | None = None  # an instruction that does as much as demonstrations
    count: Counter[str] = field(default_factory=Counter)

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> Any:
        self.count[name] += 1
        if self.killed_after is not None and self.count.total() > self.killed_after:
            raise Killed
        if name == self.refuses:
            raise InvalidRequestError("no such field")
        if name == self.fails:
            return "garbage"
        local = WatchingEngine.local
        shown = (local.demos > 0 or (self.advised or "nothing") in local.system) and not self.spoilt
        return getattr(self, name)(inputs, config, shown)

    def DecomposeQuestion(self, inputs, config, shown):
        town = inputs["question"].split("mayor of ")[1].split()[0]
        return {"quizzes": f'["Who governs {town}?", "To whom is #1 married?"]'}

    def DraftQuizzes(self, inputs, config, shown):
        written = self.DecomposeQuestion(inputs, config, shown)
        known = self.AnswerQuiz({"quiz": json.loads(written["quizzes"])[0]}, config, shown)
        return written | {"drafts": json.dumps([known["answer"], "UNKNOWN"])}

    def AnswerQuiz(self, inputs, config, shown):
        if "governs" not in inputs["quiz"]:
            return {"answer": f"guess {config.seed}"}
        number = inputs["quiz"].rstrip("?").split("Town")[1]
        return {"answer": f"Bo Mayor{number}" if shown else f"Mayor{number}"}

    def JudgeConsistency(self, inputs, config, shown):
        return {"same": inputs["first_answer"].split()[-1] == inputs["second_answer"].split()[-1]}

    def StateConfidence(self, inputs, config, shown):
        return {"confidence": "90" if "governs" in inputs["quiz"] else "30"}

    def JudgeUtility(self, inputs, config, shown):
        return {"helpful": "married" in inputs["passage"]}

    def JudgeUtilities(self, inputs, config, shown):
        passages = json.loads(inputs["passages"])
        return {"helpful": json.dumps({number: "married" in passage for number, passage in passages.items()})}

    def AnswerWithKnowledge(self, inputs, config, shown):
        if "Spouse" not in inputs["passages"]:
            return {"reasoning": "None tells.", "answer": "unknown"}
        number = inputs["passages"].split("Spouse")[1].split(".")[0]
        return {"reasoning": "It says so.", "answer": f"Ann Spouse{number}" if shown else f"Spouse{number}"}

    def AnswerAndCite(self, inputs, config, shown):
        cited = [int(number) for number, text in json.loads(inputs["passages"]).items() if "Spouse" in text]
        return {"citations": str(cited), "answer": self.AnswerWithKnowledge(inputs, config, shown)["answer"]}

    ReasonWithKnowledge = AnswerWithKnowledge

    def ReasonFromMemory(self, inputs, config, shown):
        return {"reasoning": "", "answer": "unknown"}

    def Summarize(self, inputs, config, shown):
        return {"explanation": "It follows.", "answer": inputs["answered_quizzes"].rstrip('"]').split("? ")[-1]}


def over(engine: ScriptedEngine) -> dict[str, Any]:
    """How a language model over an engine is made."""
    both = {"engine": engine, "async_engine": AsyncScriptedEngine(engine)}
    return {**both, "cache": False, "temperature": 0.0, "max_tokens": 256, "num_retries": 0}


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
    """A journal of calls."""
    with Journal.open(tmp_path / "journal", {}) as opened:
        yield opened


@pytest.fixture
def killed():
    return Killed


@pytest.fixture
def town():
    return Town


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


class PlainGate:
    """A gate that is no dataclass."""

    name = "plain"

    def __init__(self, threshold):
        self.threshold, self.inner = Fraction(threshold), VoteGate()

    def decide(self, draws):
        return self.inner.decide(draws)


@pytest.fixture
def plain_gate():
    """Makes a gate of one's own from its threshold."""
    return PlainGate


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


class TownRetriever(ScriptedRetriever):
    """Finds the passage that helps and one that does not for whatever town or mayor is asked about."""

    def __init__(self, towns: int) -> None:
        super().__init__([])
        self.towns = towns

    def search(self, query: str, k: int = 10):
        self.queries.append(query)
        number = "".join(char for char in query if char.isdigit())
        passages = [
            Passage(f"m{number}", f"Bo Mayor{number}", f"Mayor of Town{number}, married to Ann Spouse{number}."),
            Passage(f"o{number}", f"Bo Mayor{number}", "He likes to sail."),
        ]
        return [Hit(passage, 2.0 - rank) for rank, passage in enumerate(passages)][:k]


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
