from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.reports.rows import title_of
from keqa.programs.baselines import KSLLM, AlwaysRetrieve, ClosedBook
from keqa.programs.build import Parts, make, own_of
from keqa.programs.gates import CertaintyGate, OracleGate, RandomGate, VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.reference.utility_reference import UtilityEntry, UtilityReference
from keqa.programs.registry import METHODS, load_class, parse_spec
from keqa.programs.shared_draws import SharedDraws

TABLE_1 = ("closed-book", "cot", "cot-few-shot", "rag", "react", "ircot", "flare", "self-rag", "searchain", "rowen")
ABLATIONS = ("keqa-no-qke", "keqa-no-ukp", "keqa-no-reference", "keqa-random-reference", "keqa-key-sentences")


@pytest.fixture
def parts(retriever):
    return Parts(retriever("Ann lives in Rome."), None)


@pytest.fixture
def compiled(tmp_path, retriever):
    """A folder with a program that has learned demonstrations and a reference."""
    from keqa.programs.saving.folder import save

    reference = UtilityReference(k=2).fit(
        [UtilityEntry("r", "Who?", "Ann.", True), UtilityEntry("s", "Why?", "So.", False)]
    )
    program = KEQA(None, tries=3, reference=reference)
    program.summarizing.summarize.demos = [
        {
            "question": "Who is older?",
            "answered_quizzes": ["How old is Ann? 3"],
            "explanation": "Ann is 3.",
            "answer": "Ann",
        }
    ]
    save(program, tmp_path / "program")
    return Parts(retriever("Ann lives in Rome."), None, program=tmp_path / "program")


def test_every_method_of_table_1_and_its_ablations_are_there():
    assert {*TABLE_1, *ABLATIONS, "slimplm", "keqa", "keqa-full"} <= set(METHODS)
    assert all(issubclass(load_class(method.target), Program) for method in METHODS.values())


@pytest.mark.parametrize("text", ["", "ragtime", "rag:", "rag:top_k", "rag:top_k=", "rag:=5", "rag:a b=5", "RAG"])
def test_no_specification(text):
    with pytest.raises(InputError):
        parse_spec(text)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.kind == "baseline"])
def test_baselines_are_made_with_their_own_defaults(parts, compiled, name):
    given = compiled if name == "cot-few-shot" else replace(parts, golds=lambda quiz: ("Ann",))
    program = make(parse_spec(name), given)
    assert type(program) is load_class(METHODS[name].target)


def test_settings_reach_the_methods_that_have_them(parts, retriever):
    given = Parts(retriever("x"), None, {"top_k": 4, "tries": 3})
    rag = make(parse_spec("rag-cot"), given)
    assert isinstance(rag, AlwaysRetrieve)
    assert (rag.top_k, rag.reason) == (4, True)
    assert isinstance(make(parse_spec("closed-book"), given), ClosedBook)
    keqa = make(parse_spec("keqa:top_k=2"), given)
    assert isinstance(keqa, KEQA)
    assert (keqa.top_k, keqa.examination.tries) == (2, 3)


@pytest.mark.parametrize(
    ("lm", "text", "language"),
    [
        ("openai/gpt-4o-mini", "rowen", "Chinese"),
        ("openai/gpt-4o-mini", "rowen:language=German", "German"),
        ("openai/gpt-4o-mini", "rowen:language=None", None),
        ("keqa/tiny", "rowen", None),
        (None, "rowen", None),
        (None, "rowen:language=German", "German"),
    ],
)
def test_rowen_checks_across_languages_unless_the_language_model_speaks_one(retriever, lm, text, language):
    program = make(parse_spec(text), Parts(retriever("x"), None, own=own_of(lm)))
    assert (program.language, program.cross_model) == (language, False)


@pytest.mark.parametrize("text", ["rag:tries=3", "closed-book:top_k=1", "keqa-no-qke:examine=true", "keqa:lms=x"])
def test_an_argument_that_a_method_has_not(parts, text):
    with pytest.raises(InputError, match="has no"):
        make(parse_spec(text), parts)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("keqa", (True, True, None, True)),
        ("keqa-no-qke", (False, True, None, True)),
        ("keqa-no-ukp", (True, False, None, True)),
        ("keqa-key-sentences", (True, True, 2, True)),
        ("keqa-full", (False, False, None, True)),
    ],
)
def test_the_ablations(parts, name, settings):
    program = make(parse_spec(name), parts)
    assert (program.examine, program.pick, program.extract_sentences, program.decompose) == settings


def test_ks_llm_and_the_baselines_that_take_a_part_of_it_away(parts):
    made = {name: make(parse_spec(name), parts) for name in ("ks-llm", "ks-q", "ks-t", "ks-s")}
    assert [program.form for program in made.values()] == ["KS-LLM", "KS-Q", "KS-T", "KS-S"]
    spec = parse_spec("ks-llm:evidence_sentences=3,similarity=hashing-64")
    program = make(spec, parts)
    assert isinstance(program, KSLLM)
    assert (program.evidence_sentences, program.similarity, program.distance) == (3, "hashing-64", "euclidean")
    assert title_of("ks-llm", spec.label, {}) == "KS-LLM (evidence_sentences=3-similarity=hashing-64)"
    assert parse_spec("ks-llm:similarity=local/minilm").label == "ks-llm-similarity=local_minilm"
    keqa = make(parse_spec("keqa-key-sentences:similarity=hashing"), parts)
    assert (keqa.selection.similarity.name, keqa.extract_sentences) == ("hashing", 2)


def test_the_ablations_of_the_reference_change_what_it_shows(compiled):
    keqa, without, chance = (
        make(parse_spec(name), compiled) for name in ("keqa", "keqa-no-reference", "keqa-random-reference")
    )
    assert [len(one.picking.reference("Who?", "Ann.")) for one in (keqa, without, chance)] == [2, 0, 2]
    assert [one.picking.reference.variant for one in (keqa, without, chance)] == ["similar", "none", "random"]
    assert [one.examination.tries for one in (keqa, without, chance)] == [3, 3, 3]


@pytest.mark.parametrize("name", ["keqa-no-reference", "keqa-random-reference", "cot-few-shot"])
def test_what_takes_from_a_compiled_program_needs_one(parts, name):
    with pytest.raises(ConfigurationError, match="--program"):
        make(parse_spec(name), parts)


def test_few_shot_reasoning_is_taken_from_what_the_program_concludes_with(compiled):
    program = make(parse_spec("cot-few-shot"), compiled)
    assert program.answer.demos == [
        {
            "question": "Who is older?",
            "answer_type": "short",
            "choices": [],
            "reasoning": "Ann is 3.",
            "answer": "Ann",
        }
    ]


def test_gates_decide_on_draws_that_they_share(retriever):
    draws = SharedDraws()
    parts = Parts(retriever("x"), None, draws=draws, golds={"Who?": ["Ann"]})
    names = ("gate-votes", "gate-oracle", "gate-random:threshold=1/4")
    made = {name: make(parse_spec(name), parts) for name in names}
    assert all(program.examination.shared.value is draws for program in made.values())
    kinds = [type(program.examination.gate) for program in made.values()]
    assert kinds == [VoteGate, OracleGate, RandomGate]
    assert made["gate-random:threshold=1/4"].examination.gate == RandomGate(Fraction(1, 4))
    certainty = make(parse_spec("gate-certainty:threshold=0.6,form=by_samples"), parts).examination.gate
    assert isinstance(certainty, CertaintyGate)
    assert certainty.threshold == Fraction(3, 5)


def test_the_gate_of_votes_is_keqas_own(retriever, tmp_path):
    from keqa.programs.saving.folder import save

    save(KEQA(None, threshold="3/5"), tmp_path / "program")
    save(KEQA(None, gate=CertaintyGate()), tmp_path / "other")
    parts = Parts(retriever("x"), None, draws=SharedDraws())
    compiled, other = (replace(parts, program=tmp_path / name) for name in ("program", "other"))
    given = replace(compiled, settings={"threshold": "9/10"})

    def gate(text, parts):
        return make(parse_spec(text), parts).examination.gate

    assert gate("gate-votes", parts) == VoteGate(Fraction(4, 5))
    assert gate("gate-votes", compiled) == VoteGate(Fraction(3, 5))
    assert gate("gate-votes", given) == VoteGate(Fraction(9, 10))
    assert gate("gate-votes:threshold=1/2", given) == VoteGate(Fraction(1, 2))
    # A compiled program that decides by another gate has no vote of its own.
    assert gate("gate-votes", other) == VoteGate(Fraction(4, 5))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("gate-certainty:threshold=2", InputError),
        ("gate-votes:form=x", InputError),
        ("gate-random", ConfigurationError),
        ("gate-oracle", ConfigurationError),
        ("gate-probability", ConfigurationError),
    ],
)
def test_a_gate_that_cannot_be_made(retriever, text, error):
    with pytest.raises(error):
        make(parse_spec(text), Parts(retriever("x"), None, draws=SharedDraws()))


def test_answers_are_masked_by_the_gold_answers_alone(parts):
    with pytest.raises(ConfigurationError, match="passages are masked by the gold answers"):
        make(parse_spec("rag-masked"), parts)
