"""Every prompt of the program, one DSPy signature a file, named for what it asks."""

from keqa.signatures.answer_question import AnswerQuestion
from keqa.signatures.answer_quiz import AnswerQuiz
from keqa.signatures.answer_with_knowledge import AnswerWithKnowledge
from keqa.signatures.construct_triples import ConstructTriples
from keqa.signatures.decompose_question import DecomposeQuestion
from keqa.signatures.judge_consistency import JudgeConsistency
from keqa.signatures.judge_utility import JudgeUtility
from keqa.signatures.reason_from_memory import ReasonFromMemory
from keqa.signatures.reason_with_knowledge import ReasonWithKnowledge
from keqa.signatures.state_confidence import StateConfidence
from keqa.signatures.summarize import Summarize

__all__ = [
    "AnswerQuestion",
    "AnswerQuiz",
    "AnswerWithKnowledge",
    "ConstructTriples",
    "DecomposeQuestion",
    "JudgeConsistency",
    "JudgeUtility",
    "ReasonFromMemory",
    "ReasonWithKnowledge",
    "StateConfidence",
    "Summarize",
]
