"""Table 6: questions with all the steps that KEQA took."""

from keqa.evaluation.reports.paper import cases
from keqa.programs.records import PassageVerdict


def found(kept, text="Bo was born in 1950."):
    return PassageVerdict(
        passage_id="p", title="Bo", text=text, score=1.0, verdict="helpful", kept=kept, why="judged helpful"
    )


def test_what_shows_most_of_the_method_is_shown_with_all_its_steps(line, quiz):
    known = quiz("Who directed it?", ["Ann"] * 4, [[0, 1, 2, 3]], source="memory", answer="Ann", known=True)
    known = known.model_copy(update={"consistency_exact": "4/5", "threshold_exact": "4/5", "complete": False})
    looked_up = quiz("When was #1 born?", ["1949", "1951"], [[0], [1]], index=2, source="passages", answer="1950")
    looked_up = looked_up.model_copy(
        update={
            "resolved": "When was Ann born?",
            "retrieved": True,
            "passages": [found(False, "Noise."), found(True, "1950. " * 60)],
        }
    )
    in_vain = quiz(
        "Who?", ["Bo"], [[0]], source="largest_cluster", answer="Bo", retrieved=True, passages=[found(False)]
    )
    lines = [
        line(1, 1.0, quizzes=[known]),
        line(2, 0.0, quizzes=[known, looked_up]),
        line(3, 1.0, quizzes=[known, looked_up]),
        line(4, 1.0, quizzes=[in_vain], failed=True),
        line(5, 1.0, quizzes=[in_vain]),
    ]
    table = cases([("nq", "KEQA w/o R", lines)])
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    assert rows == [
        ["nq", "question", "Question 3?"],
        ["", "q1", "Who directed it?"],
        ["", "q1: T_c", "at least 4/5 (\u03b1 is 4/5)"],
        ["", "q1: answer", "Ann (known)"],
        ["", "q2", "When was Ann born?"],
        ["", "q2: retrieval", ("Bo: " + "1950. " * 60)[:200] + "\u2026"],
        ["", "q2: answer", "1950 (from passages)"],
        ["", "gold answer", "gold"],
        ["", "KEQA w/o R answers", "an answer"],
    ]
    assert [row.ruled for row in table.rows] == [True] + [False] * 8
    several = cases([("nq", "KEQA", lines)], most=4)
    asked = [row.cells[2].text for row in several.rows if row.cells[1].text == "question"]
    # Right ones first, and among them those with more of the method; one without an answer shows nothing.
    assert asked == ["Question 3?", "Question 1?", "Question 5?", "Question 2?"]
    said = [row.cells[2].text for row in several.rows]
    assert "none of 1 passages was judged helpful" in said
    assert cases([("nq", "KEQA", [line(1, 0.0, failed=True)])]) is None
