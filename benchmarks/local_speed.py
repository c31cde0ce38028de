"""Tokens a second of language models in this process: the decoder against transformers' generate, in one run.

    python benchmarks/local_speed.py FOLDER... [--prompts 16] [--tokens 32] [--int8] [--server URL...]

KEQA in the paper's form is asked one question of the testbed; what its calls read is counted against what stands in
their prompts. Prompts of these calls, DSPy's with the fixed demonstrations, are then read and continued greedily in one
batch: by the decoder with the beginnings that they share and without, and by generate; where the model's weights are
packed, with those as they are stored as well. A server is one of llama.cpp for each folder, with its weights and one
slot, which is given the same tokens, one prompt after the other.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx
import torch
from common import options, show
from dspy import lm15
from torch.nn.utils.rnn import pad_sequence

from keqa.lms import build_roles
from keqa.lms.local import packing
from keqa.lms.local.decoder import DrawSettings, Job
from keqa.lms.local.engine import TransformersEngine
from keqa.programs import KEQA
from keqa.testbed.index import open_encyclopedia
from keqa.testbed.testbed import Testbed

Prompts = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
Way = Callable[[], tuple[float, float]]
"""Reads and writes, and returns the seconds of each."""


def asked(engine: TransformersEngine, folder: str) -> tuple[Prompts, dict[str, Any]]:
    """The prompts of one question's calls, each once, and what became of its tokens."""
    prompts: dict[tuple[int, ...], tuple[int, ...]] = {}
    submit = engine.submit

    def listening(request: lm15.Request) -> Any:
        tokens, shared = engine.texts.encode(request)
        prompts[tokens] = shared
        return submit(request)

    engine.submit = listening  # type: ignore[method-assign]
    before, begun = engine.decoder.read_tokens, time.perf_counter()
    program = KEQA(open_encyclopedia(), lms=build_roles(f"transformers/{folder}", cache=False), top_k=5)
    cost = program(Testbed().test[0].question).record.cost
    engine.submit = submit  # type: ignore[method-assign]
    read, whole = engine.decoder.read_tokens - before, cost.total.prompt_tokens
    about = {"calls": cost.samples, "tokens in prompts": whole, "read": read, "share": read / whole}
    return list(prompts.items()), about | {"written": cost.total.completion_tokens, "s": time.perf_counter() - begun}


def by_decoder(engine: TransformersEngine, prompts: Prompts, most: int, *, sharing: bool) -> Way:
    decoder, how = engine.decoder, (DrawSettings(max_tokens=most), lambda drawn: False)

    def run() -> tuple[float, float]:
        begun = time.perf_counter()
        decoder.admit([Job(tokens, shared if sharing else (), *how) for tokens, shared in prompts])
        read = time.perf_counter()
        while decoder.busy:
            decoder.step()
        return read - begun, time.perf_counter() - read

    return run


def by_generate(engine: TransformersEngine, prompts: Prompts, most: int) -> Way:
    padded = pad_sequence([torch.tensor(tokens) + 1 for tokens, _ in prompts], batch_first=True, padding_side="left")
    read = {"inputs": (padded - 1).clamp(min=0), "attention_mask": (padded > 0).long()}
    options = {"do_sample": False, "min_new_tokens": most, "max_new_tokens": most, "pad_token_id": 0}

    def run() -> tuple[float, float]:
        times: list[float] = []
        # It streams nothing, and notes when the prompts and each further token came.
        clock = SimpleNamespace(put=lambda _: times.append(time.perf_counter()), end=lambda: None)
        engine.decoder.model.generate(**read, streamer=clock, **options)
        return times[1] - times[0], times[-1] - times[1]

    return run


def by_server(url: str, prompts: Prompts, most: int, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of llama.cpp's server: keeping what a prompt shares with the one before, or reading each whole."""
    rows, total = [], sum(len(tokens) for tokens, _ in prompts)
    for name, keeps in (("llama.cpp, shared prefixes", True), ("llama.cpp, each prompt whole", False)):
        asked = {"n_predict": most, "temperature": 0, "ignore_eos": True, "cache_prompt": keeps}
        sums: Counter[str] = Counter()
        for tokens, _ in prompts:
            reply = httpx.post(f"{url}/completion", json={"prompt": tokens, **asked}, timeout=600).raise_for_status()
            sums.update(reply.json()["timings"])
        speeds = {"prompt tokens/s": 1000 * total / sums["prompt_ms"]}
        speeds["written/s"] = 1000 * sums["predicted_n"] / sums["predicted_ms"]
        rows.append(about | {"by": name, "read": sums["prompt_n"], **speeds})
    return rows


def speed(engine: TransformersEngine, prompts: Prompts, most: int, about: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each way: tokens of prompts a second, whether or not they had to be read, and tokens written."""
    ways = {
        "decoder, shared prefixes": by_decoder(engine, prompts, most, sharing=True),
        "decoder, each prompt whole": by_decoder(engine, prompts, most, sharing=False),
        "transformers' generate": by_generate(engine, prompts, most),
    }
    total, rows, decoder = sum(len(tokens) for tokens, _ in prompts), [], engine.decoder
    for name, run in ways.items():
        # Nothing is known but which beginnings come again.
        decoder._readings.clear()
        read, drawn = decoder.read_tokens, decoder.drawn_tokens
        with torch.inference_mode():
            reading, drawing = run()
        read = decoder.read_tokens - read or total
        # The first tokens are drawn while prompts are read.
        written = ((decoder.drawn_tokens - drawn or len(prompts) * most) - len(prompts)) / drawing
        rows.append(about | {"by": name, "read": read, "prompt tokens/s": total / reading, "written/s": written})
    return rows


def main() -> None:
    given = options(__doc__, "folders", folders=[str], prompts=16, tokens=32, int8=False, server=[str])
    # Of torch, on its quantization.
    warnings.simplefilter("ignore")
    questions, rows = [], []
    for place, folder in enumerate(given.folders):
        engine = TransformersEngine.shared(folder)
        name, model = folder.rstrip("/").rpartition("/")[2], engine.decoder.model
        prompts, tokens = asked(engine, folder)
        questions.append({"model": name, **tokens})
        chosen = prompts[: given.prompts]
        precision = str(model.dtype).removeprefix("torch.")
        rows += speed(engine, chosen, given.tokens, {"model": name, "precision": precision})
        if any(type(one).__module__ == packing.__name__ for one in model.modules()):
            with patch.object(packing, "pack", lambda model: None):
                engine._load()
            model = engine.decoder.model
            rows += speed(engine, chosen, given.tokens, {"model": name, "precision": f"{precision}, as stored"})
        if given.int8:
            # In place, so that the decoder keeps its hook; its buffers are of the old precision.
            engine.decoder.clear()
            engine.decoder._dtype = torch.float32
            torch.ao.quantization.quantize_dynamic(model.float(), {torch.nn.Linear}, dtype=torch.qint8, inplace=True)
            rows += speed(engine, chosen, given.tokens, {"model": name, "precision": "int8"})
        engine.close()
        if given.server:
            about = {"model": name, "precision": "as the server's"}
            rows += by_server(given.server[place], chosen, given.tokens, about)
    show(questions, "One question to KEQA in the paper's form", digits=2)
    read = "read: what went through the model"
    show(rows, f"{given.prompts} prompts, {given.tokens} tokens written to each; {read}", digits=1)


if __name__ == "__main__":
    main()
