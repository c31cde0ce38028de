"""The presets of ``keqa reproduce``: the experiments of a paper, with a language model and corpus of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from keqa.cli.options.groups import Panel, Places, option
from keqa.cli.options.method import Index
from keqa.cli.options.models import lm_option, server_of
from keqa.cli.options.run import AllowOverlap, InFlight, RetryFailed, RunOptions

PRESETS = "The presets paper and ks-llm"
"""The panel of the help for the options of both."""


@dataclass(frozen=True)
class PresetOptions:
    """The options of both presets, beside their language models."""

    panel = PRESETS

    index: Annotated[Index, Panel(PRESETS)] = None
    other_lm: list[str] | None = lm_option(
        "Another language model instead of --lm, as in Table 4 of the KEQA paper; once for each. Its server's address "
        "is read from the environment: HOSTED_VLLM_API_BASE, OLLAMA_API_BASE or OPENAI_BASE_URL, by its provider."
    )
    data: list[str] | None = option(
        "A data set of the paper, as NAME:PATH, or NAME from the Hugging Face hub; once for each, all of the paper's "
        "from the hub by default.",
        place=Places(":"),
        shown=False,
    )
    sample: int | None = option("Questions of each set.", min=2, shown="500")
    in_flight: Annotated[InFlight, Panel(PRESETS)] = 8
    retry_failed: Annotated[RetryFailed, Panel(PRESETS)] = False
    allow_overlap: Annotated[AllowOverlap, Panel(PRESETS)] = False

    def run(self, out: Path) -> RunOptions:
        """How questions are asked whose answers go to a folder."""
        return RunOptions(out, self.retry_failed, in_flight=self.in_flight, allow_overlap=self.allow_overlap)


@dataclass(frozen=True)
class PaperOptions(PresetOptions):
    """The options of the preset paper, beside its language models."""

    panel = "The preset paper"

    dense_index: str | None = option("The same corpus with a dense retriever, for Table 3.", place=Places(",@"))
    program: Path | None = option(
        "A program compiled on training questions, instead of one with a utility reference R built from --train.",
        "-p",
    )
    train: list[str] | None = option(
        "Training questions of a data set, as NAME:PATH or NAME, from which R is built; once for each, by default the "
        "train split of --data.",
        place=Places(":"),
        shown=False,
    )
    no_reference: bool = option("Build no R and compile nothing; rows are then called w/o R.", default=False)
    plain_baselines: bool = option(
        "Leave out the rows of baselines that learned from the training questions.", default=False
    )
    embedder: str | None = option(
        "Finds like passages in R: hashing, local/minilm, or a sentence-transformers model.",
        place=Places("@"),
        shown="local/minilm where it is installed",
    )
    labelling_lm: str | None = lm_option(
        "Says for Table 2 which answers mean the same; gold answers of quizzes do where the data have them."
    )
    labelling_api_base: str | None = server_of("--labelling-lm")
    train_sample: int | None = option("Training questions of each set.", min=1, shown="as --sample")
    cases: int = option("Questions of each set in Table 6, with all their steps.", min=0, default=1)
    pilot: Path | None = option(
        "With --dry-run: the --out of a smaller run of the same, by whose costs it says what to expect."
    )
    dry_run: bool = option("Estimate calls, tokens and price, and ask nothing.", default=False)


@dataclass(frozen=True)
class KSOptions:
    """The options of the preset ks-llm, beside those of both presets."""

    panel = "The preset ks-llm"

    documents: Path | None = option(
        "Folder with a file of documents for each data set, NAME.jsonl, as keqa documents makes them. By default they "
        "are made: of the questions' own contexts, of what --index finds, or written by --lm.",
    )
    similarity: str | None = option(
        "The embedding model of the distance, by name or folder; words compares words.",
        shown="local/minilm, where it is installed",
    )
