"""``keqa reproduce ks-llm``: the KS-LLM paper's experiments, with a language model of the user's or on the testbed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from keqa.cli.console import status, warn
from keqa.cli.documents import source_of
from keqa.cli.options import LanguageModels, MethodOptions, check_models
from keqa.cli.reproduce import KSOptions, PresetOptions
from keqa.cli.running import rows_of, show_grids, warn_of_failures, write_grids
from keqa.errors import ConfigurationError, InputError, MissingExtraError
from keqa.evaluation.documents import make_documents
from keqa.evaluation.questions import Questions, of_name, of_testbed
from keqa.evaluation.reports.published import datasets, paper
from keqa.evaluation.reproduction.experiments import rows_of as planned
from keqa.evaluation.reproduction.ks_llm_tables import KSRun, ks_llm_tables
from keqa.evaluation.run_file import read_run
from keqa.programs.registry import parse_spec, takes
from keqa.programs.stages.selection import DistanceMeter
from keqa.retrievers.embedding import LOCAL
from keqa.storage.redaction import without_folders

_TESTBED = "testbed"
"""What may take the place of a data set's name."""
_TIMED = ("standard", "standard-doc", "ks-llm")
_K = "evidence_sentences"
_PASSAGES = 50
"""As many passages of a document are read at most: all of those that are made here."""


def reproduce(out: Path, models: LanguageModels, options: PresetOptions, own: KSOptions, *, as_json: bool) -> None:
    """Run the rows of Table 1 on each set with each LM, and on the first ones the sweeps of Table 2 and Figure 3."""
    check_models(models)
    named = options.data or ([_TESTBED] if models.lm is None else list(datasets("ks-llm")))
    design = paper("ks-llm")["experiments"]
    settings = _distance(own.similarity) | {"top_k": _PASSAGES, "one_text": own.one_text} | design["settings"]
    lms = [models, *(replace(models, lm=other, api_base=None) for other in dict.fromkeys(options.other_lm or ()))]
    runs: list[KSRun] = []
    for place, name in enumerate(named):
        sample = options.sample
        questions = of_testbed(limit=sample) if name == _TESTBED else of_name(name, sample=sample or design["sample"])
        file = _documents(questions, out, models, options, own)
        for number, one in enumerate(lms):
            # The sweeps of Table 2 and Figure 3 are the first LM's.
            specs = planned(design, name, place) if number == 0 else list(design["rows"])
            folder = out / questions.dataset / (f"lm{number + 1}" if number else "")
            runs += _run(specs, questions, one, file, folder, options, settings)
    grids = ks_llm_tables(runs)
    write_grids(grids, out / "tables")
    show_grids(grids, as_json=as_json)


def _documents(questions: Questions, out: Path, models: LanguageModels, options: PresetOptions, own: KSOptions) -> Path:
    """The file of documents of a set, which all rows and LMs share; it is made, or completed, where none was given."""
    name = f"{questions.dataset}.jsonl"
    if own.documents is not None:
        if not (own.documents / name).is_file():
            raise InputError(f"{own.documents / name} is not there: make it with keqa documents --out {name}")
        return own.documents / name
    testbed = questions.dataset == _TESTBED
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


def _run(
    specs: list[str],
    questions: Questions,
    models: LanguageModels,
    documents: Path,
    folder: Path,
    options: PresetOptions,
    settings: dict[str, Any],
) -> Iterator[KSRun]:
    made_from = MethodOptions(index=f"documents:{documents}")
    # Table 2 reports the time of each row, so no row may reuse another's calls.
    timed = [spec for spec in specs if spec.partition(":")[0] in _TIMED and _K not in spec]
    for chosen, no_cache in ((timed, True), ([spec for spec in specs if spec not in timed], False)):
        parsed = [parse_spec(spec) for spec in chosen]
        how = replace(options.run(folder), no_cache=no_cache)
        known = set().union(*(takes(spec.method) for spec in parsed))
        taken = {name: value for name, value in settings.items() if name in known}
        rows = rows_of(parsed, questions, models, made_from, how, settings=taken)
        warn_of_failures(rows, f"{questions.dataset}, ")
        for row in rows:
            name = without_folders(models.name)
            yield KSRun(questions.dataset, name, row.spec.method.name, row.spec.arguments, read_run(row.path))


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
