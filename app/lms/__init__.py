"""Language models: from model strings, in this process or served, and what this machine offers."""

from keqa.lms.adapter import PatientChatAdapter, adapter
from keqa.lms.build import Roles, ServedLM, build_lm, build_roles, supports_n
from keqa.lms.discover import Suggestion, suggestions

__all__ = [
    "PatientChatAdapter",
    "Roles",
    "ServedLM",
    "Suggestion",
    "adapter",
    "build_lm",
    "build_roles",
    "suggestions",
    "supports_n",
]
