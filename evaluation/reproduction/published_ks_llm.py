"""The figures of the KS-LLM paper (Zheng et al., 2024, Tables 1 to 3 and Figure 3), to stand beside those of a run.

All are exact match in per cent. Of Figure 3 the text names the points of k = 2 alone; the others are a picture.
"""

from __future__ import annotations

LMS = ("Vicuna-13B", "Llama2-13B", "Llama2-7B")
"""The base LMs of Table 1."""

DATASETS = {"triviaqa-verified": "TriviaQA-verified", "webquestions": "WebQ", "nq": "NQ"}
"""The data sets, by the names under which they are loaded, as the paper calls them."""

ROWS = ("standard", "standard-doc", "cot-doc", "ks-q", "ks-t", "ks-s", "ks-llm")
"""The rows of Table 1, by the names of the methods."""

_OVERALL = {
    "standard": ((51.45, 62.07, 51.03), (17.91, 23.18, 17.08), (14.93, 16.59, 15.10)),
    "standard-doc": ((52.69, 56.97, 49.24), (18.31, 23.47, 17.52), (17.04, 21.06, 19.39)),
    "cot-doc": ((50.34, 55.45, 49.52), (18.26, 22.98, 18.46), (17.12, 20.16, 20.36)),
    "ks-q": ((52.10, 62.76, 49.66), (20.47, 24.66, 19.29), (15.07, 20.00, 17.92)),
    "ks-t": ((52.28, 53.66, 40.59), (21.79, 23.82, 20.42), (15.40, 16.92, 11.25)),
    "ks-s": ((51.59, 57.79, 44.55), (20.23, 24.11, 18.85), (15.62, 18.89, 17.26)),
    "ks-llm": ((58.48, 55.72, 44.14), (21.85, 24.70, 21.11), (17.59, 21.69, 20.95)),
}

TABLE_1 = {
    (method, dataset, lm): value
    for method, sets in _OVERALL.items()
    for dataset, values in zip(DATASETS, sets, strict=True)
    for lm, value in zip(LMS, values, strict=True)
}
"""By method, data set and LM."""

TABLE_2 = {
    ("standard", 0): (51.45, "3:40"),
    ("standard-doc", 300): (52.69, "4:41"),
    ("standard-doc", 500): (49.52, "5:22"),
    ("standard-doc", 1000): (47.45, "7:10"),
    ("standard-doc", 2000): (37.66, "11:31"),
    ("ks-llm", 0): (58.48, ""),
}
"""EM and minutes by method and tokens of the document, with Vicuna-13B on TriviaQA-verified; 0 where none is cut."""

FIGURE_3 = {("triviaqa-verified", 2): 58.48, ("webquestions", 2): 21.85}
"""EM by data set and k, with Vicuna-13B."""

CASE = (
    ("question", "For which team did Babe Ruth blast his last Major League home run?"),
    ("gold answer", "Boston Braves"),
    ("standard", "Babe Ruth"),
    ("standard-doc", "Philadelphia Athletics"),
    ("cot-doc", "Philadelphia Athletics"),
    (
        "triples",
        "(Babe Ruth, played for, Boston Red Sox), (Babe Ruth, played for, New York Yankees), (Babe Ruth, played for, "
        "Baltimore Orioles), (Babe Ruth, played for, St. Louis Browns), (Babe Ruth, played for, Boston Braves)",
    ),
    (
        "evidence",
        "On May 25, 1935, with the team on a road trip and playing at Forbes Field in Pittsburgh, Ruth hammered three "
        "home runs and a single, driving in six runs. In 1935, Babe Ruth was forty years old, in poor physical shape, "
        "and playing out the string with the Boston Braves.",
    ),
    ("ks-llm", "Boston Braves"),
)
"""Table 3, the case with Vicuna-13B."""

REMARKS = (
    "With Llama 2 on TriviaQA-verified, the paper's KS-LLM is below its Standard: by 6.35 (13B) and 6.89 (7B).",
    'The "3.94 over Standard+doc" on WebQ (section 4.4) is over Standard; over Standard+doc it is 3.54.',
)
"""What the paper's text does not say of its own figures."""
