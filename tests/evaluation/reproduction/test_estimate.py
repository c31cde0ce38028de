"""What experiments will cost, from a rehearsal without a language model."""

import pytest

from keqa.data.example import as_examples
from keqa.evaluation.reproduction.estimate import CostBounds, Estimate, counter, estimate, estimates, price
from keqa.evaluation.reproduction.rehearsal import Spent
from keqa.programs.build import Parts
from keqa.programs.registry import METHODS, parse_spec

pytestmark = pytest.mark.process


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
    # SlimPLM's proxy proposes and judges, and where it does not know, rewrites and judges two queries.
    slimplm = rehearse("slimplm", mine, judge).bounds
    assert (slimplm[mine].known.calls, slimplm[mine].unknown.calls) == (40, 40)
    assert (slimplm[judge].known.calls, slimplm[judge].unknown.calls) == (40 * 2, 40 * (2 + 1 + 2))


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
