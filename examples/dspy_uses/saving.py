"""Being saved and loaded, by itself and as a part of a module with language models of its own."""

import tempfile

import dspy

import keqa
from dspy_uses.checks import Module, expect, right, train
from dspy_uses.scripted import QUESTION, program, roles, search
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference


def nested_with_its_own_lms() -> None:
    """Nested with its own LMs, compiled, no global LM."""
    nested = Module(keqa.KEQA(search, lms=roles()))
    learned = dspy.BootstrapFewShot(right, max_labeled_demos=0).compile(nested, trainset=train())
    expect(learned(question=QUESTION).answer, "Norway")


def parent_save_and_load() -> None:
    """parent.save, parent.load."""
    with tempfile.TemporaryDirectory() as folder:
        Module(keqa.KEQA(search, lms=roles())).save(f"{folder}/state.json")
        loaded = Module(keqa.KEQA(search, lms=roles()))
        loaded.load(f"{folder}/state.json")
    expect(loaded(question=QUESTION).answer, "Norway")


def load_keeps_the_reference() -> None:
    """program.load keeps reference and settings."""
    saved = program(reference=UtilityReference().fit([UtilityEntry("q", "Who?", "It is Ann.", True)]), top_k=3)
    loaded = program()
    with tempfile.TemporaryDirectory() as folder:
        saved.save(f"{folder}/state.json")
        loaded.load(f"{folder}/state.json")
    expect((loaded.top_k, len(getattr(loaded.picking.reference, "entries", ()))), (3, 1))
