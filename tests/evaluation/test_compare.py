from dataclasses import replace

import pytest
from fixtures.boundary import make_model

from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.compare import compare, run_path
from keqa.evaluation.evaluate import describe
from keqa.evaluation.questions import Questions
from keqa.evaluation.run_file import read_run
from keqa.lms import Roles
from keqa.programs.build import Parts, make
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.registry import METHODS, arguments_of, load_class, parse_spec
from keqa.programs.shared_draws import SharedDraws

TOWNS = [
    {
        "id": f"t{n}",
        "question": f"Who governs Town{n}?",
        "answer": f"Mayor{n}",
        "quizzes": [f"Who governs Town{n}?"],
        "quiz_answers": [f"Mayor{n}"],
    }
    for n in range(10)
]


def governs(name, inputs, config):
    """Knows the mayors of two towns, guesses those of the others, and reads all from passages."""
    town = next(char for char in str(inputs) if char.isdigit())
    if name == "DecomposeQuestion":
        return {"quizzes": f'["Who governs Town{town}?"]'}
    if name == "AnswerQuiz":
        return {"answer": f"Mayor{town}" if town in "01" else f"guess {config.extensions or id(config)}"}
    if name == "JudgeConsistency":
        return {"same": False}
    if name == "JudgeUtility":
        return {"helpful": True}
    return {"answer": f"Mayor{town}"}


@pytest.fixture
def asking(scripted, retriever, tmp_path):
    """Compares methods and returns their rows, with the engine behind them."""
    lm, engine = scripted(governs, cache=True)
    lm.model = "scripted/mayors"
    parts = Parts(retriever("Town0 to Town3."), Roles(lm, lm, lm))

    def run(*names, count=4, settings=None, draws=None, **kwargs):
        with CallCache(tmp_path / "calls.sqlite") as cache:
            specs = [parse_spec(name) for name in names]
            questions = Questions("towns", "dev", 0, TOWNS[:count])
            given = replace(parts, settings=settings or {}, draws=draws)
            return list(compare(specs, questions, given, folder=tmp_path, cache=cache, **kwargs))

    return run, engine


def test_each_method_has_a_file_of_its_own(asking, tmp_path):
    run, _ = asking
    told = []
    rows = run("closed-book", "rag:top_k=1", progress=lambda label, tally: told.append(label))
    assert [row.path for row in rows] == [tmp_path / "closed-book.jsonl", tmp_path / "rag-top_k=1.jsonl"]
    assert told == ["closed-book"] * 4 + ["rag-top_k=1"] * 4
    header = read_run(rows[1].path).header
    assert (header.method, header.label, header.dataset, header.split) == ("rag", "rag-top_k=1", "towns", "dev")
    assert header.configuration.settings["top_k"] == 1
    assert header.configuration.arguments == {"top_k": "1"}


def test_rows_share_what_was_asked(asking):
    run, engine = asking
    first, second = run("keqa", "keqa-no-ukp")
    assert first.tally.cost.calls == first.tally.cost.lm_requests
    # Quizzes and draws are the same; only what the picked passages change is asked anew, and here nothing.
    assert second.tally.cost.calls == 0 < second.tally.cost.lm_requests
    before = len(engine.calls)
    assert [row.tally.asked for row in run("keqa", "keqa-no-ukp", "closed-book")] == [0, 0, 4]
    assert len(engine.calls) == before + 4


def test_gates_read_the_same_draws(asking):
    run, engine = asking
    rows = run("gate-votes", "gate-certainty", "gate-never", "gate-oracle")
    assert engine.count["AnswerQuiz"] == 4 * 5
    known = {row.spec.label: [line.record.quizzes[0].known for line in read_run(row.path).lines] for row in rows}
    assert known["gate-votes"] == known["gate-oracle"] == [True, True, False, False]
    assert known["gate-never"] == [True] * 4
    # Only the oracle is told gold answers.
    assert [row.spec.label for row in rows if b'"golds"' in row.path.read_bytes().split(b"\n")[0]] == ["gate-oracle"]


def test_shared_draws_that_failed_are_made_again_only_where_that_is_wanted(asking):
    run, engine = asking
    engine.reply = lambda name, *rest: "garbage {" if name == "AnswerQuiz" else governs(name, *rest)
    draws, made = SharedDraws(), []
    for gate, again in (("gate-votes", {}), ("gate-certainty", {}), ("gate-oracle", {"retry_failed": True})):
        run(gate, draws=draws, count=1, **again)
        made.append(engine.count["AnswerQuiz"])
    assert 0 < made[0] == made[1] < made[2]


def test_the_oracle_knows_quizzes_in_the_words_of_the_language_model(asking):
    run, engine = asking

    def reworded(name, inputs, config):
        if name == "DecomposeQuestion":
            town = next(char for char in str(inputs) if char.isdigit())
            asked = "Who is it that governs" if town in "02" else "What is the size of"
            return {"quizzes": f'["{asked} Town{town}?"]'}
        return governs(name, inputs, config)

    engine.reply = reworded
    (row,) = run("gate-oracle")
    run_file = read_run(row.path)
    # Of the mayors of Town0 and Town2 it has the gold answer, and the first is known; of sizes it has none.
    assert [line.record.quizzes[0].known for line in run_file.lines] == [True, False, False, False]
    assert [line.golds for line in run_file.lines] == [
        {"Who is it that governs Town0?": ["Mayor0"]},
        {},
        {"Who is it that governs Town2?": ["Mayor2"]},
        {},
    ]
    assert run_file.header.configuration.golds


def test_the_other_gates_go_on_without_the_one_that_needs_probabilities(asking, tmp_path):
    run, _ = asking
    told = []
    names = ("gate-votes", "gate-probability", "gate-random:threshold=1/2", "closed-book")
    rows = run(*names, left_out=lambda spec, error: told.append(spec.label))
    assert told == ["gate-probability"]
    assert [row.spec.label for row in rows] == ["closed-book", "gate-votes", "gate-random-threshold=1_2"]
    assert read_run(rows[1].path).header.configuration.settings["draws"]["probabilities"] is False
    assert not (tmp_path / "gate-probability.jsonl").exists()


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (("keqa", "keqa"), InputError, "called the same"),
        (("closed-book", "keqa-random-reference"), ConfigurationError, "--program"),
    ],
)
def test_what_cannot_be_made_is_told_before_anything_is_asked(asking, names, error, message):
    run, engine = asking
    with pytest.raises(error, match=message):
        run(*names)
    assert engine.calls == []


@pytest.mark.parametrize("label", ["", ".hidden", "a/b", "..", "a\\b"])
def test_a_label_that_can_name_no_file(tmp_path, label):
    with pytest.raises(InputError, match="cannot name a file"):
        run_path(tmp_path, label)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"cot-few-shot", "keqa-no-reference", "keqa-random-reference"}))
def test_a_configuration_tells_every_argument_of_a_method(retriever, name):
    parts = Parts(retriever("x"), None, draws=SharedDraws(probabilities=True), golds={})
    spec = parse_spec(name)
    # What it is not made without a user names.
    own = {"gate-boundary": {"model": make_model()}, "gate-random": {"threshold": "1/2"}}.get(name, {})
    program = make(replace(spec, arguments=own), parts)
    arguments = set(arguments_of(load_class(METHODS[name].target))) - {"workers", "lms", "retriever", "reference"}
    # Fixed demonstrations are among the prompts where they are shown; what came later is told where it is not usual.
    arguments -= {"demonstrations", "draft", "cite", "settle", "expand", "chooser", "arbiter"}
    told = describe(program)["settings"]
    assert arguments <= set(told)


def test_questions_may_set_a_method_up_and_the_header_tells(retriever, scripted, tmp_path):
    lm, _ = scripted(
        lambda name, inputs, config: {"thought": "So the answer is Ann.", "reasoning": "", "answer": "Ann"}
    )
    lm.model = "scripted/mayors"
    parts = Parts(retriever("Town0 to Town3."), Roles(lm, lm, lm))
    questions = Questions("towns", "dev", 0, TOWNS[:1], settings={"ircot": {"max_passages": 8}})
    specs = [parse_spec(name) for name in ("ircot", "ircot:max_passages=2", "closed-book")]
    with CallCache(None) as cache:
        rows = list(compare(specs, questions, parts, folder=tmp_path, cache=cache))
    told = [read_run(row.path).header.configuration for row in rows]
    assert [one.settings.get("max_passages") for one in told] == [8, 2, None]
    assert [one.arguments for one in told] == [{"max_passages": "8"}, {"max_passages": "2"}, {}]
