"""Whether passages have the words of an answer, in whatever writing."""

import time

import pytest

from keqa.programs.stages.support import carried_part, words_lacking


@pytest.mark.parametrize(
    ("answer", "text", "lacking"),
    [
        ("3 Autos", "Sie haben drei Auto.", []),
        ("three harbours", "It has 3 harbours.", []),
        ("12 harbours", "It has three harbours.", ["12"]),
        ("港口项目", "张伟负责港口项目。", []),
        ("铁路", "张伟负责港口项目。", ["铁路"]),
        ("Anna Berg", "It is led by Anna Lee.", ["berg"]),
        ("Mitarbeitern", "Das gilt für alle Mitarbeiter.", []),
        ("the", "It is the end.", []),
        ("C++", "It is written in C# and C.", ["C++"]),
        ("-3", "It was 3 degrees.", ["-3"]),
        ("A*", "It runs A.", ["A*"]),
        ("0 accidents", "Zero accidents.", []),
        ("£5", "GBP 5", []),
        ("5 per cent", "5 %", []),
        ("120.00 each", "It is 120 each.", []),
        ("John", "Johnson did it.", ["john"]),
        ("4 May, for 10,000 euros", "On 04 May, for 10000 euros.", []),
        ("Trains are not paid.", "Trains are paid.", ["not"]),
        ("Trains are not paid.", "Trains are never paid.", []),
        ("Trains aren’t paid.", "Trains are paid.", ["not"]),
        ("They can't enter.", "They cannot enter.", []),
        ("**Anna Berg** leads", "Anna Berg leads.", []),
        ("1.5 million", "It made 1.2 million in 5 towns.", ["1.5"]),
        ("1.5 million", "Es waren 1,5 Millionen.", []),
        ("12.03. at 6.30", "On 2024-12-03 at 06:30.", []),
        ("10000 EUR", "Cela coûte 10\u202f000 EUR.", []),
        ("10 000 EUR", "It costs EUR 10,000.", []),
        ("€5,200.00 or €9.90", "It costs 5,200 €, or 9.9 €.", []),
        ("€9.90 in 3.10", "It costs 9.95 € in 3.1.", ["10", "9.9", "3.10"]),
        ("\N{MINUS SIGN}4 %", "Change: -4%", []),
        ("30", "| leave | 30 120 |", []),
        ("15天", "每年享有15天带薪年假。", []),
        ("16天", "每年享有15天带薪年假。", ["16"]),
        ("3500元", "每晚不超过3,500元。", []),
        ("1200万元", "注册资本为１，２００万元。", []),
        ("120000000元", "营收1.2亿元。", []),
        ("130000000元", "营收1.2亿元。", ["130000000"]),
        ("2021年4月12日", "成立日期: 2021-04-12", []),
        ("2021年4月13日", "成立于二〇二一年四月十二日。", ["13"]),
        ("30%", "增长了百分之三十。", []),
        ("1億2000万円", "資本金は１億２，０００万円です。", []),
        ("员工满一年后每年享有带薪年假", "员工入职满一年后，每年享有15天带薪年假。", []),
        ("艾达霍尔姆", "由艾达·霍尔姆设计。", []),
        ("由张伟负责", "由李伟负责。", ["由张", "张伟"]),
        ("员工不可以带宠物", "员工可以带宠物。", ["工不", "不可"]),
        ("3500.50元", "单价（元）: 3500.5", []),
        ("XH-20", "型号：ＸＨ－２０", []),
        ("250 ms", "--retry-delay: 250ms", []),
        ("25 ms", "--retry-delay: 250ms", ["25"]),
        ("64MiB", "At most 64 MiB.", []),
        ("15b", "Section 15, part b", ["15 b"]),
        ("1245,80 euros", "La prime s'élève à 1 245,80 €.", []),
        ("EUR 10 million", "| Limit | EUR 10,000,000 |", []),
        ("31 July 2024", "Paid on: 31.07.2024", []),
        ("7 August 2024", "Paid on: 31.07.2024", ["august"]),
        ("12.5 percent of 500 euros", "12.5% of EUR 500", []),
        ("$500", "EUR 500", ["usd"]),
        ("US$ 500 of $HOME", "USD 500 of HOME", []),
        ("from 10:00 a.m. to 3:00 p.m.", "Core hours: 10 am to 3 pm", []),
        ("10 AM", "From 10:00 a.m. on.", []),
        ("10 pm", "From 10 am on.", ["pm"]),
        ("500 ms", "Waits 500 ms in all.", []),
        ("It waits 500 ms in all", "It waits 500 seconds in all.", ["ms"]),
        ("Die Frau des Direktors", "Das Zimmer des Direktors", ["frau"]),
        ("王先生", "由国王女士负责。", ["王先", "先生"]),
        ("港口部", "港口很大。", ["口部"]),
        ("张伟先生", "张伟负责。", []),
        ("11", "Made once a day.", ["11"]),
        ("20 jours", "Au plus vingt-cinq jours.", ["20"]),
        ("120 days", "One hundred and twenty days.", ["120"]),
        ("20 days", "One hundred and twenty days.", ["20"]),
        ("Ms. Helga Mohn", "Chaired by Helga Mohn.", []),
        ("https://gate.example/vpn", "Reached at gate.example/vpn.", []),
        ("fourteen", "At least 14 characters.", []),
        ("forty-two days", "After 42 days.", []),
        ("forty-two days", "After 40 days.", ["42"]),
        ("fünfundzwanzig Tage", "Es sind 25 Tage.", []),
        ("trente jours", "Au plus 30 jours.", []),
        ("treinta días", "A los 20 días.", ["treinta"]),
    ],
)
def test_the_words_that_passages_lack(answer, text, lacking):
    assert words_lacking(answer, [text]) == lacking


@pytest.mark.parametrize(
    ("answer", "text", "lacking"),
    [
        ("--max-retries", "Pass `--max-retries=5`.", []),
        ("--max-retries", "`--retries` is the max.", ["--max-retries"]),
        ("--jitter", "Pass `--no-jitter`.", ["--jitter"]),
        ("KEQA_MAX_RETRIES", "Set `KEQA_MAX_RETRIES`, or keqa_max_wait.", []),
        ("KEQA_WAIT_RETRIES", "Set `KEQA_MAX_RETRIES`, or keqa_max_wait.", ["KEQA_WAIT_RETRIES"]),
        ("call foo.bar_baz()", "call foo.baz_bar()", ["foo.bar_baz"]),
        ("/var/lib/spool", "/var/log and a lib for the spool", ["/var/lib/spool"]),
        ("v2.10.3", "Mended in 2.10.3.", []),
        ("2.3.10", "Mended in 2.10.3.", ["2.3.10"]),
        ("2.1", "Mended in 3.2.1.", ["2.1"]),
        ("10.0.0.1", "Bound to 10.1.0.0.", ["10.0.0.1"]),
        ("31.05.2024", "Since 2024-05-31.", []),
        ("10,000", "`max_pending` (default 10_000)", []),
        ("30 s", "After 30s.", []),
        ("5m", "After 5 h or 10 m.", ["5 m"]),
        ("30s", "After 30 seconds.", []),
        ("250ms", "After 250 milliseconds.", []),
        ("250ms", "After 250 minutes.", ["250 ms"]),
        ("the 21st century", "In the twenty-first century.", ["21st"]),
    ],
)
def test_what_is_written_in_one_piece_has_to_stand_there_so(answer, text, lacking):
    assert words_lacking(answer, [text]) == lacking


@pytest.mark.parametrize("long", ["1" * 20_000, "1." * 10_000, "/a" * 10_000, "a_" * 10_000])
def test_a_reply_that_is_one_long_piece_is_looked_up(long):
    assert words_lacking(f"{long}!", ["It is."])


def test_one_word_of_a_whole_reply_is_looked_up_at_once():
    start = time.perf_counter()
    assert words_lacking("a" * 20_000, ["It is."]) == ["a" * 20_000]
    assert time.perf_counter() - start < 2


def test_what_is_shortened_is_no_answer_before_a_remark():
    assert carried_part("What is paid?", "Approx. 40 francs", ["It is approx. 90 euros."]) == "Approx. 40 francs"
