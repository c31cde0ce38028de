"""``keqa config``: what options are set to by files and variables, and where each value comes from."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from keqa.cli.console import emit, table
from keqa.cli.options import AsJson, argument
from keqa.storage.redaction import visible_line, without_keys

if TYPE_CHECKING:
    from typer.core import TyperGroup

_VARIABLES = {"lm": "KEQA_LM", "api_base": "KEQA_API_BASE", "index": "KEQA_INDEX"}
_BUILT_IN = {
    "lm": "keqa/tiny, which ships with KEQA",
    "index": "the testbed's encyclopedia",
    "api_base": "the provider's",
}
_ENDINGS = ("_API_KEY", "_TOKEN", "_API_TOKEN", "_ACCESS_KEY")


def config(
    *,
    context: typer.Context,
    action: Literal["trust"] | None = argument(
        None, "trust: take the keqa.toml of this folder as your own, as it is now.", default=None
    ),
    as_json: AsJson = False,
) -> None:
    """Show what is set where: by keqa.toml, by variables, or built in.

    A keqa.toml holds options by their names, for all commands or in a table for one of them:

        lm = "openai/gpt-4o-mini"
        index = "my-index"
        [ask]
        tries = 7

    One is the user's own (KEQA_CONFIG names another file), and one may be in the folder where a command runs; that
    of the folder goes before. Until keqa config trust has taken it as it is, it may be a stranger's, and what names a
    model, an address or a path outside of the folder is not used; after a change it wants that again. KEQA_LM,
    KEQA_API_BASE and KEQA_INDEX go before both, and options before all. Keys and tokens are read from the environment
    only, and are never shown.
    """
    from keqa.cli.settings_files import settings, trust, user_file

    if action == "trust":
        trust()
    rows = _rows(settings(cast("TyperGroup", context.find_root().command)))
    secrets = sorted(name for name in os.environ if name.endswith(_ENDINGS) and os.environ[name])
    file = user_file()
    names = ("option", "value", "from")
    shown = (
        table(names, ([visible_line(row[name]) for name in names] for row in rows), left=range(3)),
        f"Set in the environment, and not shown: {', '.join(secrets) or 'no key'}",
        f"Your own file: {file}{'' if file.exists() else ' (not there)'}",
    )
    emit({"settings": rows, "secrets": secrets, "file": str(file)}, shown, as_json=as_json)


def _rows(found: list[Any]) -> list[dict[str, str]]:
    """Each setting with its value and its place; the last one for an option is the one that holds."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for name, built_in in _BUILT_IN.items():
        rows["", name] = _row("", name, built_in, "built in")
    for one in found:
        shown = ", ".join(map(str, one.value)) if isinstance(one.value, list) else str(one.value)
        rows[one.command, one.name] = _row(
            one.command, one.name, shown, f"{one.place}{'' if one.trusted else ' (not trusted)'}"
        )
    for name, variable in _VARIABLES.items():
        if os.environ.get(variable):
            # It goes before what files set for a command of its own, too.
            for key in [key for key in rows if key[1] == name]:
                del rows[key]
            rows["", name] = _row("", name, os.environ[variable], variable)
    asked, beside = rows["", "lm"], {one.name: one for one in found if not one.command}
    others = asked["from"] == "KEQA_LM" and "lm" in beside and beside["lm"].value != os.environ["KEQA_LM"]
    if others and rows["", "api_base"]["from"] != "KEQA_API_BASE":
        # The address in a file is that of the language model in it; see `keqa.cli.options`.
        rows["", "api_base"] = _row("", "api_base", _BUILT_IN["api_base"], "built in")
    return [rows[key] for key in sorted(rows)]


def _row(command: str, name: str, value: str, place: str) -> dict[str, str]:
    where = f"[{command}] " if command else ""
    # A name and a password may be in an address.
    shown = without_keys(re.sub(r"(://)[^/@\s]*@", r"\1<secret>@", value))
    return {"option": f"{where}{name.replace('_', '-')}", "value": shown, "from": place}
