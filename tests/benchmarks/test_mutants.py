import mutants
import pytest
from common import options


@pytest.mark.parametrize(
    ("changed", "wording"),
    [
        ('-raise E("no field")\n+raise E("XXno fieldXX")', True),
        ("-if k < 1:\n+if k <= 1:", False),
        ('-raise E(\n-    "no field "\n-    f"in {name}"\n+raise E(\n+    "XXno field XX"\n+    f"in {name}"', True),
        ('-raise E(\n-    "no field",\n-    name,\n+raise E(\n+    "XXno fieldXX",\n+    None,', False),
        ('-note("a", 1)\n-note("b", 2)\n+note("XXaXX", 1)', False),
        ("-for one, two in zip(a, b, strict=True):\n+for one, two in zip(a, b, strict=False):", True),
        ("-for one, two in zip(a, b, strict=True):\n+for one, two in zip(a, strict=True):", False),
        ("-read(a, strict=True)\n+read(a, strict=False)", False),
        ("-return cast(Source, found)\n+return cast(None, found)", True),
        ("-return cast(Source, found)\n+return cast(Source, None)", False),
    ],
)
def test_a_change_of_letters_or_of_what_no_call_shows_is_one_of_wording(changed, wording):
    assert mutants.is_wording(changed) is wording


def test_all_rooms_are_taken_where_none_is_named_and_no_other_is():
    known = {"rooms": ("metrics", "programs"), "seed": 1}
    found = [options(None, "rooms", given=given, **known) for given in ([], ["programs", "--seed", "2"])]
    assert [(one.rooms, one.seed) for one in found] == [(["metrics", "programs"], 1), (["programs"], 2)]
    with pytest.raises(SystemExit):
        options(None, "rooms", given=["kitchen"], **known)
