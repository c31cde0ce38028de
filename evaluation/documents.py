"""Making a file of evidence documents, one a question: from an LM's memory, a benchmark's contexts, or an index."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

from keqa.data.example import Example, as_example
from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError
from keqa.programs.calls.batch import in_parallel
from keqa.programs.calls.errors import CallError
from keqa.programs.stage import Generation
from keqa.retrievers.base import Retriever
from keqa.retrievers.documents import document_of, lines_of
from keqa.storage.files import append, open_locked

Parts: TypeAlias = tuple[tuple[str, str], ...]
"""The passages of a document, each with its title."""

Source: TypeAlias = Callable[[Example], Parts]
"""From a question to its document; a `CallError`, or another error of KEQA's, where there is none."""


@dataclass
class Made:
    """How many documents were written now and were there before, and by id why a question has none."""

    written: int = 0
    there: int = 0
    without: dict[str, str] = field(default_factory=dict)


def from_memory(stage: Generation) -> Source:
    return lambda example: (stage(example.question),)


def from_contexts(example: Example) -> Parts:
    """The passages that come with a question, in their order; none of their roles is given."""
    # A page may be empty, of which a file of documents has none.
    if found := tuple((passage.title, passage.text) for passage in example.context if passage.text.strip()):
        return found
    raise InputError("no passages come with it")


def from_index(retriever: Retriever, k: int) -> Source:
    """What an index finds for a question, best first."""

    def found(example: Example) -> Parts:
        if hits := retriever.search(example.question, k):
            return tuple((hit.passage.title, hit.passage.text) for hit in hits)
        raise InputError("nothing was found for it")

    return found


def make_documents(
    examples: Iterable[Any],
    source: Source,
    path: Path | str,
    *,
    origin: str,
    in_flight: int = 8,
    progress: Callable[[Made], None] = lambda made: None,
) -> Made:
    """Write a document for each question that has none in the file yet; the file holds documents of one origin."""
    asked: dict[str, Example] = {}
    for number, item in enumerate(examples, start=1):
        example = as_example(item)
        if example.id in asked:
            raise InputError(f"example {number}: its id {example.id!r} is that of another example")
        asked[example.id] = example
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Made()
    with open_locked(path, "another keqa documents", "name another file") as stream:
        there = _read(path, stream, asked, origin)
        made.there = len(there)
        left = (example for example in asked.values() if example.id not in there)

        def written(example: Example) -> tuple[Example, Parts | str]:
            try:
                return example, source(example)
            except (ConfigurationError, MissingExtraError):
                raise
            except (CallError, KeqaError) as error:
                return example, str(error)

        for example, found in in_parallel(written, left, in_flight):
            if isinstance(found, str):
                made.without[example.id] = found
            else:
                passages = [{"title": title, "text": text} for title, text in found]
                line = {"id": example.id, "question": example.question, "passages": passages, "origin": origin}
                append(stream, json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n", sync=True)
                made.written += 1
            progress(made)
    return made


def _read(path: Path, stream: FileIO, asked: dict[str, Example], origin: str) -> set[str]:
    """The ids of the documents that are there; what follows the last whole line is cut off."""
    end = 0
    there: set[str] = set()
    for place, number, line in lines_of(path):
        if not line.endswith(b"\n"):
            break
        end = place + len(line)
        found = document_of(line, f"{path}, line {number}")
        if found.origin != origin:
            raise InputError(
                f"{path}, line {number}: this document is {found.origin or 'of no known origin'}, and those wanted are "
                f"{origin}: name another file"
            )
        example = asked.get(found.id)
        if example is not None and example.question != found.question:
            raise InputError(f"{path}, line {number}: its question is another than that of the id {found.id!r} here")
        there.add(found.id)
    stream.truncate(end)
    return there & set(asked)
