"""The presets of ``keqa reproduce``: the experiments of a paper, with a language model and corpus of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.options.groups import Panel, Places, Server
from keqa.cli.options.method import Index
from keqa.cli.options.models import server_of
from keqa.cli.options.run import AllowOverlap, InFlight, RetryFailed, RunOptions

PRESETS = "The presets paper and ks-llm"
"""The panel of the help for the options of both."""

_shared = partial(typer.Option, rich_help_panel=PRESETS)
_PAPER = "The preset paper"
_paper = partial(typer.Option, rich_help_panel=_PAPER)
_ks_llm = partial(typer.Option, rich_help_panel="The preset ks-llm")


@dataclass(frozen=True)
class PresetOptions:
    """The options of both presets, beside their language models."""

    index: Annotated[Index, Panel(PRESETS)] = None
    other_lm: Annotated[
        list[str] | None,
        _shared(
            help="Another language model instead of --lm, as in Table 4 of the KEQA paper; once for each. Its server's "
            "address is read from the environment: HOSTED_VLLM_API_BASE, OLLAMA_API_BASE or OPENAI_BASE_URL, by its "
            "provider."
        ),
        Places("/"),
    ] = None
    data: Annotated[
        list[str] | None,
        _shared(
            help="A data set of the paper, as NAME:PATH, or NAME from the Hugging Face hub; once for each, all of "
            "the paper's from the hub by default.",
            show_default=False,
        ),
        Places(":"),
    ] = None
    sample: Annotated[int | None, _shared(help="Questions of each set.", min=2, show_default="500")] = None
    in_flight: Annotated[InFlight, Panel(PRESETS)] = 8
    retry_failed: Annotated[RetryFailed, Panel(PRESETS)] = False
    allow_overlap: Annotated[AllowOverlap, Panel(PRESETS)] = False

    def run(self, out: Path) -> RunOptions:
        """How questions are asked whose answers go to a folder."""
        return RunOptions(out, self.retry_failed, in_flight=self.in_flight, allow_overlap=self.allow_overlap)


@dataclass(frozen=True)
class PaperOptions(PresetOptions):
    """The options of the preset paper, beside its language models."""

    dense_index: Annotated[
        str | None, _paper(help="The same corpus with a dense retriever, for Table 3."), Places(",@")
    ] = None
    program: Annotated[
        Path | None,
        _paper(
            "--program",
            "-p",
            help="A program compiled on training questions, instead of one with a utility reference R built from "
            "--train.",
        ),
    ] = None
    train: Annotated[
        list[str] | None,
        _paper(
            help="Training questions of a data set, as NAME:PATH or NAME, from which R is built; once for each, by "
            "default the train split of --data.",
            show_default=False,
        ),
        Places(":"),
    ] = None
    no_reference: Annotated[
        bool, _paper("--no-reference", help="Build no R and compile nothing; rows are then called w/o R.")
    ] = False
    plain_baselines: Annotated[
        bool,
        _paper("--plain-baselines", help="Leave out the rows of baselines that learned from the training questions."),
    ] = False
    embedder: Annotated[
        str | None,
        _paper(
            help="Finds like passages in R: hashing, local/minilm, or a sentence-transformers model.",
            show_default="local/minilm where it is installed",
        ),
        Places("@"),
    ] = None
    labelling_lm: Annotated[
        str | None,
        _paper(
            help="Says for Table 2 which answers mean the same; gold answers of quizzes do where the data have them."
        ),
        Places("/"),
    ] = None
    labelling_api_base: Annotated[str | None, server_of("--labelling-lm", _PAPER), Server] = None
    train_sample: Annotated[
        int | None, _paper(help="Training questions of each set.", min=1, show_default="as --sample")
    ] = None
    cases: Annotated[int, _paper(help="Questions of each set in Table 6, with all their steps.", min=0)] = 1
    pilot: Annotated[
        Path | None,
        _paper(
            help="With --dry-run: the --out of a smaller run of the same, by whose costs it says what to expect.",
            show_default=False,
        ),
    ] = None
    dry_run: Annotated[bool, _paper("--dry-run", help="Estimate calls, tokens and price, and ask nothing.")] = False


@dataclass(frozen=True)
class KSOptions:
    """The options of the preset ks-llm, beside those of both presets."""

    documents: Annotated[
        Path | None,
        _ks_llm(
            help="Folder with a file of documents for each data set, NAME.jsonl, as keqa documents makes them. By "
            "default they are made: of the questions' own contexts, of what --index finds, or written by --lm.",
        ),
    ] = None
    similarity: Annotated[
        str | None,
        _ks_llm(
            help="The embedding model of the distance, by name or folder; words compares words.",
            show_default="local/minilm, where it is installed",
        ),
    ] = None
