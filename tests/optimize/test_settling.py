"""By what a compiled program settles questions: the parts beside the whole, and which of them is kept."""

import json
from dataclasses import replace

import pytest
from fixtures.choosers import chooser
from fixtures.town import Town

import keqa
from keqa.optimize.asking import Trace
from keqa.optimize.compile import compile_program
from keqa.optimize.settling import Tried, Ways, cheapest_of_the_best, conflicts_in
from keqa.optimize.tuning import BOUNDARY, GRID, Point
from keqa.programs.records import ClusterRecord, QuestionRecord, QuizRecord, SampleRecord
from keqa.programs.reference.utility_reference import UtilityReference

ONLY_WAYS = {name: () for name in GRID if name not in (BOUNDARY, "settle")}


def point(way, scores, calls, retrievals=0.0):
    score = sum(scores) / len(scores)
    return Tried(
        Point({"settle": way}, score, retrievals, score - 0.02 * retrievals - 0.002 * calls, tuple(scores), calls), {}
    )


@pytest.mark.parametrize(
    ("draft", "reading", "quizzes", "kept"),
    [
        ((1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), "draft"),
        ((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), "reading"),
        ((0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1, 1), "quizzes"),
        # One question alone has no noise, and among many nothing against it is more than a standard error.
        ((0,), (0,), (0.1,), "quizzes"),
        ((0, *[1] * 99), (0,) * 100, (1,) * 100, "quizzes"),
        # So much is not worth seven calls more, and twice as much is.
        ((0,) * 100, (0, *[1] * 99), (1,) * 100, "reading"),
        ((0,) * 100, (0, 0, 0, *[1] * 97), (1,) * 100, "quizzes"),
        # Four for and two against are not.
        ((0,) * 100, (0, 0, 0, 0, *[1] * 96), (*[1] * 98, 0, 0), "reading"),
        # Memory alone is kept only where it is ahead beyond chance: it gives up the index.
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), "reading"),
        ((*[1] * 32, *[0] * 68), (*[0] * 72, *[1] * 28), (0,) * 100, "reading"),
        ((1,), (0,), (0,), "reading"),
        ((0,) * 100, (0,) * 100, (0,) * 100, "reading"),
        ((0, 0, 0, 0, *[1] * 96), (0,) * 100, (*[1] * 98, 0, 0), "quizzes"),
        # What few questions cannot tell apart may be far apart.
        ((0, 0, 1, 1), (0, 0, 0, 0), (1, 1, 0, 1), "quizzes"),
    ],
)
def test_of_the_ways_as_good_as_the_best_the_cheapest_is_kept(draft, reading, quizzes, kept):
    points = [point("quizzes", quizzes, 8.0, 1.4), point("reading", reading, 1.0, 1.0), point("draft", draft, 1.0)]
    assert cheapest_of_the_best(points).way == kept


def test_memory_alone_that_is_as_good_is_passed_over_and_named():
    draft = point("draft", (0, 0, 0, 0, *[1] * 96), 0.5)
    tried = [draft, point("reading", (*[1] * 98, 0, 0), 1.0, 1.0), point("quizzes", (0,) * 100, 8.0)]
    ways = Ways(None, [], 0.5, tried)
    assert ways.kept.way == "reading"
    assert ways.why.endswith("together, and no other is as good; memory alone is not ahead beyond chance")
    ways.asked = point("cascade", (*[1] * 99, 0), 2.0, 2.0)
    assert "it is as good as what keqa ask does, for what that costs more, and costs less" in ways.why


class ReadsWell(Town):
    """It writes what it reads by the whole name."""

    def AnswerWithKnowledge(self, inputs, config, shown):
        return super().AnswerWithKnowledge(inputs, config, True)


class KnowsAll(ReadsWell):
    """It knows the answer to every question, however it is asked."""

    def AnswerQuiz(self, inputs, config, shown):
        number = inputs["quiz"].split("Town")[-1].split("Mayor")[-1].split()[0].rstrip("?")
        return {"answer": f"Bo Mayor{number}" if "governs" in inputs["quiz"] else f"Ann Spouse{number}"}


class Reads(ReadsWell):
    """It reads well, knows mayors, and takes questions apart into what does not answer them."""

    def DecomposeQuestion(self, inputs, config, shown):
        return {"quizzes": '["Who governs Town0?", "Who governs Town1?"]'}


class Knows(Reads, KnowsAll):
    """It knows all, and neither reads well nor takes questions apart into what answers them."""

    def AnswerWithKnowledge(self, inputs, config, shown):
        return {"answer": "Al Wrong"}


class TakesApart(ReadsWell):
    """It reads the answer to a quiz, and none to a question of two."""

    def JudgeUtility(self, inputs, config, shown):
        return {"helpful": "mayor of" not in inputs["quiz"] and "married" in inputs["passage"]}


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Compiles nothing but the way of a program, for which few questions are enough."""
    monkeypatch.setattr("keqa.optimize.settling.FEWEST", 2)

    def run(world, folder="work", **options):
        quick = {"optimizer": "none", "reference": False, "boundary": False, "grid": ONLY_WAYS, "in_flight": 1}
        return compile_program(world.program, world.train, world.val, folder=tmp_path / folder, **quick | options)

    return run


@pytest.mark.parametrize(
    ("language_model", "kept", "scores", "why"),
    [
        (Knows, "draft", (1.0, 0.0, 0.0), "memory alone (draft) is kept: nothing scores better on validation and"),
        (
            KnowsAll,
            "reading",
            (1.0,) * 4,
            "one search and one reading (reading) is kept: nothing that searches scores better",
        ),
        (Reads, "reading", (0.0, 1.0, 0.0, 1.0), "one search and one reading (reading) is kept: nothing scores"),
        (TakesApart, "quizzes", (0.0, 0.0, 1.0, 1.0), "taking apart (quizzes) is kept: nothing scores better on"),
    ],
)
def test_the_way_that_a_language_model_is_good_at_is_kept(
    setting, compiled, tmp_path, language_model, kept, scores, why
):
    world = setting(language_model())
    found = compiled(world)
    ways = found.report.settling["ways"]
    # Where memory is ahead of all others, nothing could be cheaper, and no cascade is tried.
    assert [way["settle"] for way in ways] == ["draft", "reading", "quizzes", "cascade"][: len(scores)]
    assert tuple(way["score"] for way in ways) == scores
    assert ways[0]["calls"] == 1.0
    assert (found.program.settle, found.report.settings["settle"]) == (kept, ("quizzes", kept))
    assert found.report.settling["kept"] == kept
    assert found.report.settling["why"].startswith(why)
    assert found.report.after_score.mean == max(scores)
    found.save(tmp_path / "program")
    about = json.loads((tmp_path / "program" / "program.json").read_text())["about"]
    assert about["settling"] == found.report.settling
    assert keqa.load(tmp_path / "program", world.program.retriever).settle == kept


def test_one_reading_is_also_tried_of_all_passages_where_the_judge_helps_not(setting, compiled):
    class JudgesBadly(Reads):
        def JudgeUtility(self, inputs, config, shown):
            return {"helpful": False}

    grid = {name: values for name, values in ONLY_WAYS.items() if name != "pick"}
    found = compiled(setting(JudgesBadly(), on_nothing_helpful="closed_book"), grid=grid)
    assert (found.report.settling["kept"], found.program.settle, found.program.pick) == ("reading", "reading", False)
    assert found.report.settings["pick"] == (True, False)
    assert found.report.after_score.mean == 1.0


@pytest.fixture
def enough(monkeypatch):
    """Makes so many training questions enough to learn a chooser from, of which there must be 50 otherwise."""
    return lambda count: monkeypatch.setattr("keqa.optimize.boundary.choosing.FEWEST", count)


def test_one_reading_is_also_tried_after_a_chain_of_thought_and_over_further_passages(setting, compiled):
    class Reasons(Reads):
        def AnswerWithKnowledge(self, inputs, config, shown):
            return {"answer": "Al Wrong"}

        def ReasonWithKnowledge(self, inputs, config, shown):
            if "sail" in inputs["passages"]:
                return super().AnswerWithKnowledge(inputs, config, True)
            return {"reasoning": "It is told.", "answer": "Al Wrong"}

    grid = {name: values for name, values in ONLY_WAYS.items() if name not in ("reason", "expand")}
    found = compiled(setting(Reasons(), train=4, top_k=1, pick=False), grid=grid)
    assert found.report.settling["kept"] == found.program.settle == "reading"
    assert (found.program.reason, found.program.expand) == (True, 3)
    assert found.report.after_score.mean == 1.0


class Mixed(ReadsWell):
    """It knows a third of the answers, reads those of another third, and has to take all others apart.

    Where it finds nothing to read, what it knows is the answer.
    """

    def AnswerQuiz(self, inputs, config, shown):
        number = int("".join(char for char in inputs["quiz"] if char.isdigit()))
        if "governs" in inputs["quiz"]:
            return {"answer": f"Bo Mayor{number}"}
        return {"answer": f"Ann Spouse{number}" if number % 3 == 0 and "mayor of" in inputs["quiz"] else "unknown"}

    def JudgeUtility(self, inputs, config, shown):
        number = int("".join(char for char in inputs["quiz"] if char.isdigit()))
        told = "mayor of" not in inputs["quiz"] or number % 3 == 1
        return {"helpful": told and "married" in inputs["passage"]}


@pytest.mark.slow
def test_a_chooser_is_kept_where_it_is_as_good_as_taking_apart_for_fewer_calls(setting, compiled, tmp_path):
    world = setting(Mixed(), train=51, val=12)
    found = compiled(world)
    scores = {way["settle"]: way["score"] for way in found.report.settling["ways"]}
    calls = {way["settle"]: way["calls"] for way in found.report.settling["ways"]}
    assert scores == pytest.approx({"draft": 1 / 3, "reading": 2 / 3, "quizzes": 1, "cascade": 1}, abs=0.01)
    assert calls["draft"] < calls["cascade"] < calls["quizzes"]
    assert (found.report.settling["kept"], found.program.settle, found.report.problems) == ("cascade", "cascade", [])
    assert [found.program(one.question).record.settled_by for one in world.val[:3]] == ["draft", "reading", "quizzes"]
    found.save(tmp_path / "program")
    loaded = keqa.load(tmp_path / "program", world.program.retriever)
    loaded.set_lm(world.lm)
    calls = len(world.engine.calls)
    assert compiled(world).report.settling == found.report.settling
    assert len(world.engine.calls) == calls, "the same folder asks nothing twice"
    assert [loaded(one.question).record.settled_by for one in world.val[:3]] == ["draft", "reading", "quizzes"]


@pytest.mark.parametrize(
    "ways", [pytest.param(("draft", "reading", "cascade"), marks=pytest.mark.slow), ("draft", "reading")]
)
def test_memory_that_is_right_by_chance_is_not_kept_where_training_questions_say_so(setting, compiled, enough, ways):
    enough(12)

    class KnowsTheLast(Reads):
        def AnswerQuiz(self, inputs, config, shown):
            number = int("".join(char for char in inputs["quiz"] if char.isdigit()))
            return {"answer": f"Ann Spouse{number}" if number >= 12 else "unknown"}

    found = compiled(setting(KnowsTheLast(), train=12, val=5), grid=ONLY_WAYS | {"settle": ways})
    scores = {way["settle"]: (way["score"], way.get("training_score")) for way in found.report.settling["ways"]}
    assert (scores["draft"], scores["reading"]) == ((1.0, 0.0), (1.0, 1.0))
    assert found.report.settling["kept"] == "reading"


def test_an_index_that_does_not_answer_the_training_questions_is_a_problem(setting, compiled, enough):
    enough(12)
    world = setting(Town(), train=12, val=5)
    grid = ONLY_WAYS | {"settle": ("draft", "reading")}
    assert not [one for one in compiled(world, grid=grid).report.problems if "training questions" in one]
    other = [replace(one, answers=("Nobody at all",)) for one in world.train]
    found = compiled(replace(world, train=other), folder="other", grid=grid)
    assert found.report.problems == [
        "of 12 training questions the passages found hold a gold answer to 0: what searching is worth cannot be "
        "learned from questions that the index does not answer"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("whole", "cascade"), [("unknown", 1.0), ("Al Wrong", 1 / 12)])
def test_a_cascade_goes_on_where_a_reading_tells_nothing(setting, compiled, enough, whole, cascade):
    enough(12)

    class ReadsQuizzes(Town):
        def JudgeUtility(self, inputs, config, shown):
            return {"helpful": True}

        def AnswerWithKnowledge(self, inputs, config, shown):
            said = super().AnswerWithKnowledge(inputs, config, True)
            number = int("".join(char for char in inputs["question"] if char.isdigit()))
            return {"answer": whole} if "mayor of" in inputs["question"] and number % 12 else said

    # Memory is no answer here, and readings are weak.
    grid = ONLY_WAYS | {"settle": ("reading", "quizzes", "cascade")}
    found = compiled(setting(ReadsQuizzes(), train=12, val=5), grid=grid)
    scores = {way["settle"]: way["training_score"] for way in found.report.settling["ways"]}
    assert scores == {"reading": 1 / 12, "quizzes": 1.0, "cascade": cascade}
    assert (found.report.settling["kept"], found.report.problems) == ("quizzes", [])


def test_too_few_questions_teach_no_chooser(setting, compiled):
    found = compiled(setting(Mixed(), train=49, val=6))
    assert found.report.problems == [
        "no chooser between memory, reading and quizzes: 49 questions are too few to learn from: 50 at least"
    ]


def test_by_too_few_questions_no_way_is_chosen(setting, compiled, monkeypatch):
    monkeypatch.setattr("keqa.optimize.settling.FEWEST", 25)
    found = compiled(setting(KnowsAll(), train=20, val=4))
    assert (found.program.settle, found.report.settling) == ("quizzes", None)
    assert found.report.problems == [
        "24 questions are too few to choose by between memory, reading and taking apart, 25 at least: quizzes stays"
    ]
    assert compiled(setting(Knows(), train=20, val=5), folder="more").program.settle == "draft"
    # Those that learn and choose count once.
    few = setting(KnowsAll(), train=6)
    assert "6 questions are too few" in compiled(replace(few, val=None), folder="few").report.problems[-1]
    # Over documents of one's own it is as keqa ask has it, but for what was set.
    world = setting(KnowsAll(), train=20, val=4, expand=2)
    world.program.retriever.own_documents = True
    found = compiled(world, folder="own", grid={"expand": (), "read_together": ()})
    settings = [getattr(found.program, name) for name in ("draft", "settle", "expand", "pick", "read_together")]
    assert settings == [True, "cascade", 2, False, False]
    assert "24 questions are too few to choose how they are settled" in found.report.problems[-1]
    world.program.reference = UtilityReference()
    assert [*world.program.as_asked] == ["draft", "settle", "read_together"]


def test_what_is_set_by_the_user_is_left_alone(setting, compiled):
    assert compiled(setting(Knows(), settle="reading")).report.settling is None
    assert compiled(setting(Knows()), grid=ONLY_WAYS | {"settle": ()}).report.settling is None
    assert compiled(setting(Knows()), tuning=False, grid={}).report.settling is None


def test_choosers_of_the_user_are_tuned_with(setting, compiled):
    never = chooser(0.1, {"draft": 0.1, "reading": 0.9}, onward=[0.9])
    world = setting(Reads(), settle="cascade", chooser=never)
    found = compiled(world, grid=ONLY_WAYS | {"top_k": (1, 2)})
    assert (found.report.settling, found.program.settle, found.program.chooser) == (None, "cascade", never)
    assert found.report.after_score.mean == 1.0
    # It prefers what memory guesses to what is read.
    remembers = chooser(0.5, {"draft": 0.9, "reading": 0.1})
    world = setting(TakesApart(), threshold=1, tries=2, arbiter=remembers)
    found = compiled(world, folder="arbiter", grid=ONLY_WAYS | {"settle": ()})
    assert found.program.arbiter == remembers
    assert [point.score for point in found.report.curve] == [0.0]
    assert "guess" in found.program(world.val[0].question).answer


def test_of_a_quiz_whose_memory_and_passages_differ_it_is_said_which_is_right(setting):
    world = setting(Reads())
    quizzes = {
        "stale": ("Who governs Town0?", ["Bo Mayor0", "Al", "Bo Mayor0"], "Al Older0", "passages"),
        "same": ("Who governs Town1?", ["Bo Mayor1"], "bo mayor1", "passages"),
        "known": ("Who governs Town2?", ["Bo Mayor2"], "Bo Mayor2", "memory"),
    }
    traces = []
    for example, (text, said, answer, source) in zip(world.train, quizzes.values(), strict=False):
        members = [place for place, one in enumerate(said) if one.startswith("Bo")]
        asked = {"index": 1, "text": text, "resolved": text, "answer": answer, "source": source}
        samples = [SampleRecord(text=one, probability=0.5) for one in said]
        clusters = [ClusterRecord(answer=said[0], size=len(members), members=members)]
        quiz = QuizRecord(**asked, samples=samples, clusters=clusters)
        record = QuestionRecord(question=example.question, quizzes=[quiz, quiz.model_copy(update={"index": 2})])
        traces.append(Trace(example, record, 1.0))
    [found] = conflicts_in(traces)
    assert (found.draft, found.reading, found.further) == ("Bo Mayor0", "Al Older0", ["Bo Mayor0", "Al"])
    assert (found.right, found.reading_right, found.probability) == (True, False, 0.5)
