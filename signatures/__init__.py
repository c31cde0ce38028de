"""Every prompt of the program, one DSPy signature a file, named for what it asks."""

from keqa.signatures.answer_from_documents import AnswerFromDocuments
from keqa.signatures.answer_question import AnswerQuestion
from keqa.signatures.answer_quiz import AnswerQuiz
from keqa.signatures.answer_quiz_if_sure import AnswerQuizIfSure
from keqa.signatures.answer_with_evidence import AnswerWithEvidence
from keqa.signatures.answer_with_knowledge import AnswerWithKnowledge
from keqa.signatures.choose_action import AnswerFromTrajectory, ChooseAction
from keqa.signatures.construct_triples import ConstructTriples
from keqa.signatures.decide_retrieval import DecideRetrieval
from keqa.signatures.decompose_question import DecomposeQuestion
from keqa.signatures.expand_subject import ExpandSubject
from keqa.signatures.extend_reasoning import ExtendReasoning
from keqa.signatures.generate_document import GenerateDocument
from keqa.signatures.judge_consistency import JudgeConsistency
from keqa.signatures.judge_heuristic_answer import JudgeHeuristicAnswer
from keqa.signatures.judge_knowledge import JudgeKnowledge
from keqa.signatures.judge_relevance import JudgeRelevance
from keqa.signatures.judge_support import JudgeSupport
from keqa.signatures.judge_utilities import JudgeUtilities
from keqa.signatures.judge_utility import JudgeUtility
from keqa.signatures.plan_query_chain import PlanQueryChain
from keqa.signatures.rate_usefulness import RateUsefulness
from keqa.signatures.reason_from_memory import ReasonFromMemory
from keqa.signatures.reason_with_knowledge import ReasonWithKnowledge
from keqa.signatures.rephrase_question import RephraseQuestion
from keqa.signatures.rewrite_follow_up import RewriteFollowUp
from keqa.signatures.rewrite_queries import RewriteQueries
from keqa.signatures.state_confidence import StateConfidence
from keqa.signatures.summarize import Summarize
from keqa.signatures.translate_question import TranslateQuestion

__all__ = [
    "AnswerFromDocuments",
    "AnswerFromTrajectory",
    "AnswerQuestion",
    "AnswerQuiz",
    "AnswerQuizIfSure",
    "AnswerWithEvidence",
    "AnswerWithKnowledge",
    "ChooseAction",
    "ConstructTriples",
    "DecideRetrieval",
    "DecomposeQuestion",
    "ExpandSubject",
    "ExtendReasoning",
    "GenerateDocument",
    "JudgeConsistency",
    "JudgeHeuristicAnswer",
    "JudgeKnowledge",
    "JudgeRelevance",
    "JudgeSupport",
    "JudgeUtilities",
    "JudgeUtility",
    "PlanQueryChain",
    "RateUsefulness",
    "ReasonFromMemory",
    "ReasonWithKnowledge",
    "RephraseQuestion",
    "RewriteFollowUp",
    "RewriteQueries",
    "StateConfidence",
    "Summarize",
    "TranslateQuestion",
]
