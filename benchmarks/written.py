"""Ten questions over the documentation of KEQA, answered in writing by a language model, to be read and judged by hand.

``python benchmarks/written.py --lm ollama_chat/qwen3 --out runs/written.jsonl`` keeps each answer as it ends, and asks
again only for what is missing. The passages are the first that BM25 finds in four pages, for it is the writing that is
looked at.
"""

import json
import tempfile
from pathlib import Path

from common import ROOT, options, read_lines

import keqa
from keqa.programs.declared import Style
from keqa.programs.stages.picking import unjudged
from keqa.programs.stages.writing import Writing

QUESTIONS: list[tuple[Style, str]] = [
    ("sentence", "Which exit code says that the documents do not say it?"),
    ("list", "List all kinds of findings that your documents do not say something."),
    ("table", "Compare keqa ask and keqa chat."),
    ("report", "Summarise how KEQA holds a risk."),
    ("sentence", "Who is the mayor of Berlin?"),
    ("list", "List all styles of written answers."),
    ("report", "Describe what keqa serve offers."),
    ("table", "Compare the engines embedded and dense."),
    ("sentence", "What does keqa index do with a damaged document?"),
    ("list", "List every command that writes a run file."),
]


def main() -> None:
    given = options(__doc__, lm=str, api_base=str, out=Path, passages=3)
    if given.lm is None or given.out is None:
        given.refuse("--lm and --out are needed")
    read = [ROOT / "docs" / f"{name}.md" for name in ("commands", "retrieval", "risk", "serving")]
    done = {line["question"] for line in read_lines(given.out)} if given.out.exists() else set()
    with tempfile.TemporaryDirectory() as folder:
        keqa.build_index(keqa.read_corpus(read), Path(folder) / "index")
        retriever = keqa.open_index(Path(folder) / "index")
        writing = Writing()
        writing.bind_lms(keqa.build_roles(given.lm, api_base=given.api_base))
        for style, question in QUESTIONS:
            if question in done:
                continue
            passages = unjudged(retriever.search(question, given.passages))
            written = writing(question, style, passages)
            with given.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"question": question, **written.model_dump(mode="json")}) + "\n")


if __name__ == "__main__":
    main()
