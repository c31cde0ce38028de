"""What sentences of passages say: which of them carried an answer, and which say different things of the same.

Which sentence an LM drew an answer from is found in the text, by rules that anyone can check: sentences selected as
evidence (KS-LLM); else those that hold the answer and share most words with the question; else the one that shares most
words with question and answer. Function words do not count, and the rarer a word is in the passage, the more it does.

Two sentences contradict each other where one value, a name or a number, stands in the place of another and nearly all
else is the same. Where two such places differ, they speak of two things: of two projects each has its own head. So do
they where what differs is what was asked about.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from keqa.metrics.accuracy import in_one_piece
from keqa.metrics.answers import tokens
from keqa.programs.numerals import in_digits
from keqa.programs.records import PassageVerdict
from keqa.retrievers.splitting import BELOW_HEAD, stripped_sentences
from keqa.retrievers.stopwords import CHINESE, ENGLISH
from keqa.retrievers.text import languages_of_word, one_line, spaced_language, without_stop_words

_WORD = re.compile(r"[^\W_]+")
_JOINS = re.compile(r"[\s.'’&/-]{1,2}")
_RANGE = r"\u3040-\u30ff\u3400-\u9fff"
_CJK = re.compile(f"[{_RANGE}]+")
_CJK_FUNCTION = re.compile(f"[{''.join(sorted(CHINESE))}]")
# They tell the language of a question, and in any language they are nothing that it is about: one list serves both, for
# a word that was left out of either would make a question of one language look like one of another.
_QUESTION_WORDS = {
    "de": "wer was wann wo wie welche welcher welches welchen warum wieso wieviel wieviele wessen wem wen woher wohin",
    "en": "who whom what when where which whose how why",
    "es": "quién quiénes cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas qué",
    "fr": "qui que quel quelle quels quelles quand où comment combien pourquoi",
    "it": "chi quale quali qual dove dov come quando quanto quanti quanta perché",
    "nl": "wat wie wanneer waar hoe welk welke waarom hoeveel wiens",
    "pl": "kto co kiedy gdzie jak jaki jaka jakie ile czy który która które którym której dlaczego kogo czyj",
    "pt": "quem qual quais onde quando quanto quantos quantas",
}
_ASKED_IN: dict[str, list[str]] = {}
for _code, _listed in _QUESTION_WORDS.items():
    for _word in _listed.split():
        _ASKED_IN.setdefault(_word, []).append(_code)
_ASKED_IN |= {_word: [*_ASKED_IN.get(_word, ()), "en"] for _word in "is are does do did was were many much".split()}
_CJK_ASKS = re.compile("[什谁誰哪几幾怎何]|多少|いつ|どこ|どの|だれ|いく[つら]|なぜ")
# Two forms of a word share so many letters at the beginning, and so much of the longer one.
_STEM, _SHARE = 4, 0.6
# Where another sentence begins: a capital there makes no name.
_BEGINS = re.compile(r"(?:[!?…！？]|\w{4}\.)\s+")
# Nobody is called so in every document.
_ADDRESSES = frozenset("mr mrs ms miss herr herrn frau mme mlle monsieur madame señor señora signor signora".split())
# Of the words of a quiz without names, how many a passage has that speaks of it; in a script without spaces, of its
# pairs of characters.
_MOST, _HALF = 2 / 3, 0.5

_QUOTED = 3
# A sentence that holds the answer is passed over where another one that does shares twice as much with the question.
_NEARLY = 0.5
# Passages are a hundred words long; records of a corpus may be books.
_LONGEST, _SENTENCES = 20_000, 40
# With the heads of tables, below which is a line of hyphens.
_HEADINGS = re.compile(rf"^(?:#{{1,6}} [^\n]*|\|[^\n]*\n{BELOW_HEAD})(?:\n|\Z)", re.MULTILINE)
_FUNCTION_WORDS = ENGLISH | CHINESE

_TOKEN = re.compile(rf"[{_RANGE}]|[^\W_{_RANGE}]+(?:[.,:'’-][^\W_{_RANGE}]+)*")
_CJK_GAP = re.compile(rf"(?<=[{_RANGE}]) (?=[{_RANGE}])")
_PARTICLES = CHINESE | set("为由在于和与")
OTHER_WORDS = 4
"""How many other words than a number two sentences may differ in."""
# What of the question's words they must share.
_SAME = 0.5
_LEAST_WORDS = 2
# Rows of a thousand numbers would be compared for minutes.
_MOST_WORDS = 300
_FORM = 3
_GROUPS = re.compile(rf"(?<=\d)(?:[,.'’]|(?<!\d{{4}})_)(?=\d{{3}}(?:\b|[{_RANGE}]))")
_SPACED_GROUPS = re.compile(r"(?<![\d.,])(\d{1,3})((?:\s\d{3})+)(?!\d)")
_NUMBER_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve "
    "first second third fourth fifth sixth seventh eighth ninth tenth".split()
)
_NO_PART = re.compile(r"(?<=\d)[.,:]0+(?![\d.,:])")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE = re.compile(r"\d{4}(?:-\d{2}){0,2}")
_OF_BEFORE = re.compile(
    r"\b(?:(?<!how )old(?:er)?|previous(?:ly)?|former(?:ly)?|earlier|original(?:ly)?|initial(?:ly)?|used to|chang\w+"
    r"|differ\w*|früher\w*|bisher\w*|(?-i:alte[nrs]?)|vorherig\w+|ursprünglich\w*|geändert\w*|änderung\w*|unterschied\w*"
    r"|ancien\w*|précédent\w*|avant|différen\w+|anterior\w*|antigu\w+|antes|cambi\w+|diferen\w+)\b"
    r"|以前|之前|原来|原來|变化|變化|变更|變更",
    re.IGNORECASE,
)


def language_of(text: str) -> str:
    """The language of a question by its script, its question words and function words; ``en`` where it is unclear."""
    words = words_of(text)
    # Beside a question word of another script it is a name: "Who wrote 三体?".
    if not any(word in _ASKED_IN for word in words):
        if _CJK.search(text):
            return "ja" if re.search(r"[\u3040-\u30ff]", text) else "zh"
        if re.search(r"[\u0400-\u04ff]", text):
            return "ru"
    spaced = spaced_language([text])
    votes: Counter[str] = Counter()
    for word in words:
        votes.update([*_ASKED_IN.get(word, ()), *languages_of_word(word)])
    if spaced == "ar" or not votes:
        return spaced
    # "Was" is English before who is spoken of, and German before what they do: "Was kostet".
    first, second = [*_WORD.findall(text), "", ""][:2]
    votes["de"] += first.casefold() == "was" and second[:1].islower() and "en" not in languages_of_word(second)
    ranks = {code: (count, code == "en", code in _QUESTION_WORDS, code == spaced) for code, count in votes.items()}
    return max(sorted(ranks), key=ranks.__getitem__)


def asking(text: str) -> str:
    """What of a text asks: its questions, and what leads up to them where that alone names whom they are about."""
    parts = stripped_sentences(text)
    places = [place for place, one in enumerate(parts) if one.endswith(("?", "？", "؟"))]
    asks = " ".join(parts[place] for place in places)
    # "Is that right?" says nothing of it.
    if len(content_words(asks)) <= (not asks_what(asks)):
        return text
    leading = " ".join(parts[: places[-1] + 1])
    return asks if names_of(asks) or not names_of(leading) else leading


def asks_what(text: str) -> bool:
    asking = _QUESTION_WORDS.get(language_of(text), "").split()
    return not {*asking}.isdisjoint(words_of(text)) or _CJK_ASKS.search(text) is not None


def words_of(text: str) -> list[str]:
    """The words of a text in small letters; of Chinese and Japanese each pair of neighbouring characters."""
    spaced = [word.casefold() for word in _WORD.findall(_CJK.sub(" ", text))]
    return spaced + [run[at : at + 2] for run in _runs_of(text) for at in range(max(1, len(run) - 1))]


def _runs_of(text: str) -> list[str]:
    return [run for found in _CJK.findall(text) for run in _CJK_FUNCTION.sub(" ", found).split()]


def joints_of(text: str) -> list[tuple[str, str, str]]:
    """The pairs of characters of Chinese and Japanese, each between the one before and the one behind it."""
    places = [(run, at) for run in _runs_of(text) for at in range(1, len(run) - 2)]
    return [(run[at - 1 : at + 1], run[at : at + 2], run[at + 1 : at + 3]) for run, at in places]


def content_words(text: str) -> list[str]:
    """The words of a text that are no function words of its language."""
    language = spaced_language([text])
    # The analyzer takes no lone surrogates.
    sound = text.encode("utf-8", "replace").decode()
    kept = {word.casefold() for word in without_stop_words(language).analyze(sound)}
    return [word for word in words_of(text) if (word in kept or _CJK.match(word)) and word not in _ASKED_IN]


def names_of(text: str) -> list[list[str]]:
    """The names and numbers in a question, each as its words in small letters; capitals side by side are one."""
    content, found, end = set(content_words(text)) - _ADDRESSES, list[list[str]](), 0
    begins = {0, *(one.end() for one in _BEGINS.finditer(text))}
    for match in _WORD.finditer(_CJK.sub(lambda run: " " * len(run[0]), text)):
        word = match[0]
        if any(map(str.isdigit, word)) or (
            match.start() not in begins and word[0].isupper() and word.casefold() in content
        ):
            joined = bool(found) and _JOINS.fullmatch(text, end, match.start()) is not None
            found[-1].append(word.casefold()) if joined else found.append([word.casefold()])
            end = match.end()
    return found


def spoken_of(quiz: str, passages: Iterable[str], *, least: float = 2 / 3) -> list[str]:
    """What of a quiz passages speak of: its names that stand in one of them, or else its words, if enough."""
    quiz, bags = asking(quiz), [set(words_of(passage)) for passage in passages]
    names = names_of(quiz)
    if any(not word.isdigit() for name in names for word in name):
        there = [name for name in names if any(all(stands_in(word, bag) for word in name) for bag in bags)]
        return [" ".join(name) for name in there] if len(there) >= least * len(names) else []
    words = list(dict.fromkeys(content_words(quiz)))
    shared = max(([word for word in words if stands_in(word, bag)] for bag in bags), key=len, default=[])
    enough = len(shared) >= (_HALF if _CJK.search(quiz) else _MOST) * len(words)
    return shared if shared and enough else []


def stands_in(word: str, words: Iterable[str]) -> bool:
    """Whether a word is among others, maybe in another form."""
    if word in (words := words if isinstance(words, set) else set(words)):
        return True
    if len(word) < _STEM or not word.isalpha() or _CJK.match(word):
        return False
    return any(_same_stem(word, other) for other in words)


def is_named(name: str, words: set[str]) -> bool:
    """Whether a name is among words, maybe in another form: Schmidts is one of Schmidt, and Schmitt is none."""
    forms = (word for word in words if stands_in(name, {word}))
    return any(name.startswith(one[:-1]) or one.startswith(name[:-1]) for one in forms)


def _same_stem(first: str, second: str) -> bool:
    longer = max(len(first), len(second))
    least = max(_STEM, round(_SHARE * longer))
    return len(second) >= _STEM and first[:least] == second[:least]


def sentences_of(text: str) -> list[str]:
    """The sentences and rows of a passage on a line each, without the headings above them, unless these are all."""
    text = text[:_LONGEST]
    return stripped_sentences(_HEADINGS.sub("\n\n", text)) or stripped_sentences(text)


def as_written(text: str, sentence: str) -> str:
    """A sentence with the white space that it has in the text."""
    found = re.search(r"\s+".join(map(re.escape, sentence.split())), text)
    if not found and not sentence.isascii():
        # Without spaces, a line may end anywhere.
        found = re.search(r"\s*".join(map(re.escape, "".join(sentence.split()))), text)
    return found.group() if found else sentence


def supporting_sentences(text: str, question: str, answer: str | None, evidence: Sequence[str] = ()) -> list[str]:
    """The sentences of a passage that carried an answer, as they stand there; three at most."""
    parts = sentences_of(text)
    chosen = {one_line(sentence) for sentence in evidence}
    if selected := [part for part in parts if any(part in one or one in part for one in chosen)]:
        return [as_written(text, part) for part in selected[:_QUOTED]]
    worded = [tokens(part) for part in parts]
    bags = [_content(words) for words in worded]
    spread = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(1 + len(bags) / count) for word, count in spread.items()}

    def shared(bag: set[str], wanted: Iterable[str]) -> float:
        return math.fsum(weight[word] for word in bag.intersection(wanted))

    asked, answered = _content(tokens(question)), tokens(answer or "")
    holding = [place for place, words in enumerate(worded) if in_one_piece(answered, words)]
    if holding:
        near = {place: shared(bags[place], asked) for place in holding}
        best = max(near.values())
        ranked = sorted(near, key=lambda place: (-near[place], place))
        kept = sorted(place for place in ranked[:_QUOTED] if near[place] >= _NEARLY * best)
        return [as_written(text, parts[place]) for place in kept]
    wanted = asked | _content(answered)
    scores = [shared(bag, wanted) for bag in bags]
    best = max(scores, default=0.0)
    found = [scores.index(best)] if best > 0 else []
    # What the answer names or counts may stand in several that are about the question.
    named = {word for name in names_of(f": {answer}") for word in name}
    left = {word for word in answered if word in named or word.isdigit()}.difference(asked, *(bags[at] for at in found))
    about = [at for at, bag in enumerate(bags) if found and not bag.isdisjoint(asked)]
    while about and len(found) < _QUOTED:
        place = max(about, key=lambda at: (len(left & bags[at]), shared(bags[at], asked)))
        if left.isdisjoint(bags[place]):
            break
        found.append(place)
        left -= bags[place]
    return [as_written(text, parts[place]) for place in sorted(found)]


def _content(words: Iterable[str]) -> set[str]:
    return {word for word in words if word not in _FUNCTION_WORDS}


def disagreements(
    first: PassageVerdict, second: PassageVerdict, asked: str, other_words: int = OTHER_WORDS
) -> Iterator[tuple[str, str]]:
    """Where two passages contradict each other on what was asked; nowhere where only one has a name of it."""
    asked, texts = asking(asked), [" ".join((one.title, one.heading, one.file, one.text)) for one in (first, second)]
    about = [set(words_of(text)) for text in texts]
    for name in names_of(asked) + _typed_small(asked, " ".join(texts)):
        first_named, second_named = (all(is_named(word, there) for word in name) for there in about)
        if first_named != second_named:
            return
    yield from contradictions(first.text, second.text, asked, other_words)


def _typed_small(asked: str, text: str) -> list[list[str]]:
    """The words that a text writes with a capital, of a question that is typed in small letters all through."""
    if asked != asked.lower():
        return []
    capitals = {word.casefold() for word in _WORD.findall(text) if word[0].isupper()}
    return [[word] for word in content_words(asked) if word in capitals]


def contradictions(first: str, second: str, asked: str, other_words: int = OTHER_WORDS) -> Iterator[tuple[str, str]]:
    """Where two texts contradict each other on what was asked: a sentence of each, as written."""
    others = sentences_of(second)[:_SENTENCES]
    for one in sentences_of(first)[:_SENTENCES]:
        for other in others:
            if differing_value(one, other, asked, other_words):
                yield as_written(first, one), as_written(second, other)


def differing_value(first: str, second: str, asked: str, other_words: int = OTHER_WORDS) -> str:
    """The one value of a sentence in whose place another sentence has another; empty where they do not differ so."""
    one, other = _TOKEN.findall(first), _TOKEN.findall(second)
    left, right = ({word.casefold() for word in words} for words in (one, other))
    if left == right or len(left & right) < _LEAST_WORDS or max(len(one), len(other)) > _MOST_WORDS:
        return ""
    content = {*content_words(first), *content_words(second)}

    def is_value(word: str) -> bool:
        if _CJK.match(word):
            return word not in _PARTICLES
        return _numeric([word]) or (word[0].isupper() and not content.isdisjoint(words_of(word)))

    compared = _compared(one, other, is_value, content)
    if compared is None:
        return ""
    (here, there), same, others = compared
    wanted, shared = content_words(asked), _bag(same)
    # What is called otherwise may be something else; another number in much the same words is another number.
    most = min(other_words, len(shared & content)) if _numeric(here) and _numeric(there) else 0
    if others > most:
        return ""
    if _same_value(_plain(here), _plain(there)):
        return ""
    # What was asked for is said in one of them alone, as when somebody was born, and when he was hired.
    if any(stands_in(word, _bag(one)) != stands_in(word, _bag(other)) for word in wanted):
        return ""
    enough = sum(stands_in(word, shared) for word in wanted) >= _SAME * len(wanted)
    # That two have but a name in common is no contradiction.
    more = not shared <= {word for name in names_of(asked) for word in name}
    return _joined(here) if enough and more and len(shared) >= _LEAST_WORDS else ""


def _compared(
    one: Sequence[str], other: Sequence[str], is_value: Callable[[str], bool], content: set[str]
) -> tuple[tuple[Sequence[str], Sequence[str]], list[str], int] | None:
    """The only values that sentences differ in, the words that they share, and how many others they do not."""
    values: list[tuple[Sequence[str], Sequence[str]]] = []
    same: list[str] = []
    others = 0
    left, right = ([word.casefold() for word in words] for words in (one, other))
    for kind, begin, end, start, stop in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        here, there = one[begin:end], other[start:stop]
        valued = [any(map(is_value, words)) for words in (here, there)]
        since_when = kind != "replace" and _numeric([*here, *there])
        if kind == "equal":
            same += left[begin:end]
        elif all(valued):
            values.append((here, there))
            # What stands beside a value in its place may make something else of it: “led by Anna” and “founded by Ben”.
            beside = ([word for word in words if not is_value(word)] for words in (here, there))
            others += max(len(content.intersection(_bag(words))) for words in beside)
        elif any(valued) and not since_when:
            return None
        elif not since_when and not _alike(here, there, content):
            others += max(len(here), len(there))
    return (values[0], same, others) if len(values) == 1 else None


def ungrouped(text: str, *, spaced: bool = True) -> str:
    """A text with 10,000 as 10000, and 10 000 as well where numbers that are `spaced` so are no row of a table."""
    text = _GROUPS.sub("", text)
    return _SPACED_GROUPS.sub(lambda found: "".join(found[0].split()), text) if spaced else text


def _plain(words: Sequence[str]) -> str:
    """A value as it is compared: 1,500 is 1500, 6,50 is 6.50, 120.00 is 120, and 06:00 is 6."""
    return _NO_PART.sub("", ungrouped(_joined(words))).replace(",", ".").lstrip("0") or "0"


def _same_value(first: str, second: str) -> bool:
    """Whether two values are one: alike, one day in other forms, or one of them the initials of the other."""
    written = [in_digits(text).split() for text in (first, second)]
    # Beside a day may stand what day of the week it is.
    numbers = [[word for word in words if _numeric([word])] for words in written]
    if written[0] == written[1] or (numbers[0] == numbers[1] and any(map(_DAY.fullmatch, numbers[0]))):
        return True
    for one, other in ((first, second), (second, first)):
        letters = one.replace(".", "")
        initials = "".join(word[0] for word in other.split())
        if letters.isalpha() and letters.isupper() and letters in (other.replace(".", ""), initials):
            return True
    return False


def _numeric(words: Sequence[str]) -> bool:
    return any(word.casefold() in _NUMBER_WORDS or any(map(str.isdigit, word)) for word in words)


def _alike(here: Sequence[str], there: Sequence[str], content: set[str]) -> bool:
    forms = len(here) == len(there) and all(
        one.casefold()[:_FORM] == other.casefold()[:_FORM] for one, other in zip(here, there, strict=True)
    )
    return forms or content.isdisjoint(words_of(" ".join([*here, *there])))


def _joined(words: Sequence[str]) -> str:
    return _CJK_GAP.sub("", " ".join(words))


def _bag(words: Sequence[str]) -> set[str]:
    return set(words_of(_joined(words)))


def newer(first: str, second: str) -> bool | None:
    """Whether one date is later than another; None where they do not tell, as 2024 and 2024-05 do not."""
    if not (_DATE.fullmatch(first) and _DATE.fullmatch(second)):
        return None
    size = min(len(first), len(second))
    return None if first[:size] == second[:size] else first[:size] > second[:size]


def without_older(quiz: str, verdicts: Sequence[PassageVerdict]) -> list[PassageVerdict]:
    """The verdicts without passages that a newer one contradicts on the quiz; that one is kept in their place.

    What asks for what was before, or for what changed, asks for these as well, unless that is what they speak of: how
    a password is changed.
    """
    found, before = list(verdicts), [word.casefold() for word in _OF_BEFORE.findall(quiz)]
    for place, older in enumerate(verdicts):
        if not older.kept:
            continue
        for other, later in enumerate(verdicts):
            if not newer(later.date, older.date) or next(disagreements(older, later, quiz), None) is None:
                continue
            spoken = " ".join(f"{one.title} {one.heading} {one.text}" for one in (older, later))
            if not all(stands_in(word, words_of(spoken)) for word in before):
                continue
            why = f"{later.title or later.file or later.passage_id}, of {later.date}, says otherwise and is newer"
            found[place] = older.model_copy(update={"kept": False, "why": why, "older_than": later.passage_id})
            if not later.kept and not found[other].older_than:
                why = f"newer than {older.title or older.file or older.passage_id}, which says otherwise"
                found[other] = later.model_copy(update={"kept": True, "why": why})
            break
    return found
