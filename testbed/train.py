"""Trains the LM that ships with the package: ``python -m keqa.testbed.train --out runs/tiny``.

One command, on CPU or GPU. Its budget is a number of tokens, so that a machine with other work to do changes how long
it takes and nothing else. It may be killed at any time: every few minutes it writes a checkpoint, and the same command
resumes from there.
"""

import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from keqa.storage.files import atomic_write
from keqa.testbed.rendering import (
    END,
    NUMBERED_VERDICTS,
    TURN,
    added_token,
    all_pieces,
    build_tokenizer,
    contents,
    text_decoder,
)
from keqa.testbed.sampling import Sample, Stream
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import Fact

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

WIDTH, LAYERS, INNER, HEADS = 256, 6, 512, 4
LONGEST, BATCH_TOKENS, POOL = 1024, 8192, 600
MUON_RATE, ADAM_RATE = 0.01, 3e-3
HEAD_NORM = 10.0
EARLY_ECHO, LATE_ECHO, ECHO_UNTIL = 0.3, 0.1, 0.5
ANSWER_WEIGHT, VERDICT_WEIGHT, LISTED_WEIGHT, CITATION_WEIGHT = 2.0, 8.0, 4.0, 6.0
READING = ("AnswerWithKnowledge", "AnswerWithEvidence", "reading")
CITING = ("AnswerAndCite", "WriteAnswer", "ListItems", "CompareInTable", "citing", "gathering", "locating")
CHECKPOINT_SECONDS, LATELY = 180.0, 200
SKIPPED = 0.6
"""The progress at which a training begins from a finished model: it needs no easy examples."""
FINISHED_RATE = 0.6
"""How much of the learning rate such a training has: what the model can do should not be lost for what is new."""


def build_model(tokenizer: "PreTrainedTokenizerFast") -> "LlamaForCausalLM":
    """Builds the untrained LM: a Llama two of whose heads look at the token before, so that copying is learned soon."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        attention_bias=True,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    size = WIDTH // HEADS
    phases = torch.tensor([10000 ** (-2 * i / size) for i in range(size // 2)])
    attention: Any = model.model.layers[0].self_attn
    with torch.no_grad():
        for head, back in ((0, 1), (1, 2)):
            rows = slice(head * size, (head + 1) * size)
            attention.q_proj.weight[rows] = 0
            attention.k_proj.weight[rows] = 0
            attention.q_proj.bias[rows] = 6 * torch.cat([torch.ones(size // 2), torch.zeros(size // 2)])
            attention.k_proj.bias[rows] = 6 * torch.cat([torch.cos(back * phases), torch.sin(back * phases)])
    return model


class SampleEncoder:
    """Turns samples into token ids and loss weights.

    The weight is 1 on everything that the LM is to write, in demonstrations too, more on a judge's verdict, on an
    answer from passages and on the number of one that is cited (a few tokens hold all there is to learn from a long
    prompt), less where a pair of tokens of the prompt comes again (it can be foreseen, and teaches copying), and 0 on
    other prompt text, which is chance.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        self.tokenizer, self.echo = tokenizer, EARLY_ECHO
        pieces = {index: text for text, index in tokenizer.get_added_vocab().items()}
        self.opens = {index for index, text in pieces.items() if text.endswith(TURN)}
        self.end = tokenizer.convert_tokens_to_ids(END)
        self.content = len(tokenizer) - len(pieces)
        self.verdicts = {ids[0] for word in ("True", "False") if len(ids := tokenizer(word)["input_ids"]) == 1}
        self.listed = {index for index, text in pieces.items() if text in NUMBERED_VERDICTS}
        vocabulary = tokenizer.get_vocab()
        self.numbers = {index for text, index in vocabulary.items() if text.strip("▁").isdecimal() and len(text) < 4}
        self.cites = {index for text, index in vocabulary.items() if text.endswith(("[", "]["))} - {self.end}

    def __call__(self, sample: Sample) -> tuple[list[int], list[float]]:
        ids: list[int] = self.tokenizer(sample.prompt + sample.target)["input_ids"]
        weights, seen, writing = [0.0], set(), False
        for before, after in pairwise(ids):
            if before in self.opens:
                writing = True
            echo = (before, after) in seen and before < self.content and after < self.content
            answer = ANSWER_WEIGHT if sample.skill in READING else 1.0
            if sample.skill in CITING and before in self.cites and after in self.numbers:
                answer = CITATION_WEIGHT
            written = VERDICT_WEIGHT if after in self.verdicts else LISTED_WEIGHT if after in self.listed else answer
            weighed = writing or (after in self.verdicts and sample.skill == "copying")
            weights.append(written if weighed else self.echo if echo else 0.0)
            seen.add((before, after))
            if after == self.end:
                writing = False
        return ids, weights


def batches(
    stream: Stream, encode: SampleEncoder, progress: Callable[[], float]
) -> Iterator[list[tuple[Sample, list[int], list[float]]]]:
    """Yields batches of samples of like length, so that little is padded."""
    while True:
        pool: list[tuple[Sample, list[int], list[float]]] = []
        encode.echo = EARLY_ECHO if progress() < ECHO_UNTIL else LATE_ECHO
        while len(pool) < POOL:
            sample = stream.draw(progress())
            ids, weights = encode(sample)
            if len(ids) <= LONGEST:
                pool.append((sample, ids, weights))
        pool.sort(key=lambda item: len(item[1]))
        packed: list[list[tuple[Sample, list[int], list[float]]]] = [[]]
        for item in pool:
            if packed[-1] and len(item[1]) * (len(packed[-1]) + 1) > BATCH_TOKENS:
                packed.append([])
            packed[-1].append(item)
        stream.rng.shuffle(packed)
        yield from packed


class Past(NamedTuple):
    """What earlier starts of a training left behind, beside the weights."""

    begun: float
    told: Counter[Fact]
    right: dict[str, tuple[float, int]]


def rate(progress: float, step: int) -> float:
    """The learning rate's factor: a short warm-up, a plateau, and a linear fall over the last 35 percent."""
    return min(1.0, (step + 1) / 50) * (1.0 if progress < 0.65 else max(0.01, (1 - progress) / 0.35))


class Trainer:
    """The model, its two optimizers (Muon for matrices, AdamW for the rest) and their checkpoint."""

    def __init__(self, out: Path, tokenizer: "PreTrainedTokenizerFast", device: str) -> None:
        import torch

        self.out, self.tokenizer, self.device = out, tokenizer, device
        # Other processors multiply slower in bfloat16.
        fast: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        self.reduced = device != "cpu" or bool(fast.get("avx512_bf16") or fast.get("amx_bf16"))
        self.model = build_model(tokenizer).to(device)
        named = list(self.model.named_parameters())
        self.matrices = {n: p for n, p in named if p.ndim == 2 and "embed" not in n and "lm_head" not in n}
        self.others = {n: p for n, p in named if n not in self.matrices}
        self.muon = torch.optim.Muon(self.matrices.values(), lr=MUON_RATE, momentum=0.95, weight_decay=0.01)
        self.adam = torch.optim.AdamW(self.others.values(), lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0)
        self.step, self.tokens = 0, 0

    def learn(self, batch: list[tuple[Sample, list[int], list[float]]], factor: float) -> "tuple[float, torch.Tensor]":
        """One step; returns the loss on what is to be written and, by sample, whether the last turn was right."""
        import torch
        from torch.nn import functional

        longest = max(len(ids) for _, ids, _ in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        weights = torch.zeros(len(batch), longest)
        for row, (_, tokens, weight) in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            weights[row, : len(tokens)] = torch.tensor(weight)
        ids, weights = ids.to(self.device), weights.to(self.device)
        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16, enabled=self.reduced):
            hidden = self.model.model(ids[:, :-1], use_cache=False).last_hidden_state
            rows, columns = (weights[:, 1:] > 0).nonzero(as_tuple=True)
            logits = self.model.lm_head(hidden[rows, columns]).float()
        gold, worth = ids[rows, columns + 1], weights[rows, columns + 1]
        losses = functional.cross_entropy(logits, gold, reduction="none")
        loss = (losses * worth).sum() / worth.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, base in ((self.muon, MUON_RATE), (self.adam, ADAM_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = base * factor
            optimizer.step()  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
        self._soften()
        self.step += 1
        self.tokens += ids.numel()
        with torch.no_grad():
            written = worth >= 1
            lengths = torch.tensor([self._last_turn(tokens, w) for _, tokens, w in batch], device=self.device)
            last = columns + 1 >= lengths[rows]
            wrong = torch.zeros(len(batch), device=self.device)
            wrong.index_add_(0, rows, ((logits.argmax(-1) != gold) & last).float())
            shown = float(losses[written].mean()) if bool(written.any()) else 0.0
        return shown, (wrong == 0).cpu()

    def _soften(self) -> None:
        # Muon lets queries and keys grow until each head looks at one token alone: no gradient then moves it elsewhere.
        import torch

        with torch.no_grad():
            for name, matrix in self.matrices.items():
                if "q_proj" in name or "k_proj" in name:
                    heads = matrix.view(HEADS, -1)
                    heads.mul_((HEAD_NORM / heads.norm(dim=1, keepdim=True)).clamp(max=1.0))

    @staticmethod
    def _last_turn(tokens: list[int], weights: list[float]) -> int:
        position = len(tokens)
        while position > 0 and weights[position - 1] >= 1.0:
            position -= 1
        return position

    def save(self, folder: Path) -> None:
        """Writes the model and its tokenizer as transformers and vLLM load them; a folder of that name is replaced."""
        written = folder.with_suffix(".new")
        shutil.rmtree(written, ignore_errors=True)
        self.model.save_pretrained(written)
        self.tokenizer.save_pretrained(written)
        shutil.rmtree(folder, ignore_errors=True)
        written.replace(folder)

    def checkpoint(self, past: Past) -> None:
        """Writes everything needed to resume; the file is swapped in whole."""
        from safetensors.torch import save

        tensors = {f"model/{n}": p.detach() for n, p in self.model.named_parameters()}
        for name, optimizer, group in self._optimizers():
            for parameter, tensor in group.items():
                for key, value in optimizer.state.get(tensor, {}).items():
                    tensors[f"{name}/{key}/{parameter}"] = value
        told = {f"{fact.relation}/{fact.entity}": times for fact, times in sorted(past.told.items()) if times}
        note = {"step": str(self.step), "tokens": str(self.tokens), "begun": str(past.begun)}
        note |= {"told": json.dumps(told), "right": json.dumps(past.right)}
        content = save({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, metadata=note)
        atomic_write(self.out / "checkpoint.safetensors", content)

    def begin_from(self, folder: Path) -> None:
        """Takes the weights of a finished model, with fresh optimizers.

        Added layers do nothing at first. A new piece of a prompt begins near the most similar old one: with a row as
        small as those that are built at random, it would be learned only after hundreds of steps.
        """
        import torch
        from transformers import AutoModelForCausalLM

        begun = AutoModelForCausalLM.from_pretrained(folder)
        added: Any = self.model.model.layers[begun.config.num_hidden_layers :]
        with torch.no_grad():
            for layer in added:
                for last in (layer.self_attn.o_proj, layer.mlp.down_proj):
                    last.weight.zero_()
        rows = self.model.get_input_embeddings().weight.detach().clone()
        old = begun.get_input_embeddings().weight.detach()
        rows[: len(old)] = old
        pieces = {index: _words(text) for text, index in self.tokenizer.get_added_vocab().items()}
        known = [index for index in sorted(pieces) if index < len(old)]
        for index in sorted(pieces.keys() - known):
            words = pieces[index]
            alike = max(known, key=lambda other: (words & pieces[other]).total() / (words | pieces[other]).total())
            rows[index] = old[alike] + rows[index] / rows[index].norm()
        begun.resize_token_embeddings(len(rows), mean_resizing=False)
        self.model.load_state_dict(begun.state_dict(), strict=not len(added))
        with torch.no_grad():
            self.model.get_input_embeddings().weight.copy_(rows)

    def resume(self) -> Past | None:
        """Reads the checkpoint where there is one; returns what else it holds."""
        import torch
        from safetensors import safe_open

        path = self.out / "checkpoint.safetensors"
        if not path.exists():
            return None
        with safe_open(path, "pt") as file, torch.no_grad():
            for n, p in self.model.named_parameters():
                p.copy_(file.get_tensor(f"model/{n}"))
            for key in file.keys():  # noqa: SIM118 - safe_open is no mapping
                name, *rest = key.split("/")
                for own, optimizer, group in self._optimizers():
                    if own == name:
                        optimizer.state[group[rest[1]]][rest[0]] = file.get_tensor(key).to(self.device)
            note = file.metadata()
        self.step, self.tokens = int(note["step"]), int(note["tokens"])
        told = {Fact(*name.split("/", 1)): times for name, times in json.loads(note["told"]).items()}
        return Past(float(note["begun"]), Counter(told), json.loads(note["right"]))

    def _optimizers(self) -> list[tuple[str, "torch.optim.Optimizer", dict[str, "torch.nn.Parameter"]]]:
        return [("muon", self.muon, self.matrices), ("adam", self.adam, self.others)]


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+|\W", text))


def main(
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, the log and the finished model.")] = Path(
        "runs/tiny"
    ),
    tokens: Annotated[int, typer.Option(help="Tokens to train on, over all starts.")] = 80_000_000,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves it to torch.")] = 0,
    start: Annotated[
        Path | None,
        typer.Option(help="A finished model to begin from, with its tokenizer; for a new or reworded prompt."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train; a GPU where there is one by default.")] = "",
) -> None:
    """Trains the shipped LM, or resumes where an earlier start was stopped."""
    # Threads that spin while they wait make a step several times slower as soon as anything else wants a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    if threads:
        torch.set_num_threads(threads)
    out.mkdir(parents=True, exist_ok=True)
    testbed = Testbed()
    tokenizer = make_tokenizer(testbed, out / "tokenizer", start)
    trainer = Trainer(out, tokenizer, device or ("cuda" if torch.cuda.is_available() else "cpu"))
    past = trainer.resume()
    if past is None and start:
        trainer.begin_from(start)
        # As if the model had read so many of the rare texts already: what it reads twice over it would know too well.
        due = testbed.tiers.exposures.items()
        past = Past(SKIPPED, Counter({fact: round(times * SKIPPED) for fact, times in due}), {})
    begun, told, right = past or Past(0.0, Counter(), {})

    def progress() -> float:
        return begun + (1 - begun) * trainer.tokens / tokens

    # A later start draws other samples: none is needed twice, and rare tellings are due at fixed points.
    stream = Stream(testbed, seed=trainer.step, start=progress(), told=told)
    loss, started, done = 0.0, time.monotonic(), trainer.tokens
    saved = started

    def save() -> None:
        trainer.checkpoint(Past(begun, stream.told, right))
        trainer.save(out / "model")

    stopped: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    for batch in batches(stream, SampleEncoder(tokenizer), progress):
        if stopped or progress() >= 1:
            break
        factor = rate(progress(), trainer.step) * (FINISHED_RATE if begun else 1.0)
        loss_now, correct = trainer.learn(batch, factor)
        loss = 0.98 * loss + 0.02 * loss_now if loss else loss_now
        for (sample, _, _), good in zip(batch, correct.tolist(), strict=True):
            share, seen = right.get(sample.skill, (0.0, 0))
            right[sample.skill] = share + (good - share) / min(seen + 1, LATELY), seen + 1
        if trainer.step % 25 == 0:
            seconds = time.monotonic() - started
            line = {"step": trainer.step, "tokens": trainer.tokens, "progress": round(progress(), 4)}
            line |= {"speed": round((trainer.tokens - done) / seconds), "loss": round(loss, 4)}
            shown = {name: round(share, 3) for name, (share, _) in sorted(right.items())}
            with (out / "log.jsonl").open("a") as log:
                log.write(json.dumps(line | {"right": shown}) + "\n")
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            save()
            saved = time.monotonic()
    save()
    signal.signal(signal.SIGTERM, before)


def make_tokenizer(testbed: Testbed, folder: Path, start: Path | None = None) -> "PreTrainedTokenizerFast":
    """Builds the tokenizer, or loads the one that an earlier start of the same training built."""
    from transformers import AutoTokenizer

    if not (folder / "tokenizer.json").exists() and start:
        extended = AutoTokenizer.from_pretrained(start)
        extended.backend_tokenizer.decoder = text_decoder()
        known = extended.get_added_vocab()
        extended.add_tokens([added_token(piece) for piece in sorted(all_pieces()) if piece not in known])
        extended.save_pretrained(folder)
    elif not (folder / "tokenizer.json").exists():
        sketch = Stream(testbed, seed=-1)
        samples = (sketch.draw(0.5) for _ in range(3000))
        build_tokenizer(line for s in samples for line in contents(s.prompt + s.target)).save_pretrained(folder)
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(folder)
    return tokenizer


if __name__ == "__main__":
    typer.run(main)
