"""Compilation end to end on a small world, of KEQA and of the methods that it is compared with."""

import json
from dataclasses import replace
from functools import partial

import dspy
import pytest
from dspy.lm15 import InvalidRequestError, ServerError
from fixtures.town import Killed, Town

import keqa
from keqa.data.example import Example
from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, TooManyFailuresError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.boundary.train import learn
from keqa.optimize.compile import compile_program
from keqa.optimize.options import Options
from keqa.optimize.tuning import BOUNDARY, GRID
from keqa.programs import KEQA
from keqa.programs.baselines import FLARE, AlwaysRetrieve, ClosedBook, IRCoT, ReAct
from keqa.programs.boundary.light import root_digest
from keqa.programs.calls.predictor import NOTHING, demonstration_digest
from keqa.programs.fingerprint import program_fingerprint

SMALL = {name: () for name in GRID if name != BOUNDARY} | {"threshold": ("1",), "top_k": (1,)}
BASELINES = {
    "rag": (AlwaysRetrieve, {"top_k": 2}),
    "cot": (ClosedBook, {"reason": True}),
    "ircot": (IRCoT, {"top_k": 2}),
    "react": (ReAct, {}),
}
METHODS = ["keqa", *BASELINES]
MISSED = (1, 4)
"""Towns about which the language model of a baseline is wrong."""


@pytest.fixture
def compiled(tmp_path):
    def run(world, folder="work", **options):
        keqa_alone = {"grid": SMALL} if isinstance(world.program, KEQA) and options.get("tuning", True) else {}
        options = {"sets": 1, "in_flight": 1, **keqa_alone} | options
        return compile_program(world.program, world.train, world.val, folder=tmp_path / folder, **options)

    return run


class OfBaselines(Town):
    """The world of towns as the language model of a baseline answers in it: two questions wrong."""

    def _stated(self, inputs, shown):
        number = "".join(char for char in inputs["question"] if char.isdigit())
        if int(number) in MISSED:
            return "Nobody at all"
        return f"Ann Spouse{number}" if shown else f"Spouse{number}"

    def AnswerWithKnowledge(self, inputs, config, shown):
        return {"answer": self._stated(inputs, shown)}

    def ReasonWithKnowledge(self, inputs, config, shown):
        return {"reasoning": "It follows.", "answer": self._stated(inputs, shown)}

    ReasonFromMemory = AnswerFromTrajectory = ReasonWithKnowledge

    def ExtendReasoning(self, inputs, config, shown):
        if inputs["thoughts"] == "[]":
            return {"thought": f"The mayor is Mayor{inputs['question'].split('Town')[1].split()[0]}."}
        return {"thought": f"So the answer is {self._stated(inputs, shown)}."}

    def ChooseAction(self, inputs, config, shown):
        query = json.dumps({"query": inputs["question"]})
        if "observation_0" in inputs:
            return {"next_thought": "It is told.", "next_tool_name": "finish", "next_tool_args": "{}"}
        return {"next_thought": "Look it up.", "next_tool_name": "search", "next_tool_args": query}


@pytest.fixture
def world(setting):
    """Makes a method over the world of towns."""

    def make(name="keqa", workers=16, train=6, val=4, **kwargs):
        if name == "keqa":
            return setting(Town(**kwargs), train, val, workers=workers)
        made = setting(OfBaselines(**kwargs), train, val)
        cls, settings = BASELINES[name]
        searches = () if cls is ClosedBook else (made.program.retriever,)
        made.program = cls(*searches, demonstrations=False, workers=workers, **settings)
        made.program.set_lm(made.lm)
        return made

    return make


def learned(program):
    return {name: [dict(demo) for demo in p.demos] for name, p in program.named_predictors()}


# What holds of every method.


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_what_is_learned_is_right_saved_and_no_matter_of_the_program_itself(world, compiled, tmp_path, name):
    made = world(name)
    found = compiled(made, **{"cost_per_retrieval": 0.1, "cost_per_call": 0.0} if name == "keqa" else {})
    report, demos = found.report, learned(found.program)
    assert not any(learned(made.program).values())
    assert (report.before_score.mean, report.after_score.mean) == (pytest.approx(2 / 3), 1.0)
    if name == "keqa":
        assert [(trial.name, round(trial.score, 2)) for trial in report.trials] == [
            ("the program as it is", 0.67),
            ("demonstrations 1", 1.0),
            ("the utility reference", 1.0),
            ("tuned settings", 1.0),
        ]
        shown = {change.name: (change.demos_before, change.demos_after) for change in report.predictors}
        assert shown["answering.answer"] == shown["decomposition.decompose"] == (0, 4)
        assert (shown["picking.judge"], report.reference) == ((0, 0), {"helpful": 12, "harmful": 12})
        assert (report.trained_on, report.validated_on, report.gain.excludes_zero) == (6, 4, True)
        assert report.spent.calls == len(made.engine.calls) > 100
        assert report.spent.prompt_tokens == 10 * report.spent.calls
        assert [point.settings["top_k"] for point in report.curve] == [2, 2, 1]
        assert (report.cost_per_retrieval, report.curve[0].objective) == (0.1, pytest.approx(0.9))
    else:
        assert all(demos.values())
        assert not any(f"Town{number} " in json.dumps(demos) for number in MISSED)
        assert {demo["answer"] for demo in demos["answer"]} <= {f"Ann Spouse{number}" for number in (0, 2, 3, 5)}
        assert (report.settings, report.reference, report.curve, report.problems) == ({}, {}, [], [])
    for predictor in found.program.predictors():
        for demo in predictor.demos:
            assert found.program.learned.demonstrations[demonstration_digest(demo, predictor.signature)]
    found.save(tmp_path / "program", command="keqa compile")
    about = json.loads((tmp_path / "program" / "program.json").read_text())["about"]
    assert (about["command"], about["trials"][0]["name"]) == ("keqa compile", "the program as it is")
    searched = getattr(made.program, "_retriever", None)
    loaded = keqa.load(tmp_path / "program", searched and searched.value, method=name)
    loaded.set_lm(made.lm)
    assert type(loaded) is type(found.program)
    assert (learned(loaded), loaded.learned) == (demos, found.program.learned)
    question = made.val[0].question
    assert loaded(question).answer == found.program(question).answer == "Ann Spouse6"


@pytest.mark.process
@pytest.mark.parametrize("name", ["keqa", "ircot", "react"])
def test_killed_anywhere_it_goes_on_makes_no_call_twice_and_ends_alike(world, compiled, name):
    world = partial(world, train=4, val=2)
    whole = compiled(world(name), folder="whole")
    total = whole.report.spent.calls
    for after in (2, total // 2):
        with pytest.raises(Killed):
            compiled(world(name, killed_after=after, workers=1), folder=f"killed {after}")
        made = world(name)
        again = compiled(made, folder=f"killed {after}")
        # At most a call that was in work, or has just ended, is made again.
        assert total - after <= len(made.engine.calls) <= total - after + 2
        assert learned(again.program) == learned(whole.program)
        assert (again.report.trials, again.report.curve) == (whole.report.trials, whole.report.curve)
    made = world(name)
    third = compiled(made, folder="whole")
    assert (made.engine.calls, third.report.spent.calls) == ([], 0)
    assert third.report.spent_earlier.calls == total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keqa", "react"])
def test_a_server_that_is_down_never_ends_in_a_program(world, compiled, name):
    made = world(name)
    reply = made.fail(ServerError("down"))
    with pytest.raises(TooManyFailuresError, match=r"scoring the program as it is: .*LMServerError"):
        compiled(made)
    made.engine.reply = reply
    if name == "keqa":
        made.fail(ServerError("down"), lambda name, inputs: name.startswith("Reason"))
        with pytest.raises(TooManyFailuresError, match=r"labelling passages: .*LMServerError"):
            compiled(made)
        made.engine.reply = reply
    found = compiled(made)
    assert (found.report.after, found.report.failed) == ((1.0, 1.0, 1.0, 1.0), [])


# Which questions, programs and options.


@pytest.mark.slow
def test_compiling_over_documents_of_ones_own(setting, compiled, tmp_path):
    world = setting(unanswered="say", look_first=False)
    found = compiled(world)
    assert found.report.trials[-1].score > found.report.trials[0].score
    assert found.program.answering.answer.demos
    assert found.program.documents.answer.demos == []
    found.save(tmp_path / "program")
    program = keqa.load(tmp_path / "program", world.program.retriever, world.program.lms)
    assert program.unanswered == "say"
    # What was learned for the paper's prompt is shown in that of one's own documents.
    assert program(question=world.val[0].question).answer == "Ann Spouse6"
    world.engine.reply = lambda name, inputs, config: (
        {"answer": "UNKNOWN"} if name.startswith("AnswerWith") else world.town(name, inputs, config)
    )
    assert program(question=world.val[0].question).unanswered.kind == "nothing supports an answer"


class Table(list):
    columns = ("question", "answer")

    def to_dict(self, orient: str = "dict") -> object:
        raise AssertionError("not this one")


class Sub(KEQA):
    """A program that cannot be saved."""


ROWS = r'^keqa\.compile takes a list of questions, not a Table: give its rows, df\.to_dict\("records"\)$'
PASSED_OVER = "weighs searches where settings are tuned"
UNREFLECTING = "that of gepa, mipro, simba, and bootstrap has none"
LM = dspy.LM("openai/x", api_key="none")
SHARE = "a number above 0 and at most 1"


@pytest.fixture
def refused(setting, tmp_path):
    """Compiles what cannot work, and asserts that nothing was begun."""

    def run(kind, told, given=lambda train: train, **options):
        world, begun = setting(), []
        how = {"folder": tmp_path / "work", "before_first": lambda: begun.append(1)} | options
        with pytest.raises(kind, match=told):
            compile_program(world.program, given(world.train), world.val, **how)
        assert (begun, world.engine.calls, list(tmp_path.iterdir())) == ([], [], [])

    return run


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Table, ROWS),
        (lambda train: [], "no train question"),
        (lambda train: [{"question": "Who?"}], "no train question"),
    ],
)
def test_what_holds_no_question_is_refused_before_anything_is_begun(refused, given, told):
    refused(InputError, told, given)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"demo": 3}, r"^keqa\.compile\(\) got an unexpected keyword argument 'demo'"),
        *(({name: -1}, f"{name} must be a whole number from 0") for name in ("demos", "judge_demos", "sets")),
        ({"in_flight": 0}, "in_flight must be a whole number from 1"),
        *(({"threshold": value}, "threshold must be a number from 0 to 1") for value in (-0.1, 1.1)),
        *(({"cost_per_retrieval": value}, "a number from 0") for value in (-0.1, float("inf"), float("nan"))),
        ({"training": 3}, "training must be"),
        ({"boundary_tries": 4}, "boundary_tries must be a whole number from 5 to 1,000, not 4"),
        # What only a late step needs.
        ({"grid": 3}, "grid must be"),
        ({"grid": (3,)}, "grid must be"),
        ({"grid": {"decompose": (True,)}}, "grid must be values by setting"),
        ({"grid": {"top_k": (0,)}}, "grid: top_k must be a whole number from 1"),
        ({"grid": {"top_p": (1.5,)}}, f"grid: top_p must be {SHARE}"),
        ({"grid": {"threshold": ("1", "3/2")}}, f"grid: threshold must be {SHARE}"),
        ({"grid": {"boundary_threshold": ("2",)}}, "boundary_threshold must be a number from 0 to 1"),
        pytest.param({"embedder": "/nowhere/model"}, "", marks=pytest.mark.process),
        # Optimizers.
        ({"optimizer": "magic"}, "unknown optimizer 'magic'"),
        ({"optimizer": "copro", "reflection_lm": LM}, "unknown optimizer 'copro'"),
        ({"optimizer": "gepa"}, "^gepa needs a language model that is able to reflect .* reflection_lm="),
        ({"optimizer": "gepa", "reflection_lm": LM, "budget": "huge"}, "the budget must be one of light"),
        ({"optimizer": dspy.LabeledFewShot(k=2)}, "keqa.compile cannot use LabeledFewShot: it shows whole questions"),
        ({"optimizer": dspy.Ensemble()}, "keqa.compile cannot use Ensemble: it joins programs"),
        ({"optimizer": dspy.InferRules(metric=None)}, "cannot use InferRules: it writes into the class of a prompt"),
        ({"optimizer": dspy.BootstrapFewShotWithOptuna(None)}, "cannot use BootstrapFewShotWithOptuna: it ends where"),
        ({"optimizer": dspy.BootstrapFinetune()}, "cannot use BootstrapFinetune: it changes language models"),
        ({"optimizer": dspy.BootstrapFewShot(), "budget": 3}, r"give budget to BootstrapFewShot\(\.\.\.\) itself"),
        *(
            ({"optimizer": "gepa", "reflection_lm": wrong}, "")
            for wrong in ("openai/strong", "nobody/strong", "", 3, dspy.Predict("question -> answer"))
        ),
        # What would be passed over in silence.
        ({"reflection_lm": "a model"}, UNREFLECTING),
        ({"optimizer": "none", "reflection_lm": "openai/x"}, "none has none"),
        *(({"budget": budget}, UNREFLECTING) for budget in ("heavy", 5)),
        ({"tuning": False, "cost_per_call": 0.1}, "tuned, and that is left out: leave it out"),
        ({"tuning": False, "cost_per_retrieval": 0.3}, PASSED_OVER),
        ({"reference": False, "embedder": "hashing"}, "none is built: leave it out"),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_is_begun(refused, monkeypatch, options, told):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refused(ConfigurationError if told else KeqaError, told or ".", **options)


def test_what_an_optimizer_needs_beside_keqa_is_said(refused, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused(MissingExtraError, r"keqa\[compile\]", optimizer="mipro", reflection_lm=LM)


def test_a_model_string_of_the_reflecting_lm_is_built(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert Options(optimizer="gepa", reflection_lm="openai/strong").reflection_lm.model == "openai/strong"


def test_programs_that_cannot_be_compiled_so_are_refused_before_any_call(setting, world):
    made = setting()
    sub = Sub(made.program.retriever)
    sub.set_lm(made.lm)
    with pytest.raises(ConfigurationError, match="only a KEQA can be saved"):
        compile_program(sub, made.train, made.val)
    rag = world("rag")
    with pytest.raises(ConfigurationError, match=PASSED_OVER):
        compile_program(rag.program, rag.train, rag.val, cost_per_retrieval=0.1)
    assert made.engine.calls == rag.engine.calls == []


def test_sets_differ_in_size_so_that_long_prompts_may_fit(world, compiled):
    made, shown = world("rag"), set()
    reply = made.engine.reply
    made.engine.reply = lambda *asked: (shown.add(made.engine.local.demos), reply(*asked))[1]
    compiled(made, sets=3)
    assert shown == {0, 1, 2, 4}


def test_calls_with_token_probabilities_are_kept(world, journal):
    made = world("ircot")
    made.engine.probability = 0.99
    program = FLARE(made.program.retriever, demonstrations=False, first_retrieval=False)
    program.set_lm(made.lm)
    (trace,) = Asking(journal, f1).traces(program, made.train[:1])
    assert trace.record.answer == "Spouse0"
    assert [sorted(outputs) for _, _, outputs in trace.steps] == [["thought"], ["thought"]]


# What is kept of it, and what must not be.


def test_no_key_and_no_folder_is_saved_and_nothing_where_finished_work_is_kept(setting, compiled, tmp_path):
    found = compiled(setting(), sets=0, tuning=False, reference=False)
    for folder in (tmp_path / "work", tmp_path):
        with pytest.raises(InputError, match="work, where finished work is kept, is or lies in"):
            found.save(folder)
    found.report.problems.append("/home/ann/train.jsonl, line 3: no answer; told sk-of-reflection and sk-of-settings")
    with dspy.context(lm=dspy.LM("openai/x", api_key="sk-of-settings")):
        found.reflection_lm = dspy.LM("openai/y", api_key="sk-of-reflection")
        found.save(tmp_path / "program")
    *_, problem = json.loads((tmp_path / "program" / "program.json").read_text())["about"]["problems"]
    assert problem == "train.jsonl, line 3: no answer; told <secret> and <secret>"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program", "work"]


@pytest.mark.process
def test_no_key_and_no_address_is_in_the_finished_work(setting, compiled, tmp_path):
    world = setting()
    world.lm.kwargs |= {"api_key": "sk-very-secret-0123456789"}
    reply = world.engine.reply

    def refusing(name, inputs, config):
        if name == "JudgeUtility" or "sail" in inputs.get("passages", "") or "Town3" in inputs.get("question", ""):
            raise InvalidRequestError("sk-very-secret-0123456789 may not ask host 10.9.8.7:8000 at http://gw.corp/v1")
        return reply(name, inputs, config)

    world.engine.reply = refusing
    problems = str(compiled(world).report.problems)
    assert "<secret> may not ask host <address> at <address>" in problems
    written = {path.name: path.read_bytes().decode("utf-8", "replace") for path in (tmp_path / "work").iterdir()}
    assert list(written) == ["calls.journal"]
    for secret in ("sk-very-secret", "10.9.8.7", "gw.corp"):
        assert secret not in written["calls.journal"] + problems


def test_the_program_keeps_what_it_learned_from(setting, compiled):
    world = setting()
    how = {"reference": False, "tuning": False}
    found = compiled(world, **how)
    kept = found.program.learned
    assert kept.complete
    assert [name for name, _ in kept.train] == [one.id for one in world.train]
    assert [name for name, _ in kept.validation] == [one.id for one in world.val]
    assert world.program.learned == NOTHING
    # What is compiled again has learned from both.
    again = compile_program(found.program, world.val, world.train[:2], optimizer="none", **how)
    assert [name for name, _ in again.program.learned.train] == [one.id for one in (*world.train, *world.val)]
    assert found.program.learned == kept


# The boundary model.


def bounded(setting, **options):
    """A world with enough questions to train a boundary model on."""
    world = setting(train=16, **options)
    world.engine.probability = 0.5
    return world


@pytest.mark.slow
def test_a_boundary_model_is_learned_kept_saved_and_loaded(setting, compiled, tmp_path):
    world = bounded(setting)
    found = compiled(world, reference=False, boundary_tries=5)
    report = found.report
    assert [trial.name for trial in report.trials][-2:] == ["tuned settings", "the boundary model"]
    assert report.chosen[-1] == "the boundary model"
    told = report.about()["boundary"]
    assert (told["kept"], told["reads"], told["tries"]) == (True, "draft", 5)
    assert told["held_out"]["mastery"]["auroc"] == 1.0
    assert report.settings["gate"].after == "boundary model"
    best = max(report.curve, key=lambda point: point.objective)
    own = max((point for point in report.curve if not point.settings["boundary"]), key=lambda point: point.objective)
    assert (best.score, best.retrievals) == (own.score, own.retrievals)
    assert best.calls < own.calls
    # Nothing of a validation question is in it.
    model = found.program.examination.gate.model
    assert set(model.roots) <= {root_digest(one.id) for one in world.train}
    found.save(tmp_path / "program")
    loaded = keqa.load(tmp_path / "program", world.program.retriever)
    loaded.set_lm(world.lm)
    assert loaded.examination.gate == found.program.examination.gate
    assert program_fingerprint(loaded) == program_fingerprint(found.program)
    question = world.val[0].question
    assert loaded(question).answer == found.program(question).answer == "Ann Spouse16"
    # Another run makes no call.
    calls = len(world.engine.calls)
    again = compiled(world, reference=False, boundary_tries=5)
    assert len(world.engine.calls) == calls
    assert (again.program.examination.gate, again.report.curve) == (found.program.examination.gate, report.curve)


@pytest.mark.slow
def test_a_boundary_model_is_left_out_where_what_keqa_ask_does_is_kept(setting, compiled, monkeypatch):
    monkeypatch.setattr("keqa.optimize.settling.FEWEST", 2)
    monkeypatch.setattr("keqa.optimize.settling.cheapest_of_the_best", lambda tried: tried[-1])
    world = bounded(setting)
    world.program.retriever.own_documents = True
    asked = ("draft", "settle", "expand", "pick", "read_together")
    grid = SMALL | {name: GRID[name] for name in asked}
    report = compiled(world, reference=False, boundary_tries=5, grid=grid).report
    best = max(report.curve, key=lambda point: point.objective)
    assert (best.settings["boundary"], report.settings["gate"].after, report.boundary["kept"]) == (True, "votes", False)
    assert report.chosen == ["demonstrations 1", "as keqa ask does"]


def test_quizzes_of_validation_questions_and_of_the_prompt_are_not_learned_from(setting, journal):
    world = bounded(setting)
    world.program.examination.quiz.demos = [dspy.Example(quiz="Who governs Town3?", answer="Bo Mayor3")]
    # Two files may both number their questions from 1 on.
    shared = replace(world.train[5], id=world.train[0].id, question="Another?")
    found = learn(world.program, world.train, [shared], Asking(journal, f1, in_flight=1), 5)
    asked = {inputs["quiz"] for name, inputs, _ in world.engine.calls if name == "AnswerQuiz"}
    assert not asked & {"Who governs Town3?", "Who governs Town5?", "To whom is Bo Mayor5 married?"}
    assert found.held_out.quizzes == len(asked) == 16 * 2 - 3


def few(questions, quizzes):
    names = iter(range(100))
    parts = [tuple(f"Who is {next(names)}?" for _ in range(quizzes // questions)) for _ in range(questions)]
    return [
        Example(f"q{n}", f"Who is it in Town{n}?", ("Bo",), quizzes=part, quiz_answers=("Bo",) * len(part))
        for n, part in enumerate(parts)
    ]


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (few(9, 18), "18 quizzes are too few to train a boundary model on"),
        (few(4, 24), "24 quizzes are too few to train a boundary model on"),
        (None, "the training questions choose as well"),
    ],
)
def test_what_no_boundary_model_can_learn_from_is_told_before_any_call(setting, journal, train, told):
    world = bounded(setting)
    with pytest.raises(InputError, match=told):
        learn(world.program, train or [*world.train, world.val[0]], world.val, Asking(journal, f1), 5)
    assert world.engine.calls == []
