"""The report of a compilation, and what a program is compiled from."""

import dspy
import pytest

from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match, f1
from keqa.optimize.asking import Trial
from keqa.optimize.compile import empty_reference, sources_of
from keqa.optimize.options import Options, Split
from keqa.optimize.report import Change, Report
from keqa.optimize.tuning import Point
from keqa.programs.records import CallCost
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference


def test_a_report_as_json():
    trials = [Trial("the program as it is", 0.0, (0.0, 0.0)), Trial("gepa", 1.0, (1.0, 1.0))]
    point = {"threshold": "4/5", "tries": 3, "boundary": False}
    spent = CallCost(calls=3, samples=3, prompt_tokens=20, completion_tokens=10)
    report = Report(
        "gepa", 6, 2, trials=trials, chosen=["gepa"], curve=[Point(point, 0.5, 1.5, 0.2, (0.5,))], spent=spent
    )
    shown = report.about()
    assert shown["questions"] == {"train": 6, "validation": 2}
    scores = {"before": 0.0, "after": 1.0, "gain": 1.0}
    assert shown["score"] == {name: dict.fromkeys(("mean", "low", "high"), value) for name, value in scores.items()}
    assert [tuple(one.values()) for one in shown["trials"]] == [
        ("the program as it is", 0.0, False),
        ("gepa", 1.0, True),
    ]
    measured = {"score": 0.5, "retrievals": 1.5, "calls": 0.0, "tokens": 0.0, "objective": 0.2}
    assert shown["tuning_curve"] == [point | measured]
    assert shown["spent"] == {"calls": 3, "prompt_tokens": 20, "completion_tokens": 10}
    # One question has no interval.
    report.trials = [Trial(name, 0.0, (0.0,)) for name in ("the program as it is", "gepa")]
    assert report.about()["score"] == {}


def test_a_reference_and_its_unreliable_sources(setting):
    entries = [
        UtilityEntry(f"q{one}", "Who?", f"Text {one}. Source: {source}.", one < helpful)
        for source, helpful in (("Herald", 3), ("Atlas", 30), ("Ledger", 1))
        for one in range(40)
    ]
    found = Report("gepa", 6, 2)
    found.compare(setting().program, setting(reference=UtilityReference().fit(entries)).program)
    assert found.unreliable_sources == [
        "Ledger: 1 of 40 of its passages helped",
        "Herald: 3 of 40 of its passages helped",
    ]
    # Whether this compilation learned it, or the program had it.
    assert found.reference == {"helpful": 34, "harmful": 86}
    assert {one.name for one in found.predictors} == {name for name, _ in setting().program.named_predictors()}
    assert found.settings["tries"] == Change(3, 3)


def test_what_a_program_is_compiled_from(setting):
    world = setting()
    program, parts = world.program, Split(world.train, world.val)
    base = sources_of(program, parts, Options(), f1)

    def changed(program=program, parts=parts, options=None, metric=f1):
        other = sources_of(program, parts, options or Options(), metric)
        assert other.keys() == base.keys()
        return {name for name in base if other[name] != base[name]}

    assert changed() == set()
    assert changed(parts=Split(world.train[1:], world.val)) == {"training questions"}
    assert changed(parts=Split(world.train, world.val[1:])) == {"validation questions"}
    assert changed(metric=exact_match) == {"language models, index and metric"}
    assert changed(setting(top_k=3).program) == {"the method and its settings"}
    how = {"how it is compiled"}
    others = {"demos": 3, "judge_demos": 3, "sets": 2, "threshold": 0.6, "reference": False, "tuning": False, "seed": 3}
    others |= {"cost_per_retrieval": 0.1, "optimizer": "none", "grid": {"tries": (7,)}, "embedder": "another"}
    for name, value in others.items():
        assert changed(options=Options(**{name: value})) == how, name
    # How many are in work at once changes no result.
    assert changed(options=Options(in_flight=2)) == set()
    reflecting = [Options(optimizer="gepa", reflection_lm=world.lm.copy(temperature=one)) for one in (0.1, 0.2)]
    own = [Options(optimizer=dspy.BootstrapFewShot(max_bootstrapped_demos=count)) for count in (1, 2)]
    assert len({sources_of(program, parts, one, f1)["how it is compiled"] for one in (*reflecting, *own)}) == 4
    named = [sources_of(program, parts, Options(embedder=one), f1) for one in (HashingEmbedder(), "hashing")]
    assert named[0] == named[1]


class Own(HashingEmbedder):
    """An embedder of one's own."""

    name = "own"


def test_a_reference_is_set_up_as_the_programs_own(setting):
    def settings(own=None, embedder=None):
        program = setting(reference=own).program if own else setting().program
        return empty_reference(program, Options(embedder=embedder)).settings()

    plain = UtilityReference("hashing").settings()
    assert settings() == plain
    assert settings(embedder=Own()) == plain | {"embedder": "own"}
    kept = {"k": 4, "least": 1, "variant": "random"}
    assert settings(UtilityReference(Own(), **kept)) == kept | {"embedder": "own"}
    assert settings(UtilityReference(**kept)) == kept | {"embedder": "hashing"}
    assert settings(UtilityReference(**kept), Own()) == kept | {"embedder": "own"}
    assert settings(UtilityReference(Own()), Own()) == plain | {"embedder": "own"}
    with pytest.raises(ConfigurationError, match=r"^the program's reference has the embedder 'own', not 'hashing'"):
        settings(UtilityReference(Own()), "hashing")
