import pytest

from keqa.testbed.check import TASKS, SkillScore, check_skills, shortfalls

pytestmark = pytest.mark.model

CONSISTENCY = [task for task in TASKS if task.name == "judge consistency"]


def test_a_constant_judge_is_right_about_half_the_time(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"same": True})
    [zero, eight] = check_skills(lm, tasks=CONSISTENCY, demonstrations=(0, 8), asked=60)
    assert (zero.demonstrations, eight.demonstrations) == (0, 8)
    assert zero.parsed == zero.asked == 60
    assert 0.3 < zero.share < 0.7
    assert shortfalls([zero], CONSISTENCY)[0].startswith("judge consistency with 0 demonstrations: 0.")


def test_what_does_not_parse_is_counted_and_never_right(scripted):
    lm, _ = scripted(lambda name, inputs, config: "no idea")
    [score] = check_skills(lm, tasks=CONSISTENCY, demonstrations=(0,), asked=10)
    assert (score.right, score.parsed, score.asked) == (0, 0, 10)


@pytest.mark.parametrize(("right", "named"), [(95, 0), (94, 1)])
def test_shortfalls_name_what_is_below_the_requirement(right, named):
    scores = [SkillScore("judge consistency", 0, right, 100, 100)]
    assert len(shortfalls(scores)) == named
