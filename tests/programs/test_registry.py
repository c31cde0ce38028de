"""Methods by name, what they are made of, and the compiled programs that serve them."""

from dataclasses import replace
from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.reports.rows import title_of
from keqa.programs.baselines import KSLLM, AlwaysRetrieve, ClosedBook, IRCoT
from keqa.programs.build import Parts, check_programs, make, own_of, program_of
from keqa.programs.calls.predictor import demonstration_digest
from keqa.programs.gates import CertaintyGate, OracleGate, RandomGate, VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import METHODS, arguments_of, load_class, parse_spec
from keqa.programs.saving import save
from keqa.programs.shared_draws import SharedDraws
from keqa.programs.stage import Stage
from keqa.signatures.baselines import ReasonFromMemory

TABLE_1 = ("closed-book", "cot", "cot-few-shot", "rag", "react", "ircot", "flare", "self-rag", "searchain", "rowen")
TAKING = ("keqa-no-reference", "keqa-random-reference", "cot-few-shot")
ABLATIONS = ("keqa-no-qke", "keqa-no-ukp", "keqa-no-reference", "keqa-random-reference", "keqa-key-sentences")


@pytest.fixture
def parts(retriever):
    return Parts(retriever("Ann lives in Rome."), None)


@pytest.fixture
def compiled(tmp_path, retriever):
    """A folder with a program that has learned demonstrations and a reference."""
    reference = UtilityReference(k=2).fit(
        [UtilityEntry("r", "Who?", "Ann.", True), UtilityEntry("s", "Why?", "So.", False)]
    )
    program = KEQA(None, tries=3, reference=reference)
    said = {"explanation": "Ann is 3.", "answer": "Ann"}
    program.summarizing.summarize.demos = [{"question": "Who is older?", "answered_quizzes": [], **said}]
    save(program, tmp_path / "program")
    return Parts(retriever("Ann lives in Rome."), None, program=tmp_path / "program")


def test_every_method_of_table_1_and_its_ablations_are_there():
    assert {*TABLE_1, *ABLATIONS, "slimplm", "keqa", "keqa-full"} <= set(METHODS)
    assert all(issubclass(load_class(method.target), Program) for method in METHODS.values())


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.kind == "baseline"])
def test_baselines_are_made_with_their_own_defaults(parts, compiled, name):
    given = compiled if name == "cot-few-shot" else replace(parts, golds=lambda quiz: ("Ann",))
    assert type(make(parse_spec(name), given)) is load_class(METHODS[name].target)


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


def test_the_ablations(parts):
    def made(name):
        program = make(parse_spec(name), parts)
        return program.examine, program.pick, program.extract_sentences, program.decompose

    assert made("keqa") == (True, True, None, True)
    assert made("keqa-no-qke") == (False, True, None, True)
    assert made("keqa-no-ukp") == (True, False, None, True)
    assert made("keqa-key-sentences") == (True, True, 2, True)
    assert made("keqa-full") == (False, False, None, True)


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
    # A random R' is of all of R, whatever the labels.
    assert [one.picking.reference.least for one in (keqa, chance)] == [2, 0]
    assert [one.examination.tries for one in (keqa, without, chance)] == [3, 3, 3]


def test_gates_decide_on_draws_that_they_share(retriever):
    draws = SharedDraws()
    parts = Parts(retriever("x"), None, draws=draws, golds={"Who?": ["Ann"]})
    names = ("gate-votes", "gate-oracle", "gate-random:threshold=1/4")
    made = {name: make(parse_spec(name), parts) for name in names}
    assert all(program.examination.shared.value is draws for program in made.values())
    assert [type(program.gate) for program in made.values()] == [VoteGate, OracleGate, RandomGate]
    assert made["gate-random:threshold=1/4"].gate == RandomGate(Fraction(1, 4))
    certainty = make(parse_spec("gate-certainty:threshold=0.6,form=by_samples"), parts).gate
    assert certainty == CertaintyGate(Fraction(3, 5), "by_samples")


def test_the_gate_of_votes_is_keqas_own(retriever, tmp_path):
    save(KEQA(None, threshold="3/5"), tmp_path / "program")
    save(KEQA(None, gate=CertaintyGate()), tmp_path / "other")
    parts = Parts(retriever("x"), None, draws=SharedDraws())
    compiled, other = (replace(parts, program=tmp_path / name) for name in ("program", "other"))
    given = replace(compiled, settings={"threshold": "9/10"})

    def gate(text, parts):
        return make(parse_spec(text), parts).gate

    assert gate("gate-votes", parts) == VoteGate(Fraction(4, 5))
    assert gate("gate-votes", compiled) == VoteGate(Fraction(3, 5))
    assert gate("gate-votes", given) == VoteGate(Fraction(9, 10))
    assert gate("gate-votes:threshold=1/2", given) == VoteGate(Fraction(1, 2))
    # A compiled program that decides by another gate has no vote of its own.
    assert gate("gate-votes", other) == VoteGate(Fraction(4, 5))


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        *((text, InputError, "no method|as name=value") for text in ("", "rag:", "rag:top_k", "rag:=5")),
        *(
            (text, InputError, f"'{text}' is no method; is rag meant\\? There are closed")
            for text in ("ragg", " RAG:k=1")
        ),
        ("nothing", InputError, "'nothing' is no method\\. There are closed-book, cot"),
        *((text, InputError, "as name=value") for text in ("rag:top_k=", "rag:a b=5")),
        ("gate-certainty:threshold=2", InputError, "threshold must be"),
        *((text, InputError, "has no") for text in ("rag:tries=3", "closed-book:top_k=1", "keqa:lms=x")),
        *((text, InputError, "has no") for text in ("gate-votes:form=x", "keqa-no-qke:examine=true")),
        ("gate-random", ConfigurationError, "gate-random needs its threshold"),
        ("gate-oracle", ConfigurationError, "needs the gold answers of the quizzes"),
        ("gate-probability", ConfigurationError, "SharedDraws\\(probabilities=True\\)"),
        ("rag-masked", ConfigurationError, "passages are masked by the gold answers"),
        ("gate-boundary", ConfigurationError, "gate-boundary needs its model"),
        ("gate-boundary:model=nowhere.json", InputError, "nowhere.json is missing"),
        ("gate-boundary:model=3", InputError, "model must be a boundary model, or its file"),
        ("gate-boundary:of=truth,model=nowhere.json", InputError, "of must be 'mastery' or 'certainty'"),
        *((name, ConfigurationError, "--program") for name in TAKING),
    ],
)
def test_what_cannot_be_made(retriever, text, error, told):
    with pytest.raises(error, match=told):
        make(parse_spec(text), Parts(retriever("x"), None, draws=SharedDraws()))


# Compiled programs.

DEMO = {"question": "Who?", "answer_type": "short", "choices": [], "reasoning": "So.", "answer": "Ann"}


@pytest.fixture
def folders(tmp_path):
    """Compiled programs by method; that of rag searches for four passages."""
    programs = {"rag": AlwaysRetrieve(None, top_k=4), "cot": ClosedBook(reason=True), "keqa": KEQA(None, tries=3)}
    programs["cot"].answer.demos = [DEMO]
    for name, program in programs.items():
        save(program, tmp_path / name)
    return {name: tmp_path / name for name in programs}


@pytest.fixture
def made(retriever):
    """Makes a method with a compiled program, or several."""
    searched = retriever("Ann lives in Rome.")
    return lambda text, program, **settings: make(parse_spec(text), Parts(searched, None, settings, program))


def test_a_method_is_made_from_the_program_that_was_compiled_for_it(folders, made):
    rag = made("rag", folders["rag"])
    assert (type(rag), rag.top_k, rag.retriever.passages[0].text) == (AlwaysRetrieve, 4, "Ann lives in Rome.")
    assert made("rag", folders["rag"], top_k=2).top_k == made("rag:top_k=2", folders["rag"], top_k=3).top_k == 2
    assert made("cot", folders["cot"]).answer.demos == [DEMO]


def test_keqa_serves_what_is_made_of_it_and_of_several_programs_each_its_own_method(folders, made):
    assert made("keqa-full", folders["keqa"]).examination.tries == 3
    assert made("cot", folders["keqa"]).answer.demos == []
    assert made("rag", folders["keqa"]).top_k == 10
    every = list(folders.values())
    assert made("rag", every).top_k == 4
    assert made("cot", every).answer.demos == [DEMO]
    assert made("keqa-no-qke", every).examination.tries == 3
    assert (made("rag-cot", every).top_k, type(made("ircot", every))) == (10, IRCoT)
    assert made("keqa", [folders["rag"]]).examination.tries == 5


@pytest.mark.parametrize(
    ("text", "folder", "message"),
    [
        ("rag", "cot", "holds a compiled cot, not rag: give a program that keqa compile --method rag wrote"),
        ("rag-cot", "rag", "holds a compiled rag, not rag-cot"),
        ("keqa", "rag", "holds a compiled rag, not keqa"),
        ("keqa-no-qke", "cot", "holds a compiled cot, not keqa"),
        ("cot-few-shot", "cot", "holds a compiled cot, not keqa"),
    ],
)
def test_the_only_program_must_not_be_another_methods(folders, made, text, folder, message):
    with pytest.raises(InputError, match=message):
        made(text, folders[folder])


def test_programs_that_serve_no_method_or_one_twice_or_are_none_are_refused(folders, tmp_path):
    save(AlwaysRetrieve(None), tmp_path / "other")
    with pytest.raises(InputError, match="both hold a compiled rag: give one of them"):
        program_of(METHODS["cot"], [folders["rag"], tmp_path / "other"])
    specs = [parse_spec("rag:top_k=3"), parse_spec("keqa-full")]
    check_programs(specs, [folders["rag"], folders["keqa"]])
    check_programs(specs, folders["keqa"])
    check_programs(specs, None)
    with pytest.raises(InputError, match="cot holds a compiled cot, which means nothing to rag, keqa-full"):
        check_programs(specs, [*folders.values()])
    with pytest.raises(InputError, match="holds no compiled program"):
        program_of(METHODS["rag"], [tmp_path])


def test_few_shot_reasoning_still_comes_from_keqa(folders, made, tmp_path):
    program = KEQA(None)
    program.summarizing.summarize.demos = [
        {"question": "Who?", "answered_quizzes": [], "explanation": "So.", "answer": "Ann"}
    ]
    save(program, tmp_path / "learned")
    few_shot = made("cot-few-shot", tmp_path / "learned")
    assert few_shot.answer.demos == [DEMO]
    assert few_shot.learned.demonstrations == {demonstration_digest(DEMO, ReasonFromMemory): ()}
    assert made("cot-few-shot", [folders["cot"], tmp_path / "learned"]).answer.demos == [DEMO]
    with pytest.raises(ConfigurationError, match="takes its demonstrations from a compiled KEQA"):
        made("cot-few-shot", [folders["cot"]])


def test_whoever_prepares_programs_is_given_each_with_its_specification(parts):
    given, spec = [], parse_spec("rag")
    program = make(spec, replace(parts, prepare=lambda *some: given.append(some)))
    assert given == [(spec, program)]


@pytest.mark.parametrize("method", dict.fromkeys([KEQA, *(one.cls for one in METHODS.values() if not one.gate)]))
def test_all_stages_of_a_program_share_its_bound(method):
    """Asked by itself, or by code of the user's, a stage exceeds it no more than the program does."""
    program = method(**({"retriever": None} if "retriever" in arguments_of(method) else {}), workers=3)
    stages = [stage for _, stage in program.named_sub_modules(Stage)]
    assert {id(stage.bound) for stage in stages} == {id(program.bound)}
    assert program.bound.workers == 3
