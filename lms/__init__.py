"""Language models: from model strings, in this process or served, and what this machine offers."""

from keqa.lms.discover import Suggestion, suggestions
from keqa.lms.factory import Roles, address_for, build_lm, build_roles, check_model
from keqa.lms.preflight import check_reachable
from keqa.lms.served import ServedLM, as_served, supports_n

__all__ = [
    "Roles",
    "ServedLM",
    "Suggestion",
    "address_for",
    "as_served",
    "build_lm",
    "build_roles",
    "check_model",
    "check_reachable",
    "suggestions",
    "supports_n",
]
