import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers import Passage
from keqa.retrievers.analysis import LANGUAGES, MAX_QUERY_TERMS, analyzer, language_of, query_terms, settings_for

any_text = st.text(st.characters(exclude_categories=()))


@given(any_text, st.sampled_from(LANGUAGES))
def test_any_text_is_a_query(query, language):
    terms = query_terms(query, language)
    assert len(set(terms)) == len(terms) <= MAX_QUERY_TERMS
    assert all(terms)


def test_stop_words_go_unless_nothing_is_left():
    assert query_terms("Who is the director of the films?", "en") == ["director", "film"]
    assert query_terms("The Who", "en") == ["the", "who"]
    assert query_terms("?!…", "en") == []


def test_operators_are_plain_text():
    assert query_terms('Who said "to be…? OR foo:bar^2 -(x', "en") == ["said", "foo", "bar", "2", "x"]


def test_chinese_is_one_term_a_character_and_latin_stays_whole():
    assert query_terms("谁是iPhone 15的发明者？", "zh") == ["iphon", "15", "发", "明", "者"]
    assert query_terms("谁", "zh") == ["谁"]


def test_a_huge_question_is_cut():
    assert len(query_terms(" ".join(f"w{n}" for n in range(20_000)), "en")) == MAX_QUERY_TERMS


def test_composed_and_decomposed_letters_are_one_term():
    assert query_terms("cafe\u0301", "en") == query_terms("caf\u00e9", "en") == ["café"]


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_chinese_analyzer_never_raises(text):
    assert all(analyzer("zh").analyze(text))


def test_language_is_reported_from_the_text():
    english = Passage("1", "", "The Chinese name of Beijing is 北京, and it is the capital of the country of China.")
    chinese = Passage("2", "", "北京是中华人民共和国的首都。")
    assert language_of("auto", [english]) == "en"
    assert language_of("auto", [chinese]) == "zh"
    assert language_of("auto", [english] * 3 + [chinese]) == "zh"
    assert language_of("auto", []) == "en"
    assert language_of("zh", [english]) == "zh"


def test_unknown_language_is_refused():
    for refuse in (settings_for, lambda name: language_of(name, [])):
        with pytest.raises(InputError, match="'xx'"):
            refuse("xx")


def test_german_is_stemmed_and_folded_and_knows_chinese():
    asked = query_terms("Wie heißt die Straße, in der die Müllers wohnten?", "de")
    assert asked == ["heisst", "strass", "mull", "wohnt"]
    assert query_terms("STRASSE der Mullers", "de") == ["strass", "mull"]
    assert query_terms("北京 Übung", "de") == ["北", "京", "ubung"]
    # Nothing but function words is searched for as it is.
    assert query_terms("für über", "de") == ["fur", "uber"]
    assert query_terms("l'école générale", "fr")[-2:] == query_terms("ecole generale", "fr")


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


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_found_by_its_function_words_and_letters(language):
    assert language_of("auto", [Passage("1", "", TEXTS[language])]) == language


def test_a_mixed_corpus_goes_to_the_analyzer_that_serves_most_of_it():
    german, english = Passage("1", "", TEXTS["de"]), Passage("2", "", TEXTS["en"])
    chinese = Passage("3", "", "北京是中华人民共和国的首都。")
    assert language_of("auto", [german, german, german, chinese]) == "de"
    assert language_of("auto", [english, english, english, german]) == "en"
    assert language_of("auto", [Passage("1", "", "name: Ulm; height: 161; berth: N4")]) == "en"
    assert language_of("auto", [german], ("en", "zh")) == "en"
    with pytest.raises(InputError, match="no analyzer for 'de'"):
        language_of("de", [], ("en", "zh"))
