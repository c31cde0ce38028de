#!/usr/bin/env bash
# A real, weak LM on real questions: closed book, always-retrieve and KEQA, and gates on shared draws, with the fixed
# demonstrations and without.
#
#   bash benchmarks/real_questions.sh DATA [OUT] [LM]
#
#   DATA  folder with nq, triviaqa, hotpotqa and strategyqa in their original layouts
#   OUT   folder of all runs; a stopped command goes on in it (default: runs/real-questions)
#   LM    default: local/smollm2, which takes about a second a call on two cores
set -euo pipefail
DATA=${1:?folder of the data sets}
OUT=${2:-runs/real-questions}
LM=${3:-local/smollm2}

# set, file of questions, file of passages, how many questions, further options
ask() {
    local name=$1 questions=$2 passages=$3 count=$4
    shift 4
    [ -d "$OUT/index-$name" ] || keqa index "$DATA/$name/$passages" --out "$OUT/index-$name"
    keqa compare closed-book rag keqa gate-votes gate-certainty gate-lexical "$@" \
        --questions "$name:$DATA/$name/$questions" --sample "$count" \
        --index "$OUT/index-$name" --lm "$LM" --top-k 5 --in-flight 16 --out "$OUT/$name" --retry-failed
    keqa compare closed-book rag keqa --no-demonstrations "$@" \
        --questions "$name:$DATA/$name/$questions" --sample "$count" \
        --index "$OUT/index-$name" --lm "$LM" --top-k 5 --in-flight 16 --out "$OUT/$name-none" --retry-failed
}

ask nq NQ-open.dev.jsonl psgs_w100.tsv 50 --no-decompose
ask triviaqa test.jsonl psgs_w100.tsv 50 --no-decompose
ask hotpotqa hotpot_dev_distractor_v1.json hotpotqa_corpus.json 25
ask strategyqa strategyqa_train.json strategyQA_aug_context.jsonl 25
