"""``keqa serve``: the program for chat windows, other programs and agents."""

import importlib.util
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from keqa.cli.console import status
from keqa.cli.declare import MisplacedOptionError, argument, given, option
from keqa.cli.options import NO_TOKEN, AskedOptions, ProgramOptions
from keqa.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from keqa.lms import Roles
    from keqa.server.chat import Story


@dataclass(frozen=True)
class ServerOptions:
    """Where the server listens, and to whom."""

    panel = "Server"

    host: str = option(
        "The address to listen on. Where other machines can reach it, a token is needed.", default="127.0.0.1"
    )
    port: int = option("The port; 0 for any that is free.", default=8321, min=0, max=65535)
    token_file: Path | None = option("A file with the token that requests must carry; or the variable KEQA_TOKEN.")
    allow_host: list[str] | None = option(
        "A further name by which the server is reached, such as that of a proxy before it; once for each."
    )
    documents: Path | None = option(
        "The folder that was indexed: sources on the page open their files, at their pages. Whoever may ask may then "
        "read every document in it."
    )
    public_url: str = option(
        "The address by which readers reach this server, such as that of a proxy before it: links to documents begin "
        "with it.",
        default="",
        shown="that by which a client asks",
    )
    watch: bool = option(
        "Take up what keqa index changes in the index from the next question on; with --documents, bring the index in "
        "step with that folder every few seconds, too.",
        default=False,
    )
    add_documents: bool = option(
        "Let whoever may ask add documents: the page puts what is dropped on it into the folder of --documents, and "
        "into the index as keqa index add does. Needs --index and --documents.",
        default=False,
    )
    conversations: bool | None = option(
        "Keep the page's conversations on this machine, in a folder of yours, where all who may ask see them.",
        shown="where only this machine reaches the server",
    )
    story: str = option(
        "Where a stream of the chat endpoint reports how the answer is found: reasoning (the field reasoning_content), "
        "text (between <think> and </think>, which chat windows fold away) or none.",
        default="reasoning",
    )
    mcp: bool = option(
        "Speak MCP over standard input and output, for an agent that starts this command.", default=False
    )
    grace: int = option("Seconds that questions in work get when the server is stopped.", default=30, min=0)


@dataclass(frozen=True)
class LimitOptions:
    """What bounds the server."""

    panel = "Limits"

    in_flight: int = option("Questions in work at once.", default=8, min=1, max=1000)
    waiting: int = option("How many more may wait; others are refused.", default=64, min=0, max=10_000)
    timeout: float = option("Seconds that a question may take, its wait included.", default=300, min=1)
    rate: int = option("Requests a minute from one address; 0: any number.", default=600, min=0)
    max_body: int = option("Bytes of a request.", default=1_000_000, min=1000)
    max_document: int = option("Bytes of a document that is added.", default=20_000_000, min=1000)


def serve(
    server: ServerOptions,
    limits: LimitOptions,
    options: AskedOptions,
    no_token: bool = NO_TOKEN,
) -> None:
    """Answer questions over HTTP, as an OpenAI-compatible endpoint, and as tools of an MCP server.

    Without --index and --lm it serves the language model that ships with KEQA, over the testbed's encyclopedia.
    The page, with a question box and each step of an answer, is at /. The chat endpoint is /v1/chat/completions with
    the model keqa; MCP is at /mcp, and over standard input and output with --mcp. Beside them: /v1/models, /health and
    /metrics.

    Requests carry a token: yours (--token-file, KEQA_TOKEN), or else one that is made and printed at each start.

    A server has one index: who may ask it may see any passage of it. Ctrl-C lets questions in work end. Exit code 2:
    something to put right first, such as a language model that cannot be asked.
    """
    _check_installed("keqa serve", "starlette", "uvicorn", "mcp", "prometheus_client")
    program, watch = options.program, server.watch or server.add_documents
    heard = ("--mcp", "--documents", "--watch", "--in-flight", "--waiting", "--timeout")
    unheard = [flag for flag in (*given(server, limits), *["--no-token"] * no_token) if flag not in heard]
    if server.mcp and unheard:
        why = f"--mcp speaks over standard input and output, and listens nowhere: leave out {', '.join(unheard)}"
        raise MisplacedOptionError(why, *unheard)
    if server.story not in ("reasoning", "text", "none"):
        raise InputError(f"--story must be reasoning, text or none, not {server.story!r}")
    if server.public_url and not server.public_url.startswith(("http://", "https://")):
        raise InputError(f"--public-url must begin with http:// or https://, not be {server.public_url!r}")
    if server.add_documents and (program.index is None or server.documents is None):
        raise InputError("--add-documents needs --index and --documents: the index and the folder that documents go to")
    if watch and program.index is None:
        raise InputError("--watch needs --index: the testbed's encyclopedia does not change")
    if watch and options.risk.risk is not None:
        raise InputError(
            "--risk is calibrated on an index as it is, and --watch and --add-documents serve one that changes: leave "
            "out one"
        )
    from keqa.conversations import Conversations
    from keqa.server.answers import Answers, FolderSync
    from keqa.server.application import Documents
    from keqa.server.intake import Intake
    from keqa.server.limits import ServerLimits
    from keqa.server.serving import bound_memory, is_local, listen, new_token, token_for

    own = None if server.mcp else token_for(server.host, server.token_file)
    if own and no_token:
        raise InputError("--no-token asks for none, and a token is given (--token-file, KEQA_TOKEN): leave out one")
    made = None if own or no_token or server.mcp else new_token()
    documents = None if server.documents is None else Documents(server.documents)
    asked, retriever, roles = options.open(watch=watch)
    if not program.no_cache:
        bound_memory()
    bounds = asdict(limits)
    most = bounds.pop("max_document")
    answers = Answers(asked, retriever, roles.every, ServerLimits(**bounds))
    index, folder = program.index, server.documents
    sync = FolderSync(index, folder) if server.watch and index and folder else None
    changing = None if sync is None else sync.changing
    if server.mcp:
        import asyncio

        from keqa.server.mcp_tools import run_on_standard_streams

        asyncio.run(run_on_standard_streams(answers, sync))
        return
    from keqa.server.application import application
    from keqa.server.serving import log_to_stderr
    from keqa.server.serving import server as web_server

    keeps = is_local(server.host) if server.conversations is None else server.conversations
    app = application(
        answers,
        token=own or made,
        hosts=[server.host, *(server.allow_host or [])],
        documents=documents,
        sync=sync,
        about=about_of(program, roles),
        story=cast("Story", server.story),
        conversations=Conversations(kept=keeps),
        intake=Intake(index, folder, most, changing) if server.add_documents and index and folder else None,
        public_url=server.public_url,
    )
    with listen(server.host, server.port) as port:
        host, number = port.getsockname()[:2]
        where = f"http://{f'[{host}]' if ':' in host else host}:{number}"
        known = ", with a token" if own else f", with the token {made}" if made else ""
        page = f"{where}/#token={made}" if made else f"{where}/"
        status().print(
            f"Serving at {where}/v1 (model keqa) and {where}/mcp{known}; the page is at {page}. Ctrl-C stops.",
            soft_wrap=True,
        )
        log_to_stderr()
        web_server(app, answers.limits, server.grace).run([port])


def _check_installed(what: str, *packages: str) -> None:
    if not all(map(importlib.util.find_spec, packages)):
        raise MissingExtraError("serve", what)


def about_of(program: ProgramOptions, roles: "Roles") -> str:
    """What answers, in a line that names neither addresses nor folders."""
    indexes = [one.partition("@")[0].rstrip("/").rpartition("/")[2] for one in (program.index or "").split(",") if one]
    folder = "transformers/"
    models = [folder + Path(lm.model).name if lm.model.startswith(folder) else lm.model for lm in roles.every]
    compiled = "" if program.program is None else f", with the program {program.program.name}"
    return f"Answers from {' and '.join(indexes) or 'the testbed'} by {' and '.join(dict.fromkeys(models))}{compiled}"


def view(
    *,
    runs: list[Path] | None = argument("RUNS...", "Run files, or folders of them; runs by default.", default=None),
    html: Path | None = option("Write everything to this file instead, as a page that needs no server and no network."),
    port: int = option("The port; 0 for any that is free.", default=8322, min=0, max=65535),
    no_token: bool = NO_TOKEN,
) -> None:
    """Look at runs in a browser: methods side by side, and each question's stories next to each other.

    RUNS are what keqa evaluate and keqa compare write to --out. Questions are filtered by text, outcome, kind, and
    whether methods differ; a story is read when its question is opened. The server is for you on this
    machine alone: the address that is printed has a token for it. No language model is asked. Ctrl-C stops it.
    """
    from keqa.page import check_place, write_page
    from keqa.server.runs import Runs

    if html is None:
        _check_installed("keqa view without --html", "starlette", "uvicorn", "prometheus_client")
    else:
        check_place(html)
    with status().status("reading the runs…"):
        found = Runs(runs or [Path("runs")])
    if html is not None:
        with status().status("writing the page…"):
            write_page(html, found.page())
        status().print(f"Wrote {found} to {html} ({html.stat().st_size / 1e6:.1f} MB).", soft_wrap=True)
        return
    from keqa.server.runs import LIMITS, run_view
    from keqa.server.serving import listen, new_token, server

    token = None if no_token else new_token()
    with listen("127.0.0.1", port) as bound:
        where = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        where += f"#token={token}" if token else ""
        status().print(f"Showing {found} at {where}. Ctrl-C stops.", soft_wrap=True)
        server(run_view(found, token), LIMITS, 1).run([bound])
