"""DSPy's optimizers, run by themselves or by `keqa.compile`."""

import tempfile
from collections.abc import Callable

import dspy
import numpy as np

import keqa
from dspy_uses.checks import Module, expect, right, train
from dspy_uses.scripted import QUESTION, language_model, program, search
from keqa.data.question import question_digest
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference


def optimizer(make: Callable[[dspy.LM], dspy.Module]) -> Callable[[], None]:
    """Makes a row of what makes a program with one of DSPy's optimizers, run by itself."""

    def row() -> None:
        lm = language_model()
        with dspy.context(lm=lm):
            expect(make(lm)(question=QUESTION).answer, "Norway")

    row.__doc__ = make.__doc__
    return row


@optimizer
def bootstrap(lm: dspy.LM) -> dspy.Module:
    """BootstrapFewShot."""
    return dspy.BootstrapFewShot(keqa.optimizer_metric(), max_labeled_demos=0).compile(program(lm), trainset=train())


@optimizer
def random_search(lm: dspy.LM) -> dspy.Module:
    """BootstrapFewShotWithRandomSearch."""
    chosen = dspy.BootstrapFewShotWithRandomSearch(
        keqa.optimizer_metric(), max_labeled_demos=0, num_candidate_programs=1, num_threads=1
    )
    return chosen.compile(program(lm), trainset=train())


@optimizer
def gepa(lm: dspy.LM) -> dspy.Module:
    """GEPA."""
    chosen = dspy.GEPA(keqa.optimizer_metric(), reflection_lm=lm, max_metric_calls=12, num_threads=1)
    return chosen.compile(program(lm), trainset=train(), valset=train())


@optimizer
def simba(lm: dspy.LM) -> dspy.Module:
    """SIMBA."""
    chosen = dspy.SIMBA(metric=right, bsize=2, num_candidates=2, max_steps=1, num_threads=1)
    return chosen.compile(program(lm), trainset=train())


@optimizer
def copro(lm: dspy.LM) -> dspy.Module:
    """COPRO."""
    chosen = dspy.COPRO(prompt_model=lm, metric=right, breadth=2, depth=1)
    return chosen.compile(program(lm), trainset=train(1), eval_kwargs={"num_threads": 1, "display_progress": False})


@optimizer
def mipro(lm: dspy.LM) -> dspy.Module:
    """MIPROv2."""
    chosen = dspy.MIPROv2(
        right, prompt_model=lm, task_model=lm, auto=None, num_candidates=2, max_labeled_demos=0, num_threads=1
    )
    return chosen.compile(program(lm), trainset=train(), valset=train(), num_trials=1, minibatch=False)


@optimizer
def better_together(lm: dspy.LM) -> dspy.Module:
    """BetterTogether (prompts)."""
    chosen = dspy.BetterTogether(right, p=dspy.BootstrapFewShot(right, max_labeled_demos=0))
    return chosen.compile(program(lm), trainset=train(), valset=train(), strategy="p")


@optimizer
def knn(lm: dspy.LM) -> dspy.Module:
    """KNNFewShot."""
    vectors = dspy.Embedder(lambda texts: np.ones((len(texts), 2)), caching=False)
    chosen = dspy.KNNFewShot(k=1, trainset=train(2), vectorizer=vectors, metric=right, max_labeled_demos=0)
    return chosen.compile(program(lm))


def no_question_is_shown_its_own_labels() -> None:
    """No optimizer shows a question its own labels."""
    lm, (example,) = language_model(), train(1)
    label = UtilityEntry("q", "In which country is Bergen?", "own label", True, question_digest(example.question))
    asked = program(lm, reference=UtilityReference(least=0).fit([label]))
    dspy.BootstrapFewShot(right, max_labeled_demos=0).compile(asked, trainset=[example])
    expect(any("own label" in prompt for prompt in lm.engine.prompts), False)


def bootstrap_finetune() -> None:
    """BootstrapFinetune."""
    with tempfile.TemporaryDirectory() as folder:
        kwargs = {"folder": f"{folder}/adapter", "epochs": 1, "rank": 2}
        asked = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"))
        chosen = dspy.BootstrapFinetune(metric=None, num_threads=1, train_kwargs=kwargs)
        learned = chosen.compile(asked, trainset=train(1))
    expect(learned.get_lm().model.startswith("transformers/adapter@"), True)
    expect(isinstance(learned(question=QUESTION).answer, str), True)


def better_together_with_weights() -> None:
    """BetterTogether (prompts, then weights)."""
    with tempfile.TemporaryDirectory() as folder:
        kwargs = {"folder": f"{folder}/adapter", "epochs": 1, "rank": 2}
        asked = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"))
        chosen = dspy.BetterTogether(
            right,
            p=dspy.BootstrapFewShot(right, max_labeled_demos=0),
            w=dspy.BootstrapFinetune(num_threads=1, train_kwargs=kwargs),
        )
        learned = chosen.compile(asked, trainset=train(2), valset=[], strategy="p -> w")
    expect(learned.get_lm().model.startswith("transformers/adapter@"), True)


def compile_with_an_optimizer_and_a_metric() -> None:
    """keqa.compile: optimizer objects, metrics, a result to ask."""
    compiled = keqa.compile(
        program(), train(), optimizer=dspy.BootstrapFewShot(), metric=right, reference=False, tuning=False
    )
    expect(compiled(question=QUESTION).answer, "Norway")
    expect(
        [name for name, _ in Module(compiled).named_predictors()], [f"ask.{n}" for n, _ in compiled.named_predictors()]
    )


def compile_in_a_parent() -> None:
    """keqa.compile in a parent."""
    keqa.compile(Module(program()), train(), metric=right, reference=False, tuning=False)
