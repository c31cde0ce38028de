"""Text from outside in prompts, which cannot close or open a field in any adapter, and what of a reply is an answer.

`Guarded` stands before any adapter of DSPy and breaks up what adapters and chat templates take for structure, so that
it stays visible and is nothing but text. Text that holds no such thing passes through unchanged.

Weak models write the frame of an answer, ``[]`` or "The answer is:", and leave it empty; or they answer and then ramble
on until the token limit, or spoil a marker. Half an answer must not pass for one: of a reply that cannot be used as a
whole, the answer's first line counts where it is complete, and of a line that was cut off its complete sentences do.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile
from typing import Any

import dspy
from dspy.adapters.types.base_type import CUSTOM_TYPE_END_IDENTIFIER, CUSTOM_TYPE_START_IDENTIFIER

from keqa.lms.local.tokenizing import CONTROL_TOKEN
from keqa.metrics.answers import UNKNOWN, is_abstention, same_answer, verdict_in
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.predictor import demos_of
from keqa.programs.framing import NAMED, stated
from keqa.programs.numerals import in_digits
from keqa.programs.sentences import content_words, names_of, stands_in, words_of
from keqa.retrievers.splitting import stripped_sentences
from keqa.signatures.chat_format import MAX_ANSWER_CHARS, broken_up, sections, without_completed
from keqa.signatures.react import TURN_MARKER

# Between these DSPy takes JSON in any message for parts of other kinds, such as an image that is fetched.
_CUSTOM_TYPE = re.compile("|".join(map(re.escape, (CUSTOM_TYPE_START_IDENTIFIER, CUSTOM_TYPE_END_IDENTIFIER))))
# Line ends as `str.splitlines` knows them; an adapter may, too.
_LINE_START = r"(?:^|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))[ \t]*+"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS_IN_A_ROW = 30
_FOREIGN = re.compile(rf"[^\x00-\u02ff]{{{_MARKS_IN_A_ROW + 1},}}")
_DEEPEST = 50


class Guarded:
    """An adapter before which inputs and demonstrations are made harmless, and behind which replies are made sound."""

    def __init__(self, adapter: dspy.Adapter) -> None:
        self.adapter = adapter

    def __call__(self, lm: Any, lm_kwargs: dict[str, Any], **asked: Any) -> list[dict[str, Any]]:
        described = self._described(**asked)
        return _heard(described[0], self.adapter(lm, lm_kwargs, *described))

    async def acall(self, lm: Any, lm_kwargs: dict[str, Any], **asked: Any) -> list[dict[str, Any]]:
        described = self._described(**asked)
        return _heard(described[0], await self.adapter.acall(lm, lm_kwargs, *described))

    def _described(
        self, signature: type[dspy.Signature], demos: Sequence[Any], inputs: Mapping[str, Any]
    ) -> tuple[type[dspy.Signature], list[dict[str, Any]], dict[str, Any]]:
        safe = harmless_in(self.adapter, signature)

        def fields(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
            return {name: _each(safe[name], value) if name in safe else value for name, value in values}

        return signature, [fields(demo.items()) for demo in demos], fields(inputs.items())


def sound(text: str) -> str:
    """A text of a reply that everything after it can hold and read in a time that grows with its length.

    Lone surrogates, which no encoding holds, are replaced. Of combining marks in a row 30 are kept, as in Unicode's
    stream-safe format (UAX 15): no script has so many, and normalising more takes the square of their number.
    """
    if text.isascii():
        return text
    text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return _FOREIGN.sub(_fewer_marks, text)


def _fewer_marks(found: re.Match[str]) -> str:
    kept, row = [], 0
    for char in found[0]:
        row = row + 1 if unicodedata.combining(char) else 0
        if row <= _MARKS_IN_A_ROW:
            kept.append(char)
    return "".join(kept)


def _heard(signature: type[dspy.Signature], outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    fields = signature.output_fields
    return [{name: _each(sound, value) if name in fields else value for name, value in one.items()} for one in outputs]


_Pattern = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def harmless_in(adapter: dspy.Adapter, signature: type[dspy.Signature]) -> dict[str, Callable[[str], str]]:
    """For each field of a signature what makes a text from outside harmless in a prompt that an adapter writes."""
    chat = isinstance(adapter, dspy.ChatAdapter)
    json = isinstance(adapter, dspy.JSONAdapter) or (chat and adapter.use_json_adapter_fallback)
    structure = _structure(tuple(signature.fields), tuple(signature.output_fields), not chat, json)

    def plain(text: str) -> str:
        text = broken_up(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))
        for pattern, broken in structure:
            text = pattern.sub(broken, text)
        return text

    def turns(text: str) -> str:
        # What stands between the turns' own markers is from outside; `written_trajectory` leaves no others in it.
        pieces = TURN_MARKER.split(text)
        return "".join(piece if at % 2 else plain(piece) for at, piece in enumerate(pieces))

    return {name: turns if name == "trajectory" else plain for name in signature.fields}


@lru_cache(maxsize=256)
def _structure(fields: tuple[str, ...], outputs: tuple[str, ...], labels: bool, keys: bool) -> list[_Pattern]:
    """What opens and closes fields, besides markers: each pattern with what it becomes."""
    names = "|".join(map(re.escape, fields))
    found: list[_Pattern] = [
        (re.compile(rf"<(?=/?(?:{names})\b)", re.IGNORECASE), "< "),
        (CONTROL_TOKEN, lambda token: f"{token[0][0]} {token[0][1:]}"),
        (_CUSTOM_TYPE, lambda marker: f"{marker[0][0]} {marker[0][1:]}"),
    ]
    if labels:
        # Adapters that are none of DSPy's chat adapters write fields as "name: value".
        found.append((re.compile(rf"({_LINE_START})(?=(?:{names})[^\S\n]*:)", re.IGNORECASE | re.MULTILINE), r"\1> "))
    if keys:
        # A reply in JSON may quote its inputs before its own object, and lenient readers take the first they find.
        own = "|".join(map(re.escape, outputs))
        key = rf"((?:\A|[{{,\n])[ \t]*+|[\"'`“”‘’])({own})(?=[\"'`“”‘’]?\s*:)"
        found.append((re.compile(key), r"\1(\2)"))
        found.append((re.compile(r"\\(?=u00[0-9a-fA-F]{2})"), r"\\ "))
    return found


def _each(change: Callable[[str], str], value: Any, deepest: int = _DEEPEST) -> Any:
    """A value with every text in it changed; what is neither text nor a container of texts stays."""
    if isinstance(value, str):
        return change(value)
    if deepest and type(value) is dict:
        return {_each(change, key, 0): _each(change, item, deepest - 1) for key, item in value.items()}
    if deepest and type(value) in (list, tuple):
        return type(value)(_each(change, item, deepest - 1) for item in value)
    return value


# The marker of a field, maybe with less than it should have, and the fences of code.
_MARKER = re.compile(
    r"(?<!\[)\[++\s*+#++[^\S\n]*+(?:answer\w*+|completed|question|quiz|reasoning|explanation)?+[^\S\n]*+#*+[^\S\n]*+\]*+"
    r"(?!\w)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[^\S\n]*+```(?:json|markdown|plaintext|python|text)?+[^\S\n]*+$", re.MULTILINE)
_EMPTY = re.compile(r"[\[【［]\s*+[\]】］]")
# Inputs that are lists are numbered so.
_POINTER = re.compile(r"[\[【［]\s*+\d{1,2}(?:\s*+,\s*+\d{1,2})*+\s*+[\]】］]")
_BESIDE = " \t\n.,;*。，、"
_WORD = re.compile(r"\w+")
_BEFORE_ANSWER = {"so", "thus", "therefore", "the", "my", "your", "final", "correct", "short"}
_CHINESE = {"答", "答案", "回答", "答案是", "答案为", "正确答案", "正确答案是"}
# In the middle of a line it is a part of a sentence.
_ENDED = re.compile(r"(?<!\[)\[++[^\S\n]*+#++[^\S\n]*+completed\b[^\S\n]*+#*+[^\S\n]*+\]*+[^\S\n]*+(?=\n|\Z)")
# As in `keqa.signatures.chat_format`, at the start of a line; written with less care.
_FIELD = re.compile(
    r"^[^\S\n]*(?:\[\[++[^\S\n]*#|\[[^\S\n]*##)#*+[^\S\n]*(?:(\w+)[^\S\n]*(#++[^\S\n]*\]++)?)?", re.MULTILINE
)
_COMPLETED = "completed"
# What is left of that marker where a reply ends within it.
_ENDING = re.compile(r"\[++[^\S\n]*#++[^\S\n]*(\w*)[^\S\n]*#*+[^\S\n]*\]*+\s*\Z")
_ENDING_CHARS = 60
_REFERENCE = re.compile(r"#\d+")
NO_VERDICT = "NoVerdict"
"""The cause where an answer, or what a judge says, is no verdict."""
COPIED = "CopiedDemonstrationError"
"""The cause where a reply copies a demonstration instead of reading what it is asked."""
# What stands before an answer in a reply without markers, what no such reply is, and how long it is at most.
_ANNOUNCED = re.compile(r"(?:(?:the|my)\s+)?(?:\w+\s+)?answer\s*+(?:is\b\s*+:?|:)\s*+", re.IGNORECASE)
_STRUCTURED = re.compile(r"\[\[|##|```|\A[\[{<]")
_SHORT = 200
# Few words without a mark have nothing around them, but for “It was”.
_BARE = re.compile(r"\w[\w'’.-]*(?: [\w'’.-]+){0,2}")


def text_of(value: object) -> str:
    """A text output as the program uses it: stripped, and up to the marker of its end, however that is written."""
    text = without_completed(str(value or "")).strip()
    before, marker, _ = _ENDED.sub("\0", text, count=1).partition("\0")
    return before.strip() if marker and before.strip() else text


def answer_of(value: object, question: str = "", choices: Sequence[str] = ()) -> str:
    """An answer as the program uses it: what the text states, and nothing that stands around it.

    One of the choices is itself: of code, quotation marks may tell two apart.
    """
    text = text_of(value)
    return text if (_BARE.fullmatch(text) and not NAMED.fullmatch(text)) or text in choices else stated(text, question)


def refusing_empty(
    choices: Sequence[str] = (), *, numbered: bool = False, last: bool = False, one_of: Sequence[str] = ()
) -> Callable[[dspy.Prediction], None]:
    """What refuses an answer that says nothing, or is none of those wanted; no option, nor brackets `last`."""

    def check(prediction: dspy.Prediction) -> None:
        answer = text_of(prediction.answer)
        empty = says_nothing(answer, numbered=numbered and not choices, brackets=not last)
        if empty and not any(same_answer(answer, one, "choice", choices) for one in choices):
            raise CallError("EmptyAnswerError", "the answer was empty", unusable=True)
        answer_type = "choice" if choices else "yes/no"
        named = any(same_answer(answer, one, answer_type, choices) for one in one_of)
        if one_of and not named and not is_abstention(answer, choices):
            wanted = "one of the choices" if choices else "yes or no"
            raise CallError(NO_VERDICT, f"{answer!r} is not {wanted}", unusable=True)

    return check


def says_nothing(text: str, *, numbered: bool = False, brackets: bool = True) -> bool:
    """Whether a text is empty but for markers and the like, pointers to `numbered` inputs and empty `brackets`."""
    bare = _FENCE.sub("", _MARKER.sub("", text))
    bare = _EMPTY.sub("", bare) if brackets else bare
    bare = _POINTER.sub("", bare) if brackets and numbered else bare
    bare = "\n".join(line for line in bare.splitlines() if not _announces(line))
    return not (bare.strip() if bare == text else bare.strip(_BESIDE))


def _announces(line: str) -> bool:
    """Whether a line says that an answer follows, such as "The answer to the question is:", and no more."""
    words = [word.casefold() for word in _WORD.findall(line)]
    end = len(line)
    while end and not line[end - 1].isalnum():
        end -= 1
    colon = not {":", "："}.isdisjoint(line[end:])
    if words and words[0] in _CHINESE:
        return len(words) == 1 and colon
    rest = list(dropwhile(_BEFORE_ANSWER.__contains__, words))
    if rest[:1] != ["answer"]:
        return False
    return rest[1:] == ["is"] or (rest[1:2] in ([], ["to"]) and (colon or rest[-1] == "is"))


class Draft:
    """The value of a field while its reply is written: what can be the beginning of a marker is held back."""

    def __init__(self, field: str) -> None:
        self._field, self._reply, self._sent = field, "", ""

    def take(self, words: str | None) -> list[tuple[int, str]]:
        """The next words of the reply, None where it begins; what is new of the value, and where in it that stands."""
        self._reply = "" if words is None else self._reply + words
        value = next((self._reply[one.start : one.end] for one in sections(self._reply) if one.name == self._field), "")
        before, line_break, last = value.rpartition("\n")
        held = last.lstrip().startswith(("[", "`"))
        ready = sound(before if held and line_break else "" if held else value).strip()
        common = len(self._sent) if ready.startswith(self._sent) else 0
        changed, self._sent = ready != self._sent, ready
        return [(common, ready[common:])] if changed and ready else []


def first_line(reply: str, field: str) -> str | None:
    """The first line of a field's value that says something; of a field named twice that of the last.

    A reply ends with a line break unless it was cut off; of a line that was, the complete sentences count. Where the
    reply was cut off while it said again what it had said before, it is the line that is said again.
    """
    markers = list(_FIELD.finditer(reply))
    ends = [*(marker.start() for marker in markers[1:]), len(reply)]
    named = [
        reply[marker.end() : end]
        for marker, end in zip(markers, ends, strict=False)
        if marker[2] and marker[1].casefold() == field.casefold()
    ]
    if not named:
        return None
    line = _first_complete(named[-1])
    if line is None and len(named) > 1:
        before, again = _first_complete(named[-2]), named[-1].strip()
        return before if again and before is not None and before.startswith(again) else None
    return line


def only_line(reply: str) -> str | None:
    """A reply that is one short line without any marker, and without what announces an answer in it; else None."""
    line = reply.strip()
    if not reply.endswith("\n") or "\n" in line or len(line) > _SHORT or _STRUCTURED.search(line):
        return None
    line = _ANNOUNCED.sub("", line, count=1) if _ANNOUNCED.match(line) else line
    return line if any(map(str.isalnum, line)) and not says_nothing(line, numbered=True) else None


def _first_complete(value: str) -> str | None:
    ending = _ENDING.search(value, max(0, len(value) - _ENDING_CHARS))
    if ending and _COMPLETED.startswith(ending[1].casefold()):
        # The last line ends with the marker ``completed``, or with a part of it: without it, it is whole.
        value = f"{value[: ending.start()]}\n"
    *whole, cut = value.split("\n")
    found = [*whole, " ".join(stripped_sentences(cut)[:-1])]
    found = [line for line in found if len(line) <= MAX_ANSWER_CHARS]
    telling = (line for line in found if any(char.isalnum() for char in line) and not says_nothing(line, numbered=True))
    return next((line.strip() for line in telling), None)


class Copies:
    """Refuses what stands in a demonstration of the prompt and not in its inputs; then none is shown any more."""

    def __init__(self, predictor: dspy.Predict, inputs: Mapping[str, Any], field: str = "answer") -> None:
        """Set up for a call and its further attempts; `inputs` are all that the prompt says beside demonstrations."""
        self._shown = [set(words_of(str(dict(demo)))) for demo in demos_of(predictor)]
        asked = (inputs.get(name) for name in predictor.signature.input_fields if name != "answer_type")
        texts = [text for value in asked for text in _texts_in(value)]
        if self._shown:
            texts += [in_digits(text) for text in texts]
        self._inputs = {word for text in texts for word in words_of(text)}
        self._field = field
        self._found = self._left_out = False

    def demos(self, attempt: int) -> Callable[[], Sequence[Any]] | None:
        """Finds no demonstrations once something was copied from one; None where any may do."""
        self._left_out = self._found and attempt > 0
        return list if self._left_out else None

    def hear(self, error: CallError) -> None:
        """Know of a reply that was refused for this when it came, and is told of again."""
        self._found |= error.cause == COPIED

    def check(self, prediction: dspy.Prediction) -> None:
        """Raise a `CallError` where the field holds what was copied; of a list, such as quizzes, names alone count."""
        value = prediction[self._field]
        listed = isinstance(value, list)
        for text in map(str, value) if listed else [text_of(value)]:
            if self.found_in(text, names=listed):
                raise CallError(COPIED, f"{text!r} is of a demonstration, and not of what was asked", unusable=True)

    def found_in(self, text: str, *, names: bool = False) -> bool:
        """Whether a text was copied, and is no yes, no or refusal; of a quiz its `names` alone count."""
        if self._left_out or _needs_no_words(text):
            return False
        # The first word counts as well; the number of a reference is no number.
        named = names_of(f": {_REFERENCE.sub('', text)}")
        phrases = named if names else [content_words(text)]
        # What begins with yes or no says more than that, and so does a part that is marked as unknown.
        phrases = [[word for word in words if word != UNKNOWN and not verdict_in(word)] for words in phrases]
        lacking = [[word for word in words if not stands_in(word, self._inputs)] for words in phrases]
        telling = {word for name in named for word in name}
        copied = [
            missing
            for missing, words in zip(lacking, phrases, strict=True)
            if missing and (missing == words or not telling.isdisjoint(missing))
        ]
        here = any(demo.issuperset(words) for words in copied for demo in self._shown)
        self._found |= here
        return here

    def touched_by(self, text: str) -> bool:
        """Whether a text has a word of the inputs, or needs none, so that it is about what was asked."""
        words = content_words(text) or words_of(text)
        return _needs_no_words(text) or any(stands_in(word, self._inputs) for word in words)


def _texts_in(value: Any) -> Iterable[str]:
    return [value] if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value or ()


def _needs_no_words(text: str) -> bool:
    return is_abstention(text) or text.casefold().strip(" .") in ("yes", "no", "true", "false")
