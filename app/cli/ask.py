"""``keqa ask`` and ``keqa chat``: one question, answered in the open, and a conversation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.text import Text

from keqa.cli.console import NOT_IN_DOCUMENTS, UNANSWERED, complain, results, show_json, status, warn
from keqa.cli.declare import MisplacedOptionError, argument, option
from keqa.cli.options import AS_JSON, AskedOptions
from keqa.errors import InputError, NotInDocumentsError, StageError
from keqa.storage.redaction import visible_line

if TYPE_CHECKING:
    from keqa.conversations import Conversation, Conversations
    from keqa.data.question import AnswerType
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord
    from keqa.retrievers import Retriever

_COMMANDS = (
    "/story shows how the last answer was reached; /new, /list, /resume NAME, /export FILE and /delete are for "
    "conversations; /quit ends."
)


def ask(
    *,
    question: str = argument("QUESTION", "The question; - reads it from standard input."),
    options: AskedOptions,
    method: str = option(
        "Any method of keqa compare, such as ks-llm or rag:top_k=5, with the settings below that it has.",
        default="keqa",
    ),
    answer_type: str = option("short, yes/no or choice.", default="short"),
    choice: list[str] | None = option("An option to choose from; give it once for each option."),
    as_json: bool = AS_JSON,
    full: bool = option("Show passages in full.", default=False),
    quiet: bool = option("Print the answer alone.", "-q", default=False),
    html: Path | None = option("Write the story to this file, too, as a page that needs no network."),
    timeout: float = option("Seconds for one attempt at a call to a served model.", default=120.0, min=0.1),
) -> None:
    """Ask a question and see how it was answered.

    The answer comes first, then its sources with the sentences that carried it, then the story. On a terminal, each
    quiz is shown as it settles.

    Without --index and --lm it goes to the language model that ships with KEQA, over the testbed's fictional
    encyclopedia. Exit code: 0 answered, 1 the question ended without an answer, 2 something to put right first, 3 the
    documents do not say it.
    """
    choices = choice or []
    kind = _answer_type(answer_type, choices)
    if as_json and (full or quiet):
        why = "--json prints the whole record and nothing else: leave out --full and --quiet"
        raise MisplacedOptionError(why, "--full", "--quiet")
    if html is not None:
        from keqa.page import check_place, story_page, write_page

        check_place(html)
    from keqa.data.question import clean

    text = sys.stdin.read() if question == "-" else question
    if not clean(text):
        raise InputError("the question is empty")

    make = None if method == "keqa" else partial(_method, method, options)
    asked, _, roles = options.open(make, timeout=timeout)
    with status().status("asking…") as shown:
        live = shown.console.is_terminal and not quiet and not as_json
        record, error = _answer(asked, text, {"answer_type": kind, "choices": choices}, shown.update if live else None)
    from keqa.programs.records import record_without_keys

    cleaned = record_without_keys(record, roles.every)
    # First, so that a page that cannot be written takes no answer away.
    _show(cleaned, quiet=quiet, as_json=as_json, full=full)
    if html is not None:
        write_page(html, [story_page(cleaned)])
    if error is not None:
        complain(error)
        raise typer.Exit(UNANSWERED)
    if cleaned.unanswered is not None:
        raise typer.Exit(NOT_IN_DOCUMENTS)


def _show(record: QuestionRecord, *, quiet: bool, as_json: bool, full: bool) -> None:
    from keqa.cli.story import in_lines, shown_answer, written_answer
    from keqa.programs.prediction import sources_of

    if as_json:
        sources = [source.model_dump(mode="json") for source in sources_of(record)]
        show_json({**record.model_dump(mode="json"), "sources": sources})
    elif not quiet:
        results().print(shown_answer(record, full=full))
    elif record.answer is not None:
        for part in [*written_answer(record)] or [in_lines(record.answer)]:
            results().print(part, soft_wrap=isinstance(part, Text))
        if record.guessed:
            warn("The answer is a guess: nothing was found that carries it.")


def _method(name: str, options: AskedOptions, retriever: Retriever, roles: Roles) -> Program:
    from keqa.cli.running import refuse_foreign
    from keqa.programs.build import Parts, make, own_of
    from keqa.programs.gate import asks
    from keqa.programs.registry import parse_spec
    from keqa.programs.shared_draws import SharedDraws

    spec, settings, program = parse_spec(name), options.method.settings(), options.program
    refuse_foreign(settings, [spec], options.models)
    gate = spec.method.gate
    draws = None if gate is None else SharedDraws(probabilities=asks(gate) == "probabilities")
    own = own_of(options.models.lm)
    return make(spec, Parts(retriever, roles, settings, program.program, draws, own=own, embedder=program.embedder))


def _answer_type(given: str, choices: list[str]) -> AnswerType:
    """Check the answer type; choices alone say that it is a choice."""
    if given not in ("short", "yes/no", "choice"):
        raise InputError(f"--answer-type must be short, yes/no or choice, not {given!r}")
    kind = "choice" if choices and given == "short" else given
    if (kind == "choice") != bool(choices):
        raise InputError("--answer-type choice and --choice go together: give each option with its own --choice")
    return cast("AnswerType", kind)


def _answer(
    program: Program, question: str, call: dict[str, Any], update: Callable[[Text], Any] | None = None
) -> tuple[QuestionRecord, StageError | None]:
    """Ask, and keep the record of a question that has no answer or failed."""
    try:
        if update is None:
            return program(question, **call).record, None
        from keqa.cli.story import follow

        return follow(program.stream(question, **call), update).record, None
    except NotInDocumentsError as finding:
        return finding.record, None
    except StageError as error:
        record = getattr(error, "record", None)
        if record is None:
            raise
        return record, error


def chat(
    options: AskedOptions,
    resume: str | None = option("Continue a conversation: its name, or last.", default=None),
    no_keep: bool = option("Keep nothing of the conversation on this machine.", default=False),
) -> None:
    """Ask questions one after the other; a follow-up is rewritten to stand alone first.

    The last ten questions and their answers are its history, and what earlier questions settled is not asked again.
    /story shows how the last answer was reached, /new begins another conversation, /list shows those that are kept,
    /resume NAME continues one, /export FILE writes this one as .html or .md, /delete deletes it, /quit or the end of
    the input ends. Ctrl-C gives up the question in work, or ends where there is none. Exit code 2: something to put
    right first.
    """
    from keqa.cli.serve import about_of
    from keqa.conversations import Conversations
    from keqa.data.question import clean

    kept = Conversations(kept=not no_keep)
    if resume is not None and no_keep:
        raise InputError("--resume continues a conversation that is kept: leave out --no-keep")
    # One that is not there is said before anything is opened.
    before = None if resume is None else kept.read(_named(kept, resume))
    asked, retriever, roles = options.open()
    talk = _Talk(asked, retriever, roles, kept, about_of(options.program, roles))
    if sys.stdin.isatty():
        status().print(f"{talk.about}. {_COMMANDS}", style="dim", soft_wrap=True)
    if before is not None:
        talk.resume(before.about.id)
    for line in map(str.strip, _typed_lines()):
        command, _, given = line.partition(" ")
        if command == "/quit":
            return
        try:
            if command.startswith("/"):
                talk.command(command, given.strip())
            elif question := clean(line):
                talk.ask(question)
        except InputError as problem:
            complain(problem)


def _named(kept: Conversations, name: str) -> str:
    """The name of a conversation; the last one has none of its own."""
    if name != "last":
        return name
    if not (listed := kept.listed()):
        raise InputError("no conversation is kept yet")
    return listed[0].id


@dataclass
class _Talk:
    """A conversation on the terminal."""

    program: Program
    retriever: Retriever
    roles: Roles
    kept: Conversations
    about: str
    conversation: Conversation | None = None

    def command(self, name: str, given: str) -> None:
        conversation, known = self.conversation, {"/story", "/export", "/delete"}
        last = None if conversation is None else conversation.last
        if name == "/new":
            self.conversation = None
            status().print("A new conversation.", style="dim")
        elif name == "/story" and last is not None:
            from keqa.cli.story import record_tree

            results().print(record_tree(last))
        elif name in ("/list", "/resume", "/delete") and not self.kept.kept:
            raise InputError("conversations are not kept here (--no-keep)")
        elif name == "/list":
            for one in self.kept.listed():
                results().print(Text(visible_line(f"{one.id}  {one.changed[:16]}  {one.title}")), soft_wrap=True)
        elif name == "/resume":
            if not given:
                raise InputError("/resume NAME, or last: /list shows the names")
            self.resume(given)
        elif name in ("/export", "/delete") and conversation is not None:
            path = Path(given.strip("\"'")).expanduser()
            self._export(conversation, path) if name == "/export" else self._delete(conversation)
        else:
            unknown = "no question was answered yet" if name in known else f"there is no {visible_line(name)}"
            status().print(f"keqa: {unknown}. {_COMMANDS}", style="yellow", soft_wrap=True)

    def resume(self, name: str) -> None:
        self.conversation = self.kept.read(_named(self.kept, name))
        status().print(Text(visible_line(self.conversation.about.title), "dim"), soft_wrap=True)
        for turn in self.conversation.turns:
            results().print(Text(visible_line(f"> {turn.question}"), "dim"), soft_wrap=True)
            if turn.record is not None and turn.record.answer is not None:
                _show_briefly(turn.record)
            else:
                results().print(Text("no answer", "dim"))

    def _export(self, conversation: Conversation, path: Path) -> None:
        from keqa.conversations import exported
        from keqa.page import check_place, write_page

        if path.suffix not in (".html", ".md"):
            raise InputError("/export FILE: the file ends in .html or .md")
        if path.exists():
            # It may be one of the documents.
            raise InputError(f"{visible_line(str(path))} is there already: give another name")
        check_place(path)
        write_page(path, [exported(conversation, "html" if path.suffix == ".html" else "md", lambda source: None)])
        status().print(f"Wrote {visible_line(str(path))}.", style="dim", soft_wrap=True)

    def _delete(self, conversation: Conversation) -> None:
        self.kept.delete(conversation.about.id)
        self.conversation = None
        status().print("Deleted.", style="dim")

    def ask(self, question: str) -> None:
        """Answer a question; the conversation continues whether or not it is answered."""
        from keqa.conversations import answered_by
        from keqa.programs.calls.session import within
        from keqa.programs.records import record_without_keys

        before = self.conversation or self.kept.begin(question, self.about)
        by = answered_by(self.program, self.retriever, self.roles.every)
        self.conversation = talk = self.kept.ask(before, question)
        error: StageError | InputError | None = None
        record: QuestionRecord | None = None
        try:
            with status().status("asking…") as shown, within(findings=before.findings(by)):
                live = shown.update if shown.console.is_terminal else None
                record, error = _answer(self.program, question, {"history": before.history}, live)
        except KeyboardInterrupt:
            status().print("given up", style="dim")
        except (InputError, StageError) as problem:
            error = problem
        if error is not None:
            complain(error)
        if record is not None:
            record = record_without_keys(record, self.roles.every)
        if record is not None and record.answer is not None:
            # First, so that one that cannot be kept is seen.
            _show_briefly(record)
        failed = "" if error is None else type(error).__name__
        self.conversation = self.kept.answer(talk, record, by=by, error=failed)


def _typed_lines() -> Iterator[str]:
    """What is typed, with a prompt where somebody types it."""
    while True:
        if sys.stdin.isatty():
            sys.stderr.write("> ")
            sys.stderr.flush()
        if not (line := sys.stdin.readline()):
            return
        yield line


def _show_briefly(record: QuestionRecord) -> None:
    from keqa.cli.story import in_lines, written_answer
    from keqa.programs.prediction import sources_of
    from keqa.programs.unanswered import answer_text, lines_of

    finding = record.unanswered
    style = "bold yellow" if record.guessed or finding is not None else "bold green"
    lines = [". ".join([line, *beneath]) for line, beneath in lines_of(finding)] if finding is not None else []
    sources, written = sources_of(record), [*written_answer(record)]
    if written:
        lines += [f"[{number}] {source.label}" for number, source in enumerate(sources, start=1)]
    elif names := dict.fromkeys(source.label for source in sources):
        lines.append(f"Sources: {'; '.join(names)}")
    before = [] if record.standalone is None else [Text(visible_line(f"→ {record.standalone}"), "dim")]
    answer = written or [in_lines(answer_text(record), style)]
    for part in [*before, *answer, *(Text(visible_line(line), "dim") for line in lines)]:
        results().print(part, soft_wrap=isinstance(part, Text))
