"""Text as an index can hold it, its length, its language and its terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers.text import (
    LANGUAGES,
    MAX_QUERY_TERMS,
    clean_text,
    index_terms,
    language_of,
    language_of_text,
    may_be_mistyped,
    query_terms,
    settings_for,
    text_length,
    unspaced_share,
)

any_text = st.text(st.characters(exclude_categories=()))


@given(any_text, st.sampled_from(LANGUAGES))
def test_any_text_is_a_query(query, language):
    terms = query_terms(query, language)
    assert len(set(terms)) == len(terms) <= MAX_QUERY_TERMS
    assert all(terms)


@pytest.mark.parametrize(
    ("query", "languages", "terms"),
    [
        ("Who is the director of the films?", "en", ["director", "film"]),
        ("The Who", "en", ["the", "who"]),
        ("The Who", "en de zh", ["the", "who"]),
        ("?!…", "en", []),
        # Operators are plain text.
        ('Who said "to be…? OR foo:bar^2 -(x', "en", ["said", "foo", "bar", "2", "x"]),
        # Chinese goes by characters and pairs, and Latin stays whole.
        ("谁是iPhone 15的发明者？", "zh", ["iphon", "15", "发", "明", "者", "的发", "发明", "明者"]),
        ("谁", "zh", ["谁"]),
        # Two spellings of a letter.
        ("cafe\u0301", "en", ["café"]),
        ("caf\u00e9", "en", ["café"]),
        ("Wie heißt die Straße, in der die Müllers wohnten?", "de", ["heisst", "strass", "mull", "wohnt"]),
        ("STRASSE der Mullers", "de", ["strass", "mull"]),
        ("北京 Übung", "de", ["ubung", "北", "京", "北京"]),
        # Nothing but function words is searched for as it is.
        ("für über", "de", ["fur", "uber"]),
        ("ecole generale", "fr", ["ecol", "general"]),
    ],
)
def test_what_a_query_is_searched_for(query, languages, terms):
    assert query_terms(query, *languages.split()) == terms


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("ひらがなの本", "がな"),
        ("서울은 수도이다", "수도"),
        ("กรุงเทพมหานคร", "เท"),
        ("首都东京", "东京"),
        ("ＶＰＮ申请", "vpn"),
        ("ﾔﾏﾀﾞ様", "ヤマダ"),
        ("`HTTPClient.retryCount`", "retry"),
        ("`HTTPClient.retryCount`", "http client retryCount"),
    ],
)
@pytest.mark.parametrize("language", ["en", "de", "zh"])
def test_what_has_no_spaces_is_found_in_every_language(language, text, asked):
    assert set(query_terms(asked, language)) <= set(index_terms(text, language))
    assert not may_be_mistyped(text)
    assert len(index_terms("`aGVsbG8gd29ybGQgYWJj`", language)) == 1


def test_a_query_is_stemmed_as_each_language_and_loses_the_stop_words_of_its_own():
    assert set(query_terms("Wer baut die Häuser?", "en", "de")) == {"wer", "baut", "häuser", "haus"}
    assert set(query_terms("When did she die in Houses?", "en", "de")) == {"die", "hous"}
    assert query_terms("l'école générale", "fr")[-2:] == query_terms("ecole generale", "fr")
    # A huge question is cut.
    assert len(query_terms(" ".join(f"w{n}" for n in range(20_000)), "en")) == MAX_QUERY_TERMS


def test_unknown_language_is_refused():
    for refuse in (settings_for, lambda name: language_of(name, [])):
        with pytest.raises(InputError, match="'xx'"):
            refuse("xx")


TEXTS = {
    "ar": "تقع المدينة على شاطئ البحر.",
    "da": "Byen ligger ved havet, og dens havn er en af de største. Den blev grundlagt af grækerne og ikke af andre.",
    "de": "Die Stadt liegt an der Donau und ist für ihr Münster bekannt. Es wurde im 19. Jahrhundert vollendet.",
    "el": "Η πόλη βρίσκεται στην ακτή της θάλασσας.",
    "en": "The city lies at the sea and its harbour is one of the largest. It was founded by the Greeks.",
    "es": "La ciudad está situada a orillas del mar y su puerto es uno de los más grandes del país.",
    "fi": "Kaupunki on meren rannalla ja sen satama on yksi suurimmista. Se on ollut jo kauan, mutta se ei ole vanha.",
    "fr": "La ville est située au bord de la mer et son port est l'un des plus grands du pays.",
    "hu": "A város a tenger partján fekszik, és ez az ország egyik kikötője. Nem a rómaiak, hanem mások építették.",
    "it": "La città si trova sulla riva del mare e il suo porto è uno dei più grandi del paese.",
    "nl": "De stad ligt aan de zee en de haven is een van de grootste van het land.",
    "no": "Byen ligger ved havet, og den ble grunnlagt av grekerne og ikke av romerne, men noe senere.",
    "pt": "A cidade fica à beira do mar e o seu porto é um dos maiores do país. Não foi fundada pelos romanos.",
    "ro": "Orașul este situat pe malul mării, iar portul său este unul dintre cele mai mari din țară.",
    "ru": "Город расположен на берегу моря, и его порт — один из крупнейших в стране. Он не был основан римлянами.",
    "sv": "Staden ligger vid havet och dess hamn är en av de största i landet. Den grundades av grekerna.",
    "tr": "Şehir deniz kıyısında yer alır ve çok eski bir limandır; Romalılar tarafından değil, Yunanlar için kuruldu.",
}


MORE = {
    "ja": "東京は日本の首都であり、世界でも最も大きな都市の一つです。",
    "ko": "서울은 대한민국의 수도이며 가장 큰 도시이다.",
    "th": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
    "zh": "北京是中华人民共和国的首都。",
}


@pytest.mark.parametrize("main", ["en", "de", "ru", "zh"])
@pytest.mark.parametrize("language", [*TEXTS, *MORE])
def test_the_language_of_a_passage_is_found_whatever_that_of_the_index(language, main):
    assert language_of_text({**TEXTS, **MORE}[language], main) == language


def test_a_passage_that_does_not_say_it_is_of_the_language_of_the_index():
    assert language_of_text("Ulm; 161; N4", "de") == "de"
    assert language_of_text("Ulm; 161; N4", "zh") == "en"
    # A name in another language.
    assert language_of_text("La Roche sur Yon is a town in the west of France.") == "en"


NAMES = "The Chinese name of Beijing is 北京, and it is the capital of the country of China."


@pytest.mark.parametrize(
    ("named", "texts", "language"),
    [
        *(("auto", [text], code) for code, text in TEXTS.items()),
        ("auto", [NAMES], "en"),
        ("auto", [MORE["zh"]], "zh"),
        ("auto", [TEXTS["en"]] * 3 + [MORE["zh"]], "zh"),
        ("auto", [TEXTS["de"]] * 3 + [MORE["zh"]], "de"),
        ("auto", [TEXTS["en"]] * 3 + [TEXTS["de"]], "en"),
        ("auto", ["name: Ulm; height: 161; berth: N4"], "en"),
        ("auto", [], "en"),
        ("zh", [NAMES], "zh"),
    ],
)
def test_the_language_of_a_corpus(named, texts, language):
    assert language_of(named, texts) == language


def test_an_engine_that_has_few_analyzers_takes_one_of_them():
    assert language_of("auto", [TEXTS["de"]], ("en", "zh")) == "en"
    with pytest.raises(InputError, match="no analyzer for 'de'"):
        language_of("de", [], ("en", "zh"))


def test_clean_text_drops_what_an_index_refuses():
    assert clean_text(None) == ""
    assert clean_text("a\ud800b\x00c\ufeff\r\nd\te") == "ab c\nd\te"
    assert (clean_text(12), clean_text("Cafe\u0301")) == ("12", "Café")
    # A word is one, however it is set: a ligature of a PDF, and where a line may be broken.
    assert clean_text("o\ufb03ce, \ufb01lter, capa\u00adci\u200btor") == "office, filter, capacitor"


@given(any_text)
def test_clean_text_can_be_encoded_and_stays_clean(text):
    clean = clean_text(text)
    clean.encode("utf-8")
    assert clean_text(clean) == clean


@pytest.mark.slow
def test_every_character_that_an_index_refuses_is_cleaned_wherever_it_stands():
    spaces = [c for c in map(chr, range(0x110000)) if clean_text(f"é{c}b") == clean_text("é b") and c != " "]
    assert spaces == [*map(chr, [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)])]
    gone = [c for c in map(chr, range(0xD000, 0x10000)) if clean_text(f"a{c}b") == "ab"]
    assert gone == [*map(chr, range(0xD800, 0xE000)), "\ufeff"]
    assert [c for c in map(chr, range(0xD000)) if clean_text(f"a{c}b") == "ab"] == ["\u00ad", "\u200b", "\u2060"]


def test_length_counts_words_and_characters():
    assert [text_length(text) for text in ("three plain words", "我爱北京。", "")] == [15, 4 * 3 + 5, 0]
    assert (unspaced_share("北京ab"), unspaced_share("123")) == (0.5, 0)
