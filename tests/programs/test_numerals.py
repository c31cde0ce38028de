"""Numbers in Chinese and Japanese writing as digits, by which they are compared."""

import pytest

from keqa.programs.numerals import in_digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("三十天", "30天"),
        ("一百零五", "105"),
        ("１２００万元", "12000000元"),
        ("1億2,000万円", "120000000円"),
        ("1.2万亿", "1200000000000"),
        ("两万五千", "25000"),
        ("百分之三十", "30%"),
        ("百分之3.5", "3.5%"),
        ("二〇二一年四月十二日", " 2021-04-12 "),
        ("2021年04月", "2021年04月"),
        ("15 一线城市", "15 1线城市"),
        ("ﾔﾏﾀﾞ－１", "ヤマダ-1"),
        ("three of 1,200", "3 of 1,200"),
        ("Ein Tag, einundzwanzig Tage, eine", "Ein Tag, 21 Tage, eine"),
        ("someone often", "someone often"),
        ("twenty-one or two, vingt et un, dix-sept, treinta y cinco, veintidós", "21 or 2, 21, 17, 35, 22"),
        *(
            (another, another)
            for another in (
                "one hundred and twenty",
                "a hundred and twenty",
                "twenty-first",
                "nineteen eighty-four",
                "thirty\nfive",
                "quatre-vingt-douze",
                "soixante et onze",
                "vingt et une heures",
                "treinta y una",
                "cincuenta y cinco",
                "cinquante-trois",
                "zwei hundert",
                "two thirds",
                "zwei Dutzend",
                "extension 4210 pm, 2024 Uhr",
                "亿" * 41,
                "made once a day",
                "MS-DOS",
                "an elf may seize it",
            )
        ),
        ("Die Frist beträgt acht Tage nach dem Ende.", "Die Frist beträgt 8 Tage nach dem Ende."),
        ("El plazo es de once días para la entrega.", "El plazo es de 11 días para la entrega."),
        ("12 Sept 2024", "2024-09-12"),
        ("1.5 million, 2 mln, 0.5 Mio. €", "1500000, 2000000, 500000. €"),
        ("31st of May 2024, 5/31/2024, 31. Mai 2024", "2024-05-31, 2024-05-31, 2024-05-31"),
        ("3/4/2024, May 2024, 1.250 million", "3/4/2024, 2024-05, 1.250 million"),
        ("€450k, 2.5 thousand, 450 mil, 30 Tsd., 2 tausend", "€450000, 2500, 450000, 30000, 2000"),
        ("3 p.m., 12am, 15h30, 8–16.30 Uhr, 6 Uhr, 72 h", "15:00, 0:00, 15:30, 8:00–16:30, 6:00, 72 h"),
        ("de 9 h 30 à 12 h 05, 24 h sur 24, 3 h 30 min", "de 9:30 à 12:05, 24 h sur 24, 3:30 min"),
        ("1,250 thousand, 10k-20k", "1,250 thousand, 10000-20000"),
        ("Der Raum 10 am Flur ist für die Gäste.", "Der Raum 10 am Flur ist für die Gäste."),
        ("a 4K-screen, 300 K, 401(k)", "a 4K-screen, 300 K, 401(k)"),
    ],
)
def test_a_number_in_digits(text, digits):
    assert in_digits(text) == digits


@pytest.mark.parametrize("part", ["1", "1,111,", "111,", "1.", "十1"])
def test_a_long_run_of_digits_is_left_and_gone_through_once(part):
    text = f"ü {part * (100_000 // len(part))} 三十天"
    assert in_digits(text).endswith(" 30天")
