"""The shipped LM's tokenizer: whole words for content, one token for each fixed piece of a prompt."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from keqa.testbed import words
from keqa.testbed.rendering import CHAT_TEMPLATE, END, TURN, fixed_pieces
from keqa.testbed.skills import SKILLS

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers.decoders import Decoder
    from transformers import PreTrainedTokenizerFast

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
    import json

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
