"""What counts as the JSON that KBM's prompt asks for."""

from __future__ import annotations

import pytest
from boundary_format import in_form


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"mastery": "False", "certainty": "True"}', True),
        (' {"mastery": "True", "certainty": "True"}\n', True),
        ('{"mastery": "Yes", "certainty": "True"}', False),
        ('{"mastery": "True"}', False),
        ('{"mastery": "True", "certainty": "True"} I am sure.', False),
        ("I am fully confident in my ability to answer this question.", False),
        ("", False),
    ],
)
def test_in_form(reply, expected):
    assert in_form(reply) is expected
