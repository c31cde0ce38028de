#!/usr/bin/env bash
# Written answers by style: citation recall and precision, short facts inside, recall and precision of lists.
#
#   bash benchmarks/written.sh shipped [OUT] [COUNT]           the testbed's questions and its lists, the LM that ships
#   bash benchmarks/written.sh comparisons DATA LM [OUT] [COUNT]    2WikiMultihopQA's comparisons
#
#   DATA   folder with 2wikimultihopqa in its original layout
#   OUT    folder of all runs; a stopped command resumes in it (default: runs/written)
#   COUNT  questions of each style (default: 20)
set -euo pipefail
STYLES=(keqa:style=sentence keqa:style=report keqa:style=list keqa:style=table)

if [ "${1:?shipped or comparisons}" = shipped ]; then
    OUT=${2:-runs/written}
    # Whatever is known is searched for as well, for it is the writing that is looked at.
    for split in test lists; do
        keqa compare "${STYLES[@]}" --testbed --split "$split" --limit "${3:-20}" --program testbed --no-examine --out "$OUT/$split"
    done
    exit
fi

DATA=${2:?folder of the data sets}/2wikimultihopqa LM=${3:?language model} OUT=${4:-runs/written}
mkdir -p "$OUT"
# Those that ask which of two: a yes or no is answered in short in any style.
python - "$DATA/dev.json" > "$OUT/comparisons.json" <<'PYTHON'
import json, sys

rows = json.load(open(sys.argv[1], encoding="utf-8"))
print(json.dumps([one for one in rows if one["type"] == "comparison" and one["answer"] not in ("yes", "no")]))
PYTHON
[ -d "$OUT/index" ] || keqa index "$DATA/2wikimultihopqa_corpus.json" --out "$OUT/index"
# The question itself is searched and read, for it is the writing that is looked at.
keqa compare "${STYLES[@]}" --no-decompose --no-examine --no-pick --top-k 4 --max-passages 8 \
    --questions "2wikimultihopqa:$OUT/comparisons.json" --sample "${5:-20}" \
    --index "$OUT/index" --lm "$LM" --in-flight 4 --out "$OUT/$(basename "$LM")"
