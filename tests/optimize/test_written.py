"""Written answers measured: their citations, and the gold answers in them; in run files, and as a metric."""

import json

import dspy
import pytest

import keqa
from keqa.data.example import as_example
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.run_file import read_run
from keqa.metrics.answers import f1
from keqa.optimize.asking import Trace
from keqa.optimize.demos import from_records
from keqa.optimize.dspy_optimizers import tunable
from keqa.optimize.scoring import as_metric
from keqa.optimize.written import written_call, written_quality
from keqa.programs.keqa import KEQA


@pytest.fixture
def program(programmed, retriever):
    """Makes a program that writes the same of whatever it is asked; the judge supports what speaks of trains."""

    def make(style, **written):
        def reply(name, inputs, config):
            match name:
                case "JudgeUtility":
                    return {"helpful": "True"}
                case "AnswerWithKnowledge":
                    return {"answer": "Bremen"}
                case "JudgeSupport":
                    return {"support": "fully" if "Trains" in inputs["passage"] else "no"}
            return written

        searched = retriever("Trains go to Bremen.", "Ships go to Kiel.")
        return programmed(KEQA(searched, style=style, decompose=False, examine=False), reply)[0]

    return make


def shares(recall, precision, contained, **more):
    return {"citation recall": recall, "citation precision": precision, "answer contained": contained} | more


# The first passage alone carries the second sentence, so that its second citation is for nothing.
REPORT = {"text": "Ships go to Kiel [2]. Gladly do trains go to Bremen [1][2]."}
LIST = {"items": json.dumps(["Bremen [1]", "Kiel [2]"])}


@pytest.mark.parametrize(
    ("style", "written", "answers", "found"),
    [
        ("report", REPORT, ["Bremen"], shares(1.0, pytest.approx(2 / 3), 1.0)),
        ("list", LIST, ["Bremen", "Rome"], shares(1.0, 1.0, 1.0, **{"list recall": 0.5, "list precision": 0.5})),
        # What was to be written and was not is worth nothing.
        ("report", {"text": "UNKNOWN"}, ["Bremen"], shares(0.0, 0.0, 0.0)),
        ("short", {}, ["Bremen"], {}),
        ("report", {}, ["yes"], {"accuracy": 0.0}),
    ],
)
def test_what_is_written_is_measured_in_its_run(program, tmp_path, style, written, answers, found):
    asked = {"id": "1", "question": "Where do they go?", "answer": answers}
    asked |= {"answer_type": "yes/no"} if answers == ["yes"] else {}
    evaluate(program(style, **written), [asked], out=tmp_path / "run.jsonl")
    scores = read_run(tmp_path / "run.jsonl").lines[0].scores
    assert {name: scores[name] for name in scores if name not in ("em", "f1", "contains")} == found


@pytest.mark.parametrize(
    ("style", "written", "worth"),
    [
        ("report", {"text": "Trains go to Bremen [1]."}, 1.0),
        ("report", {"text": "Ships go to Kiel [2]."}, 0.5),
        ("report", {"text": "UNKNOWN"}, 0.0),
        ("list", {"items": '["Bremen [1]", "Kiel [2]"]'}, (2 / 3 + 1) / 2),
    ],
)
def test_a_metric_to_compile_by(program, style, written, worth):
    example = dspy.Example(question="Where do they go?", answer="Bremen", answers=["Bremen"])
    prediction = program(style, **written)("Where do they go?")
    assert written_quality(example, prediction) == pytest.approx(worth)
    assert callable(as_metric(written_quality))
    # For yes or no it is answered in short.
    example = dspy.Example(question="Do they?", answers=["yes"], answer_type="yes/no", choices=[])
    assert [written_quality(example, dspy.Prediction(answer=one, record=None)) for one in ("Yes", "no")] == [1.0, 0.0]


def test_a_list_is_compiled_by_its_members_and_citations_where_no_metric_is_given(program):
    examples = [{"question": f"Where do they go, {n}?", "answer": ["Bremen", "Kiel"]} for n in range(8)]
    student = program("list", items='["Bremen [1]", "Kiel [2]"]')
    learns = {"boundary": False, "reference": False}
    report = keqa.compile(student, examples[:4], examples[4:], grid={"list_step": (1,)}, **learns).report
    assert report.before_score.mean == 1.0
    report = keqa.compile(student, examples[:4], examples[4:], metric=f1, tuning=False, **learns).report
    assert report.before_score.mean == pytest.approx(2 / 3)


def test_compiling_shows_texts_whose_citations_are_right(program, tmp_path):
    student = program("report", text="Trains go to Bremen [1]. They are blue.")
    examples = [{"id": str(n), "question": f"Where do they go, {n}?", "answer": "Bremen"} for n in range(6)]
    traces = [Trace(as_example(one), student(one["question"]).record, 1.0) for one in examples[:2]]
    traces.append(traces[0]._replace(score=0.0, example=as_example(examples[2])))
    pool = from_records(student, traces, metric=f1, threshold=0.5, closed_book=lambda one: 0.0)["writing.write"]
    assert [(one.root, one.demo["text"], one.demo["style"]) for one in pool] == [
        ("0", "Trains go to Bremen [1].", "report"),
        ("1", "Trains go to Bremen [1].", "report"),
    ]
    assert pool[0].demo["passages"] == {1: "Trains go to Bremen.", 2: "Ships go to Kiel."}
    assert "writing.write" in tunable(student, "mipro")


def test_what_a_text_teaches_is_what_was_asked_for_it(scripted, retriever):
    def reply(name, inputs, config):
        match name:
            case "DecomposeQuestion":
                return {"quizzes": json.dumps(["Where do trains go?", "Where do ships go?"])}
            case "JudgeUtility":
                return {"helpful": "True"}
            case "Summarize":
                return {"explanation": "So.", "answer": "Bremen"}
            case "WriteAnswer":
                return {"text": "Trains go to Bremen [1]."}
        return {"answer": "Bremen"}

    lm, engine = scripted(reply)
    searched = retriever("Trains go to Bremen.")
    for style, several in (("sentence", 3), ("report", 2)):
        student = KEQA(searched, lms=keqa.build_roles(lm), style=style, examine=False)
        _, taught = written_call(student, student("Where do most go?").record)
        asked = json.loads(engine.asked("WriteAnswer")[-1]["findings"])
        assert (taught["findings"], len(asked)) == (asked, several)
