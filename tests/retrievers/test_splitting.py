import pytest
from fixtures.drawing import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.retrievers.splitting import split_text, stripped_sentences
from keqa.retrievers.text import WORD_LENGTH, text_length

words = st.sampled_from(
    ["Dr.", "Lee", "went", "3.5", "home.", "Why?", "\n", "\n\n", "- item", "(see p. 5).", "∯", "“好的！”", "他说。"]
)
prose = st.one_of(st.lists(words, max_size=300).map(" ".join), st.text(max_size=2000))


def squeezed(text):
    return "".join(text.split())


@settings(max_examples=at_most(60))
@given(prose, st.sampled_from([20, 100]))
def test_nothing_is_lost_and_no_passage_is_too_long(text, target):
    passages = split_text(text, target)
    assert squeezed("".join(passages)) == squeezed(text)
    assert all(passage.strip() == passage != "" for passage in passages)
    assert all(text_length(passage) <= 1.5 * target * WORD_LENGTH for passage in passages)


def test_passages_end_where_sentences_end():
    text = "Mr. Smith met Dr. Lee in the U.S. in Jan. 1990. They were 3.5 km apart. " * 40
    passages = split_text(text)
    assert len(passages) > 4
    assert all(passage.endswith(("1990.", "apart.")) for passage in passages)
    assert all(90 <= len(passage.split()) <= 110 for passage in passages[:-1])


def test_a_short_text_is_one_passage_and_one_without_any_sentence_is_cut():
    assert split_text("One line.\nAnother  line.") == ["One line. Another line."]
    assert split_text(" \n ") == []
    assert max(map(len, split_text("x" * 100_000))) <= 120 * 100
    assert max(len(passage.split()) for passage in split_text("word " * 5000)) <= 150


def test_chinese_is_split_by_character_on_its_own_sentence_ends():
    passages = split_text("北京是中华人民共和国的首都，也是全国的政治中心。他问：“你来过吗？”我说没有。" * 30)
    assert len(passages) > 5
    assert all(passage[-1] in "。”" for passage in passages)
    assert all(130 <= len(passage) <= 200 for passage in passages[:-1])
    assert not any(passage.startswith("”") for passage in passages)


def test_items_of_lists_and_rows_of_tables_keep_their_lines():
    text = "Fees of\nships:\n\n- one of wood:\n  40\n- a raft\n\nSince 2024.\n|a|b|\n| 1 | 2 |\nMore."
    kept = "Fees of ships:\n- one of wood: 40\n- a raft\n\nSince 2024.\n|a|b|\n| 1 | 2 | More."
    assert split_text(text) == split_text(kept) == [kept]
    assert split_text("- 好。\n- 是。\n") == ["- 好。\n- 是。"]
    assert split_text("1. Open it.\n2. Close it.") == ["1. Open it.\n2. Close it."]
    assert stripped_sentences(kept)[1:4] == ["- one of wood: 40", "- a raft", "Since 2024."]


def test_lines_of_code_keep_their_ends_in_each_passage_of_it():
    lines = [f"if fee{number}:\n    pay('talers', {number})  # toll" for number in range(20)]
    found = split_text("\n".join(["Pay so:", "```python", *lines, "```", "It is", "done."]), 40)
    assert len(found) > 2
    assert all(one.splitlines()[0] == "```python" for one in found[1:])
    assert found[-1].endswith("\n```\nIt is done.")
    assert [line for one in found for line in one.splitlines() if "fee" in line or "pay" in line] == [
        line for pair in lines for line in pair.splitlines()
    ]
    assert split_text("```\none\n\n  two") == ["```\none\n  two"]
    # What only ends code begins no passage.
    paid = "\n".join(f"    pay({number}, talers)" for number in range(18))
    assert split_text(f"Intro words here.\n```python\n{paid}\n```\n{'It is done. ' * 20}", 40)[1].startswith("It is")
    assert len(split_text("````\n" + "```\n" * 400)) > 3
    # A fence with which a passage begins, and a longer one around others.
    paid = "\n".join(["````", *lines[:2], "```", *lines[2:], "````", "Done."])
    first, second, *_ = split_text(f"{'word ' * 40}.\n{paid}", 40)
    assert (first.count("`"), second.splitlines()[:2]) == (0, ["````", "if fee0:"])
    assert split_text(paid, 40)[-1].endswith("\n````\nDone.")
    rows = [f"| a{number} | {'fee ' * 8}|" for number in range(12)]
    assert all(one.startswith("| a") for one in split_text("\n".join(["```", "pay", "```", *rows]), 40)[1:])


def test_a_paragraph_that_no_mark_ends_keeps_its_end():
    assert split_text("Port\n\n7070\nor more.\n\nIt is open.\n\nEnd") == ["Port\n\n7070 or more. It is open. End"]


def test_wrapped_lines_belong_together_and_items_do_not():
    found = stripped_sentences("# Head\nSome text\nwrapped here. And more.\n- item one\n- item two")
    assert found == ["# Head", "Some text wrapped here.", "And more.", "- item one", "- item two"]


def test_lines_of_text_without_spaces_are_joined_without_one():
    lines = [
        "本办法适用于公司全体正式员工与实习生，出差须提前提出申",
        "请，由部门经理在系统中审批，并于返回之后的30",
        "天内报销。",
    ]
    assert split_text("\n".join(["差旅政策", *lines])) == [f"差旅政策 {''.join(lines)}"]
    english = "The lighthouse of Skarn was built by Ida Holm\n北京 and others"
    assert split_text(english) == [english.replace("\n", " ")]


@pytest.mark.parametrize("marks", ["一、 二、", "1、 2、", "（一） （二）", "第一条 第二条", "① ②", "・ ・"])
def test_items_of_chinese_and_japanese_lists_keep_their_lines(marks):
    text = "\n".join(f"{mark}住宿标准。餐费" for mark in marks.split())
    assert split_text(text) == [text]
    assert len(stripped_sentences(text)) == 4


SENTENCES = [
    ["He won.", "Did he?", "Yes!", "Mr. J. End"],
    ["Mr. J. Smith of Acme Inc. left.", "He came from the U.S. in Jan. 1990."],
    ["They live in the U.S.", "The house is old."],
    ["See no. 5 and p. 7.", "“Why?” she asked.", "“It rained.”", "Vol. 3 has more."],
    ["Dr. Müller kam am 3. Oktober, z. B. aus Ulm, d. h. von dort.", "Die Straße ist lang!", "Im 19. Jahrhundert."],
    ["M. Dupont et Mme. Curie sont là.", "C'est vrai?", "Oui."],
    ["Use 3.5 or .md files... and wait.", "Really?!", "(Yes.)", "It costs 5 $."],
    ["他说：“你好！”", "我走了。", "真的吗？"],
    # Initials stay together, and a letter may end a sentence.
    ["It is by J. A. Smith.", "I. A. Lee read it."],
    ["He took plan B.", "A friend took it, too."],
    # Characters that other splitters drop.
    ["Is it ○ ∯ &ᓰ& ∮ here?", "Yes."],
]


@pytest.mark.parametrize("expected", SENTENCES)
def test_where_sentences_end(expected):
    joined = ("" if "他" in expected[0] else " ").join(expected)
    assert stripped_sentences(joined) == expected


@settings(max_examples=at_most(60))
@given(st.text("ab\x1c .", max_size=300))
def test_the_length_of_plain_text_is_counted_alike(text):
    assert text_length(text) == text_length(text + "é") - (
        0 if text[-1:].isalpha() or text[-1:] == "." else WORD_LENGTH
    )
