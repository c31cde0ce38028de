"""Groups of options become options of a command, and the command is kept without secrets, addresses and folders."""

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from keqa.cli.compile import LearningOptions
from keqa.cli.declare import argument, given, invocation, option, with_groups
from keqa.cli.options import (
    AS_JSON,
    INDEX,
    EvaluationOptions,
    KeqaOptions,
    LanguageModels,
    MethodOptions,
    QuestionOptions,
    RunOptions,
)
from keqa.cli.reproduce import PaperOptions

app = typer.Typer()
runner = CliRunner()
seen = {}


@app.command()
@with_groups
def ask(
    *,
    question: str = argument("QUESTION", "Any."),
    program: Path | None = option("A folder.", "-p"),
    index: str | None = INDEX,
    models: LanguageModels,
    method: KeqaOptions,
) -> None:
    seen.update(command=invocation(), models=models, method=method)


@app.command()
@with_groups
def evaluate(
    *,
    methods: list[str] = argument("METHOD...", "Any."),
    as_json: bool = AS_JSON,
    questions: QuestionOptions,
    run: RunOptions,
    options: MethodOptions,
    models: Annotated[LanguageModels, "Somewhere else"],
) -> None:
    seen.update(command=invocation(), flags=list(given(questions, run, options, models)))


@app.command()
@with_groups
def compare(options: EvaluationOptions) -> None:
    seen.update(command=invocation(), options=options, flags=list(given(options)))


@app.command("compile")
@with_groups
def compile_command(
    *,
    train: Path | None = argument("TRAIN", "Pairs.", default=None),
    out: Path | None = option("A folder.", "-o"),
    learning: LearningOptions,
) -> None:
    seen.update(command=invocation(), arguments=learning.arguments())


@app.command()
@with_groups
def reproduce(*, names: list[str] = argument("NAME...", "Any."), paper: PaperOptions) -> None:
    seen.update(command=invocation())


def run(*typed):
    seen.clear()
    ended = runner.invoke(app, typed, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return seen


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["evaluate", "keqa", "rag:top_k=5", "--testbed"], "keqa evaluate keqa rag:top_k=5 --testbed"),
        (["ask", "Was it red and/or blue, at 10:30?"], "keqa ask 'Was it red and/or blue, at 10:30?'"),
        (["compile", "/home/me/train.jsonl", "--out=~/mine/p"], "keqa compile train.jsonl --out p"),
        (["compile", "musique:/data/train.jsonl"], "keqa compile train.jsonl"),
        (["ask", "Who?", "-p", "/srv/mine/"], "keqa ask 'Who?' --program mine"),
        (["evaluate", "keqa", "-q", "nq", "--data", "sets/nq"], "keqa evaluate keqa --questions nq --data nq"),
        (
            ["ask", "Who?", "--api-base", "gpu:8000", "--lm", "hosted_vllm/m"],
            "keqa ask 'Who?' --lm hosted_vllm/m --api-base '<address>'",
        ),
        (["ask", "Who?", "--utility-api-base=gpu"], "keqa ask 'Who?' --utility-api-base '<address>'"),
        (["compile", "--reflection-api-base=gpu"], "keqa compile --reflection-api-base '<address>'"),
        (["ask", "Who?", "--lm", "transformers//srv/models/m"], "keqa ask 'Who?' --lm transformers/m"),
        (["ask", "Who?", "--lm=transformers/~/m"], "keqa ask 'Who?' --lm transformers/m"),
        (["ask", "Who?", "-m", "transformers/org/m"], "keqa ask 'Who?' --lm transformers/org/m"),
        (["evaluate", "keqa", "--index", "mine/wiki"], "keqa evaluate keqa --index mine/wiki"),
        (["evaluate", "keqa", "-i", "C:\\mine\\wiki"], "keqa evaluate keqa --index wiki"),
        (["ask", "Who?", "--index", "elasticsearch://10.0.0.7:9200/wiki"], "keqa ask 'Who?' --index '<address>'"),
        (["ask", "Who?", "-i", "/srv/dense@/srv/models/e5"], "keqa ask 'Who?' --index dense@e5"),
        (["ask", "Who?", "-i", "/srv/dense@intfloat/e5"], "keqa ask 'Who?' --index dense@intfloat/e5"),
        (
            ["reproduce", "paper", "--dense-index=/srv/a,/srv/b,elasticsearch+https://one:1,two:2/in/wiki"],
            "keqa reproduce paper --dense-index 'a,b,<address>'",
        ),
        (
            ["evaluate", "rag", "-qnq:/data/nq/dev.jsonl", "-o/tmp/a"],
            "keqa evaluate rag --questions nq:dev.jsonl --out a",
        ),
        (
            ["reproduce", "paper", "--data=NQ:~/in//a.jsonl", "--data", "strategyqa"],
            "keqa reproduce paper --data NQ:a.jsonl --data strategyqa",
        ),
        (["compile", "--embedder", "/srv/models/e5"], "keqa compile --embedder e5"),
        (["ask", "Who?", "--embedder", "/srv/models/e5"], None),
    ],
)
def test_no_address_and_no_folder_of_this_machine_is_kept(typed, kept):
    if kept is None:
        assert runner.invoke(app, typed).exit_code == 2
        return
    assert run(*typed)["command"] == kept


def test_a_command_is_called_with_its_groups():
    found = run("ask", "Who?", "--lm", "openai/m", "--tries", "3", "--threshold", "4/5", "--no-pick", "--select")
    assert found["models"] == LanguageModels("openai/m")
    assert found["method"].settings() == {"tries": 3, "threshold": "4/5", "pick": False, "select": True}
    assert run("compile", "--no-tuning", "--budget", "20")["arguments"] | {"seed": 0} == {
        "optimizer": "bootstrap",
        "budget": 20,
        "training": {},
        "demos": 4,
        "judge_demos": 8,
        "sets": 4,
        "cost_per_retrieval": None,
        "cost_per_call": None,
        "boundary": True,
        "boundary_tries": 10,
        "reference": True,
        "tuning": False,
        "embedder": None,
        "seed": 0,
        "in_flight": 8,
    }


def test_a_group_may_be_made_of_groups_and_the_options_that_were_given_are_named():
    typed = ("evaluate", "a.jsonl", "-o", "x", "-p", "one", "-p", "two", "--seed", "0", "--no-cache")
    assert run(*typed)["flags"] == ["--out", "--no-cache", "--program"]
    shown = run("compare", "--limit", "3", "--tries", "7", "--lm", "openai/m", "--risk", "0.2")
    options = shown["options"]
    found = (options.questions.limit, options.method.tries, options.models.lm, options.risk.risk, options.run.in_flight)
    assert found == (3, 7, "openai/m", 0.2, 8)
    assert shown["flags"] == ["--limit", "--tries", "--lm", "--risk"]
    assert shown["command"] == "keqa compare --limit 3 --tries 7 --lm openai/m --risk 0.2"
