"""What the one reader of strangers' files refuses, and that it never waits, allocates or leaves a folder for it."""

import io
import json
import os
import re
import socket
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from fixtures.drawing import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.storage.untrusted import (
    MissingFileError,
    open_regular,
    parse_json,
    parse_jsonl,
    parse_npy,
    read_file,
    read_json,
)

LIMIT = 1000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.txt").write_text("key")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "plain.json").write_text('{"a": [1, 2.5, null]}')
    return inside


@pytest.mark.parametrize(
    "name",
    ["../secret.txt", "..", ".", "", "/etc/passwd", "sub/../../secret.txt", "a\\b", "a\0b", "C:x", "x" * 300, 7, None],
)
def test_a_name_cannot_leave_the_folder(folder, name):
    with pytest.raises(ConfigurationError, match="a name within the folder is expected"):
        read_file(folder, name, LIMIT)


def test_a_link_is_refused(folder, tmp_path):
    (folder / "link.json").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ConfigurationError, match=r"link\.json is a symbolic link"):
        read_file(folder, "link.json", LIMIT)
    with open_regular(folder / "link.json", links=True) as stream:
        assert stream.read() == b"key"


def test_a_pipe_a_device_a_socket_and_a_folder_are_refused_at_once(folder):
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "sub").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(folder)
        try:
            bound.bind("socket")
        finally:
            os.chdir(here)
        kinds = {"pipe": "a pipe", "zero": "a symbolic link", "socket": "a socket", "sub": "a folder"}
        for name, kind in kinds.items():
            with pytest.raises(ConfigurationError, match=kind):
                read_file(folder, name, LIMIT)
    with pytest.raises(ConfigurationError, match="a device"):
        open_regular("/dev/zero")
    with pytest.raises(ConfigurationError, match="a pipe"):
        open_regular(folder / "pipe", links=True)


def test_a_file_beyond_the_bound_is_not_read(folder):
    (folder / "large").write_bytes(b"x" * (LIMIT + 1))
    with (folder / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    for name in ("large", "sparse"):
        with pytest.raises(ConfigurationError, match="more than 1,000 bytes"):
            read_file(folder, name, LIMIT)
    (folder / "exact").write_bytes(b"x" * LIMIT)
    assert len(read_file(folder, "exact", LIMIT)) == LIMIT
    if sys.platform.startswith("linux"):
        # It hides its size.
        with pytest.raises(ConfigurationError, match="more than 3 bytes"):
            read_file("/proc/self", "status", 3)


def test_a_missing_file_and_the_class_of_errors(folder):
    with pytest.raises(MissingFileError, match=r"absent\.json is missing"):
        read_json(folder, "absent.json", LIMIT, error=RetrievalError)
    assert issubclass(MissingFileError, InputError)
    with pytest.raises(RetrievalError, match="within the folder"):
        read_json(folder, "../x", LIMIT, error=RetrievalError)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "x cannot be read"),
        (b"\xff", "x cannot be read"),
        (b"NaN", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"1e999", "the number 1e999 is too large"),
        (b"9" * 5000, "a number has 5,000 characters"),
        (b"0." + b"1" * 100, "a number has 102 characters"),
        (b'{"a": {"b": 1, "b": 2}}', "the key 'b' is there twice"),
        (b"[" * 33 + b"]" * 33, "nested more than 32 levels deep"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "nested more than 32 levels deep"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    ],
)
def test_what_json_is_refused(content, message):
    with pytest.raises(ConfigurationError, match=message):
        parse_json(content, "x")


def test_json_lines_name_their_line():
    assert list(parse_jsonl('{"a": "\u2028"}\r\n\n[2]\n'.encode(), "x")) == [(1, {"a": "\u2028"}), (3, [2])]
    with pytest.raises(ConfigurationError, match="x, line 2, cannot be read: NaN"):
        list(parse_jsonl(b"1\nNaN\n", "x"))
    with pytest.raises(ConfigurationError, match="x, line 2, has more than 16,777,216 bytes"):
        list(parse_jsonl(b"1\n" + b"1" * (1 << 24) + b"\n", "x"))


def array(rows: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, rows, allow_pickle=True)
    return stream.getvalue()


def header(text: str, rest: bytes = b"") -> bytes:
    """An array file with a header of one's own."""
    raw = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + rest


@pytest.mark.parametrize(
    "content",
    [
        *map(array, (np.zeros((2, 3), np.float64), np.asfortranarray(np.ones((2, 3), np.float32)))),
        *map(array, (np.zeros(6, np.float32), np.array([[object()] * 3] * 2), np.full((2, 3), np.nan, np.float32))),
        array(np.zeros((2, 3), np.float32))[:-1],
        array(np.zeros((2, 3), np.float32)) + b"x",
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1000000000000000)}\n"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}\n"),
        header("(" * 9000),
        header("{'descr': [('a', '<f4', (1000000000,))], 'fortran_order': False, 'shape': (2, 3)}\n", b"x" * 24),
        header("{'descr': '<f4',"),
        header("\n  {\n 'descr"),
        b"PK\x03\x04",
        b"",
    ],
)
def test_what_arrays_are_refused(content):
    with pytest.raises(ConfigurationError, match="x "):
        parse_npy(content, "x")


@pytest.mark.filterwarnings("ignore:Reading")
@settings(max_examples=at_most(300))
@given(st.binary(max_size=200), st.integers(0, 160), st.integers(0, 40))
def test_no_array_file_raises_anything_else(insert, place, cut):
    content = array(np.zeros((2, 3), np.float32))
    try:
        rows = parse_npy(content[:place] + insert + content[place + cut :], "x")
    except ConfigurationError:
        return
    assert rows.ndim == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_every_value_comes_back(value):
    text = json.dumps(value)
    if not re.search(r"-?[0-9.e+-]{65,}", text):
        assert parse_json(text, "x") == value


@settings(max_examples=at_most(300))
@given(st.binary(max_size=100) | st.text(alphabet='[]{}",:019.eE+-NaInfity\\u ', max_size=60).map(str.encode))
def test_no_content_raises_anything_else(content):
    with suppress(ConfigurationError):
        parse_json(content, "x")


def test_hostile_lengths_are_refused_quickly():
    started = time.monotonic()
    for content in (b"[" * 5_000_000, b"1" * 5_000_000, b'"\\"' * 1_000_000, b'{"a":1,' * 500_000):
        with pytest.raises(ConfigurationError):
            parse_json(content, "x")
    assert time.monotonic() - started < 10
