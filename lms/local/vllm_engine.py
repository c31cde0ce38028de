"""vLLM's offline engine (`vllm.LLM`) in this process: many questions at once on an accelerator, without a server."""

import os
import queue
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspy import lm15

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.lms.local.engine import CLOSED, AsyncEngine, LocalEngine, Waiting
from keqa.lms.local.tokenizing import Texts
from keqa.lms.local.weights import is_adapter

if TYPE_CHECKING:
    from keqa.lms.local.decoder import Job

# In this process and not in one of its own, silent but for errors (its log goes where a command's answer stands), and
# without reports of use to its makers.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
}


class VLLMEngine(LocalEngine):
    """A model run by vLLM, which batches what waits and reads the beginnings that prompts share once."""

    def _load(self) -> None:
        place = Path(self.path).expanduser()
        if is_adapter(place):
            raise ConfigurationError(f"{self.path} is an adapter: name it as transformers/{self.path}")
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            import torch
            from vllm import LLM
        except ImportError as error:
            raise MissingExtraError("vllm", f"vllm/{self.path}") from error
        from transformers import AutoConfig
        from vllm.platforms import current_platform

        try:
            # A processor computes in what is stored, as without vLLM, and compiles nothing.
            source = str(place) if place.exists() else self.path
            whole = getattr(AutoConfig.from_pretrained(source), "dtype", None) is torch.float32
            slow = {"enforce_eager": True, "dtype": "float32" if whole else "auto"}
            own = slow if current_platform.is_cpu() else {}
            model = LLM(source, disable_log_stats=True, use_tqdm_on_load=False, **own)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"vLLM cannot open {self.path}: {error}") from error
        self.texts = Texts(model.get_tokenizer())
        self.context = int(model.llm_engine.model_config.max_model_len)
        self._engine: Any = model.llm_engine

    def _work(self) -> None:
        running: dict[str, Waiting] = {}
        while not self._closed.is_set():
            try:
                with suppress(queue.Empty):
                    while (waiting := self._queue.get(block=not running)) is not None:
                        number, job = str(id(waiting)), waiting.job
                        try:
                            self._engine.add_request(number, {"prompt_token_ids": list(job.tokens)}, _asked(job))
                            running[number] = waiting
                        except ValueError as error:
                            # What vLLM refuses, such as more alternatives than it gives, ends no other request.
                            waiting.fail(error)
                left = {number for number, waiting in running.items() if waiting.future.cancelled()}
                self._engine.abort_request(list(left))
                for output in self._engine.step() if running.keys() - left else ():
                    if output.finished:
                        waiting = running[output.request_id]
                        _take(waiting.job, output.outputs[0])
                        self._finish(waiting)
                        left.add(output.request_id)
                for number in left:
                    del running[number]
            except Exception as error:
                self._engine.abort_request(list(running))
                while running:
                    running.popitem()[1].fail(error)
        for waiting in running.values():
            waiting.fail(lm15.ConfigurationError(CLOSED))


class AsyncVLLMEngine(AsyncEngine):
    """For a saved program to name."""

    _of = VLLMEngine


def _asked(job: "Job") -> Any:
    from vllm import SamplingParams

    own = job.settings
    return SamplingParams(
        temperature=own.temperature,
        top_p=own.top_p,
        top_k=own.top_k or -1,
        max_tokens=own.max_tokens,
        seed=own.seed,
        stop=list(own.stops),
        logprobs=own.logprobs,
    )


def _take(job: "Job", drawn: Any) -> None:
    job.drawn = list(drawn.token_ids)
    if job.settings.logprobs is not None:
        for token, found in zip(job.drawn, drawn.logprobs, strict=True):
            likeliest = sorted(found.items(), key=lambda one: -one[1].logprob)[: job.settings.logprobs]
            job.scores.append((found[token].logprob, [(number, one.logprob) for number, one in likeliest]))
    job.reason = "length" if drawn.finish_reason == "length" else "stop"
