#!/usr/bin/env bash
# Draws Tables 1 to 5, Figures 3 to 5 and the gates' figures of the KEQA paper, on the testbed, beside them what the
# KBM papers report of retrieval, and KS-LLM's methods.
#
#   bash benchmarks/tables.sh [OUT] [QUESTIONS] [SMALLER_LM]
#
#   OUT         folder of all runs; a stopped command resumes in it (default: runs/tables)
#   QUESTIONS   test questions of the testbed (default: 100)
#   SMALLER_LM  for Table 4, such as transformers/FOLDER or local/smollm2; Table 4 is left out without it
set -euo pipefail
OUT=${1:-runs/tables}
N=${2:-100}
SMALLER=${3:-}
PROGRAM=testbed  # the compiled program that ships, asked in the form of the paper: a call for each of its steps

# A compiled program has a threshold and a top-k of its own; a row that only repeats them is left out of Table 1.
THRESHOLDS=(keqa:threshold=0.2 keqa:threshold=0.4 keqa:threshold=0.6 keqa:threshold=0.8 keqa:threshold=1.0)
TABLE1=(keqa closed-book cot cot-few-shot rag rag-cot react ircot flare self-rag searchain rowen slimplm
    keqa-no-qke keqa-no-ukp keqa-no-reference keqa-random-reference keqa-key-sentences keqa-full)
TOPK=(keqa:top_k=5 keqa:top_k=10 keqa:top_k=15 keqa:top_k=20
    keqa-full:top_k=5 keqa-full:top_k=10 keqa-full:top_k=15 keqa-full:top_k=20)
# Together from the beginning: gate-probability needs draws with token probabilities.
GATES=(gate-votes gate-always gate-never gate-oracle gate-certainty gate-lexical gate-confidence gate-probability
    gate-prompt
    gate-certainty:form=by_types,over=types,threshold=9/10 gate-certainty:form=plain,over=types,threshold=9/10)
KS_LLM=(standard standard-doc cot-doc ks-q ks-t ks-s ks-llm:evidence_sentences=1 ks-llm ks-llm:evidence_sentences=3
    ks-llm:evidence_sentences=5)

# Table 1, Table 2 (the judge on KEQA's run), Table 5 (costs), Figure 3 (from gate-probability's draws), Figure 4
# (threshold), Figure 5 (top-k), gates and risk-coverage: one folder, one cache, shared draws.
keqa compare "${TABLE1[@]}" "${THRESHOLDS[@]}" "${TOPK[@]}" "${GATES[@]}" \
    --testbed --limit "$N" --program "$PROGRAM" --no-draft --no-cite --out "$OUT/main"

# Table 3: dense against BM25.
keqa compare keqa rag --testbed --retriever dense --limit "$N" --program "$PROGRAM" --no-draft --no-cite --out "$OUT/dense"

# Table 4: another language model.
FOLDERS=("$OUT/main" "$OUT/dense")
if [ -n "$SMALLER" ]; then
    keqa compare keqa rag --testbed --lm "$SMALLER" --limit "$N" --program "$PROGRAM" --no-draft --no-cite --out "$OUT/small"
    FOLDERS+=("$OUT/small")
fi

# KS-LLM, what it is compared with in its paper, and its k.
keqa compare "${KS_LLM[@]}" --testbed --limit "$N" --out "$OUT/ks-llm"

# Everything in one report, from the run files alone: OUT/report. Table 1 shows the rows of the first folder.
keqa compare "${FOLDERS[@]}" --out "$OUT"
