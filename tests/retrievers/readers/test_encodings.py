import pytest

from keqa.retrievers import read_corpus

_RUSSIAN = "Маяк Скарна был построен в 1871 году Идой Хольм, инженером из Осло.\n"


def read(path, data):
    notices = []
    path.write_bytes(data)
    return " ".join(one.text for one in read_corpus(path, notice=notices.append)), notices


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", _RUSSIAN),
        ("koi8-r", _RUSSIAN),
        ("cp1253", "Ο φάρος του Σκαρν χτίστηκε το 1871 από την Ίντα Χολμ. Είναι μηχανικός.\n"),
        ("cp932", "これは灯台です。井田ホルムが建てました。\n"),
        ("euc_jp", "これは灯台です。井田ホルムが建てました。\n"),
        ("euc_jis_2004", "①これは灯台です。井田ホルム㈱が建てました。\n"),
        ("big5", "這座燈塔建於一八七一年。她是一位工程師。\n"),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy. Maják byl postaven v roce 1871.\n"),
        ("gb18030", "斯卡恩灯塔由艾达·霍尔姆于1871年建造。她是一位工程师。\n"),
        ("cp1252", "Où est le phare ? À Skarn : il a été bâti en 1871 par Ida Holm, élève d'une école.\n"),
        ("cp1252", "“The lighthouse” – built in 1871 – was Ida’s.\n"),
    ],
)
def test_text_in_another_alphabet_is_no_row_of_accented_letters(tmp_path, encoding, text):
    for times in (1, 5_000):
        found, notices = read(tmp_path / "a.txt", (text * times).encode(encoding))
        assert found.startswith(text.strip())
        assert notices == [f"{tmp_path / 'a.txt'} is not UTF-8; it was read as {encoding}"]


def test_a_few_wrong_bytes_do_not_make_utf8_another_encoding(tmp_path):
    text = "Größe, Maß und Höhe des schönen Leuchtturms. "
    found, notices = read(tmp_path / "cut.txt", (text + "Straße").encode()[:-2])
    assert found == f"{text}Stra\N{REPLACEMENT CHARACTER}"
    assert notices == [f"{tmp_path / 'cut.txt'} is UTF-8 except at 1 places, which were replaced"]
    found, _ = read(tmp_path / "joined.txt", text.encode() + "Fuß".encode("cp1252") + b" unten")
    assert found == f"{text}Fu\N{REPLACEMENT CHARACTER} unten"
