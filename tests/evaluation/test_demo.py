"""The demo: which methods are asked what, by which program, and what is made of their lines."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fixtures.run_files import make_line, make_run, write_run

from keqa.errors import InputError
from keqa.evaluation import demo
from keqa.lms import Roles


@pytest.fixture
def compared(monkeypatch):
    """What `compare` is asked; each row has two questions, of which the second is wrong."""
    asked = []

    def compare(specs, questions, parts, *, folder, cache, progress, before_first, **options):
        asked.append(([(one.method.name, one.label) for one in specs], questions, parts, options))
        for spec in specs:
            before_first()
            path = folder / f"{len(asked)}{spec.method.name}.jsonl"
            write_run(
                path,
                make_run(
                    spec.method.name, label=spec.label, lines=[make_line(1, 1.0), make_line(2, 0.0, 0.5, unreadable=1)]
                ),
            )
            progress(spec.label, None)
            yield SimpleNamespace(spec=replace(spec), path=path)

    monkeypatch.setattr(demo, "compare", compare)
    return asked


def test_methods_are_compared_as_they_come_and_then_compiled(compared, monkeypatch, retriever):
    opened = retriever("A passage.")
    monkeypatch.setattr(demo, "open_encyclopedia", lambda passages: opened)
    monkeypatch.setattr(demo, "build_roles", lambda name, cache: Roles(name, cache, None))
    told = []
    first, *_, last = demo.run_demo(3, told.append)
    plain, compiled = compared
    names = ["closed-book", "cot", "rag", "rag-cot", "keqa-no-qke", "keqa"]
    titles = ["closed book", "closed book, reasoning", "always retrieve", "always retrieve, reasoning"]
    titles += ["always searching", "KEQA"]
    learned = ["always searching, compiled", "KEQA, compiled"]
    assert plain[0] == list(zip(names, titles, strict=True))
    assert compiled[0] == list(zip(["keqa-no-qke", "keqa"], learned, strict=True))
    assert told == [*titles, *learned]
    for (_, questions, parts, options), program in ((plain, None), (compiled, "testbed")):
        assert (questions.dataset, questions.split, len(questions.examples)) == ("testbed", "test", 3)
        assert (parts.retriever, parts.lms) == (opened, Roles("keqa/tiny", False, None))
        assert (parts.program and str(parts.program), options["stop_after_outages"]) == (program, 0)
    assert (first.method, first.f1.mean, first.em.mean, first.mean("requests")) == ("closed book", 0.75, 0.5, 2)
    assert (last.method, first.f1_less(last).mean, 0 <= last.seconds < 10) == ("KEQA, compiled", 0, True)
    with pytest.raises(InputError, match=r"^the testbed has 200 test questions; ask for 2 to 200 of them$"):
        demo.run_demo(201)
