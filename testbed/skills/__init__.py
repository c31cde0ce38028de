"""What the shipped LM is trained to do: one registered skill for each signature."""

from keqa.testbed.skills import answering, reflecting, judging, writing  # isort: skip - the order in which skills are drawn
from keqa.testbed.skills.registry import SKILLS, Example, Setting, Skill, nearest, skill

__all__ = ["SKILLS", "Example", "Setting", "Skill", "answering", "judging", "nearest", "reflecting", "skill", "writing"]
