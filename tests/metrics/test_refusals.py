"""What is taken for a refusal: held-out refusals of twelve languages on one side, real answers on the other."""

from pathlib import Path

import pytest
import yaml
from fixtures.examples import of_real_files

from keqa.metrics.answers import exact_match, is_abstention, same_answer
from keqa.metrics.refusals import sentences

ROOT = Path(__file__).resolve().parents[2]
LISTS = yaml.safe_load((ROOT / "benchmarks" / "refusals.yaml").read_text("utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "UNKNOWN",
        "I don’t know",
        "不知道。",
        "I'm not sure who",
        "N/A",
        "Unbekannt",
        "Das weiß ich nicht.",
        "No consta en los documentos",
        "I'm sorry, but I don't have access to internal company data",
        "The passages do not mention the salary of Jonas Albrecht.",
        "文中未提及。",
        "無法回答",
        "文件中沒有相關資訊。",
        # A guess that is marked as one, an offer and an elaboration give no answer.
        "I don't know, but perhaps Paris",
        "I don't know. Perhaps Paris.",
        "The context does not say. Please contact your HR department.",
        "No, I don't know.",
        "Non lo so.",
    ],
)
def test_what_says_that_there_is_no_answer_is_a_refusal(text):
    assert is_abstention(text)


@pytest.mark.parametrize(
    "text",
    [
        "Na",
        "Paris",
        "知道",
        "The Unknown Soldier",
        "None",
        "No",
        "Nothing",
        "The Unknown",
        "Unknown (2011 film)",
        "I Don't Know How She Does It",
        "No, it is not known for its beaches but for its wine.",
        "Paris, but I'm not sure",
        "Paris. I'm not sure.",
        "I don't know. The capital is Paris.",
        "The passages do not name the builder. However, the annex says that Ida Holm built it in 1871.",
        "It rained. 200 people work in Bremen.",
        "The project was cancelled because no information was available to the board.",
        "I have no bananas",
        "Not included, but available for 5 euros",
        "No, not yet.",
        "I know who leads Bremen: Ben Carl.",
        "Nein, das ist nicht erlaubt.",
        "Ich weiß, dass Ben es war.",
        "Non, ce n'est pas autorisé.",
        "No, todavía no.",
        "No, non è permesso.",
        "Nee, dat mag niet.",
        "Нет, это не разрешено.",
        "いいえ、許可されていません。",
        "لا، هذا غير مسموح.",
    ],
)
def test_what_gives_an_answer_is_none(text):
    assert not is_abstention(text)


def test_half_a_surrogate_pair_is_a_letter_as_others():
    assert not is_abstention("Os\ud800lo is the capital")
    assert is_abstention("I do not know.\udfff")


def test_what_is_an_option_or_gold_is_an_answer_whatever_it_says():
    assert not is_abstention("Unknown", ["Unknown"])
    assert not is_abstention("It cannot be determined.", ["2", "It cannot be determined."])
    assert exact_match("unknown.", ["Unknown"])


def test_held_out_refusals_are_found_and_answers_pass():
    held_out = [text for parts in LISTS.values() for text in parts["held_out"].splitlines()]
    assert len(held_out) >= 400
    assert len(LISTS) == 12
    assert sum(map(is_abstention, held_out)) / len(held_out) >= 0.97
    answers = [text for parts in LISTS.values() for text in parts["held_out_answers"].splitlines()]
    assert len(answers) >= 300
    assert sum(map(is_abstention, answers)) / len(answers) <= 0.06


def test_nothing_is_held_out_that_was_learned_from():
    def bare(text):
        return "".join(letter for letter in text.casefold() if letter.isalnum())

    for parts in LISTS.values():
        for learned, held_out in (("refusals", "held_out"), ("answers", "held_out_answers")):
            assert not {*map(bare, parts[learned].splitlines())} & {*map(bare, parts[held_out].splitlines())}


@pytest.mark.slow
def test_gold_answers_are_no_refusals():
    examples = [one for some in of_real_files().values() for one in some]
    found = {(gold, one.choices) for one in examples for gold in one.answers}
    assert sum(is_abstention(gold, choices) for gold, choices in found) / len(found) <= 0.002


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("J. R. R. Tolkien wrote it in St. Mary. He died.", 2),
        ("I do not know. The capital is Paris.", 2),
        ("不知道。是北京。", 2),
        ("... !", 0),
        ("a" + " " * 80_000 + "b", 1),
    ],
)
def test_sentences(text, parts):
    assert len(sentences(text)) == parts


@pytest.mark.parametrize(
    ("first", "second", "same", "em"),
    [
        ("C++", "C#", False, False),
        ("C++", "C", False, False),
        ("F#", "F", False, False),
        ("A*", "A", False, False),
        ("*A*", "A", True, True),
        ("$5", "5%", False, False),
        # A number may lack its unit in EM, as in the official scripts; it is no other answer's equal for that.
        ("5%", "5", False, True),
        ("5", "$5", False, True),
        ("5 %", "5%", True, True),
        ("−3", "3", False, False),
        ("Na", "na", True, True),
        ("Na+", "Na", False, False),
        # Nor are those its equal that differ in punctuation alone, which SQuAD's normalisation drops.
        ("2:1", "21", False, True),
        ("1/2", "12", False, True),
        ("< 5", "> 5", False, True),
        ("A-", "A", False, True),
        ("1,000.5", "1000.5", True, True),
        (".5", "0.5", True, True),
        ("-> Oslo", "Oslo", True, True),
    ],
)
def test_symbols_that_tell_answers_apart(first, second, same, em):
    assert same_answer(first, second) is same
    assert same_answer(second, first) is same
    assert exact_match(first, [second]) is em
