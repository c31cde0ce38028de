"""Names of modules of the version before, which work for one version more and warn."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "keqa.compiled": "keqa.programs.saving.folder",
    "keqa.encyclopedia": "keqa.testbed.index",
    "keqa.lms.build": "keqa.lms.factory",
    "keqa.programs.embedding": "keqa.programs.reference.embedding",
    "keqa.programs.inputs": "keqa.data.question",
    "keqa.programs.selection": "keqa.programs.stages.selection",
    "keqa.programs.stage": "keqa.programs.stages.stage",
    "keqa.programs.utility_reference": "keqa.programs.reference.utility_reference",
    "keqa.redaction": "keqa.storage.redaction",
    "keqa.reports": "keqa.evaluation.reports",
    "keqa.reports.brief": "keqa.evaluation.reports.questions",
    "keqa.reports.write": "keqa.evaluation.reports.write",
    "keqa.retrievers.facts": "keqa.retrievers.engines",
    "keqa.runs": "keqa.evaluation",
    "keqa.runs.cache": "keqa.evaluation.call_cache",
    "keqa.runs.compare": "keqa.evaluation.compare",
    "keqa.runs.lines": "keqa.evaluation.records",
    "keqa.runs.methods": "keqa.programs.registry",
    "keqa.runs.reading": "keqa.evaluation.run_file",
    "keqa.runs.runner": "keqa.evaluation.evaluate",
}
"""Where the modules are now that a program of a user may import."""


class _Moved(MetaPathFinder, Loader):
    """Gives the module of today for a name of before."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        return ModuleSpec(fullname, self, loader_state=[]) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of today; see `importlib.abc.Loader`."""
        now = MOVED[spec.name]
        warnings.warn(f"{spec.name} is {now} now; the old name goes with the next version", FutureWarning, stacklevel=2)
        module = importlib.import_module(now)
        spec.loader_state.append(module.__spec__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: the module has run under its own name, whose description it keeps."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state[0]


def install() -> None:
    """Have imports of the old names find the modules of today."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        # Before the finder of files, which would load a module a second time under its old name.
        sys.meta_path.insert(0, _Moved())
