"""A language model of this process as DSPy's optimizers fine-tune one: ``dspy.BootstrapFinetune``, ``BetterTogether``.

What DSPy trains comes back as another language model, an adapter in a folder, with the settings of the one it was.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.provider import Provider, TrainingJob
from dspy.clients.utils_finetune import TrainDataFormat, get_finetune_directory

from keqa.errors import ConfigurationError
from keqa.lms.local.adapters import TRAINING
from keqa.lms.local.training import Conversation, TrainingOptions, fine_tune, training_digest


class LocalTrainingJob(TrainingJob):
    """A training in this process, with the progress that it has made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ended = threading.Event()
        self._progress: tuple[int, int, float] | None = None

    def status(self) -> dict[str, Any]:
        """How far it is: ``state``, and once it trains ``step``, ``steps`` and ``loss``."""
        names = ("step", "steps", "loss")
        state = "cancelled" if self.cancelled() else "finished" if self.done() else "running"
        return {"state": state, **(dict(zip(names, self._progress, strict=True)) if self._progress else {})}

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
        """Set up for a model."""
        super().__init__()
        self.finetunable = True
        self.TrainingJob = LocalTrainingJob
        self._model = model

    def finetune(
        self,
        job: TrainingJob,
        model: str,
        train_data: Sequence[Mapping[str, Any]],
        train_data_format: TrainDataFormat | str | None,
        train_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Train."""
        if train_data_format not in (None, TrainDataFormat.CHAT):
            raise ConfigurationError(f"a model in this process is trained on chats, not on {train_data_format}")
        kwargs = dict(train_kwargs or {})
        folder = kwargs.pop("folder", None)
        options = TrainingOptions.of(kwargs)
        shown = [Conversation.of(one) for one in train_data]
        if folder is None:
            folder = Path(get_finetune_directory()) / f"keqa-{training_digest(self._model, shown, options)}"

        def progress(step: int, steps: int, loss: float) -> None:
            if isinstance(job, LocalTrainingJob):
                job._progress = (step, steps, loss)

        stopped = job._ended.is_set if isinstance(job, LocalTrainingJob) else bool
        return fine_tune(self._model, shown, folder, options, progress=progress, stopped=stopped).model


class InProcessLM(dspy.LM):
    """A language model of this process. A copy that names another model is that model, with the same settings."""

    @property
    def finetuned(self) -> bool:
        """Whether it was fine-tuned here, on prompts without demonstrations."""
        return (Path(self.engine.path) / TRAINING).is_file()

    def copy(self, **kwargs: Any) -> dspy.LM:
        """A copy with other settings; see ``dspy.LM.copy``."""
        model: Any = kwargs.get("model", self.model)
        if model == self.model:
            same: dspy.LM = super().copy(**kwargs)
            return same
        from keqa.lms.factory import build_lm

        made = build_lm(model, num_retries=self.num_retries, cache=self.cache)
        own = {name: value for name, value in kwargs.items() if name != "model"}
        made.kwargs, made.callbacks = dict(self.kwargs), list(self.callbacks or [])
        found: dspy.LM = made.copy(**own) if own else made
        return found
