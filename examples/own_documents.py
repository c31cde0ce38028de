"""From a folder of documents to an answer with the passages it rests on.

    python examples/own_documents.py [FOLDER] ["A question?"] [LM]

Without arguments it writes a folder of its own with pages of the testbed, the fictional encyclopedia that comes with
KEQA, and asks the language model that comes with it. A model of yours is named by its LiteLLM string, such as
``openai/gpt-4o-mini``; reading a folder needs ``pip install -e '.[documents]'``.
"""

import sys
import tempfile
from pathlib import Path

import keqa


def write_pages(folder: Path) -> None:
    """Write some passages of the testbed as text files, one for each title."""
    for passage in keqa.Testbed().passages[:600]:
        with (folder / f"{passage.title.replace('/', '-')}.txt").open("a", encoding="utf-8") as page:
            page.write(f"{passage.text}\n\n")


with tempfile.TemporaryDirectory() as scratch:
    documents = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch, "documents")
    question = sys.argv[2] if len(sys.argv) > 2 else "Where are the headquarters of the employer of Lydia Garvik?"
    lm = sys.argv[3] if len(sys.argv) > 3 else "keqa/tiny"
    if len(sys.argv) == 1:
        documents.mkdir()
        write_pages(documents)

    manifest = keqa.build_index(keqa.read_corpus([documents]), Path(scratch, "index"))
    print(f"{manifest.passages} passages")
    # What these pages mention and do not tell, the language model that ships was trained on: it may answer from memory.
    lms = keqa.build_roles(lm)
    program = keqa.KEQA(keqa.open_index(Path(scratch, "index")), lms=lms, look_first=lm != "keqa/tiny")
    prediction = program(question)
    print("Answer:", prediction.answer)
    for quiz in prediction.record.quizzes:
        kept = [verdict.title for verdict in quiz.passages if verdict.kept]
        print(f"  {quiz.resolved} {quiz.answer} ({quiz.source}{': ' + ', '.join(kept) if kept else ''})")
