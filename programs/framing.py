"""What a reply states, without the words around it that say only that something was read, or that an answer follows.

Models that are tuned for conversation reply "According to the documents, the answer is 1871. I hope this helps!" where
"1871" is asked for. What stands around it is in no passage, and has no place in a quiz that builds on the answer.
"""

import re

from keqa.retrievers.splitting import stripped_sentences
from keqa.retrievers.text import UNSPACED

# What is read, what is said of it, and what else stands beside these: nothing of it belongs to an answer.
_READ = frozenset(
    "passage passages document documents text texts context information source sources excerpt excerpts article "
    "articles question quiz dokument dokumente dokumenten texten passagen abschnitt unterlagen quelle quellen kontext "
    "informationen angaben frage contexte informations texte textes documento documentos texto textos pasaje pasajes "
    "fuente fuentes contexto información pregunta".split()
)
_SAID = frozenset(
    "according based state states stated say says said mention mentions mentioned indicate indicates indicated show "
    "shows provided given described found answer answers note seems appears think believe certainly sure laut gemäß "
    "antwort lautet natürlich gerne bereitgestellten gegebenen vorliegenden angegebenen selon après réponse fournis "
    "fournies donnés según acuerdo respuesta proporcionados proporcionadas proporcionado proporcionada".split()
)
_POLITE = frozenset("hope helps help let know questions other further anything else feel free ask great".split())
_BESIDE = frozenset(
    "the a an this that these it its is are was were be as to in on of from by for at i my we you your me if have any "
    "so therefore thus hence final correct short clearly explicitly above following available course please der die "
    "das den dem des auf diese deine ihre nach aus zu dass ist le la les l d de du à cette votre dans que est el los "
    "las una esta su con en es".split()
)
_ENDING_A_FRAME = frozenset("that is are was were dass ist lautet que est es".split())
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")
# Of what is read a number may tell which: “passages 1 and 3”, and “1†source”.
_NUMBERED = re.compile(
    rf"\b({'|'.join(_READ)})(\s+\d{{1,3}}(?:\s+(?:and|und|et|y)\s+\d{{1,3}})?\b(?![.,]?\d))|\b(\d{{1,3}}†)",
    re.IGNORECASE,
)
_COMMA = re.compile(r"[”\"'’»]?\s*[,:，：!]+")
_COMMA_OR_NUMBER = re.compile(rf"{_COMMA.pattern}|\s+(?=\d)")
_UNSPACED_FRAME = re.compile(
    r"(?:(?:根据|根據|依据|依據|按照)(?:所?提供的|给定的|給定的|上述|以上|这些|這些|该|該)?"
    r"(?:文档|文檔|文件|段落|资料|資料|文本|信息|资讯|資訊|内容|內容|上下文|文章)(?:中?的?(?:内容|內容|信息))?[，,：:\s]*"
    r"|(?:文書|資料|文章|本文|(?:提供された)?情報)に(?:よると|よれば)[、,\s]*"
    r"|(?:(?:这个|该|該|此)?(?:问题|問題)的?)?答案(?:是|为|為|：)\s*)+"
)
# The point of a list that has one, and what is a quotation, or code, as a whole.
_BULLET = re.compile(r"[-*•]\s+")
_ENCLOSED = re.compile(r"[“\"„«`]\s*([^“”\"„«»`]+?)\s*[”\"“»`]")
_IN_BRACKETS = re.compile(r"\s*[(（【]([^()（）【】]*)[)）】]")
_BEHIND = re.compile(r"[\s,;–—]+(?=(?:according|as|based|which|laut|gemäß|selon|d['’]après|según)\b)", re.IGNORECASE)
_SHORTEST = 12
"""A question of fewer characters, or of half as many in a script without spaces, may be an answer's own words."""
_LONGEST = 1_000
"""What is longer was written, and is no short answer; it would take the square of its length."""


def stated(text: str, question: str = "") -> str:
    """What a reply to a question states; all of it where nothing else is left."""
    if len(text) > _LONGEST:
        return text
    said = text
    if len(question) + len(_UNSPACED.findall(question)) >= _SHORTEST:
        said = re.sub(re.escape(question), " ", text, flags=re.IGNORECASE)
    said = _IN_BRACKETS.sub(lambda found: "" if _says_where(found[1]) else found[0], said)
    sentences = [one for line in said.splitlines() for one in stripped_sentences(line)]
    telling = next((one for one in sentences if not _is_frame(one)), None)
    if telling is not None:
        for frame in filter(_is_frame, sentences):
            said = said.replace(frame, "", 1)
        said = said.replace(telling, _without_frame(telling), 1)
    said = said.strip()
    if not any(map(str.isalnum, said)):
        return text
    if "\n" in said:
        return said
    # The stop ended what is gone.
    said = said if said == text else said.rstrip(".。")
    whole = _ENCLOSED.fullmatch(said := _BULLET.sub("", said, count=1) if _BULLET.match(said) else said)
    return whole[1] if whole else said


def _without_frame(sentence: str) -> str:
    """A sentence without the frame that it begins with, and without what it ends with to say where it was read."""
    if unspaced := _UNSPACED_FRAME.match(sentence):
        return sentence[unspaced.end() :]
    end, said, unnumbered = 0, False, _unnumbered(sentence)
    for found in _WORD.finditer(unnumbered):
        word = found[0].casefold()
        # Within a frame, A is the first of several.
        if word not in _READ | _SAID | _BESIDE or (found[0] == "A" and found.start()):
            break
        said = said or word in _SAID
        comma = (_COMMA_OR_NUMBER if word in _READ else _COMMA).match(unnumbered, found.end())
        if said and (comma or word in _ENDING_A_FRAME):
            end = comma.end() if comma else found.end()
    rest = sentence[end:].strip()
    for found in _BEHIND.finditer(rest):
        if _says_where(rest[found.end() :]):
            return rest[: found.start()] + rest[len(rest.rstrip(".。")) :]
    return rest


def _is_frame(sentence: str) -> bool:
    """Whether a sentence says nothing but that an answer was found, or is offered."""
    telling, words = _READ | _SAID | _POLITE, _words(sentence)
    return not telling.isdisjoint(words) and (telling | _BESIDE).issuperset(words)


def _says_where(text: str) -> bool:
    words = _words(text)
    told = len(words) > 1 or _unnumbered(text) != text
    return told and not _READ.isdisjoint(words) and (_READ | _SAID | _BESIDE).issuperset(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_unnumbered(text))]


def _unnumbered(text: str) -> str:
    """A text with blanks in the places of the numbers of what is read, and so of the same length."""
    return _NUMBERED.sub(lambda found: (found[1] or "").ljust(len(found[0])), text)
