"""Between requests and tokens: prompts as a tokenizer's template writes them, and texts as they come out."""

import bisect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dspy import lm15

from keqa.storage.replies import quiet_litellm

PLAIN_STOP = "\n\nUser:"
_PLAIN_TURN = re.compile(r"(?<=\n)(?=(?:User|Assistant|System):)")

CONTROL_TOKEN = re.compile(
    r"<[|｜][^\s|｜<>]{1,64}[|｜]?>|<[A-Za-z_]{1,64}[|｜]>"
    r"|<(?:start|end)_of_(?:turn|image)>|</?(?:s|bos|eos|pad|unk)>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS)\]"
    r"|\[/?TOOL_(?:CALLS|RESULTS)\]|<</?SYS>>|</?(?:tool_call|tool_response|think|image|BOS_TOKEN|EOS_TOKEN|sop)>"
    r"|\[/?(?:THINK|IMG|gMASK)\]|<(?:unused|extra_id_)[0-9]{1,4}>"
)
"""Tokens by which the chat templates of common LMs mark turns, where a server reads them from text, too."""


class Texts:
    """A tokenizer, for many threads."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        self._pieces: dict[int, str] = {}
        self._control = _control_tokens(tokenizer)

    def stops(self, request: lm15.Request) -> tuple[str, ...]:
        """What ends a text: the request's own strings, and the next turn where there is no chat template."""
        return (*request.config.stop, *(() if self.tokenizer.chat_template else (PLAIN_STOP,)))

    def encode(self, request: lm15.Request) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The prompt's tokens, and where in them the system message and the messages before the last one end."""
        messages = [{**one, "content": self._as_text(one["content"])} for one in messages_of(request)]
        # A last message of the assistant's is a reply that has begun, and is continued.
        begun = messages.pop()["content"] if len(messages) > 1 and messages[-1]["role"] == "assistant" else ""
        text = self.render(messages) + (begun if self.tokenizer.chat_template or not begun else f" {begun}")
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return tuple(self.tokens(text)), ()
        encoding = backend.encode(text, add_special_tokens=False)
        ends = [end for _, end in encoding.offsets]
        first, last = messages[0]["content"], messages[-1]["content"]
        borders = []
        if len(messages) > 1 and (at := text.find(first)) >= 0:
            borders.append(at + len(first))
        if len(messages) > 2 and (at := text.rfind(last)) >= 0:
            borders.append(at)
        return tuple(encoding.ids), tuple(sorted({bisect.bisect_right(ends, border) for border in borders}))

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text that is made already, such as a prompt."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return list(backend.encode(text, add_special_tokens=False).ids)
        with self._lock:
            return list(self.tokenizer.encode(text, add_special_tokens=False))

    def conversation(self, messages: Sequence[Mapping[str, str]], reply: str) -> tuple[str, str]:
        """The prompt that messages become, and the same with a reply to them and what ends it."""
        shown = [{**one, "content": self._as_text(one["content"])} for one in messages]
        prompt, answer = self.render(shown), self._as_text(reply)
        if not self.tokenizer.chat_template:
            return prompt, f"{prompt} {answer}{PLAIN_STOP}"
        turns = [*shown, {"role": "assistant", "content": answer}]
        whole = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=False)
        # A template may leave something out of what is over, such as an empty thought that the prompt ends with.
        return prompt, str(whole) if str(whole).startswith(prompt) else f"{prompt}{answer}"

    def _as_text(self, content: str) -> str:
        """The content of a message, without what the tokenizer would read as the end of it or as the next turn."""
        for token in self._control:
            content = content.replace(token, f"{token[0]} {token[1:]}")
        return content if self.tokenizer.chat_template else _PLAIN_TURN.sub(" ", content)

    def render(self, messages: list[dict[str, str]]) -> str:
        """The prompt, by the tokenizer's template or in plain turns where it has none."""
        if not self.tokenizer.chat_template:
            turns = [f"{message['role'].capitalize()}: {message['content']}" for message in messages]
            return (self.tokenizer.bos_token or "") + "\n\n".join([*turns, "Assistant:"])
        from jinja2 import TemplateError

        try:
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except TemplateError:
            if len(messages) < 2 or messages[0]["role"] != "system":
                raise
            # Some templates know no system message; it then opens the first turn.
            joined = {**messages[1], "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
            return self.render([joined, *messages[2:]])

    def ended(self, stops: tuple[str, ...]) -> Callable[[list[int]], bool]:
        """Whether tokens hold a stop string; looks closer only after a token that can end one."""
        if not stops:
            return lambda drawn: False
        finals = {stop[-1] for stop in stops} | {"\N{REPLACEMENT CHARACTER}"}
        reach = max(len(stop.encode()) for stop in stops) + 1

        def ended(drawn: list[int]) -> bool:
            if finals.isdisjoint(self.piece(drawn[-1])):
                return False
            tail = self.decode(drawn[-reach:])
            return any(stop in tail for stop in stops)

        return ended

    def piece(self, token: int) -> str:
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self.decode([token], special=True)
        return piece

    def decode(self, tokens: list[int], *, special: bool = False) -> str:
        with self._lock:
            return str(self.tokenizer.decode(tokens, skip_special_tokens=not special))


def _control_tokens(tokenizer: Any) -> list[str]:
    """The tokens that structure what a model reads, without longer ones that hold another, which are text as well."""
    added = [(token.content, token.special) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()]
    listed = {token for token, special in added if special or CONTROL_TOKEN.search(token)}
    least: list[str] = []
    for token in sorted({*listed, *tokenizer.all_special_tokens} - {""}, key=len):
        if not any(other in token for other in least):
            least.append(token)
    return least


def check_request(request: lm15.Request) -> None:
    """Refuse what a local model cannot do, rather than ignore it."""
    config = request.config
    asked = {
        "tools": bool(request.tools),
        "response_format": config.response_format is not None,
        "frequency_penalty": bool(config.frequency_penalty),
        "presence_penalty": bool(config.presence_penalty),
        "probabilities": config.probabilities is not None,
        **{name: True for name in config.extensions or {}},
    }
    refused = sorted(name for name, wanted in asked.items() if wanted)
    if refused:
        raise lm15.UnsupportedFeatureError(f"a local LM does not support {', '.join(refused)}")


def messages_of(request: lm15.Request) -> list[dict[str, str]]:
    system = request.system
    if system is not None and not isinstance(system, str):
        system = "".join(getattr(part, "text", "") for part in system)
    messages = [{"role": "system", "content": system}] if system else []
    for message in request.messages:
        if any(part.type != "text" for part in message.parts):
            raise lm15.UnsupportedFeatureError("a local LM reads text only")
        role = "system" if message.role == "developer" else message.role
        messages.append({"role": role, "content": "".join(part.text for part in message.parts)})
    return messages


def stop_tokens(model: Any, tokenizer: Any) -> set[int]:
    """The tokens that end a text, by the model's configuration or its tokenizer's."""
    ends = [getattr(model.generation_config, "eos_token_id", None), model.config.eos_token_id, tokenizer.eos_token_id]
    return {token for end in ends if end is not None for token in (end if isinstance(end, list) else [end])}


def cut_to_tokens(lm: Any, text: str, most: int) -> tuple[str, int]:
    """The beginning of a text, as it was where it is no longer, and how many tokens it has.

    A model in this process counts with its own tokenizer. Which one a served model has is not known here, and none is
    fetched: those are counted by the one that LiteLLM brings (cl100k).
    """
    if most < 1:
        return "", 0
    tokenizer = getattr(getattr(getattr(lm, "engine", None), "texts", None), "tokenizer", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        offsets = backend.encode(text, add_special_tokens=False).offsets
        return (text, len(offsets)) if len(offsets) <= most else (text[: offsets[most - 1][1]].rstrip(), most)
    if tokenizer is not None:
        found, decode = tokenizer.encode(text, add_special_tokens=False), tokenizer.decode
    else:
        litellm = quiet_litellm()
        found = litellm.encode(model="", text=text)

        def decode(tokens: list[int]) -> str:
            # A character may be cut in the middle of its bytes.
            return str(litellm.decode(model="", tokens=tokens)).rstrip("\ufffd")

    return (text, len(found)) if len(found) <= most else (str(decode(found[:most])).rstrip(), most)
