"""Recorded outcomes: what is read of them, what is refused, and that nothing is learned from a test split."""

import json

import pytest

from keqa.errors import InputError
from keqa.optimize.boundary.outcomes import as_collected, read_outcomes

LINE = {"question": "Who governs Marton?", "draft": "Ann Berg", "right": True}


def written(folder, *lines, name="log.jsonl"):
    path = folder / name
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return path


def test_right_is_what_is_said_or_follows_from_gold_answers(tmp_path):
    followed = {"question": "Where?", "draft": "In Oslo, I think", "answers": ["Oslo"], "reading": "Bergen"}
    # A label without its answer is of no step.
    alone = LINE | {"reading": None, "reading_right": True}
    said, found = read_outcomes(written(tmp_path, alone, followed | {"perplexity": 2.0, "time": "noon"}))
    assert (said.rights, said.probability) == ((True,), None)
    assert (found.rights, found.probability, found.seen.answers) == ((True, False), 0.5, ("In Oslo, I think", "Bergen"))


def test_a_number_or_a_truth_value_is_an_answer(tmp_path):
    line = {"id": 7, "question": "How many?", "draft": 1871, "reading": 1871.0, "further": [True], "answers": [1871.0]}
    (one,) = read_outcomes(written(tmp_path, line))
    assert (one.id, one.seen.answers, one.further, one.answers) == ("7", ("1871", "1871"), ["yes"], ["1871"])
    assert one.rights == (True, True)


def test_lines_of_adarague(tmp_path):
    chain = json.dumps("It is by Anaïs Nin. So the answer is: Anaïs Nin.")
    line = {
        "question": "who is the author of delta of venus",
        "answers": ["Anaïs Nin"],
        "closed_book": {"chain": chain, "answer": "Ana\\u00efs Nin"},
        "one_retrieval": {"answer": "Not available"},
        "ircot": {"answer": "Anaïs Nin"},
        "short_draw": {"answer": "henry miller", "perplexity": 1.4},
        "t5_router": {"choice": "B"},
    }
    (one,) = read_outcomes(written(tmp_path, line))
    assert one.seen.answers == ("Anaïs Nin", "Not available", "Anaïs Nin")
    assert one.rights == (True, False, True)
    assert (one.chain, one.further) == ("It is by Anaïs Nin. So the answer is: Anaïs Nin.", ["henry miller"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2, cannot be read"),
        ([1], "line 2: .*an object"),
        ({"question": "Who?", "draft": "Bo"}, "line 2: .*'right', or gold 'answers'"),
        ({"question": "Who?", "draft": "Bo", "answers": []}, "gold 'answers'"),
        ({"question": "Who?", "draft": "Bo", "right": "yes"}, "line 2: right"),
        ({"question": "", "draft": "Bo", "right": True}, "line 2: question"),
        ({"question": "Who?", "right": True}, "line 2: draft"),
        (LINE | {"probability": 1.5}, "line 2: probability"),
        (LINE | {"perplexity": 0.5}, "perplexity"),
        (LINE | {"reading": "Bo"}, "'reading_right', or gold"),
        (LINE | {"quizzes": "Bo", "quizzes_right": True}, "needs a 'reading'"),
        (LINE | {"split": "Test"}, "line 2, is of a test split: nothing learns"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_line(tmp_path, line, message):
    with pytest.raises(InputError, match=rf"log\.jsonl.*{message}"):
        read_outcomes(written(tmp_path, LINE, line))


def test_a_test_split_is_measured_by_and_never_learned_from(tmp_path):
    path = written(tmp_path, LINE, name="nq_test.jsonl")
    with pytest.raises(InputError, match="test split: nothing learns from that"):
        read_outcomes(path)
    assert len(read_outcomes(path, measured=True)) == 1
    # What a line says of itself counts, and a name that merely ends like it is none.
    assert len(read_outcomes(written(tmp_path, LINE | {"split": "train"}, name="nq_test.jsonl"))) == 1
    assert len(read_outcomes(written(tmp_path, LINE, name="contest.jsonl"))) == 1


def test_further_answers_and_probabilities_are_draws(tmp_path):
    line = LINE | {"further": ["ann berg", "Bo Lund"], "probability": 0.8}
    (quiz,) = as_collected(read_outcomes(written(tmp_path, line))).quizzes
    assert [(draw.text, draw.right, draw.probability) for draw in quiz.draws] == [
        ("Ann Berg", True, 0.8),
        ("ann berg", True, None),
        ("Bo Lund", False, None),
    ]
