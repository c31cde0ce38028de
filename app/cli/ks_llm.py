"""``keqa reproduce ks-llm``: the KS-LLM paper's experiments, with a language model of the user's or on the testbed."""

from pathlib import Path
from typing import Any, Literal

from keqa.cli.console import status, warn
from keqa.cli.documents import source_of
from keqa.cli.options import LanguageModels, MethodOptions
from keqa.cli.reproduce import KSOptions, PresetOptions
from keqa.cli.running import TESTBED, preset_questions, preset_rows
from keqa.errors import ConfigurationError, InputError, MissingExtraError
from keqa.evaluation.documents import make_documents
from keqa.evaluation.questions import Questions
from keqa.evaluation.reports import write_grids
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reports.published import datasets, paper
from keqa.evaluation.reproduction.experiments import rows_of as planned
from keqa.evaluation.reproduction.ks_llm_tables import KSRun, ks_llm_tables
from keqa.evaluation.run_file import read_run
from keqa.programs.registry import parse_spec
from keqa.programs.stages.selection import DistanceMeter
from keqa.retrievers.embedding import LOCAL
from keqa.storage.redaction import without_folders

_TIMED = ("standard", "standard-doc", "ks-llm")
_K = "evidence_sentences"
_PASSAGES = 50
"""As many passages of a document are read at most: all of those that are made here."""


def reproduce(out: Path, models: LanguageModels, options: PresetOptions, own: KSOptions) -> list[Grid]:
    """Run the rows of Table 1 on each set with each LM, and on the first ones the sweeps of Table 2 and Figure 3."""
    named = options.data or ([TESTBED] if models.lm is None else list(datasets("ks-llm")))
    design = paper("ks-llm")["experiments"]
    sets = [preset_questions(name, options.sample, design["sample"]) for name in named]
    if own.documents is not None:
        for file in (own.documents / f"{one.dataset}.jsonl" for one in sets):
            if not file.is_file():
                how = f"a folder with a file for each data set, which keqa documents --out {file} makes"
                raise InputError(f"{file} is not there: --documents is {how}")
    settings = _distance(own.similarity) | {"top_k": _PASSAGES, "one_text": own.one_text} | design["settings"]
    lms = [models, *map(models.with_another, dict.fromkeys(options.other_lm or ()))]
    runs: list[KSRun] = []
    for place, (name, questions) in enumerate(zip(named, sets, strict=True)):
        file = _documents(questions, out, models, options, own)
        for number, one in enumerate(lms):
            # The sweeps of Table 2 and Figure 3 are the first LM's.
            specs = list(map(parse_spec, design["rows"] if number else planned(design, name, place)))
            run = options.run(out / questions.dataset / (f"lm{number + 1}" if number else ""))
            # Table 2 reports the time of each of its rows.
            timed = [spec.label for spec in specs if spec.method.name in _TIMED and _K not in spec.arguments]
            read = MethodOptions(index=f"documents:{file}")
            for row in preset_rows(specs, questions, one, read, run, settings, timed):
                lm, spec = without_folders(one.name), row.spec
                runs.append(KSRun(questions.dataset, lm, spec.method.name, spec.arguments, read_run(row.path)))
    grids = ks_llm_tables(runs)
    write_grids(out / "tables", grids)
    return grids


def _documents(questions: Questions, out: Path, models: LanguageModels, options: PresetOptions, own: KSOptions) -> Path:
    """The file of documents of a set, which all rows and LMs share; it is made, or completed, where none was given."""
    name = f"{questions.dataset}.jsonl"
    if own.documents is not None:
        return own.documents / name
    testbed = questions.dataset == TESTBED
    kind: Literal["lm", "contexts", "index"] = "index" if options.index is not None or testbed else "lm"
    if kind == "lm" and all(one.context for one in questions.examples):
        kind = "contexts"
    file = out / "documents" / name
    with status().status(f"making documents for {questions.dataset}…"):
        # A passage of the testbed has two sentences: of ten of them no document is as long as Table 2 cuts it.
        source, origin = source_of(kind, options.index, _PASSAGES if testbed else 10, models, testbed=testbed)
        made = make_documents(questions.examples, source, file, origin=origin, in_flight=options.in_flight)
    if made.without:
        warn(f"{questions.dataset}: {len(made.without)} questions have no document, and fail in rows that read one")
    return file


def _distance(similarity: str | None) -> dict[str, Any]:
    if similarity == "words":
        return {}
    try:
        DistanceMeter(similarity or LOCAL)
    except (MissingExtraError, ConfigurationError) as error:
        if similarity is not None:
            raise
        warn(f"sentences are compared by words, for {LOCAL} is not at hand ({error})")
        return {}
    return {"similarity": similarity or LOCAL}
