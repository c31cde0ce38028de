"""Prompts and targets as the program sends and expects them, the pieces of them that never vary, and their tokens."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import dspy

from keqa.signatures.react import Turn, written_trajectory
from keqa.testbed import words
from keqa.testbed.skills import SKILLS
from keqa.testbed.skills.registry import Example

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers.decoders import Decoder
    from transformers import PreTrainedTokenizerFast


CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TURN = "<|im_start|>assistant\n"
"""What precedes everything the LM writes."""
END = "\n\n[[ ## completed ## ]]\n<|im_end|>\n"
"""What ends everything the LM writes; one token, and the end of a sequence."""

NUMBERED_VERDICTS = ('": true', '": false')
"""How the verdict on one of several is written, behind its number."""

_GAP, _NUMBER = "\ue000", "\ue001"
_TURNS = 8
_NUMBERED = 20
_SEARCH: Turn = (_GAP, "search", {"query": _GAP}, f'["{_GAP}"]')
_FINISH: Turn = (_GAP, "finish", {}, "Completed.")
_ADAPTER = dspy.ChatAdapter()


def conversation(signature: type[dspy.Signature], demos: Iterable[Example], inputs: dict[str, Any]) -> str:
    """Renders a prompt through DSPy's own adapter and the chat template, up to where the LM takes over."""
    return _written(_ADAPTER.format(signature, [{**given, **made} for given, made in demos], inputs)) + TURN


def turns(signature: type[dspy.Signature], demos: Iterable[Example]) -> str:
    """Renders demonstrations alone, as further turns of a conversation."""
    return _written(_ADAPTER.format(signature, [{**given, **made} for given, made in demos], {})[1:-1])


def _written(messages: Iterable[dict[str, Any]]) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def target(signature: type[dspy.Signature], outputs: dict[str, Any]) -> str:
    """Renders what the LM should write, with the end of its turn."""
    return f"{_ADAPTER.format_assistant_message_content(signature, outputs)}<|im_end|>\n"


def fixed_pieces(signature: type[dspy.Signature]) -> set[str]:
    """The strings of a signature's prompts and targets that hold no content, each to be one token."""
    pieces: set[str] = set()
    optional: list[dict[str, Any]] = [{}]
    for name in ("evidence", "triples", "thoughts", "verified", "reference", "findings"):
        if name in signature.input_fields:
            optional = [given | {name: value} for given in optional for value in ([], [_GAP])]
    if "thoughts" in signature.input_fields:
        optional = [given | {"passages": value} for given in optional for value in ([], [_GAP])]
    if "trajectory" in signature.input_fields:
        trajectories: list[list[Turn]] = [
            [],
            [_SEARCH] * _TURNS,
            *([*[_SEARCH] * count, _FINISH] for count in range(_TURNS)),
        ]
        optional = [{"trajectory": written_trajectory(turns)} for turns in trajectories]
    if "answer_type" in signature.input_fields:
        optional = [given | {"answer_type": kind, "choices": []} for given in optional for kind in ("short", "yes/no")]
    if "style" in signature.input_fields:
        optional = [given | {"style": style} for given in optional for style in ("sentence", "report")]
    for given in optional:
        inputs = {
            name: given.get(name, _without_content(info.annotation)) for name, info in signature.input_fields.items()
        }
        made = [_outputs(signature, variant) for variant in range(2)]
        text = "".join(conversation(signature, [(inputs, out)], inputs) + target(signature, out) for out in made)
        text = text.replace(TURN, TURN + _GAP).replace(END, _GAP + END + _GAP).replace(f'["{_NUMBER}"]', f"[{_GAP}]")
        for verdict in NUMBERED_VERDICTS:
            text = text.replace(verdict, _GAP + verdict + _GAP)
        instructions = signature.instructions.strip().splitlines()
        for line in instructions:
            text = text.replace(line.strip(), _GAP) if line.strip() else text
        pieces.update(piece for piece in text.split(_GAP) if len(piece.strip()) > 1)
        pieces.update(line.strip() for line in instructions if line.strip())
    return pieces


def _outputs(signature: type[dspy.Signature], variant: int) -> dict[str, Any]:
    """Outputs without content, in the two forms that some have: lists of something or nothing, a search or its end."""
    outputs: dict[str, Any] = {}
    for name, info in signature.output_fields.items():
        empty = _without_content(info.annotation)
        outputs[name] = empty[variant:] if isinstance(empty, list) else empty
    if "next_tool_name" in outputs:
        _, outputs["next_tool_name"], outputs["next_tool_args"], _ = _FINISH if variant else _SEARCH
    return outputs


def _without_content(annotation: Any) -> Any:
    if "dict[int, bool]" in str(annotation):
        return {number: number % 2 == 1 for number in range(1, _NUMBERED + 1)}
    if "dict[int" in str(annotation):
        return dict.fromkeys(range(1, _NUMBERED + 1), _GAP)
    if "list[int]" in str(annotation):
        return [_NUMBER]
    return [_GAP] if "list" in str(annotation) else _GAP


def contents(text: str) -> Iterator[str]:
    """Yields the stretches of content of a rendered conversation, for learning the vocabulary."""
    for line in re.sub(
        r"<\|im_start\|>system.*?objective is:|<\|im_\w+\|>|\[\[ ## \w+ ## \]\]", "\n", text, flags=re.S
    ).split("\n"):
        if line and not line.startswith("Respond with"):
            yield line.strip('[]"').replace('", "', " ")


_SEPARATORS = ['["', '", "', '"]']


def all_pieces() -> set[str]:
    """The strings that are one token each: the fixed pieces of every registered signature, turns and separators."""
    pieces = {piece for skill in SKILLS.values() for piece in fixed_pieces(skill.signature)}
    pieces |= {"<|im_start|>", "<|im_end|>\n", "<|im_start|>system\n", "<|im_start|>user\n", TURN, *_SEPARATORS}
    return pieces - {END}


def added_token(piece: str) -> "AddedToken":
    """A token that is found in the raw text and kept when decoding."""
    from tokenizers import AddedToken

    return AddedToken(piece, normalized=False)


def build_tokenizer(samples: Iterable[str], vocabulary: int = 3200) -> "PreTrainedTokenizerFast":
    """Builds the tokenizer.

    Every word starts with the mark of a space, at the start of a field as well as inside it, so that a name has one
    token wherever it stands: copying it then needs no translation. Text outside the vocabulary falls back to bytes.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
            pre_tokenizers.Punctuation("isolated"),
        ]
    )
    listed = [
        *words.FIRST_NAMES, *words.LAST_NAMES, *words.CITIES, *words.COUNTRIES, *words.LANGUAGES, *words.BRANDS,
        *words.ADJECTIVES, *words.NOUNS, *words.TRADES, *words.GAMES, *words.EVENTS, *words.OCCUPATIONS, *words.SOURCES,
        *words.MONTHS, *words.YEARS, *words.DAYS,
    ]  # fmt: skip
    draft = Tokenizer(models.BPE())
    draft.pre_tokenizer = split
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=["▁"], show_progress=False)
    letters = [chr(code) for code in range(33, 127)]
    draft.train_from_iterator([*(" ".join(listed) for _ in range(300)), *samples, " ".join(letters)], trainer)
    model = json.loads(draft.to_str())["model"]
    vocab: dict[str, int] = dict(model["vocab"])
    for token in ["<pad>", *(f"<0x{byte:02X}>" for byte in range(256))]:
        vocab[token] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(pair) for pair in model["merges"]], byte_fallback=True))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = text_decoder()
    tokenizer.add_special_tokens([AddedToken("<pad>", normalized=False), AddedToken(END, normalized=False)])
    tokenizer.add_tokens([added_token(piece) for piece in sorted(all_pieces())])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token=END, padding_side="left")
    fast.chat_template = CHAT_TEMPLATE
    return fast


def text_decoder() -> "Decoder":
    """How tokens become text again; a tokenizer of an older version gets it too when it is extended."""
    from tokenizers import decoders

    # What follows a separator carries the mark of a space that the text did not have.
    separators = [decoders.Replace(f"{opening} ", opening) for opening in ('["', '", "', '": "', "]]\n")]
    spaces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence([*spaces, *separators])
