"""However a language model replies: the company's folder of `own_documents.py`, asked of models that keep to no form.

    python benchmarks/ways_of_replying.py

One of that benchmark's language models by rules puts what it says into other words, and its fields into other formats,
as ``ways_of_replying.yaml`` has them. `keqa ask` reads them over one's own documents: how many of the 28 answers are
right, and how many of the 12 questions without an answer are declined.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common
import own_documents
import yaml
from common import ROOT, recorded, show, working_in
from company import QUESTIONS, make
from servers.openai_server import OpenAIServer, inputs_of

import keqa
from keqa.signatures.chat_format import COMPLETED, sections

WAYS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "benchmarks" / "ways_of_replying.yaml").read_text("utf-8"))
AS_IT_COMES = {"settle": "cascade", "draft": True, "pick": False, "read_together": True, "expand": 3}
"""What `keqa ask` does over an index of one's own."""

Rewrite = Callable[[dict[str, str], Mapping[str, str]], str]
"""The text of a reply from its fields and the inputs that it is asked with."""


def worded(template: str) -> Rewrite:
    def rewrite(fields: dict[str, str], inputs: Mapping[str, str]) -> str:
        answer = fields.get("answer")
        if answer and "passages" in inputs and not own_documents.is_refusal(answer):
            fields = {**fields, "answer": template.format(answer=answer, question=inputs["question"])}
        return own_documents.markers(**fields)

    return rewrite


def formatted(before: str = "", field: str = "", behind: str = "") -> Rewrite:
    def rewrite(fields: dict[str, str], inputs: Mapping[str, str]) -> str:
        if field:
            own, others = (
                "\n\n".join(field.format(name=name, value=value) for name, value in said.items())
                for said in (fields, dict.fromkeys(fields, "Nobody"))
            )
            return before + own + (behind and behind + others)
        return before + json.dumps({name: _plain(value) for name, value in fields.items()}, ensure_ascii=False)

    return rewrite


def _plain(value: str) -> Any:
    return json.loads(value) if value.startswith("[") else value


def asked(rewrite: Rewrite, index: Path, out: Path) -> list[tuple[str, dict[str, float]]]:
    """Each question's kind and what came of it."""

    def reply(messages: list[dict[str, Any]], n: int, body: Mapping[str, Any]) -> list[str]:
        inputs, found = inputs_of(str(messages[-1]["content"])), []
        for text in own_documents.reply(messages, n, body):
            fields = {one.name: text[one.start : one.end].strip() for one in sections(text) if one.name != COMPLETED}
            found.append(rewrite(fields, inputs))
        return found

    with OpenAIServer(reply=reply) as server:
        lms = keqa.build_roles("openai/rules-0", api_base=server.api_base, api_key="none")
        program = keqa.KEQA(keqa.open_index(index), lms=lms, **AS_IT_COMES)
        return [(one.kind, own_documents.judged(one, record)) for one, record in recorded(program, QUESTIONS, out, 8)]


def row(way: str, found: list[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    answerable = [figures for kind, figures in found if not kind.startswith("none")]
    others = [figures for kind, figures in found if kind.startswith("none")]
    total = {
        name: sum(int(figures[name]) for figures in answerable) for name in ("right", "cited", "declined", "wrong")
    }
    calls = sum(figures["calls"] for _, figures in found) / len(found)
    return {"way": way, **total, "rightly declined": sum(int(one["declined"]) for one in others), "calls": calls}


def main() -> None:
    common.options(__doc__)
    ways = {"as asked for": worded("{answer}")}
    ways |= {way: worded(template) for way, template in WAYS["wordings"].items()}
    ways |= {way: formatted(**parts) for way, parts in WAYS["formats"].items()}
    with working_in(None) as work:
        make(work / "documents")
        keqa.build_index(keqa.read_corpus([work / "documents"]), work / "index")
        show(
            (
                row(way, asked(rewrite, work / "index", work / f"{at}.jsonl"))
                for at, (way, rewrite) in enumerate(ways.items())
            ),
            digits=1,
        )


if __name__ == "__main__":
    main()
