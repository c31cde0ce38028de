"""``keqa reproduce kbm``: the KBM paper's experiments, with a language model of the user's or on the testbed."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from keqa.cli.boundary import draw
from keqa.cli.console import Bars, status, warn
from keqa.cli.options import LanguageModels, MethodOptions, open_retriever
from keqa.cli.reproduce import KBMOptions, PaperOptions
from keqa.cli.running import TESTBED, preset_questions, preset_rows
from keqa.data.example import as_example, as_examples
from keqa.data.question import quiz_key
from keqa.errors import InputError
from keqa.evaluation.compare import run_path
from keqa.evaluation.questions import Questions, of_testbed, of_training
from keqa.evaluation.reports import entries_of, read_brief, write_grids
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reports.kbm import kbm_tables
from keqa.evaluation.reproduction import estimate as costs
from keqa.evaluation.reproduction import kbm as design
from keqa.evaluation.run_file import iter_lines, read_run
from keqa.lms import check_model
from keqa.optimize.alignment import Settled
from keqa.optimize.boundary.collect import Collected, from_memory, write_private
from keqa.optimize.boundary.train import train_light
from keqa.programs.boundary import BoundaryModel, LightModel, read_model
from keqa.programs.build import Parts, own_of
from keqa.programs.keqa import KEQA
from keqa.programs.registry import Spec, parse_spec
from keqa.retrievers import Retriever
from keqa.retrievers.masking import MaskingRetriever
from keqa.storage.files import check_writable
from keqa.storage.redaction import without_folders

_MODEL = "boundary.json"
# Table 5 reports their time.
_TIMED = ("rag", *(f"kbm-{label}" for label in design.DESIGN["model"]))


def reproduce(out: Path, models: LanguageModels, options: PaperOptions, own: KBMOptions) -> list[Grid]:
    """Run the rows of Table 1 on each set, those of Table 4 with other LMs, and the draws of Figure 2."""
    if models.lm is not None and options.index is None:
        raise InputError("keqa reproduce kbm needs --index, the corpus, beside --lm: only the testbed has its own")
    run = _Run(out, models, options, own)
    if options.dry_run:
        return [run.estimated()]
    check_writable(out, "--out")
    grids = run.measured()
    write_grids(out / "tables", grids)
    return grids


@dataclass(frozen=True)
class _Run:
    out: Path
    models: LanguageModels
    options: PaperOptions
    own: KBMOptions

    @cached_property
    def questions(self) -> list[Questions]:
        named = self.options.data or ([TESTBED] if self.models.lm is None else design.DESIGN["sets"])
        return [preset_questions(name, self.options.sample, design.DESIGN["sample"]) for name in named]

    @cached_property
    def training(self) -> Questions:
        """The questions that a light boundary model learns from."""
        sample = self.options.train_sample or self.options.sample
        if self.options.train is None and self.models.lm is None:
            return of_testbed("train", sample)
        sources = self.options.train or design.DESIGN["training"]
        return of_training(sources, sample=sample or design.DESIGN["sample"])

    @cached_property
    def drawn(self) -> Questions | None:
        """The set whose questions are drawn without and with passages."""
        asked = {one.dataset: one for one in self.questions}
        return next((asked[name] for name in design.DESIGN["drawn"] if name in asked), None)

    @cached_property
    def retriever(self) -> Retriever:
        return open_retriever(self.options.index, self.models.lm, benchmark=True)

    @cached_property
    def model(self) -> BoundaryModel | None:
        """The boundary model that is given; None where one is to be trained."""
        return None if self.own.boundary is None else read_model(self.own.boundary)

    def estimated(self) -> Grid:
        """Calls, tokens and price, from a rehearsal; no language model is asked."""
        for model in (*self.models.by_role.values(), *(self.options.other_lm or ())):
            check_model(model)
        found: list[costs.Estimate] = []
        with status().status("rehearsing…"):
            for number, models, asked in self._asked():
                for spec in self._specs(asked.dataset, number):
                    found.append(self._estimate(asked, spec, models, f"lm{number + 1}-" if number else ""))
            for label, asked, sides in self._to_draw():
                for side in sides:
                    one = self._estimate(asked, parse_spec(side), self.models, "")
                    bounds = {
                        model: costs.CostBounds(*(end.times(self.own.draws) for end in of))
                        for model, of in one.bounds.items()
                    }
                    found.append(replace(one, label=f"{label}, {side} drawn {self.own.draws} times", bounds=bounds))
        return costs.estimates(found)

    def _estimate(self, asked: Questions, spec: Spec, models: LanguageModels, before: str) -> costs.Estimate:
        parts = Parts(self.retriever, None, design.DESIGN["settings"], own=own_of(models.lm))
        examples = list(asked.examples)

        def of(spec: Spec) -> costs.Estimate:
            return costs.estimate(asked.dataset, spec, examples, parts, models.by_role)

        if "model" not in spec.arguments:
            return replace(of(spec), label=f"{before}{spec.label}")
        # What a boundary model knows is answered as from memory, the rest from passages; it may ask a model of its own.
        known, unknown = of(parse_spec("closed-book")), of(parse_spec("rag"))
        bounds = {
            model: costs.CostBounds(known.bounds[model].known, unknown.bounds[model].unknown) for model in known.bounds
        }
        return replace(known, label=f"{before}{spec.label}", bounds=bounds)

    def _asked(self) -> list[tuple[int, LanguageModels, Questions]]:
        """The sets that each language model is asked; other ones than the first those of Table 4 and Figure 9."""
        others = dict.fromkeys(self.options.other_lm or ())
        lms = [self.models, *map(self.models.with_another, others)]
        return [
            (number, models, asked)
            for number, models in enumerate(lms)
            for asked in self.questions
            if number == 0 or asked.dataset in (*design.DESIGN["plugged"], *design.DESIGN["sized"]["sets"])
        ]

    def _to_draw(self) -> list[tuple[str, Questions, list[str]]]:
        """What is drawn beside the rows: to learn from, and for Figure 2."""
        found = [] if self.own.boundary is not None else [("boundary model", self.training, ["closed-book"])]
        return found + ([] if self.drawn is None else [("Figure 2", self.drawn, ["closed-book", "rag", "rag-masked"])])

    def _specs(self, dataset: str, number: int) -> list[Spec]:
        light = self.model is None or isinstance(self.model, LightModel)
        return design.specs_of(dataset, self.own.boundary or self.out / _MODEL, light=light, other=number > 0)

    def measured(self) -> list[Grid]:
        """Draw, learn, run everything, and put the paper's figures beside."""
        self._learn()
        paths = []
        for number, models, asked in self._asked():
            folder = self.out / asked.dataset / (f"lm{number + 1}" if number else "")
            made_from, run = MethodOptions(index=self.options.index), self.options.run(folder)
            how: dict[str, Any] = {"settings": design.DESIGN["settings"], "timed": _TIMED, "leave_out": True}
            rows = preset_rows(self._specs(asked.dataset, number), asked, models, made_from, run, **how)
            paths += [row.path for row in rows]
        entries, named = entries_of(self._runs(paths)), self.own.judge_lm
        noted = [] if named is None else [f"Open Chinese answers are right where {without_folders(named)} says so."]
        shown = self.drawn or self.questions[0]
        runs = [run_path(self.out / shown.dataset, label) for label in ("closed-book", "kbm-acc")]
        # A row is left out where its language model cannot be asked.
        case_study = design.case_study(*map(iter_lines, runs)) if {*runs} <= {*paths} else None
        cases = [] if case_study is None else [case_study]
        if self.drawn is None:
            return [*(grid.noted(*noted) for grid in kbm_tables(entries)), *cases]
        both = self._collected(self.drawn, "figure2", self.retriever)
        golds = {quiz_key(one.question): one.answers for one in as_examples(self.drawn.examples)}
        masking = MaskingRetriever(self.retriever, lambda query: golds.get(quiz_key(query), ()))
        masked = self._collected(self.drawn, "figure2", masking)
        accuracies = {quiz_key(one.quiz): float(one.accuracy) for one in from_memory(both).quizzes}
        grids = [grid.noted(*noted) for grid in kbm_tables(entries, accuracies)]
        return [*grids, *cases, *design.drawn_tables(self.drawn.dataset, both, masked)]

    def _runs(self, paths: list[Path]) -> list[Any]:
        """The runs in brief; open Chinese answers scored by --judge-lm, where one is named."""
        if (lm := self.own.build()) is None:
            return [read_brief(path) for path in paths]
        with Bars() as bars:
            runs, failed = design.judged(
                [read_run(path) for path in paths],
                lm,
                self.out / "judgements.journal",
                in_flight=self.options.in_flight,
                progress=bars.report,
            )
        if failed:
            warn(f"{failed} answers were not judged and count by exact match: the same command asks again")
        return runs

    def _learn(self) -> None:
        """Train a light boundary model, unless one is given: in seconds, of draws that are kept."""
        place = self.out / _MODEL
        if self.own.boundary is not None:
            return
        collected = self._collected(self.training, "training", None)
        trained = train_light([collected], reads="quiz", target="by_types")
        write_private(place, json.dumps(trained.model.written(), ensure_ascii=True).encode())
        why = "the paper's is fine-tuned, and its figures stand beside such a one alone: --boundary names its file"
        warn(f"a light boundary model was trained on {len(collected.quizzes)} questions ({place}); {why}")

    def _collected(self, asked: Questions, name: str, retriever: Retriever | None) -> Collected:
        """Draws of whole questions, which are kept as they are made."""
        roles = self.models.roles(cache=False)
        program = KEQA(None, lms=roles, demonstrations=design.DESIGN["settings"]["demonstrations"])
        masked = isinstance(retriever, MaskingRetriever)
        found = draw(
            program,
            roles,
            asked,
            self.out / name / ("masked.jsonl" if masked else "quizzes.jsonl"),
            {},
            quizzes=[Settled.whole(as_example(one)) for one in asked.examples],
            retriever=retriever,
            top_k=design.DESIGN["settings"]["top_k"],
            tries=self.own.draws,
            judge_lm=self.own.build(),
            in_flight=self.options.in_flight,
        )
        if found.left_out:
            warn(f"{found.left_out} questions lack draws that failed; the same command makes them")
        return found
