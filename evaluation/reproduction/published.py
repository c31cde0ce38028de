"""The figures of the KEQA paper (AAAI 2025, Tables 1 to 5 and section 4.2), to stand beside those of a run.

Table 1 is also in the authors' slides, whose cells are not shifted as those of some copies of the paper are. Figures 3
to 5 are pictures without numbers.
"""

from __future__ import annotations

DATASETS = ("nq", "strategyqa", "hotpotqa", "2wikimultihopqa")
"""The paper's four data sets, by the names under which they are loaded, in the order of its tables."""

COLUMNS = (
    ("nq", "f1"),
    ("nq", "em"),
    ("strategyqa", "accuracy"),
    ("hotpotqa", "f1"),
    ("hotpotqa", "em"),
    ("2wikimultihopqa", "f1"),
    ("2wikimultihopqa", "em"),
)

"""The scores of Table 1: data set and measure."""

COSTS = ("retrievals", "task samples", "task tokens", "seconds")
"""The measures of Table 5. Its LM calls and tokens leave out, it seems, those of D_s and D_u: KEQA's 5.08
calls on NQ are five samples and little more."""

_OVERALL = {
    "closed-book": (0.427, 0.294, 0.468, 0.380, 0.264, 0.313, 0.224),
    "cot": (0.454, 0.296, 0.510, 0.353, 0.260, 0.320, 0.218),
    "cot-few-shot": (0.445, 0.292, 0.620, 0.373, 0.254, 0.360, 0.224),
    "rag": (0.385, 0.258, 0.516, 0.387, 0.254, 0.314, 0.244),
    "react": (0.335, 0.212, 0.554, 0.390, 0.270, 0.305, 0.204),
    "ircot": (0.344, 0.216, 0.622, 0.361, 0.232, 0.318, 0.202),
    "flare": (0.455, 0.318, 0.662, 0.391, 0.268, 0.364, 0.246),
    "self-rag": (0.387, 0.270, 0.632, 0.357, 0.220, 0.311, 0.210),
    "searchain": (0.337, 0.214, 0.616, 0.349, 0.216, 0.313, 0.222),
    "rowen": (0.452, 0.286, 0.666, 0.382, 0.240, 0.307, 0.212),
    "slimplm": (0.442, 0.280, 0.566, 0.393, 0.266, 0.368, 0.242),
    "keqa": (0.483, 0.352, 0.680, 0.400, 0.278, 0.405, 0.326),
    "keqa-no-qke": (0.409, 0.284, 0.644, 0.352, 0.232, 0.396, 0.258),
    "keqa-no-ukp": (0.453, 0.302, 0.678, 0.350, 0.250, 0.398, 0.314),
    "keqa-no-reference": (0.456, 0.316, 0.676, 0.356, 0.252, 0.398, 0.302),
    "keqa-random-reference": (0.474, 0.324, 0.666, 0.375, 0.262, 0.385, 0.288),
    "keqa-key-sentences": (0.475, 0.342, 0.678, 0.388, 0.272, 0.397, 0.316),
}

TABLE_1 = {
    (method, dataset, name): value
    for method, values in _OVERALL.items()
    for (dataset, name), value in zip(COLUMNS, values, strict=True)
}
"""By method, data set and measure."""

TABLE_2 = {
    ("D_s", "nq"): 0.611,
    ("D_s", "strategyqa"): 0.774,
    ("BERTScore", "nq"): 0.559,
    ("BERTScore", "strategyqa"): 0.671,
}
"""How often a judge of consistency agrees with the labels of GPT-3.5, by judge and data set; D_s is LLaMA."""

TABLE_3 = {("keqa", "nq"): 0.491, ("keqa", "strategyqa"): 0.690, ("rag", "nq"): 0.486, ("rag", "strategyqa"): 0.662}
"""F1 or accuracy with the dense retriever DPR, by method and data set."""

TABLE_4 = {
    ("keqa", "GPT-4", "nq"): 0.515,
    ("keqa", "GPT-4", "strategyqa"): 0.760,
    ("rag", "GPT-4", "nq"): 0.496,
    ("rag", "GPT-4", "strategyqa"): 0.733,
    ("keqa", "LLaMA", "nq"): 0.315,
    ("keqa", "LLaMA", "strategyqa"): 0.486,
    ("rag", "LLaMA", "nq"): 0.295,
    ("rag", "LLaMA", "strategyqa"): 0.446,
}
"""F1 or accuracy with other language models, by method, language model and data set."""

_SPENT = {
    ("keqa", "nq"): (0.138, 5.08, 239, 6.28),
    ("keqa", "strategyqa"): (0.212, 16.44, 1016, 17.21),
    ("ircot", "nq"): (1.46, 1.46, 2024, 2.67),
    ("ircot", "strategyqa"): (1.88, 1.88, 2374, 3.15),
    ("flare", "nq"): (0.81, 1.81, 1367, 2.45),
    ("flare", "strategyqa"): (1.22, 2.22, 1742, 3.45),
}
TABLE_5 = {
    (method, dataset, name): float(value)
    for (method, dataset), values in _SPENT.items()
    for name, value in zip(COSTS, values, strict=True)
}
"""What a question costs, by method, data set and measure."""

SECONDS = {"quiz answering": 11.75, "assessment": 2.46, "everything else": 2.93}
"""Seconds of a question by step (section 4.2, efficiency analysis). The data set is not named; they add up to 17.14,
and Table 5 has 17.21 for StrategyQA."""
