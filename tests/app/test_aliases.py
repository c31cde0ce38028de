"""Old names of modules lead to those of today, with a warning."""

import importlib
import subprocess
import sys

import pytest

from keqa.aliases import MOVED

pytestmark = pytest.mark.process


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_is_the_module_of_today(old):
    code = f"""
import importlib, warnings
import keqa
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    module = importlib.import_module({old!r})
now = importlib.import_module({MOVED[old]!r})
assert module is now, module
assert now.__name__ == now.__spec__.name == {MOVED[old]!r}
assert any({old!r} + " is " in str(one.message) and one.category is FutureWarning for one in caught)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"keqa\.runs\.nothing"):
        importlib.import_module("keqa.runs.nothing")
