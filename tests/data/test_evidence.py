import pytest

from keqa.data.evidence import one_text
from keqa.errors import InputError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Up is\n a  film.", "Up is a film."),
        (["Up is a film.", " It is good."], "Up is a film. It is good."),
        (("Zoë\u0301\ud800", "\x00x"), "Zoë\u0301 x"),
        ([], ""),
    ],
)
def test_evidence_is_one_line(value, text):
    assert one_text(value, "it") == text


@pytest.mark.parametrize("value", [None, 1, {"a": 1}, b"x", ["a", 1]])
def test_what_is_no_text(value):
    with pytest.raises(InputError, match="it must be text, not "):
        one_text(value, "it")
