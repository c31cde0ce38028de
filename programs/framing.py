"""What a reply states, without the words around it that say only that something was read, or that an answer follows.

Models that are tuned for conversation reply "According to the documents, the answer is 1871. I hope this helps!" where
"1871" is asked for. What stands around it is in no passage, and has no place in a quiz that builds on the answer. What
could be a part of an answer stays: a condition, a title, a list, a column that is called “question”.
"""

import re
from collections.abc import Sequence

from keqa.retrievers.splitting import stripped_sentences, without_stop
from keqa.retrievers.text import UNSPACED

# What is read, what is said of it, and what else stands beside these: nothing of it belongs to an answer.
_READ = frozenset(
    "passage passages document documents text texts context information source sources excerpt excerpts article "
    "articles question quiz dokument dokumente dokumenten texten passagen abschnitt unterlagen quelle quellen kontext "
    "informationen angaben frage contexte informations texte textes documento documentos texto textos pasaje pasajes "
    "fuente fuentes contexto información pregunta".split()
)
_ANSWER = frozenset("answer answers antwort lautet réponse respuesta".split())
_GUESSED = frozenset("think believe seems appears".split())
_FROM = frozenset("according based given laut gemäss selon après según acuerdo".split())
_SURE = frozenset("sure certainly natürlich gerne".split())
_SAID = frozenset(
    "state states stated say says said mention mentions mentioned indicate indicates indicated show shows provided "
    "described found note bereitgestellten gegebenen vorliegenden angegebenen fournis fournies donnés proporcionados "
    "proporcionadas proporcionado proporcionada".split()
).union(_ANSWER, _GUESSED, _FROM, _SURE)
_POLITE = frozenset(
    "hope helps help let know question questions other further anything else need feel free ask great".split()
)
_BESIDE = frozenset(
    "the a an this that these it its is are was were be as to in on of from by for at i my we you your me if have any "
    "here so therefore thus hence final correct short clearly explicitly above following available course please "
    "der die das den dem des auf diese deine ihre nach aus zu dass ist le la les l d de du à cette votre dans que "
    "est el los las una esta su con en es".split()
)
_THAT = frozenset("that dass que".split())
_IS = frozenset("is are was were ist est es lautet".split())
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")
# Of what is read a number may tell which: “passages 1 and 3”, and “1†source”.
_NUMBERED = re.compile(
    rf"\b({'|'.join(_READ)})(\s+\d{{1,3}}(?:\s+(?:and|und|et|y)\s+\d{{1,3}})?\b(?![.,]?\d))|\b(\d{{1,3}}†)",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"[”\"'’»]?\s*([,:，：!]+)(?!\s*(?:(?:on|auf)\s+)?(?:page|paragraph|section|line|seite|absatz|satz)\b)", re.I
)
_BEFORE_NUMBER = re.compile(r"\s+(?=\d)")
# What asks for something, under which condition something holds, or that somebody says.
_NO_FRAME = re.compile(
    r"[“\"„«]|(?:if|state|say|mention|indicate|show|provided|given\s+that|answer\s+(?:the|all|any|your|this|these))\b",
    re.IGNORECASE,
)
_UNSPACED_FRAME = re.compile(
    r"(?:(?:根据|根據|依据|依據|按照)(?:所?提供的|给定的|給定的|上述|以上|这些|這些|该|該)?"
    r"(?:文档|文檔|文件|段落|资料|資料|文本|信息|资讯|資訊|内容|內容|上下文|文章)(?:中?的?(?:内容|內容|信息))?[，,：:]\s*"
    r"|(?:文書|資料|文章|本文|(?:提供された)?情報)に(?:よると|よれば)[、,\s]*"
    r"|(?:(?:这个|该|該|此)?(?:问题|問題)的?)?答案(?:是|为|為|：)\s*)+"
)
NAMED = re.compile(r"(?:[Ii]t|[Hh]e|[Ss]he|[Ee]s|[Ee]r|[Ss]ie) (?:is|was|ist|war) ([A-ZÀ-Þ\d]\S*(?: [A-ZÀ-Þ\d]\S*)*)")
"""A sentence that says nothing but a name or a number."""
# The point of a list that has one, and what is a quotation, code, bold or boxed as a whole.
_BULLET = re.compile(r"(?:-\s+(?!\d)|[*•]\s+)")
_LISTED = re.compile(r"[-*•+|#]|\d+[.)]\s")
_ENCLOSED = re.compile(
    r"[“\"„«`]\s*([^“”\"„«»`]+?)\s*[”\"“»`]|\*\*\s*([^*]+?)\s*\*\*|\$*\\boxed\{(?:\\text\{)?([^{}]+)\}+\$*"
)
_IN_BRACKETS = re.compile(r"(?:\s+[(]|\s*[（【])([^()（）【】]*)[)）】]")
_ORIGIN = re.compile(r"(?:from|in|aus)\s|(?:sources?|quellen?|fuentes?)\s*[:：]", re.IGNORECASE)
# An article or a section is a place in a document, too.
_PLACE = re.compile(r"article|abschnitt", re.IGNORECASE)
_BEHIND = re.compile(
    r"(?:[\s,;–—]*[,;–—]\s*(?=(?:as|based|which)\b)|[\s,;–—]+(?=(?:according|laut|gemäß|selon|d['’]après|según)\b))",
    re.IGNORECASE,
)
_SHORTEST = 12
"""A question of fewer characters, or of half as many in a script without spaces, may be an answer's own words."""
_LONGEST = 1_000
"""What is longer was written, and is no short answer; it would take the square of its length."""


def stated(text: str, question: str = "") -> str:
    """What a reply to a question states; all of it where nothing else is left."""
    if len(text) > _LONGEST or "```" in text:
        return text
    if whole := _ENCLOSED.fullmatch(text.strip()):
        return whole[whole.lastindex or 0]
    said = _without_question(text, question)
    said = _IN_BRACKETS.sub(lambda found: "" if _names_source(found[1]) else found[0], said)
    lines = [stripped_sentences(line) for line in said.splitlines()]
    parts = [(one, _is_frame(one, alone=len(line) == 1)) for line in lines for one in line]
    if not all(frame for _, frame in parts):
        kept, end, begun = "", 0, False
        for sentence, frame in parts:
            # One that had other spaces, or that was wrapped, stays as it is.
            if (start := said.find(sentence, end)) >= 0:
                kept += said[end:start] + ("" if frame else sentence if begun else _without_frame(sentence))
                end, begun = start + len(sentence), begun or not frame
        said = kept + said[end:]
    said = said.strip()
    if not any(map(str.isalnum, said)):
        return text
    if "\n" in said:
        return said
    said = named[1] if (named := NAMED.fullmatch(said)) else said
    # The stop ended what is gone.
    said = said if said == text else without_stop(said)
    said = _BULLET.sub("", said, count=1) if _BULLET.match(said) else said
    whole = _ENCLOSED.fullmatch(said)
    return whole[whole.lastindex or 0] if whole else said


def _without_question(text: str, question: str) -> str:
    """A reply without the question that it repeats as one, asked or quoted; what has its words otherwise answers it."""
    asked = question.strip().rstrip("?？").rstrip()
    if len(asked) > len(text) or len(asked) + len(_UNSPACED.findall(asked)) < _SHORTEST:
        return text
    repeated = rf"[^\S\n]*([“\"„«])?{re.escape(asked)}\s*(?(1)[?？]?\s*[”\"“»][?？]?|[?？])[^\S\n]*"
    return re.sub(repeated, " ", text, flags=re.IGNORECASE)


def _without_frame(sentence: str) -> str:
    """A sentence without the frame that it begins with, and without what it ends with to say where it was read."""
    if unspaced := _UNSPACED_FRAME.match(sentence):
        return sentence[unspaced.end() :]
    end, before, unnumbered = 0, list[str](), _unnumbered(sentence)
    for found in () if _NO_FRAME.match(sentence) else _WORD.finditer(unnumbered):
        word = found[0].casefold()
        # A title continues: “The Answer Is You”; and within a frame A is the first of several.
        continues = found.start() and ((word in _IS and found[0][0].isupper()) or found[0] == "A")
        if continues or word not in _READ | _SAID | _BESIDE:
            break
        mark = _MARK.match(unnumbered, found.end())
        before.append(word)
        numbered = _BEFORE_NUMBER.match(unnumbered, found.end()) is not None
        if _ends_frame(before, mark[1] if mark else "", numbered=numbered, framed=end > 0):
            end, before = mark.end() if mark else found.end(), []
    rest = sentence[end:].strip()
    for found in _BEHIND.finditer(rest):
        if _names_source(rest[found.end() :]):
            return rest[: found.start()] + rest[len(rest.rstrip(".。")) :]
    return rest


def _ends_frame(words: Sequence[str], mark: str, *, numbered: bool, framed: bool) -> bool:
    """Whether the first words of a sentence, up to a mark, are a frame: what follows is said, or answers."""
    *before, word = words
    read, answers, said, guessed = (not kind.isdisjoint(words) for kind in (_READ, _ANSWER, _SAID, _GUESSED))
    if word in _IS:
        # What is provided, or found, is no answer yet.
        reported = framed or (said and (read or guessed))
        inverted = read and words[0] in ("laut", "gemäss")
        return answers or inverted or (reported and before[-1:] in ([], ["it"], ["that"], ["es"]))
    if word in _THAT:
        return said and (read or guessed)
    sure = _is_assent(words)
    if mark.strip(",，"):
        return answers or sure or (read and said)
    attributed = read and (not _FROM.isdisjoint(words) or (said and words[0] in ("as", "in", "from")))
    return bool(mark and sure) or (attributed and bool(mark or (numbered and word in _READ)))


def _is_frame(sentence: str, *, alone: bool) -> bool:
    """Whether a sentence says nothing but that an answer was found, or is offered; alone on its line it has to end."""
    words, numbered = _words(sentence), _unnumbered(sentence) != sentence
    if (
        _LISTED.match(sentence)
        or _NO_FRAME.match(sentence)
        or not (_READ | _SAID | _POLITE | _BESIDE).issuperset(words)
    ):
        return False
    if alone and not numbered and not sentence.endswith((".", "!", ":", "。", "！", "：")):
        return False
    polite = not _POLITE.isdisjoint(words) and sum(word in _POLITE | _READ for word in words) > 1
    attributed = not _SAID.isdisjoint(words) and (len(words) > 2 or not _ANSWER.isdisjoint(words))
    return polite or attributed or (numbered and len(words) > 1) or _is_assent(words)


def _is_assent(words: Sequence[str]) -> bool:
    return [*words] == ["of", "course"] or (len(words) == 1 and words[0] in _SURE)


def _names_source(text: str) -> bool:
    words = _words(text)
    if text.startswith("today: "):
        # It stood behind the question.
        return True
    if len(words) < 2 and (_unnumbered(text) == text or _PLACE.match(text)):
        return False
    attributed = not _SAID.isdisjoint(words) or _unnumbered(text) != text or _ORIGIN.match(text) is not None
    return attributed and not _READ.isdisjoint(words) and (_READ | _SAID | _BESIDE).issuperset(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_unnumbered(text))]


def _unnumbered(text: str) -> str:
    """A text with blanks in the places of the numbers of what is read, and so of the same length."""
    return _NUMBERED.sub(lambda found: (found[1] or "").ljust(len(found[0])), text)
