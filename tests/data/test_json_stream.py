import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.json_stream import elements
from keqa.errors import InputError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 0, 2]), st.booleans())
def test_a_list_in_pieces_of_any_size(tmp_path_factory, values, chunk, indent, ascii_only):
    path = tmp_path_factory.mktemp("stream") / "a.json"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert list(elements(path, chunk)) == values


def test_a_byte_order_mark_and_space(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf \r\n[1 , 2\n]\n ")
    assert list(elements(path, 1)) == [1, 2]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "record 1, line 1: a list is expected"),
        ('{"a": 1}', "record 1, line 1: a list is expected"),
        ("[", r"record 1, line 1: malformed JSON \(Expecting value\)"),
        ("[1,\n2", r"record 2, line 2: malformed JSON \(Expecting ',' delimiter\)"),
        ("[1,\n\n2 3]", r"record 2, line 3: malformed JSON \(Expecting ',' delimiter\)"),
        ("[1,\n]", r"record 2, line 2: malformed JSON \(Expecting value\)"),
        ('[1,\n{"a":\n"b}]', r"record 2, line 3: malformed JSON \(Unterminated string starting at\)"),
        ("[1]\n2", r"record 1, line 2: malformed JSON \(Extra data\)"),
    ],
)
def test_what_is_malformed_is_named(tmp_path, text, message, chunk):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        list(elements(path, chunk))


def test_the_elements_before_an_error_are_given(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}, {"a": ]', encoding="utf-8")
    found = elements(path)
    assert next(found) == {"a": 1}
    with pytest.raises(InputError, match="record 2, line 1: malformed JSON"):
        next(found)


def test_a_file_that_is_not_utf8_or_a_broken_archive(tmp_path):
    (tmp_path / "a.json").write_bytes('["\u00e9"]'.encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        list(elements(tmp_path / "a.json"))
    (tmp_path / "a.json.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="cannot be read"):
        list(elements(tmp_path / "a.json.gz"))
    with pytest.raises(InputError, match="cannot be read"):
        list(elements(tmp_path / "absent.json"))
