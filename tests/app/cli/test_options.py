"""Groups of options become options of a command, and the command is kept without secrets, addresses and folders."""

from functools import wraps
from types import SimpleNamespace

import pytest
import typer
from fixtures.boundary import make_model
from typer.testing import CliRunner

import keqa
from keqa.cli import ask, compile, evaluate, reproduce
from keqa.cli.declare import given, invocation, with_groups
from keqa.cli.options import LanguageModels
from keqa.programs.gates import BoundaryGate
from keqa.programs.saving import learned_of_another

app = typer.Typer()
runner = CliRunner()
seen = {}


def only_seen(command):
    """A command with the options of another one, which does nothing."""

    @wraps(command)
    def called(**values):
        seen.update(values, command=invocation())

    return with_groups(called)


for command in (ask.ask, evaluate.evaluate, evaluate.compare, compile.compile_command, reproduce.reproduce):
    app.command(command.__name__.removesuffix("_command"))(only_seen(command))


def run(*typed):
    seen.clear()
    ended = runner.invoke(app, typed, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return seen


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["compare", "keqa", "rag:top_k=5", "--testbed"], "keqa compare keqa rag:top_k=5 --testbed"),
        (["ask", "Was it red and/or blue, at 10:30?"], "keqa ask 'Was it red and/or blue, at 10:30?'"),
        (["compile", "/home/me/train.jsonl", "--out=~/mine/p"], "keqa compile train.jsonl --out p"),
        (["compile", "musique:/data/train.jsonl", "--out=p"], "keqa compile train.jsonl --out p"),
        (["ask", "Who?", "-p", "/srv/mine/"], "keqa ask 'Who?' --program mine"),
        (["evaluate", "keqa", "-q", "nq", "--data", "sets/nq"], "keqa evaluate keqa --questions nq --data nq"),
        (
            ["ask", "Who?", "--api-base", "gpu:8000", "--lm", "hosted_vllm/m"],
            "keqa ask 'Who?' --lm hosted_vllm/m --api-base '<address>'",
        ),
        (
            ["ask", "Who?", "--utility-lm", "m", "--utility-api-base=gpu"],
            "keqa ask 'Who?' --utility-lm m --utility-api-base '<address>'",
        ),
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
        (["ask", "Who?", "--no-cite", "--draft"], "keqa ask 'Who?' --draft --no-cite"),
        (["compile", "-op", "-p/home/me/before"], "keqa compile --out p --program before"),
        (["compile", "-op", "--embedder", "/srv/models/e5"], "keqa compile --out p --embedder e5"),
    ],
)
def test_no_address_and_no_folder_of_this_machine_is_kept(typed, kept):
    assert run(*typed)["command"] == kept


def test_a_command_is_called_with_its_groups():
    options = run("ask", "Who?", "--lm", "openai/m", "--tries", "3", "--threshold", "4/5", "--no-pick", "--select")[
        "options"
    ]
    assert options.models == LanguageModels("openai/m")
    assert options.method.settings() == {"tries": 3, "threshold": "4/5", "pick": False, "select": True}
    assert run("compile", "-op", "--no-tuning", "--budget", "20")["learning"].arguments() == {
        **{"optimizer": "bootstrap", "budget": 20, "training": {}, "demos": 4, "judge_demos": 8, "sets": 4},
        **{"cost_per_retrieval": None, "cost_per_call": None, "boundary": True, "boundary_tries": 10},
        **{"reference": True, "tuning": False, "embedder": None, "seed": 0, "in_flight": 8},
    }


def test_a_group_may_be_made_of_groups_and_the_options_that_were_given_are_named():
    typed = ("compare", "a.jsonl", "-o", "x", "-p", "one", "-p", "two", "--seed", "0", "--no-cache")
    assert list(given(run(*typed)["options"])) == ["--out", "--no-cache", "--program"]
    shown = run("compare", "keqa", "--limit", "3", "--tries", "7", "--lm", "openai/m", "--seed", "2")
    options = shown["options"]
    found = (options.questions.limit, options.method.tries, options.models.lm, options.run.in_flight)
    assert found == (3, 7, "openai/m", 8)
    assert list(given(options)) == ["--seed", "--limit", "--tries", "--lm"]
    assert shown["command"] == "keqa compare keqa --seed 2 --limit 3 --tries 7 --lm openai/m"


def test_a_boundary_model_of_the_same_language_model_is_known_whoever_serves_it(scripted, caplog):
    def warns(learned, asked, *, examine=True):
        program = keqa.KEQA(None, examine=examine, gate=BoundaryGate(make_model(about={"lm": learned})))
        program.examination.quiz.lm = SimpleNamespace(model=asked)
        return bool(learned_of_another(program))

    assert [warns("vllm/qwen@ab", "vllm/qwen@cd"), warns("openai/gpt-4o", "openai/gpt-4o-mini")] == [True, True]
    assert not warns("openai/Qwen/Qwen3-8B", "hosted_vllm/Qwen/Qwen3-8B")
    assert not warns("transformers/finetuned-1@ab", "transformers/program.lm@ab")
    assert not warns("openai/gpt-4o", "openai/gpt-4o-mini", examine=False)
    assert not warns("openai/gpt-4o", object())
    # In Python, loading says it.
    with caplog.at_level("WARNING", "keqa.programs"):
        keqa.load("testbed", None, keqa.Roles(*[scripted(dict)[0]] * 3))
    assert "by what keqa/tiny@" in caplog.text
