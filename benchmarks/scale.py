"""How retrieval grows: builds and queries made passages on every engine, and estimates what 21,015,324 take.

    python benchmarks/scale.py [--passages 1000000] [--part embedded] [--es-url http://localhost:9200] [--work FOLDER]

Parts, all by default: `embedded` (the embedded engine beside the calls of Tantivy alone) and `elasticsearch` (needs
`--es-url`). Every step is a process of its own, whose peak of memory is reported; results are kept in the work folder,
so that a run that was killed resumes there. Exit code 1 where a target of the embedded engine is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from scaling import lexical
from scaling.report import Line, table, targets
from scaling.steps import Steps

from keqa.errors import KeqaError

PARTS = ("embedded", "elasticsearch")
RATIOS = {"build_s": "load time", "disk_mb": "disk", "kw_p50": "content-word query, p50,", "nl_p50": "question, p50,"}


def embedded(steps: Steps, options: argparse.Namespace, console: Console) -> bool:
    count, work = options.passages, options.work
    corpus, ours, theirs = _corpus(options), work / f"embedded-{count}", work / f"raw-{count}"
    source = steps.run("corpus", count, lexical.make, corpus, count)
    steps.together(count, "embedded build", "raw build")
    built = steps.run("embedded build", count, lexical.build_embedded, corpus, ours)
    alone = steps.run("raw build", count, lexical.build_raw, corpus, theirs)
    assert built["found"] == alone["found"] == count
    searched = steps.run("embedded search", count, lexical.search_both, corpus, ours, theirs, options.queries)
    # The peak of a search is not that of the build.
    figures = {**built, **{key: value for key, value in searched.items() if key.startswith(("kw", "nl"))}}
    raw = {**alone, **{key.removeprefix("raw_"): value for key, value in searched.items() if key.startswith("raw")}}
    lines = [Line("embedded engine", count, figures), Line("raw Tantivy calls", count, raw)]
    console.print(table(lines))
    console.print(f"of each build, {source['build_s']:.1f} s are the reading of the made passages")
    console.print(f"build time over that of the raw calls, in CPU seconds: {built['cpu_s'] / alone['cpu_s']:.2f}")
    met = targets(figures, raw)
    for target in met:
        console.print(str(target), highlight=False)
    return all(target.met for target in met)


def elasticsearch(steps: Steps, options: argparse.Namespace, console: Console) -> bool:
    count, name = options.passages, f"keqa-scale-{options.passages}"
    corpus, ours = _corpus(options), options.work / f"embedded-{count}"
    steps.run("corpus", count, lexical.make, corpus, count)
    loaded = steps.run("elasticsearch load", count, lexical.load_server, corpus, options.es_url, name)
    assert loaded["found"] == count
    arguments = (corpus, options.es_url, name, options.queries, ours)
    searched = steps.run("elasticsearch search", count, lexical.search_server, *arguments)
    console.print(table([Line("Elasticsearch", count, {**searched, **loaded})]))
    note = "peak memory is the loader's; the server's is what its JVMs had reserved when all was loaded"
    console.print(note if "heap_mb" not in loaded else f"{note}, {loaded['heap_mb']:,.0f} MB of heap in use")
    console.print(f"{searched['many_per_s']:,.0f} natural-language queries a second by search_many")
    if "overlap" in searched:
        console.print(f"mean overlap@10 with the embedded engine on them: {searched['overlap']:.3f}")
    done = [steps.done.get((f"embedded {step}", count), {}) for step in ("build", "search")]
    beside = {key: figures[key] for figures in done for key in RATIOS if key in figures}
    for key, what in RATIOS.items():
        both = {**searched, **loaded}
        if key in beside and key in both:
            console.print(f"{what} over the embedded engine's: {both[key] / beside[key]:.2f}")
    console.print(f"the index {name} stays on the server, where another run finds it", highlight=False)
    return True


def _corpus(options: argparse.Namespace) -> Path:
    return Path(options.work, f"made-{options.passages}.tsv")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500, help="of each kind")
    parser.add_argument("--part", choices=PARTS, action="append", help="may be given several times")
    parser.add_argument("--es-url", help="where Elasticsearch listens")
    parser.add_argument("--work", type=Path, default=Path("runs/scale"), help="for indexes and results")
    options = parser.parse_args(arguments)
    chosen = options.part or [part for part in PARTS if part != "elasticsearch" or options.es_url]
    if "elasticsearch" in chosen and not options.es_url:
        parser.error("part elasticsearch needs --es-url")
    if options.passages < 1 or options.queries < 10:
        parser.error("at least one passage and ten queries are needed")
    options.work.mkdir(parents=True, exist_ok=True)
    steps, console = Steps(options.work / "results.jsonl"), Console(width=160)
    run = {"embedded": embedded, "elasticsearch": elasticsearch}
    try:
        return 0 if all([run[part](steps, options, console) for part in chosen]) else 1
    except KeqaError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
