"""Normalisation, exact match and F1."""

import time

import pytest

from keqa.metrics.answers import exact_match, f1, is_abstention, normalize, same_answer, tokens


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("A", "a"),
        ("(B).", "b"),
        ("Option C", "c"),
        ("-5 °C", "-5 °c"),
        ("−5", "-5"),
        ("3.5", "3.5"),
        (".5", "0.5"),
        ("3.5.", "3.5"),
        ("The The", "the the"),
        ("中国 北京。", "中国北京"),
        ("阿尔伯特・爱因斯坦", "阿尔伯特爱因斯坦"),
        ("...", ""),
    ],
)
def test_what_squad_would_lose(text, normal):
    assert normalize(text) == normal


@pytest.mark.parametrize(("first", "second"), [("-5", "5"), ("3.5", "35"), ("A", "B"), ("", ""), ("1.5", "15")])
def test_what_is_not_the_same(first, second):
    assert not same_answer(first, second)


@pytest.mark.parametrize(
    ("prediction", "gold", "same"),
    [
        ("B", "London", True),
        ("(b) London", "London", True),
        ("B) london.", "B", True),
        ("London", "B", True),
        ("A", "B", False),
        ("Rome", "London", False),
        ("The Paris", "a", True),
    ],
)
def test_choices_are_named_by_letter_or_text(prediction, gold, same):
    assert exact_match(prediction, [gold], "choice", ["A. Paris", "B. London"]) is same
    # Without options by letter.
    assert exact_match("(B)", ["B"], "choice")
    assert not exact_match("A", ["B"], "choice")


@pytest.mark.parametrize(
    "text",
    [
        "B、伦敦",
        "B．伦敦",
        "（B）",
        "【B】伦敦",
        "Ｂ",
        "选B",
        "选项B。",
        "答案是B",
        "正确答案：B",
        "答案为：B。",
        "B：伦敦",
        "伦敦。",
    ],
)
@pytest.mark.parametrize("choices", [["巴黎", "伦敦"], ["A、巴黎", "B、伦敦"]])
def test_choices_are_named_in_chinese(text, choices):
    assert exact_match(text, [choices[1]], "choice", choices)
    assert not exact_match(text, [choices[0]], "choice", choices)


EXPLAINED = {
    "yes": [
        "Yes, both are rivers.",
        "Yes – because they meet",
        "**Yes**, both",
        "Yes Paris is in France.",
        "Yes, no one disputes it.",
        "True, they met twice",
        "True",
        "是的，他们都是。",
        "是的。",
        "可以带宠物。",
        "はい、できます。",
        "Oui, c’est possible.",
        "Sí.",
        "Да, конечно",
    ],
    "no": [
        "No. They were born in different cities",
        "No — because he died before",
        "No (they never met)",
        "No\nThey never met.",
        "No the rivers never meet",
        "No ✗",
        '"No", he said',
        "False",
        "Incorrect: he was born later",
        "不，他不是",
        "不是",
        "不可以，公司禁止携带宠物。",
        "没有。",
        "いいえ、できません。",
        "Non.",
        "Nein, das ist nicht erlaubt.",
    ],
}


@pytest.mark.parametrize(("verdict", "text"), [(verdict, text) for verdict in EXPLAINED for text in EXPLAINED[verdict]])
def test_a_verdict_that_is_explained_is_one(verdict, text):
    assert exact_match(text, [verdict], "yes/no")
    assert not is_abstention(text)
    assert not exact_match(text, [{"yes": "no", "no": "yes"}[verdict]], "yes/no")


@pytest.mark.parametrize(
    "text",
    [
        "No idea",
        "No answer",
        "no one knows",
        "No Country for Old Men",
        "No, I don't know.",
        "Correct answer is unknown",
        "Correct. The answer is unknown.",
        "True or false?",
        "Yes and no",
        "Yes/No",
        "Yes or no depends on the year",
        "False alarm",
        "不知道",
        "不知道，也许",
        "没有提到",
        "si no se sabe",
        "有时候可以",
    ],
)
@pytest.mark.parametrize("gold", ["yes", "no"])
def test_what_begins_like_a_verdict_and_is_none(text, gold):
    assert not exact_match(text, [gold], "yes/no")
    assert not same_answer(text, gold, "yes/no")


# Refusals are found by a learned classifier, to which a meaningless word may look like one.


def test_words():
    assert f1("yes", ["yes it is"]) == 0.0
    assert f1("June 10", ["1982", "June 10, 1982"]) == pytest.approx(0.8)
    assert tokens("Yes, it is", "yes/no") == ["yes"]
    assert tokens("b", "choice", ("Oslo town", "Oslo city")) == ["oslo", "city"]
    # Chinese is scored by character.
    assert tokens("北京市 City") == ["北", "京", "市", "city"]
    assert f1("北京", ["北京市"]) == pytest.approx(0.8)
    assert exact_match("北京。", ["北京"])


@pytest.mark.parametrize(
    ("prediction", "gold", "answer_type", "choices", "score"),
    [
        ("Yes, it is", "yes", "yes/no", (), 1.0),
        ("yes it is", "no it is", "yes/no", (), 0.0),
        ("B", "Oslo city", "choice", ("Oslo town", "Oslo city"), 1.0),
        ("Oslo town", "Oslo city", "choice", ("Oslo town", "Oslo city"), 0.0),
        ("Oslo town", "Oslo city", "short", (), 0.5),
    ],
)
def test_f1_of_other_types_is_exact_match(prediction, gold, answer_type, choices, score):
    assert f1(prediction, [gold], answer_type, choices) == score
    assert exact_match(prediction, [gold], answer_type, choices) == (score == 1)
    assert same_answer(prediction, gold, answer_type, choices) == (score == 1)


def test_no_answer_is_never_right():
    assert (exact_match(None, ["x"]), f1(None, ["x"])) == (False, 0.0)
    assert (exact_match("", ["x"]), f1("", ["x"])) == (False, 0.0)


@pytest.mark.parametrize("text", ["option" + " " * 80_000 + "!", "no" + "'" * 80_000 + "x", " " * 80_000 + "x y"])
def test_trimming_takes_a_time_that_grows_with_the_length_and_no_faster(text):
    start = time.perf_counter()
    for answer_type in ("short", "yes/no", "choice"):
        normalize(text, answer_type, ["a", "b"])
    # What takes the square of the length takes minutes.
    assert time.perf_counter() - start < 5


# As they are in MMLU and CMMLU, and what they must not be mixed up for.
HARD = [
    ("不确定", "6或－4", "6或4", "6"),
    ("%", "//", "**", "not a number"),
    ("a < c", "a < b", "a > b", "a == b"),
    ("(~F ⊃ E) ∨ (C ≡ ~S)", "(~E ⊃ F) ∨ (C ⊃ S)", "(~F ⊃ E) ∨ (C ≡ S)", "~(F ⊃ E) ∨ (S ⊃ C)"),
    ("2", "1", "-i", "i"),
    ("2", "2 - e^-2", "2 + e^-2", "2 + e^-4"),
    ("TT", "Tt", "tt", "none of these"),
    ("C. elegans", "B. elegans", "S. pombe", "E. coli"),
]


@pytest.mark.parametrize("choices", HARD)
def test_only_the_option_itself_is_right(choices):
    letters = "ABCD"
    for place, gold in enumerate(choices):
        right = [exact_match(one, [gold], "choice", choices) for one in choices]
        assert right == [other == place for other in range(4)]
        assert [exact_match(one, [gold], "choice", choices) for one in letters] == right
        assert [exact_match(one, [letters[place]], "choice", choices) for one in choices] == right
        assert f1(gold, [gold], "choice", choices) == 1.0


def test_an_option_of_signs_is_an_answer():
    assert normalize("**", "choice", HARD[1]) == "**"
    assert normalize("**", "choice", ["+", "-"]) == ""
    assert not is_abstention("**", HARD[1])
    # Options that differ are compared as other answers are.
    choices = ["The Thames.", "the  SEINE", "6或－4", "6或4"]
    assert normalize("thames", "choice", choices) == normalize("a", "choice", choices) == "thames"
    assert exact_match("Seine!", ["B"], "choice", choices)
    # In small letters this one is two characters, and no option's letter.
    assert not same_answer("İ", "I", "choice", ["I", "no"])


def test_what_could_be_either_is_neither():
    choices = HARD[0]
    assert [exact_match("6或+4", [gold], "choice", choices) for gold in choices] == [False] * 4
    assert [exact_match("tT", [gold], "choice", HARD[6]) for gold in HARD[6]] == [False] * 4
    # A label before it says which.
    assert exact_match("(B) 6或+4", ["6或－4"], "choice", choices)
    # Case and spaces matter only where they have to.
    choices = ["A  <  B", "a > b"]
    assert exact_match("a < b", ["A"], "choice", choices)
    assert exact_match("A. a > B", ["B"], "choice", choices)


def test_a_letter_is_a_text_only_where_an_option_is_written_so():
    choices = ["Error", "abc", "cba", "c"]
    assert [normalize(text, "choice", choices) for text in ("C", "(c)", "c")] == ["cba", "cba", "c"]
    assert normalize("c", "choice", ["A. c", "B. d", "C. e"]) == "c"
    # The same text twice is one option.
    choices = ["0.015 joule.", "0.15 joule.", "0.015 joule.", "1.15 joule."]
    assert [exact_match(letter, ["0.015 joule"], "choice", choices) for letter in "ABCD"] == [True, False, True, False]
