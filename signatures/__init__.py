"""Every prompt of the program: DSPy signatures, each named for what it asks."""

from keqa.signatures.answers import (
    AnswerQuestion,
    AnswerQuiz,
    AnswerWithKnowledge,
    ReasonFromMemory,
    ReasonWithKnowledge,
    Summarize,
)
from keqa.signatures.chains import ExtendReasoning, PlanQueryChain
from keqa.signatures.choose_action import AnswerFromTrajectory, ChooseAction
from keqa.signatures.judgements import (
    DecideRetrieval,
    JudgeConsistency,
    JudgeHeuristicAnswer,
    JudgeRelevance,
    JudgeSupport,
    JudgeUtility,
    RateUsefulness,
    StateConfidence,
)
from keqa.signatures.questions import (
    ConstructTriples,
    DecomposeQuestion,
    RephraseQuestion,
    RewriteQueries,
    TranslateQuestion,
)

__all__ = [
    "AnswerFromTrajectory",
    "AnswerQuestion",
    "AnswerQuiz",
    "AnswerWithKnowledge",
    "ChooseAction",
    "ConstructTriples",
    "DecideRetrieval",
    "DecomposeQuestion",
    "ExtendReasoning",
    "JudgeConsistency",
    "JudgeHeuristicAnswer",
    "JudgeRelevance",
    "JudgeSupport",
    "JudgeUtility",
    "PlanQueryChain",
    "RateUsefulness",
    "ReasonFromMemory",
    "ReasonWithKnowledge",
    "RephraseQuestion",
    "RewriteQueries",
    "StateConfidence",
    "Summarize",
    "TranslateQuestion",
]
