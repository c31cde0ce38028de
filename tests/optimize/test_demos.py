"""What becomes a demonstration of which predictor, which are drawn, and which set of them is kept."""

import random

import pytest
from dspy.lm15 import ServerError
from fixtures.marton import MARTON
from fixtures.town import Town

from keqa.data.example import Example
from keqa.errors import RetrievalError, TooManyFailuresError
from keqa.metrics.answers import f1
from keqa.optimize.alignment import Settled
from keqa.optimize.asking import Asking, Trace
from keqa.optimize.demos import Candidate, _closed_book, bootstrap, choose, from_calls, from_records, kind_of
from keqa.optimize.failures import Failed, Failures
from keqa.optimize.options import Options
from keqa.programs.baselines import AlwaysRetrieve, IRCoT, ReAct, Rowen, SearChain
from keqa.programs.keqa import KEQA
from keqa.programs.records import ClusterRecord, Degradation, PassageVerdict, QuestionRecord, QuizRecord, SampleRecord
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers import Hit, Passage
from keqa.signatures.keqa import AnswerWithKnowledge, Summarize
from keqa.storage.journal import Journal

# Of a KEQA, from records.

PASSAGES = [
    PassageVerdict(passage_id="1", title="Torman", text="Born 1926.", score=2, verdict="helpful", kept=True, why=""),
    PassageVerdict(passage_id="2", title="", text="No.", score=1, verdict="not helpful", kept=False, why=""),
]


def tried(*texts):
    """Samples, each text a cluster; None for one that failed."""
    kinds = list(dict.fromkeys(text for text in texts if text is not None))
    members = [[place for place, text in enumerate(texts) if text == kind] for kind in kinds]
    return {
        "tries": len(texts),
        "samples": [
            SampleRecord(error="down") if text is None else SampleRecord(text=text, cluster=kinds.index(text))
            for text in texts
        ],
        "clusters": [ClusterRecord(answer=k, size=len(m), members=m) for k, m in zip(kinds, members, strict=True)],
    }


def born(final="1926", score=0.5, **quiz):
    """A question of two quizzes; the second is answered from passages."""
    known = tried("Torman", "Robert Torman", "Ada Elquist")
    first = {"text": "Who governs Marton?", "resolved": "Who governs Marton?", "answer": "Torman", "source": "memory"}
    second = {"text": "When was #1 born?", "resolved": "When was Torman born?", "depends_on": [1], "answer": "1926"}
    second |= {"source": "passages", "passages": PASSAGES, **tried("1920", "1920", "1915")} | quiz
    quizzes = [QuizRecord(index=1, **first, **known), QuizRecord(index=2, **second)]
    said = {"explanation": "It follows.", "answer": final, "answer_source": "summary"}
    return Trace(MARTON, QuestionRecord(question=MARTON.question, quizzes=quizzes, **said), score)


def candidates(*traces, closed_book=lambda one: 0.0, threshold=0.5, failures=None, program=None, **settings):
    how = {"metric": f1, "threshold": threshold, "closed_book": closed_book, "failures": failures}
    return from_records(program or KEQA(None, **settings), traces, **how)


def shown(*traces, **settings):
    return {name: [dict(one.demo) for one in pool] for name, pool in candidates(*traces, **settings).items()}


def test_what_came_out_right_is_written_in_the_gold_form():
    found = shown(born())
    quizzes = ["Who governs Marton?", "When was #1 born?"]
    assert found["decomposition.decompose"] == [{"question": MARTON.question, "quizzes": quizzes}]
    (summary,), (answer,) = found["summarizing.summarize"], found["answering.answer"]
    assert list(summary) == list(Summarize.fields)
    assert summary["answer"] == "1 September 1926"
    assert summary["answered_quizzes"] == ["Who governs Marton? Torman", "When was Torman born? 1926"]
    asked = {"quiz": "Who governs Marton?", "answer_type": "short", "choices": []}
    assert found["examination.quiz"] == [{**asked, "answer": "Robert Torman"}]
    assert list(answer) == list(AnswerWithKnowledge.fields)
    assert (answer["passages"], answer["evidence"]) == (["Torman: Born 1926."], [])
    assert (answer["question"], answer["answer"]) == ("When was Torman born?", "1 September 1926")
    # Both right are the same, one right differs; of the second quiz both are wrong, and the pair is dropped.
    pairs = [(demo["first_answer"], demo["second_answer"], demo["same"]) for demo in found["examination.same"]]
    assert pairs == [("Robert Torman", "Torman", True), ("Ada Elquist", "Torman", False)]
    assert "picking.judge" not in found


def test_a_question_that_came_out_wrong_teaches_no_summary_and_the_gold_decomposition():
    wrong = shown(born("2 September 1926", 0.67))
    assert wrong["summarizing.summarize"] == []
    assert wrong["decomposition.decompose"] == [{"question": MARTON.question, "quizzes": list(MARTON.quizzes)}]
    assert shown(born(), threshold=0.8)["summarizing.summarize"] == []
    lucky = shown(born(answer="1930"))
    assert (lucky["summarizing.summarize"], len(lucky["decomposition.decompose"])) == ([], 1)


def test_the_stages_of_one_call_learn_from_the_calls_of_the_papers_forms():
    both = KEQA(None, draft=True, cite=True)
    found = shown(born(), program=both)
    quizzes = ["Who governs Marton?", "When was #1 born?"]
    # Memory is right of the mayor, and wrong of the year.
    (plan,) = found["drafting.draft"]
    assert plan == {"question": MARTON.question, "quizzes": quizzes, "drafts": ["Robert Torman", "UNKNOWN"]}
    (read,) = found["citing.cite"]
    assert read["passages"] == {1: "Torman: Born 1926.", 2: "No."}
    assert (read["question"], read["citations"], read["answer"]) == ("When was Torman born?", [], "UNKNOWN")
    (read,) = shown(born(passages=[TOLD, PASSAGES[1]]), program=both)["citing.cite"]
    assert (read["citations"], read["answer"]) == ([1], "1 September 1926")
    entries = [UtilityEntry("1", "When was Torman born?", "No.", True)]
    both.reference = UtilityReference().fit(entries)
    (read,) = shown(born(passages=[TOLD, PASSAGES[1]]), program=both)["citing.cite"]
    assert read["citations"] == [1, 2]
    # What builds on what is not known is not known either.
    unknown = born(**tried("1926", "1926"))
    first = unknown.record.quizzes[0].model_copy(update={"clusters": [], "samples": []})
    record = unknown.record.model_copy(update={"quizzes": [first, unknown.record.quizzes[1]]})
    (plan,) = shown(unknown._replace(record=record), program=both)["drafting.draft"]
    assert plan["drafts"] == ["UNKNOWN", "UNKNOWN"]
    assert not {"drafting.draft", "citing.cite"} & shown(born()).keys()


TOLD = PASSAGES[0].model_copy(update={"text": "Born on 1 September 1926."})


@pytest.mark.parametrize(
    ("quiz", "passages"),
    [
        # Memory says the same, or was asked, or the answer is wrong.
        (tried("1926", "1926"), None),
        ({"source": "memory"}, None),
        ({"answer": "1930"}, None),
        # Passages tell the gold answer, and another was taken: the gold one is shown, unless only a title tells it, or
        # what tells it was not kept.
        ({"answer": "1930", "passages": [TOLD]}, ["Torman: Born on 1 September 1926."]),
        ({"answer": "1930", "passages": [PASSAGES[0].model_copy(update={"title": "1 September 1926"})]}, None),
        ({"answer": "1930", "passages": [TOLD.model_copy(update={"kept": False})]}, None),
    ],
)
def test_which_answers_from_passages_are_shown(quiz, passages):
    found = shown(born("1930", 0.0, **quiz))["answering.answer"]
    assert [(one["passages"], one["answer"]) for one in found] == ([(passages, "1 September 1926")] if passages else [])


def test_parts_that_are_off_learn_nothing():
    assert set(shown(born(), decompose=False, examine=False)) == {"answering.answer"}
    found = shown(born(evidence=["Born 1926."], triples=["x | y | ?"]), select="instead")
    assert found["answering.answer"][0]["passages"] == []
    assert found["selection.construct"] == [{"question": "When was Torman born?", "triples": ["x | y | ?"]}]


CHOICES = ("Known", "Unknown", "New York")
WHICH = Example("c", "Which is it?", ("Unknown",), "choice", CHOICES)
TRUE = Example("y", "Is it so?", ("yes",), "yes/no")
SHORT = Example("s", "Who leads Marton?", ("Robert Torman", "R. T. of Marton"))
TEXT = "Yes: unknown, or R. T. of Marton."
PASSAGE = PassageVerdict(passage_id="1", title="", text=TEXT, score=2, verdict="helpful", kept=True, why="")
READ = {"answer": "B", "source": "passages", "passages": [PASSAGE]}


def story(example, final, **quiz):
    """A question that is its only quiz."""
    quizzes = [QuizRecord(index=1, text=example.question, resolved=example.question, **quiz)]
    kind = {"answer_type": example.answer_type, "choices": list(example.choices)}
    return Trace(example, QuestionRecord(question=example.question, quizzes=quizzes, answer=final, **kind), 1.0)


@pytest.mark.parametrize(
    ("name", "example", "said", "gold", "kind"),
    [
        ("examination.quiz", WHICH, "b", "Unknown", "choice"),
        ("examination.quiz", TRUE, "Yes, it is", "yes", "yes/no yes"),
        ("examination.quiz", SHORT, "Torman", "Robert Torman", "text, words"),
        ("examination.quiz", SHORT, "R. T.", "R. T. of Marton", "text, words"),
        ("answering.answer", WHICH, "B", "Unknown", "choice"),
        ("answering.answer", TRUE, "true", "yes", "yes/no yes"),
        ("answering.answer", SHORT, "Torman", "Robert Torman", "text, words"),
        # The passage tells an alias, and something else was taken from it.
        ("answering.answer", SHORT, "zzz", "R. T. of Marton", "text, words, corrected"),
    ],
)
def test_an_answer_is_written_as_the_gold_answer_that_it_says(name, example, said, gold, kind):
    memory = name == "examination.quiz"
    quiz = {"answer": said, "source": "memory", **tried("zzz", said)} if memory else READ | {"answer": said}
    trace = story(example, said, **quiz if memory else quiz | tried("zzz"))
    (one,) = candidates(trace, decompose=False)[name]
    assert (one.demo["answer"], one.kind, one.root) == (gold, kind, example.id)
    assert one.demo["quiz" if memory else "question"] == example.question
    assert (one.demo["answer_type"], one.demo["choices"]) == (example.answer_type, list(example.choices))


@pytest.mark.parametrize(
    ("tries", "count"),
    [
        (tried(None, None), 0),
        (tried(None, "zzz"), 1),
        (tried("B"), 0),
        # None of the tries said anything: memory does not have it.
        ({"tries": 2, "samples": [SampleRecord(text="", abstained=True)] * 2}, 1),
        ({"tries": 2, "samples": [SampleRecord(error="down"), SampleRecord(text="", abstained=True)]}, 1),
        ({"tries": 2, "samples": []}, 1),
    ],
)
def test_passages_are_compared_with_what_memory_has(tries, count):
    assert len(shown(story(WHICH, "B", **READ, **tries), decompose=False)["answering.answer"]) == count


@pytest.mark.parametrize(("without", "count"), [(None, 0), (0.0, 1), (0.99, 1), (1.0, 0)])
def test_what_was_not_tried_is_asked_for(without, count):
    asked = []
    how = {"closed_book": lambda one: (asked.append(one.quiz.text), without)[1], "decompose": False}
    found = shown(story(WHICH, "B", **READ), **how)
    assert (len(found["answering.answer"]), asked) == (count, [WHICH.question])


PARTY = {"quizzes": ("Which party governs Marton?", "Who leads #1?"), "quiz_answers": ("The Reds", "Robert Torman")}
TWO = Example("t", "Who leads the party that governs Marton?", ("Robert Torman",), **PARTY)


def concluded(**changes):
    """A question of two quizzes that came out right."""
    texts = [("Which party governs Marton?", "Reds"), ("Who leads the Reds?", "Torman")]
    quizzes = [
        QuizRecord(index=n, text=text, resolved=text, answer=answer, source="memory", **tried(answer))
        for n, (text, answer) in enumerate(texts, start=1)
    ]
    told = {"question": TWO.question, "quizzes": quizzes, "answer": "Torman", "answer_source": "summary"}
    return Trace(TWO, QuestionRecord(**told | {"explanation": "So."} | changes), 0.67)


def degraded(stage, *, harmless):
    return Degradation(stage=stage, cause="x", message="m", action="a", harmless=harmless)


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, True),
        ({"degradations": [degraded("decompose", harmless=False)]}, False),
        ({"degradations": [degraded("references", harmless=False)]}, False),
        ({"degradations": [degraded("decompose", harmless=True), degraded("retrieve", harmless=False)]}, True),
        ({"quizzes": concluded().record.quizzes[:1]}, False),
        ({"quizzes": [one.model_copy(update={"index": one.index + 1}) for one in concluded().record.quizzes]}, False),
    ],
)
def test_whose_decomposition_is_shown(changes, own):
    found = candidates(concluded(**changes))["decomposition.decompose"]
    mine = {"question": TWO.question, "quizzes": ["Which party governs Marton?", "Who leads the Reds?"]}
    gold = {"question": TWO.question, "quizzes": list(TWO.quizzes)}
    # The gold one is of another shape: its second quiz refers to the first.
    assert [(dict(one.demo), one.kind, one.root) for one in found] == [(mine, "short, 2 quizzes, apart", "t")] * own + [
        (gold, "short, 2 quizzes, chained", "t")
    ]


@pytest.mark.parametrize(
    ("changes", "count"), [({}, 1), ({"answer_source": "memory"}, 0), ({"explanation": ""}, 0), ({"answer": None}, 0)]
)
def test_whose_summary_is_shown(changes, count):
    found = candidates(concluded(**changes))["summarizing.summarize"]
    told = ["Which party governs Marton? Reds", "Who leads the Reds? Torman"]
    assert [
        (one.kind, one.root, one.demo["question"], one.demo["answered_quizzes"], one.demo["explanation"])
        for one in found
    ] == [("short, 2 quizzes", "t", TWO.question, told, "So.")] * count
    assert [one.demo["answer"] for one in found] == ["Robert Torman"] * count


# Where a language model gets nothing right by itself.

GOVERNED = Example("a", "Who governs Marton?", ("Robert Torman", "R. Torman"))
KELFORD = Example("b", "Who governs Kelford?", ("Ada Elquist",))
PAGES = {
    "Who governs Marton?": [("Robert Torman", "A mayor."), ("Marton", "Robert Torman governs it."), ("", "R. Torman.")],
    "Who governs Kelford?": [("Kelford", "A town.")],
}


class Pages:
    """Finds what is written above, and fails for anything else."""

    def __init__(self, found=None):
        self.asked, self.found = [], found

    def search(self, query, k=10):
        self.asked.append(query)
        if self.found is None and query not in PAGES:
            raise RetrievalError("the index is gone")
        pages = PAGES[query][:k] if self.found is None else self.found
        return [Hit(Passage(str(place), *page), 1.0) for place, page in enumerate(pages)]


def over(pages):
    return {"program": KEQA(pages, decompose=False)}


def failed(example):
    return Trace(example, None, 0.0)


def test_gold_answers_serve_where_nothing_came_out_right():
    asked = {"answer_type": "short", "choices": []}
    found = shown(failed(GOVERNED), failed(KELFORD), **over(Pages()))
    assert found["examination.quiz"] == [
        {"quiz": "Who governs Marton?", **asked, "answer": "Robert Torman"},
        {"quiz": "Who governs Kelford?", **asked, "answer": "Ada Elquist"},
    ]
    # The title alone tells nothing, and no page tells who governs Kelford.
    (one,) = found["answering.answer"]
    read = {"passages": ["Marton: Robert Torman governs it."], "evidence": [], "triples": []}
    assert one == {**read, "question": "Who governs Marton?", **asked, "answer": "Robert Torman"}
    assert [(one["first_answer"], one["second_answer"], one["same"]) for one in found["examination.same"]] == [
        ("Robert Torman", "R. Torman", True),
        ("Robert Torman", "Ada Elquist", False),
        ("Ada Elquist", "Robert Torman", False),
    ]
    which, pages = Example("w", "Which is it?", ("Rome",), "choice", choices=("Oslo", "Rome")), Pages()
    found = {name: pool for name, pool in candidates(failed(which), **over(pages)).items() if pool}
    ((name, (one,)),) = found.items()
    assert (name, one.root, one.kind, one.demo["choices"]) == ("examination.quiz", "w", "choice", ["Oslo", "Rome"])
    assert pages.asked == []


def test_what_came_out_right_goes_before_gold_answers():
    right, pages = story(GOVERNED, "Torman", answer="Torman", source="memory", **tried("Torman")), Pages()
    found = shown(right, failed(KELFORD), **over(pages))
    assert [one["quiz"] for one in found["examination.quiz"]] == ["Who governs Marton?"]
    assert pages.asked == ["Who governs Marton?", "Who governs Kelford?"]
    # A right answer that memory has as well teaches nothing, and is no reason to search.
    right, pages = story(GOVERNED, "Torman", answer="Torman", source="passages"), Pages()
    known = shown(right, closed_book=lambda one: 1.0, **over(pages))
    assert (known["answering.answer"], pages.asked) == ([], [])


def test_a_handful_of_quizzes_is_searched_for_and_searches_that_cannot_succeed_end():
    pages, many = Pages([]), [Example(str(number), f"Who is number {number}?", ("Dan",)) for number in range(40)]
    found = shown(*map(failed, many), **over(pages))
    assert (len(pages.asked), len(found["examination.quiz"])) == (32, 40)
    failures = Failures()
    traces = map(failed, [many[0], GOVERNED, many[1]])
    assert len(shown(*traces, failures=failures, **over(Pages()))["answering.answer"]) == 1
    assert failures.found == [Failed("searching for what tells gold answers", 3, 2, "RetrievalError")]
    with pytest.raises(TooManyFailuresError, match="the index is gone"):
        shown(*map(failed, many[:8]), failures=failures, **over(Pages()))


# Of other methods, from calls.

LEADS = Example("e", "Who leads Marton?", ("Robert Torman",), **PARTY)
ASKED = {"question": LEADS.question, "answer_type": "short", "choices": []}
FROM_PASSAGES = {"passages": ["Torman leads the Reds."], "evidence": [], "triples": [], **ASKED}
STEP = ("answer", FROM_PASSAGES, {"answer": "Torman"})


def calls(*steps, answer="Torman", score=0.67, quizzes=()):
    record = QuestionRecord(question=LEADS.question, answer=answer, answer_source="passages", quizzes=list(quizzes))
    return Trace(LEADS, record, score, steps)


def found(program, *traces, threshold=0.5):
    pools = from_calls(program, traces, threshold=threshold)
    return {name: [dict(one.demo) for one in pool] for name, pool in pools.items()}


def test_a_right_answer_is_shown_as_the_gold_answer_is_written():
    (demo,) = found(AlwaysRetrieve(None), calls(STEP))["answer"]
    assert demo == {**FROM_PASSAGES, "answer": "Robert Torman"}
    assert list(demo) == ["passages", "evidence", "triples", "question", "answer_type", "choices", "answer"]


@pytest.mark.parametrize("wrong", [{"score": 0.4}, {"answer": "Robert Elquist", "score": 0.5}, {"answer": None}])
def test_a_question_that_came_out_wrong_teaches_nothing_and_keeps_no_other_from_teaching(wrong):
    assert found(AlwaysRetrieve(None), calls(STEP, **wrong)) == {"answer": []}
    assert found(AlwaysRetrieve(None), calls(STEP), threshold=0.8) == {"answer": []}
    assert len(found(AlwaysRetrieve(None), calls(STEP, **wrong), calls(STEP))["answer"]) == 1


def test_the_answer_from_memory_that_passages_repaired_is_not_shown():
    rephrased = {**ASKED, "question": "Who is at the head of Marton?"}
    rewrite = {"question": LEADS.question}, {"rephrased": rephrased["question"]}
    steps = [(name, asked, {"answer": "Ada Elquist"}) for name, asked in (("recall", ASKED), ("recall", rephrased))]
    steps += [("rephrasing.rephrase", *rewrite), ("read", FROM_PASSAGES, {"answer": "Torman"})]
    pools = found(Rowen(None, reason=False), calls(*steps))
    assert pools["recall"] == []
    assert [demo["answer"] for demo in pools["read"]] == ["Robert Torman"]
    assert pools["rephrasing.rephrase"] == [{**rewrite[0], **rewrite[1]}]


@pytest.mark.parametrize(("party", "kept"), [("Reds", ["The Reds"]), ("The Blues", []), (None, ["yes"])])
def test_answers_to_queries_are_checked_where_a_gold_quiz_asks_the_same(party, kept):
    texts = [("Which party governs Marton?", party), ("Is Marton large?", "yes")]
    said = [(text, answer) for text, answer in texts if answer is not None]
    steps = [("answering.answer", {**FROM_PASSAGES, "question": text}, {"answer": answer}) for text, answer in said]
    queries = [
        QuizRecord(index=index, text=text, resolved=text, answer="The Reds" if "party" in text else answer)
        for index, (text, answer) in enumerate(said, start=1)
    ]
    pool = found(SearChain(None), calls(*steps, quizzes=queries))["answering.answer"]
    assert [demo["answer"] for demo in pool] == kept


def test_calls_that_say_nothing_or_the_same_again_are_left_out():
    said = ("extend", {"passages": [], **ASKED, "thoughts": []}, {"thought": "The Reds govern Marton."})
    silent = ("extend", {"passages": [], **ASKED, "thoughts": ["x"]}, {"thought": " "})
    assert len(found(IRCoT(None), calls(said, silent, said))["extend"]) == 1


TURN = {"next_thought": "t", "next_tool_name": "search", "next_tool_args": {"query": "Marton"}}


@pytest.mark.parametrize(
    ("program", "name", "steps", "kinds"),
    [
        (
            IRCoT,
            "extend",
            [({"passages": [], **ASKED, "thoughts": some}, {"thought": "So."}) for some in ([], ["a"])],
            ["0 thoughts", "1 thoughts"],
        ),
        (
            ReAct,
            "act",
            [({**ASKED, "trajectory": name}, TURN | {"next_tool_name": name}) for name in ("search", "finish")],
            ["search", "finish"],
        ),
    ],
)
def test_beginnings_and_ends_are_of_different_kinds(program, name, steps, kinds):
    pool = from_calls(program(None), [calls(*((name, *step) for step in steps))], threshold=0.5)[name]
    assert [one.kind for one in pool] == kinds


# Which are drawn.


@pytest.mark.parametrize(
    ("answer", "answer_type", "kind"),
    [
        ("Oslo", "short", "text, one word"),
        ("1926", "short", "number, one word"),
        ("9 October 1968", "short", "number, words"),
        ("Yes", "yes/no", "yes/no yes"),
    ],
)
def test_kinds(answer, answer_type, kind):
    assert kind_of(answer, answer_type) == kind


def drawn(pool, count, seed=0, **options):
    return choose(pool, count, random.Random(seed), **options)


@pytest.mark.parametrize(("length", "fits"), [(6000, True), (6001, False)])
def test_a_demonstration_may_have_so_many_characters(length, fits):
    pool = [Candidate({"number": 12345, "text": "x" * (length - 5)}, "a", "r")]
    assert (drawn(pool, 1) == pool) is fits


@pytest.mark.parametrize("seed", range(6))
def test_kinds_come_in_turn_and_new_questions_first(seed):
    pool = [Candidate({"n": f"{kind}{n}"}, kind, f"root{n}") for kind in "ab" for n in range(3)]
    chosen = drawn(pool, 3, seed)
    assert sorted(one.kind for one in chosen) in (["a", "a", "b"], ["a", "b", "b"])
    assert {one.root for one in chosen} == {"root0", "root1", "root2"}
    # Where no question is left, another demonstration of one is better than none.
    assert len(drawn(pool, 5, seed)) == 5
    assert sorted(str(one) for one in drawn(pool, 9, seed)) == sorted(map(str, pool))
    assert len(drawn([Candidate({"n": n}, "a", "r") for n in range(3)], 2, seed)) == 2


@pytest.mark.parametrize(
    ("kinds", "count", "each"),
    [("TTFF", 4, 2), ("TTFF", 3, 1), ("TTTF", 8, 1), ("TF", 1, 0), ("TFTFTF", 5, 2), ("TT", 2, 0), ("", 2, 0)],
)
def test_a_judge_sees_verdicts_equally_often(kinds, count, each):
    pool = [Candidate({"n": n}, kind, f"r{n}") for n, kind in enumerate(kinds)]
    assert sorted(one.kind for one in drawn(pool, count, balanced=True)) == ["F"] * each + ["T"] * each


# Which set is kept.


@pytest.fixture
def bootstrapped(tmp_path):
    def run(world, **options):
        with Journal.open(tmp_path / "journal", {}) as journal:
            return bootstrap(world.program, world.train, world.val, Asking(journal, f1), Options(**options))

    return run


def counts(program):
    return {name: len(p.demos) for name, p in program.named_predictors()}


def test_every_predictor_learns_from_what_came_out_right(setting, bootstrapped):
    world = setting()
    best, trials, learned = bootstrapped(world, sets=2)
    assert [trial.name for trial in trials] == ["the program as it is", "demonstrations 1", "demonstrations 2"]
    # Every second set is half as large; among equals the first stays.
    assert [round(trial.score, 2) for trial in trials] == [0.67, 1.0, 1.0]
    assert learned
    assert counts(best) == {
        "decomposition.decompose": 4,
        "examination.quiz": 4,
        "examination.same": 8,
        "picking.judge": 0,
        "selection.construct": 0,
        "answering.answer": 4,
        "summarizing.summarize": 4,
    }
    assert not any(counts(world.program).values())


@pytest.mark.slow
def test_demonstrations_are_drawn_by_the_seed(setting, bootstrapped):
    def demos(seed):
        program, *_ = bootstrapped(setting(), sets=1, seed=seed)
        return [dict(demo) for demo in program.answering.answer.demos]

    assert demos(1) == demos(1) != demos(2)


@pytest.mark.slow
def test_what_is_not_better_is_not_kept(setting, bootstrapped):
    best, trials, _ = bootstrapped(setting(Town(spoilt=True)), sets=2)
    assert counts(best)["answering.answer"] == 0
    assert [trial.name for trial in trials][3:] == [
        "with those of decomposition.decompose",
        "with those of summarizing.summarize",
        "with those of examination.quiz",
        "with those of examination.same",
        "with those of answering.answer",
    ]


def test_nothing_right_nothing_learned(setting, bootstrapped):
    world = setting(Town(fails="AnswerQuiz"))
    world.train = [Example(one.id, one.question, ("something else",)) for one in world.train]
    _, trials, learned = bootstrapped(world, sets=3)
    assert (len(trials), learned) == (1, False)


def test_what_was_not_examined_is_asked_without_passages_once_and_a_failure_is_counted(setting, journal):
    world = setting(Town())
    asking = Asking(journal, f1, in_flight=1)
    watch, (first, second) = asking.failures.watch("answering closed book"), Settled.parts(world.train[3])
    # The surname of two words, and a wrong guess.
    asked = [_closed_book(world.program, asking, watch, one) for one in (first, second, first)]
    assert asked == [pytest.approx(2 / 3), 0.0, pytest.approx(2 / 3)]
    assert [call["quiz"] for call in world.engine.asked("AnswerQuiz")] == [first.quiz.resolved, second.quiz.resolved]
    world.town.fails = "AnswerQuiz"
    assert _closed_book(world.program, asking, watch, Settled.whole(world.train[1])) is None
    assert asking.failures.found == [Failed("answering closed book", 4, 1, "AdapterParseError")]
    world.fail(ServerError("down"))
    watch = asking.failures.watch("answering closed book", 1)
    with pytest.raises(TooManyFailuresError, match=r"^answering closed book: 1 of 1 questions could not .*down"):
        _closed_book(world.program, asking, watch, Settled.whole(world.train[2]))
