"""Fine-tuning a causal LM of this process on conversations: LoRA through peft, or all weights of a small model.

One loop, on CPU or GPU, for DSPy's ``BootstrapFinetune``, for ``keqa compile --optimizer finetune`` and for boundary
models. It may be killed at any time: the same call on the same folder resumes from its last checkpoint, and ends with
the same weights as a run that was never stopped. Nothing is pickled.

A model is trained on what it is to write, as `keqa.lms.local.tokenizing` would show it the prompt, and on nothing else.
"""

import hashlib
import json
import math
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keqa.errors import ConfigurationError, InputError, MissingExtraError
from keqa.lms.local.tokenizing import Texts, stop_tokens
from keqa.lms.local.weights import TRAINING, fingerprint, is_adapter, load_for_training, place_of_model
from keqa.storage.files import atomic_write, check_replaceable, open_locked
from keqa.storage.untrusted import reasons

Progress = Callable[[int, int, float], None]
"""Called after each step with its number, how many there are, and the loss."""

_CHECKPOINT, _LOCK = "checkpoint.safetensors", "lock"
_OWNED = frozenset((_CHECKPOINT, f".{_CHECKPOINT}.new", f".{TRAINING}.new", _LOCK))
_WARM_LOSSES = 20


@dataclass(frozen=True)
class SoftChoice:
    """A place in a reply where several texts may stand, each with a probability of its own."""

    at: int
    shares: Mapping[str, float]


@dataclass(frozen=True)
class TrainingConversation:
    """What a model reads, and what it is to write then."""

    messages: Sequence[Mapping[str, str]]
    reply: str
    soft: Sequence[SoftChoice] = ()

    @classmethod
    def of(cls, data: Any) -> Self:
        """A conversation in the form of DSPy and others: ``{"messages": [...]}``, the last one the assistant's."""
        messages = data.get("messages") if isinstance(data, Mapping) else None
        texts = [one for one in messages or () if isinstance(one, Mapping) and isinstance(one.get("content"), str)]
        if not messages or len(texts) != len(messages) or len(texts) < 2 or texts[-1].get("role") != "assistant":
            raise InputError("a conversation to train on is a list of messages of text, the last one the assistant's")
        return cls([{"role": str(one["role"]), "content": one["content"]} for one in texts[:-1]], texts[-1]["content"])


_Count = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(ge=0, lt=1)]


class TrainingOptions(BaseModel):
    """How to train."""

    model_config = ConfigDict(strict=True, frozen=True)

    method: Literal["lora", "full"] = "lora"
    rank: _Count = 16
    alpha: _Count = 32
    dropout: _Share = 0.0
    epochs: _Count = 3
    batch: _Count = 4
    rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    warmup: _Share = 0.02
    longest: _Count = 1580
    seed: Annotated[int, Field(ge=0)] = 0
    checkpoint_seconds: float = 120.0
    device: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Options by name, as ``train_kwargs`` has them."""
        if unknown := sorted({*map(str, values)} - {*cls.model_fields}):
            known = ", ".join(cls.model_fields)
            raise ConfigurationError(f"there is no option {unknown[0]!r:.60} of training; those are: {known}")
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigurationError(f"an option of training cannot be used: {reasons(error)}") from None

    def spec(self) -> dict[str, Any]:
        """What the result depends on."""
        return self.model_dump(
            exclude={"checkpoint_seconds", "device", *(("rank", "alpha", "dropout") if self.method == "full" else ())}
        )


@dataclass(frozen=True)
class FineTuned:
    """A finished training."""

    folder: Path
    steps: int
    minutes: float
    conversations: int
    left_out: int
    loss: float

    @property
    def model(self) -> str:
        return f"transformers/{self.folder}"


def training_digest(model: str, conversations: Sequence[TrainingConversation], options: TrainingOptions) -> str:
    """What distinguishes a training from others: its model's weights, its conversations and its options."""
    shown = [
        [list(map(dict, one.messages)), one.reply, [[s.at, dict(s.shares)] for s in one.soft]] for one in conversations
    ]
    found = {"weights": fingerprint(place_of_model(model)), "shown": shown, "options": options.spec()}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def fine_tune(
    model: str,
    conversations: Sequence[TrainingConversation],
    folder: str | Path,
    options: TrainingOptions | None = None,
    *,
    progress: Progress = lambda step, steps, loss: None,
    stopped: Callable[[], bool] = lambda: False,
) -> FineTuned:
    """Train a model of this process, or resume where an earlier call on the same folder was stopped.

    What is finished there already is returned at once. `stopped` is asked after each step; True writes a checkpoint and
    ends the training.
    """
    options, folder, source = options or TrainingOptions(), Path(folder).expanduser().resolve(), place_of_model(model)
    if is_adapter(source):
        raise ConfigurationError(f"{model} is an adapter; train its base, on all that the result shall be able to do")
    if not conversations:
        raise InputError("there is nothing to train on")
    run = training_digest(model, conversations, options)
    if (done := _finished(folder, run)) is not None:
        return done
    # Files of a model without the note that ends a training are what a kill left of writing them.
    if not (folder / _LOCK).exists():
        check_replaceable(folder, _OWNED)
    folder.mkdir(parents=True, exist_ok=True)
    with open_locked(folder / _LOCK, "another training", "name another folder", lock_only=True):
        if (done := _finished(folder, run)) is not None:
            return done
        return _Training(model, source, conversations, folder, options, run).run(progress, stopped)


def _finished(folder: Path, run: str) -> FineTuned | None:
    """What a finished training left behind, where it was this one."""
    if not (folder / TRAINING).is_file():
        return None
    try:
        found = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
        numbers = {name: found[name] for name in ("steps", "minutes", "conversations", "left_out", "loss")}
        same = found["run"] == run
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / TRAINING} cannot be read ({error!r:.100}): name another folder") from error
    if not same:
        raise InputError(f"{folder} holds what was trained from another model, data or options: name another folder")
    return FineTuned(folder, **numbers)


class _Encoded(NamedTuple):
    """A conversation as tokens: the reply begins at `start`, and at some places several tokens may stand."""

    tokens: list[int]
    start: int
    soft: dict[int, dict[int, float]]


class _Training:
    """A training under way."""

    def __init__(
        self,
        name: str,
        source: str,
        shown: Sequence[TrainingConversation],
        folder: Path,
        options: TrainingOptions,
        run: str,
    ) -> None:
        # Threads that spin while they wait make a step several times slower as soon as anything else wants a core.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        try:
            import torch

            torch.empty(0, device=str(options.device or "cpu"))
            if options.method == "lora":
                import peft  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("finetune", "Fine-tuning a language model") from error
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            why = str(error).partition(" device type at start")[0].partition("\n")[0]
            raise ConfigurationError(f"device {options.device} cannot be used: {why}") from error
        self.name, self.source, self.folder, self.options, self.name_of_run = name, source, folder, options, run
        self.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        # What LoRA leaves as it is may be held in half the precision; what is trained may not.
        frozen = torch.bfloat16 if self.device != "cpu" else None
        dtype = frozen if options.method == "lora" else torch.float32
        self.tokenizer, self.model = load_for_training(source, dtype)
        texts, stops = Texts(self.tokenizer), stop_tokens(self.model, self.tokenizer)
        encoded = [encode(texts, stops, one) for one in shown]
        limit = getattr(self.model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        longest = min(options.longest, int(limit or options.longest))
        self.shown = [one for one in encoded if len(one.tokens) <= longest]
        self.left_out = len(encoded) - len(self.shown)
        if not self.shown:
            raise InputError(f"every conversation has more than {longest} tokens: raise longest, or train on others")
        self.steps = options.epochs * math.ceil(len(self.shown) / options.batch)
        self.highest = options.rate or (1e-3 if options.method == "lora" else 1e-5)
        self.step, self.seconds, self.losses = 0, 0.0, list[float]()

    def run(self, progress: Progress, stopped: Callable[[], bool]) -> FineTuned:
        import torch

        devices = [torch.cuda.current_device()] if self.device == "cuda" else []
        with torch.random.fork_rng(devices), ExitStack() as stack:
            # Tiny numbers make some processors many times slower. It holds for the thread, so it ends.
            torch.set_flush_denormal(True)
            stack.callback(torch.set_flush_denormal, False)
            torch.manual_seed(self.options.seed)
            self._prepare()
            self._resume()
            saved = time.monotonic()
            begun = saved - self.seconds
            for batch in self._batches():
                # Dropout is the same whether or not the run was stopped before this step.
                torch.manual_seed(hash((self.options.seed, self.step)) & 0x7FFFFFFF)
                self.losses = [*self.losses[1 - _WARM_LOSSES :], self._learn(batch)]
                self.step += 1
                progress(self.step, self.steps, self.losses[-1])
                self.seconds = time.monotonic() - begun
                ended = stopped()
                if ended or time.monotonic() - saved > self.options.checkpoint_seconds:
                    self._checkpoint()
                    saved = time.monotonic()
                if ended:
                    done = f"the training was stopped after {self.step} of {self.steps} steps"
                    raise InputError(f"{done}; the same call on {self.folder} resumes it")
        return self._publish()

    def _prepare(self) -> None:
        import torch

        model, options = self.model, self.options
        if options.method == "lora":
            from peft import LoraConfig, get_peft_model

            ranks: dict[str, Any] = {"r": options.rank, "lora_alpha": options.alpha, "lora_dropout": options.dropout}
            config = LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", **ranks)
            try:
                with warnings.catch_warnings():
                    # About names within transformers that peft will stop using.
                    warnings.simplefilter("ignore", FutureWarning)
                    model = get_peft_model(model, config)
            except ValueError as error:
                raise ConfigurationError(f"{self.name} cannot be trained with LoRA: {error}") from error
        self.model = model.to(self.device).train()
        self.trained = {name: one for name, one in self.model.named_parameters() if one.requires_grad}
        self.optimizer = torch.optim.AdamW(self.trained.values(), lr=self.highest, weight_decay=0.0)

    def _batches(self) -> Iterator[list[_Encoded]]:
        """The batches from the current step on; each epoch has an order of its own."""
        number, size = 0, self.options.batch
        for epoch in range(self.options.epochs):
            order = list(range(len(self.shown)))
            random.Random(f"{self.options.seed} {epoch}").shuffle(order)
            for start in range(0, len(order), size):
                if number >= self.step:
                    yield [self.shown[place] for place in order[start : start + size]]
                number += 1

    def _rate(self) -> float:
        """The learning rate of the current step: it rises in a line, then falls along a cosine."""
        rising = max(1, round(self.steps * self.options.warmup))
        if self.step < rising:
            return self.highest * (self.step + 1) / rising
        fallen = (self.step - rising) / max(1, self.steps - rising)
        return self.highest * (1 + math.cos(math.pi * fallen)) / 2

    def _learn(self, batch: Sequence[_Encoded]) -> float:
        import torch

        # Replies end at the right border, so that logits are computed for them alone.
        width = max(len(one.tokens) for one in batch)
        written = max(len(one.tokens) - one.start for one in batch)
        gaps = [width - len(one.tokens) for one in batch]
        ids = torch.tensor([[0] * gap + one.tokens for gap, one in zip(gaps, batch, strict=True)], device=self.device)
        mask = (torch.arange(width)[None] >= torch.tensor(gaps)[:, None]).long().to(self.device)
        with torch.autocast(self.device.split(":")[0], dtype=torch.bfloat16, enabled=self.device != "cpu"):
            found = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp_min(0),
                logits_to_keep=written + 1,
                use_cache=False,
            )
        logs = torch.log_softmax(found.logits[:, -written - 1 : -1].float(), dim=-1)
        losses = []
        for row, one in enumerate(batch):
            own = logs[row, written - (len(one.tokens) - one.start) :]
            wanted = ids[row, gaps[row] + one.start :]
            lost = -own.gather(1, wanted[:, None])[:, 0]
            for place, shares in one.soft.items():
                tokens, weights = (torch.tensor([*part], device=self.device) for part in (shares, shares.values()))
                at = torch.tensor([place], device=self.device)
                lost = lost.index_put((at,), -(own[place, tokens] * weights).sum())
            losses.append(lost)
        loss = torch.cat(losses).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.trained.values(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    def _checkpoint(self) -> None:
        from safetensors.torch import save

        tensors = {f"model/{name}": one.detach() for name, one in self.trained.items()}
        for name, one in self.trained.items():
            tensors |= {f"{key}/{name}": value for key, value in self.optimizer.state.get(one, {}).items()}
        note = {"step": self.step, "seconds": self.seconds, "losses": self.losses}
        metadata = {"run": self.name_of_run, "note": json.dumps(note)}
        content = save({name: one.contiguous().cpu().clone() for name, one in tensors.items()}, metadata=metadata)
        atomic_write(self.folder / _CHECKPOINT, content)

    def _resume(self) -> None:
        """Take up the checkpoint of this very training; one of another is overwritten in time."""
        import torch
        from safetensors import safe_open

        path = self.folder / _CHECKPOINT
        if not path.exists():
            return
        try:
            with safe_open(path, "pt") as file, torch.no_grad():
                if file.metadata().get("run") != self.name_of_run:
                    raise InputError(f"{self.folder} holds another training that was stopped: name another folder")
                note = json.loads(file.metadata()["note"])
                for name, one in self.trained.items():
                    one.copy_(file.get_tensor(f"model/{name}"))
                    moments = {
                        key: file.get_tensor(f"{key}/{name}").to(one.device) for key in ("exp_avg", "exp_avg_sq")
                    }
                    self.optimizer.state[one] = {"step": file.get_tensor(f"step/{name}"), **moments}
        except InputError:
            raise
        except Exception as error:
            # The library raises a type of its own for a damaged file.
            raise InputError(f"{path} cannot be read ({error}); remove it to begin again") from error
        self.step, self.seconds, self.losses = int(note["step"]), float(note["seconds"]), list(note["losses"])

    def _publish(self) -> FineTuned:
        """Write what was made, and last the note that it is whole."""
        if self.options.method == "lora":
            self.model.peft_config["default"].base_model_name_or_path = self.name
            self.model.peft_config["default"].inference_mode = True
            # Without a look at the hub for the base's vocabulary.
            self.model.save_pretrained(self.folder, safe_serialization=True, save_embedding_layers=False)
            (self.folder / "README.md").unlink(missing_ok=True)
        else:
            self.model.save_pretrained(self.folder)
            self.tokenizer.save_pretrained(self.folder)
        loss = sum(self.losses) / max(1, len(self.losses))
        done = FineTuned(self.folder, self.steps, round(self.seconds / 60, 3), len(self.shown), self.left_out, loss)
        note: dict[str, Any] = {"base": self.name, "base_weights": fingerprint(self.source), "run": self.name_of_run}
        note |= {name: value for name, value in asdict(done).items() if name != "folder"}
        note |= {"options": self.options.spec()}
        atomic_write(self.folder / TRAINING, f"{json.dumps(note, indent=2)}\n".encode())
        (self.folder / _CHECKPOINT).unlink(missing_ok=True)
        (self.folder / _LOCK).unlink(missing_ok=True)
        return done


def encode(texts: Texts, stops: set[int], conversation: TrainingConversation) -> _Encoded:
    """A conversation as tokens: prompt and reply as they would come one after the other, up to the end of the reply."""
    prompt, whole = texts.conversation(conversation.messages, conversation.reply)
    read = texts.tokens(prompt)

    def written(rest: str) -> list[int]:
        both = texts.tokens(prompt + rest)
        # Some tokenizers open a text with a space of their own, others join across the border.
        return both[len(read) :] if both[: len(read)] == read else texts.tokens(rest)

    rest, end = whole[len(prompt) :], texts.tokenizer.eos_token_id
    reply = written(rest)
    ended = next((place for place, token in enumerate(reply) if token in stops), None)
    at = rest.find(conversation.reply)
    if ended is not None:
        reply = reply[: ended + 1]
    elif end is not None:
        # What the template writes after a turn is no end of it.
        reply = [*(written(rest[: at + len(conversation.reply)]) if at >= 0 else reply), end]
    soft: dict[int, dict[int, float]] = {}
    for choice in conversation.soft if at >= 0 else ():
        begins = {text: written(rest[: at + choice.at] + text) for text in choice.shares}
        place = next(
            (n for n, some in enumerate(zip(*begins.values(), strict=False)) if len({*some}) == len(begins)), None
        )
        if place is not None and place < len(reply):
            soft[place] = {tokens[place]: float(choice.shares[text]) for text, tokens in begins.items()}
    return _Encoded([*read, *reply], len(read), soft)
