"""What holds of every benchmark: its layouts become examples, its files and hub copy are found, the rest is named."""

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from fixtures.drawing import at_most
from fixtures.examples import plain
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa import data
from keqa.data.benchmarks import BENCHMARKS, load
from keqa.data.example import Example
from keqa.data.loading import NotAsked
from keqa.errors import InputError, MissingExtraError

# A line a layout: a record of a benchmark, and what it becomes; some have a name by which they are found below.
LAYOUTS = [json.loads(line) for line in Path(__file__).with_name("layouts.jsonl").read_text("utf-8").splitlines()]
RECORDS = {one["name"]: one["record"] for one in LAYOUTS if "name" in one}
BECOMES = {one["name"]: one["becomes"] for one in LAYOUTS if "name" in one}
NQ, MMLU, CMMLU, MLEC, TWO_WIKI = (RECORDS[name] for name in ("NQ", "MMLU", "CMMLU", "MLEC", "TWO_WIKI"))
CONTEXT = "Up was directed by\nPete Docter."
SQUAD = {
    "id": "q1",
    "question": "Who directed Up?",
    "answers": [{"text": "Pete Docter", "answer_start": 19}, {"text": "Docter", "answer_start": 24}],
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one["benchmark"])
def test_each_layout_of_a_benchmark_becomes_an_example_or_is_left_out(layout):
    assert plain(BENCHMARKS[layout["benchmark"]].convert(layout["record"])) == layout["becomes"]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        *[("nq", "MUSIQUE"), ("musique", "NQ"), ("hotpotqa", "TWO_WIKI"), ("2wikimultihopqa", "HOTPOT_HUB")],
        *[("strategyqa", "MUSIQUE"), ("triviaqa", "NQ"), ("webquestions", "SIMPLEQA"), ("chinese-simpleqa", "NQ")],
        *[("openbookqa", "NQ"), ("sogouqa", "TWO_WIKI"), ("rgb-en", "NQ"), ("webqa", "SQUAD_HUB"), ("mmlu", "CMMLU")],
    ],
)
def test_a_record_of_another_benchmark_is_none_of_this_one(name, other):
    with pytest.raises(InputError, match="holds no question that can be used; expected: "):
        BENCHMARKS[name].from_rows([RECORDS[other]])


def test_an_answer_of_many_parts_and_spellings_has_so_many_forms():
    answer = [[f"{part}{n}" for n in range(9)] for part in "abcde"]
    many = BENCHMARKS["rgb-en"].convert({**RECORDS["RGB"], "answer": answer}).answers
    assert (len(many), many[0]) == (64, "a0, b0, c0, d0, e0")


@pytest.mark.parametrize(
    ("name", "record", "message"),
    [
        *(
            ("mmlu", {**MMLU, "answer": answer}, "the answer must be a letter from A to D, not")
            for answer in ("E", "", "BC", 4, -1, None, True)
        ),
        ("mmlu", {**RECORDS["SIX"], "answer": "G"}, "the answer must be a letter from A to F, not 'G'"),
        ("cmmlu", {**CMMLU, "B": " "}, r"the choices\[1\] is empty"),
        ("cmmlu", {**CMMLU, "": ""}, "there is no index"),
        *(
            (
                "2wikimultihopqa",
                {**TWO_WIKI, "evidences": one},
                "evidences must hold|a part of evidences must be text",
            )
            for one in ([["Up", "director"]], ["Up"], [{"fact": "Up"}])
        ),
        ("webquestions", {"utterance": "who?", "targetValue": "(list)"}, "there is no answer"),
    ],
)
def test_a_record_that_is_malformed_says_why(name, record, message):
    with pytest.raises(InputError, match=message):
        BENCHMARKS[name].convert(record)


# What the code of the loaders calls fields, with any JSON in them.
CODE = "".join(path.read_text() for path in Path(data.__file__).parent.glob("*.py"))
NAMES = sorted(set(re.findall(r'"([A-Za-z_]{1,24})"', CODE)))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "A", "yes", "Who?", "\ud800"])
OBJECTS = st.dictionaries(st.sampled_from(NAMES), LEAVES | st.lists(LEAVES, max_size=3), max_size=6)
VALUES = LEAVES | OBJECTS | st.lists(LEAVES | OBJECTS | st.lists(LEAVES, max_size=3), max_size=3)


@pytest.mark.parametrize("name", BENCHMARKS)
@settings(max_examples=at_most(50))
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=30))
def test_any_record_is_an_example_or_left_out_or_an_input_error(name, record):
    with suppress(InputError):
        assert isinstance(BENCHMARKS[name].convert(record), Example | NotAsked)


def test_the_benchmarks_of_the_papers_say_what_they_are_and_who_may_use_them():
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.name == name
        assert all((benchmark.title, benchmark.licence, benchmark.expected))
        sold = name not in ("cmmlu", "ceval", "rgb-en", "rgb-zh")
        assert sold != ("no commercial use" in benchmark.licence)


def test_a_folder_with_the_authors_files(write_json):
    folder = write_json("NQ-open.dev.jsonl", [NQ]).parent
    write_json("NQ-open.train.jsonl", [NQ, {**NQ, "question": "who directed down"}])
    assert [len(load(f"nq:{folder}", split=one).examples) for one in (None, "validation", "train")] == [1, 1, 2]
    write_json("wikipedia-train.json", {"Data": [RECORDS["TRIVIA"], {"QuestionId": "x"}]})
    trivia = load(f"triviaqa:{folder}", split="train")
    assert trivia.ids == ["tc_1"]
    assert str(trivia.problems[0]).endswith("wikipedia-train.json, record 2: there is no Answer")


@pytest.mark.parametrize(
    ("path", "split", "message"),
    [
        ("absent.jsonl", None, "absent.jsonl is not there; expected: NQ-open, lines of JSON objects"),
        ("", "train", "NQ-open.train.jsonl is not there"),
        ("", "verified", "NQ-open has the splits dev, train, not 'verified'"),
        ("NQ-open.dev.jsonl", "dev", "is one file, which is one split: leave the split 'dev' out"),
    ],
)
def test_what_is_not_there(write_json, path, split, message):
    folder = write_json("NQ-open.dev.jsonl", [NQ]).parent
    with pytest.raises(InputError, match=re.escape(message)):
        load(f"nq:{folder / path}", split=split)


def test_the_file_of_aliases_of_2wikimultihopqa_is_used_where_it_lies_beside(write_json):
    path = write_json("dev.json", [{**TWO_WIKI, "answer": "9", "answer_id": "Q1"}])
    wiki = BENCHMARKS["2wikimultihopqa"]
    assert wiki.load(path).examples[0].answers == ("9",)
    write_json("id_aliases.json", '{"Q_id": "Q1", "aliases": ["nine"], "demonyms": []}\n')
    assert wiki.load(path).examples[0].answers == wiki.load(path.parent).examples[0].answers == ("9", "nine")
    write_json("id_aliases.json", '{"Q_id": "Q1", "aliases": []}\n{"id": "Q2"}\n')
    with pytest.raises(InputError, match=r"id_aliases.json, line 2: an object with Q_id and aliases is expected"):
        wiki.load(path)


def test_a_folder_of_subjects(write_json):
    write_json("mmlu/test/algebra_test.csv", 'Two?,one,two,three,four,B\n"Three, then?",one,two,three,four,C\n')
    write_json("mmlu/test/zoology_test.csv", "Two?,one,two,three,four,B\n")
    folder = write_json("mmlu/dev/algebra_dev.csv", "Four?,one,two,three,four,D\n").parents[1]
    mmlu = BENCHMARKS["mmlu"]
    loaded = mmlu.load(folder)
    found = [(example.id.partition("/")[0], example.answers[0]) for example in loaded.examples]
    assert found == [("algebra", "two"), ("algebra", "three"), ("zoology", "two")]
    assert mmlu.load(folder, split="test") == mmlu.load(folder / "test") == loaded
    assert mmlu.load(folder, split="dev").examples[0].answers == ("four",)
    assert mmlu.load(folder / "dev" / "algebra_dev.csv").examples[0].question == "Four?"
    for split in ("train", "test/algebra_test.csv"):
        with pytest.raises(InputError, match=r"is no folder of \.csv files"):
            mmlu.load(folder, split=split)
    write_json("mmlu/auxiliary_train/race.csv", "Five?,five,six,,,A\n")
    (example,) = mmlu.load(folder, split="train").examples
    assert (example.id.partition("/")[0], example.answers, example.choices) == ("race", ("five",), ("five", "six"))


def test_the_files_of_mlec_cmmlu_and_ceval(write_json):
    folder = write_json("mlec/Clinic_test.json", [MLEC, {**MLEC, "qid": "Clinic_8", "qimage": "8.png"}]).parent
    write_json("mlec/TCM_dev.json", [{**MLEC, "qid": "TCM_2", "answer": "B"}])
    mlec = BENCHMARKS["mlec"]
    loaded = mlec.load(folder)
    assert (loaded.ids, loaded.left_out) == (["Clinic/Clinic_7"], {"with an image or table": 1})
    assert mlec.load(folder, split="val").ids == mlec.load(folder / "TCM_dev.json").ids == ["TCM/TCM_2"]
    with pytest.raises(InputError, match=r"holds no file such as Clinic_train\.json"):
        mlec.load(folder, split="train")
    with pytest.raises(InputError, match="is one file, which is one split"):
        mlec.load(folder / "TCM_dev.json", split="dev")
    table = write_json("anatomy.csv", "\ufeff,Question,A,B,C,D,Answer\n12,二？,一,二,三,四,B\n,三？,一,二,三,四,C\n")
    found = BENCHMARKS["cmmlu"].load(table)
    assert found.ids == ["anatomy/12"]
    assert [(problem.line, problem.message) for problem in found.problems] == [(3, "there is no index")]
    table = write_json("val/law_val.csv", "id,question,A,B,C,D,answer\n0,二？,一,二,三,四,B\n1,三？,一,二,三,四,\n")
    found = BENCHMARKS["ceval"].load(table.parent)
    assert [(one.id, one.answers) for one in found.examples] == [("law/0", ("二",))]
    # Its part test has no answers.
    assert "must be a letter" in found.problems[0].message


FRESHQA = (
    "id,split,question,num_hops,fact_type,answer_0,answer_1\n"
    '1,TEST,"Who directs, now?",one-hop,fast-changing,Ann,Ann Lee\n'
    '2,DEV,Is it over?,multi-hop,,No,"No, it is not."\n'
    "3,TEST,Has a vaccine done it?,,,No vaccine has done it.,No\n"
)


def test_the_table_of_freshqa(write_json):
    freshqa = BENCHMARKS["freshqa"]
    wrong = "4,TEST,When?,,,,\n5,TEST,When?\n,TEST,When?,,,x,\n"
    path = write_json("freshqa.csv", "WARNING: the answers change,,,,,,\n" + FRESHQA + wrong)
    loaded = freshqa.load(path)
    assert loaded.examples == [
        Example("1", "Who directs, now?", ("Ann", "Ann Lee"), kind="fast-changing; one-hop"),
        Example("3", "Has a vaccine done it?", ("No vaccine has done it.", "No")),
    ]
    assert [(problem.line, problem.message) for problem in loaded.problems] == [
        (6, "there is no answer"),
        (7, "there are 3 cells, 7 are expected"),
        (8, "the id is empty"),
    ]
    polar = Example("2", "Is it over?", ("No", "No, it is not."), kind="multi-hop", scored_as="yes/no")
    for split in ("dev", "validation"):
        assert freshqa.load(path, split=split).examples == freshqa.load(path.parent, split=split).examples == [polar]
    with pytest.raises(InputError, match="FreshQA has the splits test, dev, not 'train'"):
        freshqa.load(path, split="train")


IMPOSSIBLE = {"id": "q2", "question": "Who directed Down?", "answers": [], "is_impossible": True}
ARTICLE = {"title": "Up_(film)", "paragraphs": [{"context": CONTEXT, "qas": [SQUAD, IMPOSSIBLE]}]}


def test_the_files_of_squad(write_json):
    squad = BENCHMARKS["squad"]
    articles = [
        ARTICLE,
        "Up",
        {"title": "Up"},
        {"title": "Up", "paragraphs": [{"qas": []}]},
        {"title": "Up", "paragraphs": [{"context": CONTEXT, "qas": [{**SQUAD, "id": "q3", "answers": None}]}]},
        {"title": "Up", "paragraphs": [{"context": CONTEXT, "qas": [SQUAD]}]},
    ]
    loaded = squad.load(write_json("dev.json", {"data": articles}))
    assert ([plain(one) for one in loaded.examples], loaded.left_out) == ([BECOMES["SQUAD_HUB"]], {"unanswerable": 1})
    assert [str(problem).rpartition("dev.json, ")[2] for problem in loaded.problems] == [
        "article 2: an article with paragraphs is expected, not str",
        "article 3: there is no paragraphs",
        "article 4: there is no context",
        "question 3: there is no answers",
        "question 4: the question of question 1 again",
    ]
    for asked, said in (([], "that can be used; expected: SQuAD, a JSON"), ([IMPOSSIBLE], "to ask: 1 unanswerable$")):
        with pytest.raises(InputError, match=f"dev.json holds no question {said}"):
            squad.load(write_json("dev.json", {"data": [{"paragraphs": [{"context": CONTEXT, "qas": asked}]}]}))


def test_the_files_of_webqa(write_json):
    loaded = BENCHMARKS["webqa"].load(write_json("ir.json", {"Q1": {**RECORDS["WEBQA"], "id": "x"}, "Q2": "broken"}))
    assert [plain(one) for one in loaded.examples] == [BECOMES["WEBQA"]]
    assert str(*loaded.problems).endswith("ir.json, record 2: an object is expected, not str")


ANSWER = {"Value": "Boston Braves", "Aliases": ["The Boston Braves"]}


def page(name, **more):
    return {"Filename": name, "Title": name.removesuffix(".txt"), **more}


def pairs(identity, pages=(), found=(), **more):
    lists = {"EntityPages": list(pages), "SearchResults": list(found)}
    return {"QuestionId": identity, "Question": "For which team?", "Answer": ANSWER} | lists | more


@pytest.fixture
def archive(write_json):
    write_json("evidence/wikipedia/Babe_Ruth.txt", "He ended with the St. Louis Braves.\n\nNo: Boston.")
    write_json("evidence/wikipedia/Baseball.txt", "A game.")
    write_json("evidence/web/12/12_3.txt", "Found on the web.")

    def put(name, *records, verified=False):
        return write_json(f"qa/{name}", {"Data": records, "VerifiedEval": verified}).parents[1]

    return put


def test_each_pair_of_a_question_of_triviaqa_and_a_document(archive):
    pages = [page("Babe_Ruth.txt"), page("Baseball.txt")]
    found = load(f"triviaqa-rc:{archive('wikipedia-dev.json', pairs('a', pages, [page('12/12_3.txt')]))}").examples
    assert [one.id for one in found] == ["a--Babe_Ruth.txt", "a--Baseball.txt", "a--12/12_3.txt"]
    assert {one.answers for one in found} == {("Boston Braves", "The Boston Braves")}
    assert [(one.title, one.text, one.role) for example in found for one in example.context] == [
        ("Babe_Ruth", "He ended with the St. Louis Braves. No: Boston.", "unknown"),
        ("Baseball", "A game.", "unknown"),
        ("12/12_3", "Found on the web.", "unknown"),
    ]


def test_of_the_verified_subset_what_was_verified(archive):
    yes, no = {"DocPartOfVerifiedEval": True}, {"DocPartOfVerifiedEval": False}
    folder = archive(
        "verified-wikipedia-dev.json",
        pairs("a", [page("Babe_Ruth.txt", **yes), page("Baseball.txt", **no)], QuestionPartOfVerifiedEval=True),
        pairs("b", [page("Baseball.txt", **yes)], QuestionPartOfVerifiedEval=False),
        verified=True,
    )
    loaded = load(f"triviaqa-verified:{folder}")
    assert [(one.id, one.context[0].role) for one in loaded.examples] == [("a--Babe_Ruth.txt", "supporting")]
    assert (loaded.left_out, loaded.problems) == ({"not verified": 2}, [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pairs("a", [page("../../secret.txt")]), "leads out of the folder of evidence"),
        (pairs("a", [page("/etc/passwd")]), "leads out of the folder of evidence"),
        (pairs("a", [page("C:\\secret.txt")]), "leads out of the folder of evidence"),
        (pairs("a", [page("Absent.txt")]), "Absent.txt"),
        (pairs("a"), "there is no document"),
        (pairs("a", ["x"]), "EntityPages must be a list of objects"),
        (pairs("a", [{"Title": "x"}]), "there is no Filename"),
        ("x", "an object is expected, not str"),
    ],
)
def test_a_document_that_cannot_be_used_is_a_problem_of_its_question(archive, given, message):
    loaded = load(f"triviaqa-rc:{archive('wikipedia-dev.json', given, pairs('b', [page('Baseball.txt')]))}")
    assert loaded.ids == ["b--Baseball.txt"]
    assert "question 1: " in str(loaded.problems[0])
    assert message in str(loaded.problems[0])


# A row of each benchmark's copy on the hub.
HUB_ROWS = {
    **{"nq": "NQ", "triviaqa": "TRIVIA_HUB", "hotpotqa": "HOTPOT_HUB", "hotpotqa-fullwiki": "HOTPOT_HUB"},
    **{"webquestions": "WEB_HUB", "2wikimultihopqa": "TWO_WIKI", "musique": "MUSIQUE", "strategyqa": "STRATEGY_HUB"},
    **{"openbookqa": "FOG_HUB", "mmlu": "MMLU", "chinese-simpleqa": "SIMPLEQA"},
    **dict.fromkeys(["squad", "squad2", "xquad-en", "xquad-zh", "chinesesquad", "cmrc2018"], "SQUAD_HUB"),
}


@pytest.fixture
def hub(monkeypatch):
    """Stand in for the package ``datasets``; returns what it was asked for, and what it gives or raises."""
    state = SimpleNamespace(asked=[], rows=[], error=None)

    def load_dataset(repository, config, *, split):
        state.asked.append((repository, config, split))
        if state.error:
            raise state.error
        return state.rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return state


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.hub])
def test_a_row_of_the_hub(hub, name):
    hub.rows = [RECORDS[HUB_ROWS[name]]]
    loaded = load(name)
    assert (len(loaded.examples), loaded.problems) == (1, [])
    source = BENCHMARKS[name].hub
    assert hub.asked == [(source.repository, source.config, source.splits[0])]


def test_splits_of_the_hub(hub):
    hub.rows = [NQ]
    for split in (None, "dev", "validation", "train"):
        load("nq", split=split)
    assert [split for _, _, split in hub.asked] == ["validation", "validation", "validation", "train"]
    with pytest.raises(InputError, match="NQ-open on the hub has the splits validation, train, not 'test'"):
        load("nq", split="test")
    assert len(hub.asked) == 4


def test_a_hub_that_has_it_not_or_cannot_be_reached_or_asked(hub, monkeypatch):
    for name in ("cmmlu", "mlec", "freshqa", "webqa", "sogouqa", "rgb-en"):
        with pytest.raises(InputError, match=f"not on the Hugging Face hub as plain data; load a file .* '{name}:"):
            load(name)
    hub.error = ConnectionError("Couldn't reach\n the hub")
    said = r"nq_open \(validation\) could not be loaded .* ConnectionError: Couldn't reach the hub\. .* 'nq:PATH'"
    with pytest.raises(InputError, match=said):
        load("nq")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"NQ-open from the Hugging Face hub needs .* 'keqa\[hub\]'"):
        load("nq")


def test_records_that_a_program_holds():
    loaded = BENCHMARKS["nq"].from_rows([NQ, {"question": "who"}])
    assert [example.answers for example in loaded.examples] == [("Pete Docter", "Docter")]
    assert [str(problem) for problem in loaded.problems] == ["example 2: there is no answer"]
    with pytest.raises(InputError, match=r"^the data given for nq holds no question that can be used"):
        BENCHMARKS["nq"].from_rows([])


@pytest.mark.slow
def test_a_dataset_of_the_hubs_library_is_read_as_its_records_are():
    datasets = pytest.importorskip("datasets")
    for name, record in HUB_ROWS.items():
        row = [RECORDS[record]]
        assert BENCHMARKS[name].from_rows(datasets.Dataset.from_list(row)) == BENCHMARKS[name].from_rows(row)
