import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.programs.sentences import supporting_sentences

TEXT = (
    "Carmouth lies at the sea. Its mayor is Heidi Fenman, who\nwas born in 1950. Heidi Fenman likes tea. "
    "It has two harbours."
)


@pytest.mark.parametrize(
    ("question", "answer", "found"),
    [
        ("Who is the mayor of Carmouth?", "Heidi Fenman", ["Its mayor is Heidi Fenman, who\nwas born in 1950."]),
        ("When was the mayor born?", "1950", ["Its mayor is Heidi Fenman, who\nwas born in 1950."]),
        # The answer is in other words, so the question decides.
        ("Does it have two harbours?", "yes", ["It has two harbours."]),
        ("What is the capital of Norway?", "Oslo", []),
        ("Where does Carmouth lie?", None, ["Carmouth lies at the sea."]),
    ],
)
def test_the_sentences_that_carried_an_answer(question, answer, found):
    assert supporting_sentences(TEXT, question, answer) == found


def test_headings_are_no_part_of_a_sentence():
    text = "# Rules\n## Fees of a ship\nA ship pays forty talers. It pays at once."
    assert supporting_sentences(text, "What are the fees of a ship?", "forty talers") == ["A ship pays forty talers."]
    assert supporting_sentences("## Fees", "What are the fees?", None) == ["## Fees"]


def test_selected_evidence_decides():
    evidence = ["It has two harbours.", "A sentence of another passage."]
    assert supporting_sentences(TEXT, "Who?", "Heidi Fenman", evidence) == ["It has two harbours."]
    assert supporting_sentences(TEXT, "Who?", "Heidi Fenman", ["A sentence of another passage."])[0].startswith(
        "Its mayor"
    )


def test_three_sentences_at_most():
    text = "Ann lives here. " * 3 + "Ann lives there. Ann lives near."
    assert len(supporting_sentences(text, "Who lives?", "Ann")) == 3


def test_chinese_is_compared_by_character():
    text = "北京是中国的首都。上海在海边。市长是李安。"
    assert supporting_sentences(text, "谁是市长？", "李安") == ["市长是李安。"]


@settings(max_examples=100)
@given(st.text("ab.!? \n北京。A1", max_size=200), st.text("ab 北京A1", max_size=10))
def test_sentences_are_parts_of_the_text(text, answer):
    for sentence in supporting_sentences(text, "a b 北京", answer):
        assert sentence
        assert sentence in text


def test_a_very_long_record_takes_no_time():
    begun = time.process_time()
    supporting_sentences("Ann lives in a house of stone. " * 100_000, "Where does Ann live?", "stone")
    assert time.process_time() - begun < 10
