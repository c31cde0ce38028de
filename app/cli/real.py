"""``keqa reproduce real``: real language models on real questions, printed from what ships or collected further."""

from pathlib import Path
from typing import Any

from keqa.cli.console import status
from keqa.cli.declare import invocation
from keqa.cli.index import reading_bar
from keqa.cli.options import LanguageModels, MethodOptions, open_retriever
from keqa.cli.reproduce import PaperOptions, RealOptions
from keqa.cli.running import compiling, preset_rows
from keqa.errors import InputError
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reproduction import real
from keqa.evaluation.reproduction.training import compile_baseline
from keqa.lms import check_reachable
from keqa.programs.build import Parts
from keqa.retrievers import build_index, read_corpus
from keqa.storage.files import check_writable


def reproduce(out: Path, models: LanguageModels, options: PaperOptions, own: RealOptions) -> list[Grid]:
    """Collect what is missing where a language model and data are given, and print all tables."""
    known = [*real.SETS, *real.DESIGN["rows"]]
    if unknown := [one for one in own.only or () if one not in known]:
        raise InputError(f"--only {unknown[0]}: there are {', '.join(known)}")
    if models.lm is not None and options.data is not None and len(options.data) == 1:
        _collect(out, Path(options.data[0]).expanduser(), models, options, own)
    elif models.lm is not None or options.data is not None:
        raise InputError(
            "keqa reproduce real prints what ships; to collect further give --lm and --data, one folder with the data "
            "sets in the layout that docs/real.md lists"
        )
    runs = real.with_most([*real.shipped_runs(), *real.collected_runs(out)])
    if not runs:
        raise InputError(f"nothing ships with this version, and nothing was collected in {out}: give --lm and --data")
    return real.real_tables(runs)


def _collect(out: Path, data: Path, models: LanguageModels, options: PaperOptions, own: RealOptions) -> None:
    """Ask the rows of all sets, one method after the other, from the cheapest to the dearest."""
    check_writable(out, "--out")
    # Those that are named, or all where none of the kind is.
    sets, rows = (
        [one for one in every if one in (own.only or ())] or list(every) for every in (real.SETS, real.DESIGN["rows"])
    )
    questions = {name: real.SETS[name].questions(data, options.sample or real.DESIGN["sample"]) for name in sets}
    # One engine for all rows: a model in this process is loaded once.
    for row in rows:
        # IRCoT's number of passages is that of each of its steps, and stays its own.
        settings = {} if row == "ircot" else real.DESIGN["settings"]
        for name in sets:
            index, folder = _index(out, data, name), real.folder_of(out, models.name) / name
            program = None
            if row.endswith(real.COMPILED):
                program = [folder / "programs" / row]
                if not program[0].exists():
                    training = real.SETS[name].training(data)
                    _learn(row, training, program[0], index, models, options, settings)
            made_from = MethodOptions(index=str(index), program=program)
            status().print(f"{name}, {row}", soft_wrap=True)
            preset_rows([real.spec_of(row)], questions[name], models, made_from, options.run(folder), settings)


def _index(out: Path, data: Path, name: str) -> Path:
    """The index of a set's corpus, made where it is not there."""
    place = out / "index" / name
    if not place.exists():
        with reading_bar("indexing") as (progress, reading, notice):
            corpus = read_corpus([data / real.SETS[name].corpus], notice=notice, summary=False, progress=reading)
            build_index(corpus, place, name=name, progress=progress)
    return place


def _learn(
    row: str,
    training: list[Any],
    place: Path,
    index: Path,
    models: LanguageModels,
    options: PaperOptions,
    settings: dict[str, Any],
) -> None:
    """Compile the program of a row on training questions."""
    roles, folder = models.roles(), place.parent.parent
    with compiling(folder, open_retriever(str(index), models.lm, benchmark=True)) as (bars, searched):
        compile_baseline(
            real.spec_of(row),
            Parts(searched, roles, settings),
            training,
            place,
            grid=real.DESIGN["rows"][row].get("grid", {}),
            in_flight=options.in_flight,
            progress=lambda step, done, total: bars.report(f"{folder.name}, {row}: {step}", done, total),
            before_first=lambda: check_reachable(roles.every),
            command=invocation(),
        )
