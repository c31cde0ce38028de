"""Compilation end to end on a small world: what is learned, what is refused, and what a kill costs."""

from __future__ import annotations

import json
from dataclasses import replace

import dspy
import pytest
from dspy.lm15 import InvalidRequestError, ServerError

import keqa
from keqa.data.example import Example
from keqa.errors import ConfigurationError, InputError, KeqaError, TooManyFailuresError
from keqa.optimize.boundary.train import learn
from keqa.optimize.compile import compile_program
from keqa.optimize.tuning import BOUNDARY, GRID
from keqa.programs import KEQA
from keqa.programs.boundary.model import root_digest
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.learned import NOTHING, demonstration_digest
from keqa.programs.reference.embedding import HashingEmbedder

SMALL = {name: () for name in GRID if name != BOUNDARY} | {"threshold": ("1",), "top_k": (1,)}


@pytest.fixture
def compiled(setting, town, tmp_path):
    """Compiles a program over a world."""

    def run(world=None, folder="work", **options):
        world = world or setting()
        options = {"sets": 1, "grid": SMALL} | options
        return compile_program(world.program, world.train, world.val, folder=tmp_path / folder, **options)

    return run


def learned(program):
    return {name: [dict(demo) for demo in p.demos] for name, p in program.named_predictors()}


@pytest.mark.slow
def test_compiling_learns_demonstrations_reference_and_settings(setting, compiled):
    world = setting()
    found = compiled(world, cost_per_retrieval=0.1, cost_per_call=0.0)
    report, calls = found.report, len(world.engine.calls)
    assert found.program(question=world.val[0].question).answer == "Ann Spouse6"
    assert [(trial.name, round(trial.score, 2)) for trial in report.trials] == [
        ("the program as it is", 0.67),
        ("demonstrations 1", 1.0),
        ("the utility reference", 1.0),
        ("tuned settings", 1.0),
    ]
    demos = {change.name: (change.demos_before, change.demos_after) for change in report.predictors}
    assert demos["answering.answer"] == demos["decomposition.decompose"] == (0, 4)
    assert demos["picking.judge"] == (0, 0)
    assert report.reference == {"helpful": 12, "harmful": 12}
    assert (report.trained_on, report.validated_on) == (6, 4)
    assert report.gain is not None
    assert report.gain.excludes_zero
    assert report.spent.calls == calls > 100
    assert report.spent.prompt_tokens == 10 * report.spent.calls
    assert [point.settings["top_k"] for point in report.curve] == [2, 2, 1]
    assert report.curve[0].objective == pytest.approx(0.9)
    assert world.program.answering.answer.demos == []
    assert found.program.answering.answer.lm is world.lm
    json.dumps(report.about())


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


@pytest.mark.slow
def test_the_saved_program_answers_alike(setting, compiled, tmp_path):
    world = setting()
    found = compiled(world)
    found.save(tmp_path / "program", command="keqa compile")
    loaded = keqa.load(tmp_path / "program", world.program._retriever.value)
    loaded.set_lm(world.lm)
    assert learned(loaded) == learned(found.program)
    assert loaded(question=world.val[0].question).answer == "Ann Spouse6"
    state = json.loads((tmp_path / "program" / "program.json").read_text())
    assert state["about"]["command"] == "keqa compile"
    assert state["about"]["trials"][0]["name"] == "the program as it is"


@pytest.mark.process
def test_killed_anywhere_it_goes_on_and_ends_alike(setting, town, killed, compiled):
    whole = compiled(setting(), folder="whole", in_flight=1)
    total = whole.report.spent.calls
    for after in (5, total // 3, total // 2, total - 3):
        with pytest.raises(killed):
            compiled(setting(town(killed_after=after), workers=1), folder=f"killed {after}", in_flight=1)
        world = setting()
        again = compiled(world, folder=f"killed {after}", in_flight=1)
        # At most the question that was in work is asked again.
        assert len(world.engine.calls) <= total - after + 20
        assert learned(again.program) == learned(whole.program)
        assert again.report.curve == whole.report.curve
        assert again.report.trials == whole.report.trials
    world = setting()
    third = compiled(world, folder="whole", in_flight=1)
    assert (world.engine.calls, third.report.spent.calls) == ([], 0)
    assert third.report.spent_earlier.calls == total


@pytest.mark.slow
def test_demonstrations_that_make_it_worse_are_not_kept(setting, town, compiled):
    world = setting(town(spoilt=True))
    found = compiled(world)
    assert learned(found.program)["answering.answer"] == []
    assert found.report.trials[1].score <= found.report.trials[0].score


@pytest.mark.slow
def test_what_cannot_be_used_is_named(setting, compiled):
    world = setting()
    world.train += [
        {"question": "", "answer": "x"},
        {"question": "Who is it?"},
        {"question": world.train[0].question, "answer": "again"},
        world.val[0],
    ]
    problems = compiled(world).report.problems
    assert "train: example 7: the question is empty" in problems
    assert "train: example 8: there is no answer, found question" in problems
    assert "train: example 9: the question of example 1 again" in problems
    assert any("is a training question as well" in problem for problem in problems)


def test_a_table_of_questions_is_refused_with_how_to_give_its_rows(setting):
    class Table(list):
        columns = ("question", "answer")

        def to_dict(self, orient: str = "dict") -> object:
            raise AssertionError("not this one")

    world = setting()
    advice = r'^keqa\.compile takes a list of questions, not a Table: give its rows, df\.to_dict\("records"\)$'
    for given in ((Table(world.train), None), (world.train, Table(world.val))):
        with pytest.raises(InputError, match=advice):
            compile_program(world.program, *given)


@pytest.mark.parametrize("trainset", [[], [{"question": "Who?"}], [{"question": "Who?", "answer": " "}]])
def test_nothing_usable_is_refused_before_any_call(setting, trainset):
    world = setting()
    with pytest.raises(InputError, match="no train question"):
        compile_program(world.program, trainset)
    assert world.engine.calls == []


def test_options_that_cannot_work_are_refused_before_any_call(setting):
    world = setting()
    wrong = [
        {"optimizer": "magic"},
        {"demo": 3},
        {"in_flight": 0},
        {"cost_per_call": -1.0},
        {"boundary_tries": 4},
        {"cost_per_retrieval": -1.0},
    ]
    # What would be passed over in silence.
    wrong += [{"tuning": False, "cost_per_call": 0.1}]
    wrong += [{"tuning": False, "cost_per_retrieval": 0.3}, {"reference": False, "embedder": "hashing"}]
    wrong += [{"budget": "heavy"}, {"grid": {"pick": [True]}}]
    for options in wrong:
        with pytest.raises(ConfigurationError):
            compile_program(world.program, world.train, world.val, **options)
    assert world.engine.calls == []


def test_without_validation_questions_some_are_held_out(setting):
    world = setting(train=8, val=0)
    report = compile_program(world.program, world.train, sets=1, tuning=False, reference=False).report
    assert (report.trained_on, report.validated_on) == (6, 2)
    few = compile_program(world.program, world.train[:3], sets=0, tuning=False, reference=False).report
    assert (few.trained_on, few.validated_on) == (3, 3)
    assert "too few to hold some out" in few.problems[0]


@pytest.mark.slow
def test_questions_without_an_answer_score_nothing_and_end_nothing(setting, town, compiled):
    world = setting(town(refuses="Summarize"))
    found = compiled(world)
    assert found.report.before == found.report.after == (0.0, 0.0, 0.0, 0.0)
    # What could be right without a final answer is still learned from: gold decompositions, tries, quizzes.
    assert found.report.trials[1].name == "demonstrations 1"


@pytest.fixture
def one_hop():
    """Questions of one hop."""
    examples = [Example(f"o{n}", f"To whom is Bo Mayor{n} married?", (f"Ann Spouse{n}",)) for n in range(8)]
    return examples[:6], examples[6:]


@pytest.mark.slow
def test_one_hop_questions_learn_without_decomposition(setting, one_hop):
    world = setting(decompose=False)
    found = compile_program(world.program, *one_hop, sets=1, tuning=False)
    assert len(learned(found.program)["answering.answer"]) == 4
    assert learned(found.program)["decomposition.decompose"] == []
    assert found.report.after == (1.0, 1.0)


@pytest.mark.slow
def test_a_server_that_is_down_never_ends_in_a_program(setting, compiled):
    world = setting()
    reply = world.fail(ServerError("down"))
    with pytest.raises(TooManyFailuresError, match=r"scoring the program as it is: .*LMServerError"):
        compiled(world)
    world.engine.reply = reply
    world.fail(ServerError("down"), lambda name, inputs: name.startswith("Reason"))
    with pytest.raises(TooManyFailuresError, match=r"labelling passages: .*LMServerError"):
        compiled(world)
    world.engine.reply = reply
    found = compiled(world)
    assert (found.report.after, found.report.failed) == ((1.0, 1.0, 1.0, 1.0), [])


@pytest.mark.slow
def test_the_report_tells_what_failed_and_what_was_kept(setting, town, compiled):
    report = compiled(setting(town(refuses="Summarize")), tuning=False).report
    assert [(one.step, one.asked, one.failed, one.cause) for one in report.failed][:2] == [
        ("scoring the program as it is", 4, 4, "LMInvalidRequestError"),
        ("answering training questions", 6, 6, "LMInvalidRequestError"),
    ]
    assert report.about()["trials"][0] == {"name": "the program as it is", "score": 0.0, "kept": True}
    assert not report.about()["trials"][1]["kept"]


class Sub(KEQA):
    """A program that cannot be saved."""


@pytest.mark.parametrize(
    "options",
    [
        {"grid": {"threshold": ("2",)}},
        {"grid": {"top_p": (2.0,)}},
        pytest.param({"embedder": "/nowhere/model"}, marks=pytest.mark.process),
        {"reflection_lm": "a model"},
    ],
)
def test_what_only_a_late_step_needs_is_checked_before_any_call(setting, compiled, options):
    world = setting()
    with pytest.raises(KeqaError):
        compiled(world, **{"grid": SMALL} | options)
    assert world.engine.calls == []


def test_a_program_that_cannot_be_saved_is_refused_before_any_call(setting):
    world = setting()
    program = Sub(world.program._retriever.value)
    program.set_lm(world.lm)
    with pytest.raises(ConfigurationError, match="only a KEQA can be saved"):
        compile_program(program, world.train, world.val)
    assert world.engine.calls == []


def test_no_key_and_no_folder_is_saved(setting, compiled, tmp_path):
    found = compiled(setting(), tuning=False, reference=False)
    found.report.problems.append("/home/ann/train.jsonl, line 3: no answer; told sk-of-reflection and sk-of-settings")
    with dspy.context(lm=dspy.LM("openai/x", api_key="sk-of-settings")):
        reflecting = dspy.LM("openai/y", api_key="sk-of-reflection")
        found.reflection_lm = reflecting
        found.save(tmp_path / "program")
    (problem,) = json.loads((tmp_path / "program" / "program.json").read_text())["about"]["problems"]
    assert problem == "train.jsonl, line 3: no answer; told <secret> and <secret>"


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


@pytest.mark.process
def test_no_label_is_made_with_a_demonstration_of_the_same_question(setting, town, compiled):
    class Reworded(town):
        """Asks for mayors in other words than the gold quizzes do."""

        def DecomposeQuestion(self, inputs, config, shown):
            quizzes = super().DecomposeQuestion(inputs, config, shown)["quizzes"]
            return {"quizzes": quizzes.replace("Who governs", "Who now governs")}

    world = setting(Reworded())
    assert compiled(world, tuning=False).report.reference
    labelled = [
        (prompt, inputs["quiz"].removeprefix("Who governs "))
        for (name, inputs, _), prompt in zip(world.engine.calls, world.engine.prompts, strict=True)
        if name == "AnswerQuiz" and inputs["quiz"].startswith("Who governs Town")
    ]
    assert any("Who now governs" in prompt for prompt, _ in labelled)
    assert not any(f"Who now governs {town}" in prompt for prompt, town in labelled)


class Own(HashingEmbedder):
    """An embedder of one's own."""

    name = "own"


def test_a_program_is_not_saved_where_finished_work_is_kept(setting, compiled, tmp_path):
    found = compiled(setting(), sets=0, tuning=False, reference=False)
    for folder in (tmp_path / "work", tmp_path):
        with pytest.raises(InputError, match="work, where finished work is kept, is or lies in"):
            found.save(folder)
    found.save(tmp_path / "program")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program", "work"]


@pytest.mark.slow
def test_a_gate_of_ones_own_is_compiled_with_and_resumed_with(setting, compiled, plain_gate):
    first = compiled(setting(gate=plain_gate("1/2")), reference=False)
    assert any("the threshold of the gate 'plain' was left alone" in problem for problem in first.report.problems)
    world = setting(gate=plain_gate("1/2"))
    assert compiled(world, reference=False).report.trials == first.report.trials
    assert world.engine.calls == []


@pytest.mark.slow
def test_passages_without_a_label_are_told_by_cause_and_question(setting, compiled):
    world = setting(train=7)
    refused = InvalidRequestError("no such thing")
    world.fail(refused, lambda name, inputs: name == "ReasonWithKnowledge" and "sail" in inputs)
    (problem,) = [one for one in compiled(world, tuning=False).report.problems if "no label" in one]
    told = "7 passages have no label, since a call failed with LMInvalidRequestError: of training questions "
    assert problem == f"{told}t0, t1, t2, t3, t4 and 2 more"


@pytest.mark.slow
def test_the_program_keeps_what_it_learned_from(setting, compiled, tmp_path):
    world = setting()
    found = compiled(world)
    kept = found.program.learned
    assert kept.complete
    assert [name for name, _ in kept.train] == [one.id for one in world.train]
    assert [name for name, _ in kept.validation] == [one.id for one in world.val]
    assert world.program.learned == NOTHING
    for predictor in found.program.predictors():
        for demo in predictor.demos:
            assert kept.demonstrations[demonstration_digest(demo, predictor.signature)]
    found.save(tmp_path / "program")
    assert keqa.load(tmp_path / "program", None).learned == kept
    # What is compiled again has learned from both.
    again = compile_program(found.program, world.val, world.train[:2], optimizer="none", reference=False, tuning=False)
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
    loaded = keqa.load(tmp_path / "program", world.program.given_retriever)
    loaded.set_lm(world.lm)
    assert loaded.examination.gate == found.program.examination.gate
    assert program_fingerprint(loaded) == program_fingerprint(found.program)
    question = world.val[0].question
    assert loaded(question).answer == found.program(question).answer == "Ann Spouse16"


@pytest.mark.slow
def test_collecting_resumes(setting, compiled):
    world = bounded(setting)
    first = compiled(world, reference=False, boundary_tries=5)
    calls = len(world.engine.calls)
    again = compiled(world, reference=False, boundary_tries=5)
    assert len(world.engine.calls) == calls
    assert again.program.examination.gate == first.program.examination.gate
    assert again.report.curve == first.report.curve


def test_quizzes_of_validation_questions_and_of_the_prompt_are_not_learned_from(setting):
    world = bounded(setting)
    world.program.examination.quiz.demos = [dspy.Example(quiz="Who governs Town3?", answer="Bo Mayor3")]
    shared = replace(world.train[5], id="v", question="Another?")
    found = learn(
        world.program, world.train, [shared], tries=5, store=Kept(), in_flight=1, progress=lambda done, total: None
    )
    asked = {inputs["quiz"] for name, inputs, _ in world.engine.calls if name == "AnswerQuiz"}
    assert not asked & {"Who governs Town3?", "Who governs Town5?", "To whom is Bo Mayor5 married?"}
    assert found.held_out.quizzes == len(asked) == 16 * 2 - 3


def test_a_question_may_not_teach_and_choose(setting):
    world = bounded(setting)
    with pytest.raises(InputError, match="the training questions choose as well"):
        learn(
            world.program,
            world.train,
            [*world.val, world.train[0]],
            tries=5,
            store=Kept(),
            in_flight=1,
            progress=lambda *step: None,
        )
    assert world.engine.calls == []


@pytest.mark.parametrize(("questions", "quizzes"), [(9, 18), (4, 24)])
def test_too_little_to_learn_from_is_told_before_any_call(setting, questions, quizzes):
    world, names = bounded(setting), iter(range(100))
    train = [
        Example(
            f"q{number}",
            f"Who is it in Town{number}?",
            ("Bo",),
            quizzes=tuple(f"Who is {next(names)}?" for _ in range(quizzes // questions)),
            quiz_answers=("Bo",) * (quizzes // questions),
        )
        for number in range(questions)
    ]
    with pytest.raises(InputError, match=f"{quizzes} quizzes are too few to train a boundary model on"):
        learn(world.program, train, world.val, tries=5, store=Kept(), in_flight=1, progress=lambda *step: None)
    assert world.engine.calls == []


class Kept(dict):
    """Keeps draws in memory."""

    put = dict.__setitem__
