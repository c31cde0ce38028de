"""The skill check: what an LM can do on unseen entities, by number of demonstrations."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import dspy
from dspy.utils.exceptions import DSPyError

from keqa.programs.calls.batch import in_parallel
from keqa.testbed import words
from keqa.testbed.skills import SKILLS, Example, Setting, Skill, nearest
from keqa.testbed.world import SMALL, Convention, World

DEMONSTRATIONS = (0, 2, 8)
_IN_FLIGHT = 32


@dataclass(frozen=True)
class SkillTask:
    """One row of the skill table."""

    name: str
    skill: str
    hidden: bool
    required: dict[int, float]

    def wants(self, example: Example) -> bool:
        """Whether an example belongs to the row: answers whose form a convention governs, or the others."""
        answer = str(example[1].get("answer", ""))
        if "answer" not in example[1]:
            return True
        governed = bool(answer) and (
            answer.split()[0] in _FIRST_WORDS or (any(c.isdigit() for c in answer) and " " in answer)
        )
        return governed == self.hidden


_FIRST_WORDS = frozenset([*words.FIRST_NAMES, *words.LAST_NAMES])
_EASY = dict.fromkeys(DEMONSTRATIONS, 0.95)
TASKS = (
    SkillTask("decompose", "DecomposeQuestion", False, _EASY),
    SkillTask("judge consistency", "JudgeConsistency", False, _EASY),
    SkillTask("answer with knowledge", "AnswerWithKnowledge", False, _EASY),
    SkillTask("summarize", "Summarize", False, _EASY),
    SkillTask("judge utility", "JudgeUtility", True, {0: 0.6, 8: 0.93}),
    SkillTask("answer with knowledge, by convention", "AnswerWithKnowledge", True, {0: 0.6, 8: 0.93}),
    SkillTask("summarize, by convention", "Summarize", True, {0: 0.6, 8: 0.93}),
    SkillTask("reason with knowledge", "ReasonWithKnowledge", False, {}),
    SkillTask("construct triples", "ConstructTriples", False, {}),
    SkillTask("extend reasoning", "ExtendReasoning", False, {}),
    SkillTask("plan a query chain", "PlanQueryChain", False, {}),
    SkillTask("choose an action", "ChooseAction", False, {}),
    SkillTask("answer from a trajectory", "AnswerFromTrajectory", False, {}),
    SkillTask("judge relevance", "JudgeRelevance", False, {}),
    SkillTask("judge support", "JudgeSupport", False, {}),
    SkillTask("rate usefulness", "RateUsefulness", False, {}),
    SkillTask("rephrase", "RephraseQuestion", False, {}),
    SkillTask("rewrite queries", "RewriteQueries", False, {}),
    SkillTask("judge utilities, listwise", "JudgeUtilities", True, {}),
    SkillTask("judge knowledge", "JudgeKnowledge", False, _EASY),
    SkillTask("expand the subject", "ExpandSubject", False, _EASY),
    SkillTask("generate a document, its title", "GenerateDocument", False, _EASY),
    SkillTask("answer with evidence", "AnswerWithEvidence", False, dict.fromkeys(DEMONSTRATIONS, 0.7)),
    SkillTask("answer with evidence, by convention", "AnswerWithEvidence", True, {}),
    SkillTask("rewrite a follow-up", "RewriteFollowUp", False, _EASY),
    SkillTask("draft quizzes", "DraftQuizzes", False, dict.fromkeys(DEMONSTRATIONS, 0.9)),
    SkillTask("answer a quiz if sure", "AnswerQuizIfSure", False, dict.fromkeys(DEMONSTRATIONS, 0.9)),
    SkillTask("answer from documents", "AnswerFromDocuments", False, dict.fromkeys(DEMONSTRATIONS, 0.85)),
    SkillTask("answer and cite", "AnswerAndCite", False, dict.fromkeys(DEMONSTRATIONS, 0.75)),
    SkillTask("answer and cite, by convention", "AnswerAndCite", True, {8: 0.7}),
    SkillTask("write an answer", "WriteAnswer", False, dict.fromkeys(DEMONSTRATIONS, 0.6)),
    SkillTask("list items", "ListItems", False, {}),
    SkillTask("compare in a table", "CompareInTable", False, dict.fromkeys(DEMONSTRATIONS, 0.6)),
)


@dataclass(frozen=True)
class SkillScore:
    """The share of exact matches of one task with one number of demonstrations."""

    task: str
    demonstrations: int
    right: int
    parsed: int
    asked: int

    @property
    def share(self) -> float:
        return self.right / self.asked


def check_skills(
    lm: dspy.LM,
    *,
    asked: int = 100,
    tasks: Iterable[SkillTask] = TASKS,
    demonstrations: Iterable[int] = DEMONSTRATIONS,
    progress: Callable[[], None] = lambda: None,
) -> list[SkillScore]:
    """Asks an LM for every skill on entities that no training saw."""
    scores = []
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        for task in tasks:
            skill = SKILLS[task.skill]
            for count in demonstrations:
                cases = [_case(task, skill, count, number) for number in range(asked)]
                verdicts = []
                for verdict in in_parallel(partial(_ask, skill), cases, _IN_FLIGHT):
                    verdicts.append(verdict)
                    progress()
                scores.append(SkillScore(task.name, count, verdicts.count(True), asked - verdicts.count(None), asked))
    return scores


def _case(task: SkillTask, skill: Skill, count: int, number: int) -> tuple[list[Example], Example]:
    # Worlds of the training have seeds from a million on.
    rng = random.Random(f"{task.name} {number}")
    setting = Setting.draw(World(rng.randrange(10**6), SMALL), rng, passages=5)
    setting = (
        replace(setting, stale=tuple(rng.sample(words.SOURCES, 2)))
        if task.hidden
        else replace(setting, convention=Convention())
    )
    example = skill.make(setting)
    while not task.wants(example):
        example = skill.make(setting)
    brief = replace(setting, passages=2)
    if not task.hidden:
        return [skill.make(brief) for _ in range(count)], example
    return nearest([skill.make(brief) for _ in range(5 * count)], example, count), example


def _ask(skill: Skill, case: tuple[list[Example], Example]) -> bool | None:
    demos, (inputs, outputs) = case
    predict = dspy.Predict(skill.signature)
    try:
        answer = predict(**inputs, demos=[dspy.Example(**given, **made) for given, made in demos])
    except DSPyError:
        return None
    return bool(answer[skill.scored] == outputs[skill.scored])


def shortfalls(scores: Iterable[SkillScore], tasks: Iterable[SkillTask] = TASKS) -> list[str]:
    """Names every score below what its task requires; a reworded signature that needs retraining shows up here."""
    required = {task.name: task.required for task in tasks}
    return [
        f"{score.task} with {score.demonstrations} demonstrations: {score.share:.2f} of "
        f"{required[score.task][score.demonstrations]:.2f}"
        for score in scores
        if score.share < required[score.task].get(score.demonstrations, 0.0)
    ]
