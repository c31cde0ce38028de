import pytest

from keqa.data.example import as_examples
from keqa.reports.estimate import Bounds, Estimate, Spent, estimate, price
from keqa.reports.estimate_table import estimates
from keqa.reports.rehearsal import stand_in
from keqa.runs.methods import METHODS, parse_spec

KNOWN, UNKNOWN = 0, 1


@pytest.fixture
def rehearse(retriever):
    questions = as_examples({"question": f"Who is number {n}?", "answer": "x"} for n in range(40))
    found = retriever("A passage.", "Another one.")

    def run(name, model="openai/gpt-4o-mini", **settings):
        return estimate("mine", parse_spec(name), questions, found, settings, None, model)

    return run


def test_calls_are_those_of_the_program(rehearse):
    book = rehearse("closed-book")
    assert (book.questions, book.bounds.known.calls, book.bounds.unknown.calls) == (40, 40, 40)
    # Known: decompose, two quizzes of four equal draws, summarize. Unknown: all five draws of both, each compared with
    # every earlier one, two passages judged for each, answers, summary.
    keqa = rehearse("keqa", tries=5, threshold="0.8", top_k=10).bounds
    assert keqa.known.calls == 40 * (1 + 2 * 4 + 1)
    assert keqa.unknown.calls == 40 * (1 + 2 * (5 + 10 + 2) + 1)
    assert keqa.most.read > keqa.least.read > 0


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        # A sentence that concludes, or eight that do not; an answer.
        ("ircot", 2, 8 + 1),
        # The conclusion itself, or eight sentences, each again with passages; an answer.
        ("flare", 1, 2 * 8 + 1),
        # A plan, two queries read and found right, and the summary; or five plans, each with a wrong answer.
        ("searchain", 1 + 2 + 1, 5 * (1 + 1 + 1) + 1),
        # No passage is asked for; or an answer and three critiques for each of two.
        ("self-rag", 1 + 1, 1 + 2 * (1 + 3)),
        # Seven searches, or none.
        ("react", 1 + 1, 7 + 1),
    ],
)
def test_the_most_is_every_step_that_a_method_may_take(rehearse, name, least, most):
    bounds = rehearse(name).bounds
    assert (bounds.least.calls / 40, bounds.most.calls / 40) == (least, most)
    assert bounds.most == bounds.unknown


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if one.kind == "baseline" and not one.learned])
def test_every_existing_method_can_be_rehearsed(rehearse, name):
    found = rehearse(name).bounds
    assert found.least.calls >= 40
    assert found.most.written > 0


def test_no_language_model_is_asked(rehearse, monkeypatch):
    monkeypatch.setattr("litellm.completion", lambda *arguments, **settings: pytest.fail("asked"))
    rehearse("rag")


def test_prices_are_those_of_the_map_that_comes_with_litellm():
    spent = Spent(10, 2_000_000, 1_000_000)
    assert price("gpt-3.5-turbo", spent) == pytest.approx(2 * 0.5 + 1.5)
    assert price("hosted_vllm/mine", spent) is None


def test_the_table_sums_up_and_says_which_price_is_unknown(capsys):
    one = Bounds(Spent(10, 1_000_000, 0), Spent(20, 500_000, 1_000_000))
    rows = [Estimate("nq", "keqa", "gpt-3.5-turbo", 5, one), Estimate("nq", "rag", "gpt-3.5-turbo", 5, one)]
    grid = estimates(rows)
    assert [cell.text for cell in grid.rows[0].cells] == [
        "nq",
        "keqa",
        "5",
        "10",
        "20",
        "500,000",
        "1,000,000",
        "0",
        "1,000,000",
        "0.25",
        "2.00",
    ]
    assert [cell.text for cell in grid.rows[-1].cells][:4] == ["all", "", "10", "20"]
    assert [cell.text for cell in grid.rows[-1].cells][-2:] == ["0.50", "4.00"]
    unknown = estimates([*rows, Estimate("nq", "keqa-b", "hosted_vllm/mine", 5, one)])
    assert [cell.text for cell in unknown.rows[-1].cells][-2:] == ["unknown", "unknown"]
    assert unknown.notes[-1].startswith("The price of hosted_vllm/mine is unknown")
    assert capsys.readouterr().out == ""


def test_the_stand_in_gives_every_kind_of_output():
    import dspy

    from keqa.lms.adapter import adapter
    from keqa.signatures import DecomposeQuestion, JudgeSupport, JudgeUtility, RateUsefulness, StateConfidence

    for knows in (True, False):
        with dspy.context(lm=stand_in(knows, len), adapter=adapter()):
            for signature in (DecomposeQuestion, JudgeUtility, JudgeSupport, RateUsefulness, StateConfidence):
                given = {
                    name: ["x"] if "list" in str(field.annotation) else "x"
                    for name, field in signature.input_fields.items()
                }
                assert dspy.Predict(signature)(**given)
