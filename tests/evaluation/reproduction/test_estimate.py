"""What experiments will cost, from a rehearsal without a language model."""

import json

import pytest
from fixtures.run_files import make_line, make_run, shown, write_run

from keqa.data.example import as_examples
from keqa.errors import InputError
from keqa.evaluation.questions import Questions
from keqa.evaluation.reproduction import estimate as module
from keqa.evaluation.reproduction import training
from keqa.evaluation.reproduction.estimate import (
    CostBounds,
    Estimate,
    TrainingCost,
    counter,
    estimate,
    estimate_compilation,
    estimate_compiling,
    estimate_labels,
    estimate_reference,
    estimates,
    expected,
    price,
    spent_by_run,
    spent_on_training,
    spent_table,
)
from keqa.evaluation.reproduction.rehearsal import Spent, rehearsed_program
from keqa.lms.factory import Roles, build_roles
from keqa.optimize.options import Split
from keqa.programs.build import Parts, make
from keqa.programs.records import CallCost, Cost
from keqa.programs.registry import METHODS, parse_spec
from keqa.programs.saving import about, load


@pytest.fixture
def rehearse(retriever):
    questions = as_examples({"question": f"Who is number {n}?", "answer": "x"} for n in range(40))
    found = retriever("A passage.", "Another one.")

    def run(name, model="openai/gpt-4o-mini", judge=None, **settings):
        models = {"task": model, "consistency": judge or model, "utility": judge or model}
        return estimate("mine", parse_spec(name), questions, Parts(found, None, settings), models)

    return run


def test_each_language_model_is_asked_in_its_roles(rehearse, monkeypatch):
    monkeypatch.setattr("litellm.completion", lambda *arguments, **settings: pytest.fail("asked"))
    book = rehearse("closed-book").total
    assert (book.known.calls, book.unknown.calls) == (40, 40)
    mine, judge = "openai/gpt-4o-mini", "hosted_vllm/llama"
    keqa = rehearse("keqa", mine, judge, tries=5, threshold="0.8", top_k=10).bounds
    # Known: decompose, two quizzes of four equal draws, summarize. Unknown: all five draws of both, each compared with
    # every earlier one, two passages judged for each, answers, summary; comparisons and passages are the judge's.
    assert (keqa[mine].known.calls, keqa[mine].unknown.calls) == (40 * (1 + 2 * 4 + 1), 40 * (1 + 2 * 5 + 1))
    assert (keqa[judge].known.calls, keqa[judge].unknown.calls) == (0, 40 * 2 * (10 + 2))
    both = rehearse("keqa", tries=5, threshold="0.8", top_k=10)
    assert (set(both.bounds), both.questions) == ({mine}, 40)
    assert both.total.unknown.calls == 40 * (1 + 2 * (5 + 10 + 2) + 1)
    assert both.total.most.read > both.total.least.read > 0
    # Of the gates, which share their draws, one needs the probabilities of these.
    assert rehearse("gate-probability", tries=1).total.least.calls == 40 * (1 + 2 * 1 + 1)
    # SlimPLM's proxy proposes and judges, and where it does not know, rewrites and judges two queries.
    slimplm = rehearse("slimplm", mine, judge).bounds
    assert (slimplm[mine].known.calls, slimplm[mine].unknown.calls) == (40, 40)
    assert (slimplm[judge].known.calls, slimplm[judge].unknown.calls) == (40 * 2, 40 * (2 + 1 + 2))


@pytest.mark.model
def test_what_the_model_that_ships_is_asked_is_as_many_tokens_as_it_reads(retriever):
    asked = as_examples({"question": f"Where was person {n} born?", "answer": "x"} for n in range(3))
    parts = Parts(retriever("A passage of Carmouth.", "Another one."), build_roles("keqa/tiny", cache=False))
    models = dict.fromkeys(ROLES, "keqa/tiny")
    for name in ("closed-book", "rag"):
        program = make(parse_spec(name), parts)
        costs = [program(question=one.question).record.cost.by_role["task"] for one in asked]
        found = estimate("mine", parse_spec(name), asked, parts, models).total.least
        assert (found.calls, found.read) == (3, sum(cost.prompt_tokens for cost in costs))
        assert 0 < found.written < 12 * found.calls


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        # A sentence that concludes, or eight that do not; an answer.
        ("ircot", 2, 8 + 1),
        # The conclusion from what is found for the question; or that sentence and seven more, each again with passages.
        ("flare", 1, 1 + 2 * 7 + 1),
        # A plan, two queries read and found right, and the summary; or five plans, each with a wrong answer.
        ("searchain", 1 + 2 + 1, 5 * (1 + 1 + 1) + 1),
        # No passage is asked for; or an answer and three critiques for each of two.
        ("self-rag", 1 + 1, 1 + 2 * (1 + 3)),
        # Seven searches, or none.
        ("react", 1 + 1, 7 + 1),
    ],
)
def test_the_most_is_every_step_that_a_method_may_take(rehearse, name, least, most):
    bounds = rehearse(name).total
    assert (bounds.least.calls / 40, bounds.most.calls / 40) == (least, most)
    assert bounds.most == bounds.unknown


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if one.kind == "baseline" and not one.learned])
def test_every_existing_method_can_be_rehearsed(rehearse, name):
    found = rehearse(name).total
    assert found.least.calls >= 40
    assert found.most.written > 0


def test_no_tokenizer_is_fetched(monkeypatch):
    import litellm.utils

    monkeypatch.setattr(litellm, "disable_hf_tokenizer_download", None)
    monkeypatch.setattr(litellm.utils, "_return_huggingface_tokenizer", lambda model: pytest.fail("fetched"))
    assert counter("hosted_vllm/meta-llama/Llama-2-7b-chat-hf")("Who governs Carmouth?") > 3


def test_prices_are_those_of_the_map_that_comes_with_litellm():
    spent = Spent(10, 2_000_000, 1_000_000)
    assert price("gpt-3.5-turbo", spent) == pytest.approx(2 * 0.5 + 1.5)
    assert price("hosted_vllm/mine", spent) is None


def test_the_table_sums_up_and_says_which_price_is_unknown():
    one = CostBounds(Spent(10, 1_000_000, 0), Spent(20, 500_000, 1_000_000))
    rows = [Estimate("nq", name, 5, {"gpt-3.5-turbo": one}) for name in ("keqa", "rag")]
    first, _, last = ([cell.text for cell in row] for row in estimates(rows).rows)
    assert first == [*("nq", "keqa", "5", "10", "20", "500,000", "1,000,000", "0", "1,000,000", "0.25", "2.00")]
    assert (last[:4], last[-2:]) == (["all", "", "10", "20"], ["0.50", "4.00"])
    unknown = estimates([*rows, Estimate("nq", "keqa-b", 5, {"gpt-3.5-turbo": one, "hosted_vllm/mine": one})])
    (keqa_b, *sums) = [[cell.text for cell in row] for row in unknown.rows[2:]]
    assert (keqa_b[3:5], keqa_b[-2:]) == (["20", "40"], ["0.25", "2.00"])
    assert [(one[:3], one[3:5], one[-2:]) for one in sums] == [
        (["all", "", "15"], ["40", "80"], ["0.75", "6.00"]),
        (["all", "gpt-3.5-turbo", "15"], ["30", "60"], ["0.75", "6.00"]),
        (["all", "hosted_vllm/mine", "5"], ["10", "20"], ["unknown", "unknown"]),
    ]
    assert "hosted_vllm/mine is unknown" in unknown.notes[1]


MODEL = "openai/gpt-4o-mini"
ROLES = dict.fromkeys(("task", "consistency", "utility"), MODEL)
TRAIN = as_examples({"question": f"Who is number {n}?", "answer": f"a{n}", "one_hop": n < 10} for n in range(40))


def test_what_is_learned_beforehand_is_rehearsed(retriever):
    found = retriever("A passage.", "Another one.")
    # Of 10 questions asked at once and 30 that are decomposed, three of each: without passages, and with each of two.
    reference = estimate_reference("R", TRAIN, found, {"tries": 2, "top_k": 2}, MODEL)
    assert (reference.dataset, reference.label, reference.questions) == ("training", "R", 40)
    assert [one.calls for one in reference.bounds[MODEL]] == [40 * 3] * 2
    assert all(one.read > one.written > 0 for one in reference.bounds[MODEL])
    plain = Estimate("nq", "rag", 40, {MODEL: CostBounds(Spent(40, 400, 80), Spent(80, 800, 160))})
    # The most: 30 are learned from, and each of 10 is asked of the program, of six sets for it, and of two predictors.
    compiled = estimate_compiling(plain, "rag-compiled", 2)
    bounds = {MODEL: CostBounds(Spent(40, 400, 80), Spent(200, 2000, 400))}
    assert compiled == Estimate("training", "rag-compiled", 40, bounds)
    # The comparisons of three draws of two quizzes, where nothing is known.
    labels = estimate_labels("nq", TRAIN, Parts(found, None, {"tries": 3}), ROLES, "judge")
    assert (labels.dataset, labels.label, labels.questions) == ("nq", "labels of Table 2 by judge", 40)
    assert [one.calls for one in labels.bounds["judge"]] == [0, 40 * 2 * 3]
    options = {"boundary": False, "tuning": False, "boundary_tries": 5, "optimizer": "bootstrap", "sets": 4}
    parts = Parts(found, None, {})
    whole = estimate_compilation(parse_spec("rag"), parts, Split(TRAIN[:30], TRAIN[30:]), ROLES, options)
    assert (whole.dataset, whole.label, whole.questions) == ("training", "rag", 30)
    # What is asked twice is counted once. Four sets of demonstrations are tried on those to choose by, which are one of
    # five in the rehearsal.
    shared = estimate_compilation(parse_spec("rag"), parts, Split(TRAIN, TRAIN), ROLES, options)
    assert [one.calls for one in whole.bounds[MODEL]] == [40 + 4 * 8, 40 + 4 * 10]
    assert [one.calls for one in shared.bounds[MODEL]] == [40 + 4 * 40, 40 + 4 * 40]
    without = estimate_compilation(
        parse_spec("rag"), parts, Split(TRAIN, TRAIN), ROLES, {**options, "optimizer": "none"}
    )
    assert [one.calls for one in without.bounds[MODEL]] == [40, 40]


def test_a_compilation_is_rehearsed_with_some_of_its_questions_and_draws_and_ways_are_added(retriever, monkeypatch):
    rehearsed, ways = [], []

    def compile_one(program, train, val, *, metric, **options):
        rehearsed.append(([one.id for one in train], val and [one.id for one in val], metric("x", "y"), options))
        for role, calls in (("task", 2), ("consistency", 1)):
            for _ in range(calls):
                getattr(program.lms, role)("Who?")

    def of_way(dataset, spec, questions, parts, models):
        ways.append((spec.arguments, len(questions)))
        return Estimate(dataset, "", 0, {"m": CostBounds(Spent(100), Spent(200)), "j": CostBounds(Spent(), Spent(1))})

    monkeypatch.setattr(module, "compile_program", compile_one)
    monkeypatch.setattr(module, "estimate", of_way)
    monkeypatch.setattr(module, "f1", lambda *_: 0.25)
    models, parts = {"task": "m", "consistency": "j", "utility": "j"}, Parts(retriever("A passage."), None, {})
    given = {"boundary": True, "tuning": True, "boundary_tries": 5, "optimizer": "gepa", "sets": 3}

    def calls(name, train, val, **over):
        rehearsed.clear(), ways.clear()
        found = estimate_compilation(parse_spec(name), parts, Split(train, val), models, given | over).bounds
        return {model: [one.calls for one in bounds] for model, bounds in found.items()}

    quizzes = [{"decomposition": [{"question": f"Q{n}?", "answer": "x"}]} for n in range(60)]
    many = as_examples({"question": f"{n}?", "answer": "x", "id": str(n), **quiz} for n, quiz in enumerate(quizzes))
    # 75 questions by the rehearsal of five; five draws of 50 quizzes; and three ways, one of them in four forms.
    assert calls("keqa", many[:50], many[50:]) == {"m": [24 + 250 + 600, 24 + 250 + 1200], "j": [12, 12 + 6]}
    asked = {"boundary": False, "embedder": None, "training": {}, "budget": "light", "optimizer": "none"}
    asked["grid"] = {"settle": ()}
    options = {**given, **asked}
    assert rehearsed == [(["0", "1", "2", "3"], ["50"], metric, options) for metric in (1.0, 0.25)]
    readings = [
        {"settle": "reading", "reason": reason, "expand": expand} for reason in (False, True) for expand in (0, 3)
    ]
    assert ways == [(way, 60) for way in ({"settle": "quizzes"}, {"settle": "draft"}, *readings)]
    # Too few questions to choose by how to settle them, and no boundary; then too few quizzes, and both parts together.
    assert calls("keqa", many[:24], many[:24], boundary=False) == {"m": [12, 12], "j": [6, 6]}
    assert rehearsed[0][3]["grid"] == {}
    assert ([one[1] for one in rehearsed], ways) == ([None, None], [])
    # Three sets of demonstrations besides, where little is known.
    assert calls("keqa", many[:19], many[19:], optimizer="bootstrap")["m"] == [15.0 + 600, 15.0 + 3 * 200 + 1200]
    assert [one[3]["optimizer"] for one in rehearsed] == ["bootstrap"] * 2
    assert [one[1] for one in rehearsed] == [["19", "20", "21", "22"]] * 2
    assert calls("rag", many[:50], many[50:])["m"] == [24.0, 24.0]
    # Over documents of one's own it is memory alone that is not tried, and what is asked without compiling is.
    parts.retriever.own_documents = True
    as_asked = {"draft": True, "settle": "cascade", "expand": 3, "pick": False, "read_together": True}
    calls("keqa", many[:50], many[50:])
    assert ways == [(way, 60) for way in ({"settle": "quizzes"}, *readings[:2], as_asked)]
    # Who set how it is settled has no other way tried.
    parts.settings["settle"] = "reading"
    assert (calls("keqa", many[:50], many[50:])["m"], ways) == ([24 + 250, 24 + 250], [])


def test_what_training_spent_earlier_counts_and_what_is_not_named_is_nothing(tmp_path, monkeypatch):
    spent = {"spent": {"calls": 2, "prompt_tokens": 7}, "spent_earlier": {"calls": 1, "completion_tokens": 3}}
    monkeypatch.setattr(module, "about", lambda _: spent | {"questions": {"train": 2, "validation": 0}})
    assert spent_on_training(tmp_path, MODEL) == TrainingCost({MODEL: Spent(3, 7, 3)}, 2, 0, 0)


def test_what_a_smaller_run_cost_is_expected_of_a_larger(tmp_path):
    task, boundary = CallCost(samples=1, prompt_tokens=6, completion_tokens=3), CallCost(samples=1, prompt_tokens=4)
    cost = Cost(by_role={"task": task, "boundary": boundary})
    made = make_run("rag", [make_line(n, 1.0, cost=cost) for n in range(4)])
    assert spent_by_run(tmp_path, "rag", {"task": MODEL}) is None
    write_run(tmp_path / "rag.jsonl", made)
    found = spent_by_run(tmp_path, "rag", {"task": MODEL})
    assert found == (4, {MODEL: Spent(8, 40, 12)})
    plain = Estimate("nq", "rag", 40, {MODEL: CostBounds(Spent(), Spent())})
    assert expected(plain, None) is plain
    assert expected(plain, found).expected == {MODEL: Spent(80, 400, 120)}
    assert expected(plain, found, 2).expected == {MODEL: Spent(4, 20, 6)}
    spent = {"gpt-3.5-turbo": Spent(8, 1_000_000, 0)}
    assert shown(spent_table([("nq", "rag", found), ("nq", "keqa", (4, spent))])) == [
        ["nq", "rag", "8", "40", "12", "0.00"],
        ["nq", "keqa", "8", "1000000", "0", "0.50"],
        ["all", "", "16", "1000040", "12", "0.50"],
    ]


def test_a_rehearsed_and_a_built_reference_are_saved_with_what_they_cost(retriever, scripted, tmp_path):
    found = retriever("A passage.", "Another one.")
    reference = load(rehearsed_program(TRAIN, found, tmp_path / "rehearsed", 2), found).picking.reference
    assert [(one.passage, one.helpful) for one in reference.entries] == [
        ("A passage.", True),
        ("Another one.", False),
    ] * 5
    assert (reference.least, reference.form) == (0, "joint")
    assert load(rehearsed_program([], found, tmp_path / "none", 2), found).picking.reference is None

    def reply(name, inputs, config):
        return {"reasoning": "So.", "answer": "a1" if "Another" in inputs.get("passages", "") else "x"}

    lm, _ = scripted(reply)
    lms, how = Roles(lm, lm, lm), {"in_flight": 1, "progress": lambda *_: None, "command": "mine"}
    learned = Questions("mine", "train", 0, TRAIN[1:3])
    built = training.build_program(found, lms, learned, tmp_path / "built", embedder="hashing-256", **how)
    assert built == training.Built(tmp_path / "built", helpful=1, harmful=0, problems=[])
    assert (about(built.folder)["questions"], about(built.folder)["command"]) == ({"train": 2, "validation": 0}, "mine")
    # Each question without passages, with the first, and with both.
    assert spent_on_training(built.folder, MODEL) == TrainingCost({MODEL: Spent(6, 60, 18)}, 2, 0, 0)
    reference = load(built.folder, found).picking.reference
    assert [(one.passage, one.helpful) for one in reference.entries] == [("Another one.", True)]
    assert reference.embedder.name == "hashing-256"
    # Nothing is learned where no passage makes a difference.
    same = training.build_program(retriever("A passage."), lms, learned, tmp_path / "empty", **how)
    assert (same, (tmp_path / "empty").exists()) == (training.Built(None, problems=[]), False)


def test_which_questions_were_learned_from_and_asked_is_written_down(tmp_path):
    two = as_examples({"question": f"{one}?", "answer": "x", "id": one} for one in ("ä/1", "b/2"))
    asked = {name: Questions(name, "test", 0, [one]) for name, one in zip("äb", two, strict=True)}
    path = tmp_path / "new" / "questions.json"
    for dataset, train in (("ä+b", {"ä": ["ä/1"], "b": ["b/2"]}), ("b", {name: ["ä/1", "b/2"] for name in "äb"})):
        training.publish_questions(path, Questions(dataset, "train", 0, two), asked)
        assert json.loads(path.read_text("utf-8")) == {"seed": 0, "train": train, "test": {"ä": ["ä/1"], "b": ["b/2"]}}
    with pytest.raises(InputError, match=r"json/x cannot be written: (File exists|Not a directory)$"):
        training.publish_questions(path / "x", None, asked)


def test_what_a_baseline_learned_is_saved_with_what_it_cost(retriever, scripted, tmp_path):
    lm, engine = scripted(lambda name, inputs, config: {"answer": "a1"})
    parts, folder, begun = Parts(retriever("A passage."), Roles(lm, lm, lm), {}), tmp_path / "rag", []
    how = {"in_flight": 1, "progress": lambda *_: None, "command": "mine", "optimizer": "bootstrap", "tuning": False}
    how["before_first"] = lambda: begun.append(1)
    assert training.compile_baseline(parse_spec("rag"), parts, TRAIN[:4], folder, **how) is False
    assert (begun, (tmp_path / "rag.work").is_dir(), about(folder)["command"]) == ([1], True, "mine")
    cost = spent_on_training(folder, MODEL)
    assert cost == TrainingCost({MODEL: Spent(8, 80, 24)}, learned=4, held=4, rounds=2)
    assert (cost.asked, cost.asks(4), cost.asks(40)) == (12, 12, 30 + 2 * 10)
    assert spent_on_training(tmp_path / "none", MODEL) is None
    # A program of other questions is not replaced, and nobody is asked before that is said.
    engine.calls.clear()
    with pytest.raises(InputError, match=r"compiled from other sources \(training questions"):
        training.compile_baseline(parse_spec("rag"), parts, TRAIN[9:12], folder, **how)
    assert engine.calls == []
