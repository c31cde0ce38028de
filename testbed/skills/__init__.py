"""What the shipped LM is trained to do: one registered skill for each signature."""

from keqa.testbed.skills import answering, conversing, evidence, interleaving, judging, reflecting
from keqa.testbed.skills.registry import SKILLS, Example, Setting, Skill, nearest, skill

__all__ = [
    "SKILLS",
    "Example",
    "Setting",
    "Skill",
    "answering",
    "conversing",
    "evidence",
    "interleaving",
    "judging",
    "nearest",
    "reflecting",
    "skill",
]
