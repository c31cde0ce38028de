"""A model of this process, as DSPy's optimizers fine-tune one, too: it comes back as an adapter in a folder."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.provider import Provider, TrainingJob
from dspy.clients.utils_finetune import TrainDataFormat, get_finetune_directory

from keqa.errors import ConfigurationError
from keqa.lms.local.engine import AsyncTransformersEngine, TransformersEngine
from keqa.lms.local.vllm_engine import AsyncVLLMEngine, VLLMEngine
from keqa.lms.local.weights import FREE, TRAINING, fingerprint, place_of

# The reply is complete where this marker starts; a weak LM would ramble on after it.
_STOP = ("[[ ## completed ## ]]",)


class InProcessLM(dspy.LM):
    """A language model of this process. A copy that names another model is that model, with the same settings."""

    @property
    def finetuned(self) -> bool:
        """Whether it was fine-tuned here, on prompts without demonstrations."""
        return (Path(self.engine.path) / TRAINING).is_file()

    def copy(self, **kwargs: Any) -> dspy.LM:
        """A copy with other settings; ``model`` is a model string, as fine-tuning gives one."""
        model: str = kwargs.pop("model", self.model)
        made: dspy.LM = self
        if model != self.model:
            made = build_in_process(model, temperature=None, num_retries=self.num_retries, cache=self.cache)
            made.kwargs, made.callbacks = dict(self.kwargs), list(self.callbacks or [])
        copied: dspy.LM = dspy.LM.copy(made, **kwargs)
        return copied


def build_in_process(model: str, *, max_tokens: int | None = None, **settings: Any) -> InProcessLM:
    """The language model of ``keqa/…``, ``local/…``, ``transformers/…`` or ``vllm/…``, with its weights loaded."""
    provider, _, name = model.partition("/")
    path = place_of(provider, name)
    both = (VLLMEngine, AsyncVLLMEngine) if provider == "vllm" else (TransformersEngine, AsyncTransformersEngine)
    engine = both[0].shared(path)
    label = Path(path).name if provider in FREE and Path(path).exists() else name
    return InProcessLM(
        f"{provider}/{label}@{fingerprint(path)}",
        provider=None if provider == "vllm" else LocalProvider(model),
        engine=engine,
        async_engine=both[1](engine),
        max_tokens=max_tokens or 256,
        **{"stop": list(_STOP), **settings},
    )


class LocalTrainingJob(TrainingJob):
    """A training in this process, with the progress that it has made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ended = threading.Event()
        self._progress: tuple[int, int, float] | None = None

    def status(self) -> dict[str, Any]:
        """How far it is: ``state``, and once it trains ``step``, ``steps`` and ``loss``."""
        state = "cancelled" if self.cancelled() else "finished" if self.done() else "running"
        return {"state": state, **dict(zip(("step", "steps", "loss"), self._progress or (), strict=False))}

    def cancel(self) -> bool:
        """End it after its current step; the same training resumes from there."""
        self._ended.set()
        # DSPy's own cancels and does not say so.
        super().cancel()
        return bool(self.cancelled())

    def set_result(self, result: Any) -> None:
        """Its end, which nobody waits for once it is cancelled."""
        if not self.cancelled():
            super().set_result(result)


class LocalProvider(Provider):
    """Fine-tunes the models of this process; see `keqa.lms.local.training`.

    ``train_kwargs`` are `keqa.lms.local.training.TrainingOptions` by name, and ``folder``: where the result shall be,
    by default a folder of DSPy's own for fine-tuned models (``DSPY_FINETUNEDIR``) that is named for model, data and
    options, so that the same training resumes there, or is found finished.
    """

    def __init__(self, model: str) -> None:
        super().__init__()
        self.finetunable = True
        self.TrainingJob = LocalTrainingJob
        self._model = model

    def finetune(
        self,
        job: Any,
        model: str,
        train_data: Sequence[Mapping[str, Any]],
        train_data_format: TrainDataFormat | str | None,
        train_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        from keqa.lms.local.training import TrainingConversation, TrainingOptions, fine_tune, training_digest

        if train_data_format not in (None, TrainDataFormat.CHAT):
            raise ConfigurationError(f"a model in this process is trained on chats, not on {train_data_format}")
        kwargs = dict(train_kwargs or {})
        folder = kwargs.pop("folder", None)
        options, shown = TrainingOptions.of(kwargs), [TrainingConversation.of(one) for one in train_data]
        if folder is None:
            folder = Path(get_finetune_directory()) / f"keqa-{training_digest(self._model, shown, options)}"

        def progress(*made: Any) -> None:
            job._progress = made

        return fine_tune(self._model, shown, folder, options, progress=progress, stopped=job._ended.is_set).model
