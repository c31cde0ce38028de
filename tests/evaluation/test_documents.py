"""Documents, one a question: made, resumed, and read by every method without crossing questions."""

import json

import pytest

from keqa.data.example import ContextPassage, Example
from keqa.errors import InputError
from keqa.evaluation.documents import from_contexts, from_index, from_memory, make_documents
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.run_file import read_run
from keqa.programs import KEQA
from keqa.programs.baselines import KSLLM, DocumentReader, IRCoT
from keqa.programs.stage import Generation
from keqa.retrievers import CachingRetriever, open_index

QUESTIONS = ["Who governs Carmouth?", "Who governs Skarn?", "Who governs Tarn?"]
EXAMPLES = [
    Example(f"q{n}", question, (f"Mayor {n}",), context=(ContextPassage("Page", f"Its mayor is Mayor {n}."),))
    for n, question in enumerate(QUESTIONS)
]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_documents_from_contexts_and_from_an_index(tmp_path, retriever):
    made = make_documents(EXAMPLES, from_contexts, tmp_path / "a.jsonl", origin="theirs", in_flight=1)
    assert (made.written, made.there, made.without) == (3, 0, {})
    assert lines(tmp_path / "a.jsonl")[1] == {
        "id": "q1",
        "question": "Who governs Skarn?",
        "passages": [{"title": "Page", "text": "Its mayor is Mayor 1."}],
        "origin": "theirs",
    }
    found = from_index(retriever("One.", "Two.", "Three."), 2)
    make_documents(EXAMPLES[:1], found, tmp_path / "b.jsonl", origin="found")
    assert [one["text"] for one in lines(tmp_path / "b.jsonl")[0]["passages"]] == ["One.", "Two."]
    bare = [Example("q9", "Who?", ("x",), context=(ContextPassage("An empty page", ""),))]
    for source in (from_contexts, from_index(retriever(), 2)):
        assert list(make_documents(bare, source, tmp_path / "c.jsonl", origin="none").without) == ["q9"]


def test_it_resumes_by_line_and_tries_again_what_failed(tmp_path, scripted):
    path = tmp_path / "documents.jsonl"
    broken = {"Skarn"}

    def written(name, inputs, config):
        if any(place in inputs["question"] for place in broken):
            return {"title": "A page", "document": "..."}
        return {"title": "A page", "document": f"On {inputs['question']}"}

    lm, engine = scripted(written)
    stage = Generation()
    stage.set_lm(lm)
    made = make_documents(EXAMPLES, from_memory(stage), path, origin="lm", in_flight=1)
    assert (made.written, list(made.without)) == (2, ["q1"])
    assert len(engine.calls) == 7
    # A kill in the middle of the last line.
    path.write_text(path.read_text()[:-20])
    broken.clear()
    seen = []
    made = make_documents(
        EXAMPLES, from_memory(stage), path, origin="lm", in_flight=1, progress=lambda made: seen.append(made.written)
    )
    assert (made.written, made.there, made.without, seen) == (2, 1, {}, [1, 2])
    assert sorted(one["id"] for one in lines(path)) == ["q0", "q1", "q2"]
    assert lines(path)[0]["passages"] == [{"title": "A page", "text": "On Who governs Carmouth?"}]
    with pytest.raises(InputError, match="line 1: this document is lm, and those wanted are other"):
        make_documents(EXAMPLES, from_memory(stage), path, origin="other")
    changed = [Example("q0", "Another question?", ("x",))]
    with pytest.raises(InputError, match="line 1: its question is another than that of the id 'q0' here"):
        make_documents(changed, from_memory(stage), path, origin="lm")


def reply(name, inputs, config):
    return {
        "ExpandSubject": {"subject": "X", "triples": '["X | mayor | Y"]'},
        "DecomposeQuestion": {"quizzes": '["Who is mayor?"]'},
        "AnswerQuiz": {"answer": "unknown"},
        "JudgeUtility": {"helpful": True},
        "ExtendReasoning": {"thought": "So the answer is X."},
        "ReasonWithKnowledge": {"reasoning": "So it is.", "answer": "X"},
        "Summarize": {"explanation": "So it is.", "answer": "X"},
    }.get(name, {"answer": "X"})


@pytest.mark.parametrize(
    "method",
    [
        KSLLM,
        DocumentReader,
        IRCoT,
        # Its quiz is the same for every question, and so is the query.
        lambda found, lms=None: KEQA(found, lms=lms, tries=2),
    ],
)
def test_documents_never_cross_questions(tmp_path, scripted, method):
    make_documents(EXAMPLES, from_contexts, tmp_path / "a.jsonl", origin="theirs")
    lm, _ = scripted(reply)
    with CachingRetriever(open_index(f"documents:{tmp_path / 'a.jsonl'}"), tmp_path / "kept.sqlite") as found:
        program = method(found)
        program.set_lm(lm)
        evaluate(program, EXAMPLES, out=tmp_path / "run.jsonl", in_flight=3)
    answered = read_run(tmp_path / "run.jsonl").lines
    for line in answered:
        passages = [one.text for quiz in line.record.quizzes for one in quiz.passages]
        passages += [one.text for one in line.record.passages]
        assert set(passages) == {f"Its mayor is Mayor {line.id[1:]}."}
