import os
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.evaluation.reproduction.bounded_yaml import read_mapping
from keqa.evaluation.reproduction.expectations import read_case

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("what: &a [*a]", "line 1: anchors and aliases"),
        ("a: 1\nwhat: *b", "line 2: anchors and aliases"),
        (BOMB, "line 1: anchors and aliases"),
        ("what: " + "[" * 100_000, "line 1: it is nested more than 16 levels deep"),
        ("what:\n" + "".join(" " * n + "- \n" for n in range(1, 500)), "nested more than 16 levels deep"),
        ("a: [" + "x," * 30_000 + "]", "line 1: it holds more than 20,000 values"),
        ("a: " + "1:" * 20_000, "more than 10,000 characters"),
        ("x: 1\na: " + "1:" * 4_000 + "1.5", "line 2:"),
        ("a: " + "9" * 9_000, "line 1: Exceeds the limit"),
        ("a: !!python/object/apply:os.system [ls]", "line 1: tags are not read"),
        ("a: !!int ''", "line 1: tags are not read"),
        ("a: !!timestamp x", "line 1: tags are not read"),
        ("a: !!bool x", "line 1: tags are not read"),
        ("? [a, b]\n: c", "line 1: a name is expected"),
        ('a: "\\e]0;x\\a"', "line 1: a value has control characters"),
        ('b: 1\na: "\\u202egnp"', "line 2: a value has control characters"),
        ("a: \x00", "special characters are not allowed"),
        ("- a", "line 1: a mapping is expected"),
        ("", "line 1: a mapping is expected"),
        ("a: 1\n---\nb: 2", "but found another document"),
        ("a: 2020-13-45", "line 1: month must be in 1..12"),
        ("a: {b: 1, b: 2}", "line 1: b is there twice"),
        ("# " + "x" * (1 << 20), "has more than 1,048,576 bytes"),
    ],
)
def test_what_no_list_of_figures_needs_is_refused_at_once(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    begun = time.monotonic()
    with pytest.raises(InputError) as refused:
        read_mapping(path, "a mapping is expected")
    assert message in str(refused.value)
    assert "mine.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert time.monotonic() - begun < 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "mine.yaml")
    with pytest.raises(InputError, match=r"mine\.yaml is a pipe"):
        read_mapping(tmp_path / "mine.yaml", "a mapping is expected")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("expected: yes", "line 4: figures.0.expected: Input should be a valid number"),
        ("expected: .nan", "line 4: figures.0.expected: Input should be a finite number"),
        ("expected: 1, run: ../../secret", "line 4: figures.0.run"),
        ("expected: 1, colour: red", "line 4: figures.0.colour: Extra inputs are not permitted"),
    ],
)
def test_figures_of_a_stranger(tmp_path, line, message):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"what: x\ncommand: keqa compare rag --testbed -o {{folder}}\nfigures:\n"
        f"  - {{name: x, run: rag, measure: f1, tolerance: 0, {line}}}\n".replace(
            "run: rag, measure: f1, tolerance: 0, expected: 1, run", "measure: f1, tolerance: 0, expected: 1, run"
        )
    )
    with pytest.raises(InputError) as refused:
        read_case(path)
    assert message in str(refused.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.slow
@settings(deadline=5000)
@given(text=st.text() | VALUES.map(lambda value: yaml.safe_dump({"what": value, "figures": [value]})))
def test_any_text_is_a_value_or_refused_with_its_file(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("yaml") / "mine.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        read_case(path)
    except InputError as error:
        message = str(error)
    assert "mine.yaml" in message
