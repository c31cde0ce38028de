"""Defaults of options from files and variables, and where each comes from."""

import json
import os
import time

import pytest

from keqa.errors import InputError

VARIABLES = ("KEQA_LM", "KEQA_API_BASE", "KEQA_INDEX")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    here, own = tmp_path / "here", tmp_path / "user"
    here.mkdir()
    own.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own))
    for name in (*VARIABLES, "KEQA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (own / "keqa").mkdir()
    return here


@pytest.fixture
def own(tmp_path):
    return tmp_path / "user" / "keqa" / "keqa.toml"


def shown(keqa_command):
    out = keqa_command("config", "--json").fine()
    return {row["option"]: (row["value"], row["from"]) for row in json.loads(out)["settings"]}


def test_nothing_is_set(keqa_command):
    assert shown(keqa_command) == {
        "api-base": ("the provider's", "built in"),
        "index": ("the testbed's encyclopedia", "built in"),
        "lm": ("keqa/tiny, which ships with KEQA", "built in"),
    }


def test_a_file_that_windows_wrote(keqa_command, own):
    own.write_bytes(b'\xef\xbb\xbfindex = "own-index"\r\n')
    assert shown(keqa_command)["index"] == ("own-index", str(own))


def test_a_folder_goes_before_the_user_and_variables_before_both(keqa_command, folder, own, monkeypatch):
    own.write_text('lm = "openai/own"\nindex = "own-index"\n[ask]\ntop-k = 3\nhtml = "story.html"\n')
    (folder / "keqa.toml").write_text('lm = "openai/here"\n')
    monkeypatch.setenv("KEQA_INDEX", "from-variable")
    assert shown(keqa_command) == {
        "[ask] top-k": ("3", str(own)),
        "[ask] html": ("story.html", str(own)),
        "api-base": ("the provider's", "built in"),
        "index": ("from-variable", "KEQA_INDEX"),
        "lm": ("openai/here", "keqa.toml (not trusted)"),
    }
    assert "keqa config trust" in keqa_command("ask", "Who?", "--index", "x").err
    assert keqa_command("config", "trust").code == 0
    assert shown(keqa_command)["lm"] == ("openai/here", "keqa.toml")


def test_harmless_settings_of_a_folder_are_used(keqa_command, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    (folder / "keqa.toml").write_text(
        'index = "my-index,other"\nprogram = "programs/mine"\n[ask]\ntries = 3\nfull = true\n'
    )
    rows = shown(keqa_command)
    assert {rows[name][1] for name in ("index", "program", "[ask] tries", "[ask] full")} == {"keqa.toml"}
    # A path below one's own folder is no path of this one.
    (folder / "keqa.toml").write_text('index = "~/notes-index"\nprogram = "~ann/x"\n')
    assert shown(keqa_command)["index"] == ("/home/ann/notes-index", "keqa.toml (not trusted)")
    assert shown(keqa_command)["program"] == ("~ann/x", "keqa.toml (not trusted)")


@pytest.mark.server
def test_options_take_their_defaults(keqa_command, folder, server, own_index):
    asked = ("ask", "To whom is the mayor of Carmouth married?", "--json")
    (folder / "keqa.toml").write_text(
        f'lm = "openai/scripted"\napi_base = "{server.api_base}"\nindex = "{own_index}"\n'
        "[ask]\ntries = 3\nno_look_first = true\ndraft = false\nsettle = 'quizzes'\n"
    )
    assert keqa_command(*asked).code == 2
    assert keqa_command("config", "trust").code == 0
    out = keqa_command(*asked).fine()
    assert json.loads(out)["quizzes"][0]["tries"] == 3
    assert keqa_command(*asked, "--tries", 4).json()["quizzes"][0]["tries"] == 4


def test_the_command_that_builds_an_index_takes_its_defaults(keqa_command, folder):
    (folder / "notes.txt").write_text("1871, 1902")
    (folder / "keqa.toml").write_text("k = 2\n[index]\nlanguage = 'fr'\n")
    assert shown(keqa_command)["[index] language"] == ("fr", "keqa.toml")
    assert "(fr)" in keqa_command("index", "notes.txt", "--out", "i").fine()
    # It means nothing to this engine.
    (folder / "keqa.toml").write_text("[index]\nseparator = '; '\n")
    assert keqa_command("config", "trust").code == 0
    assert "Indexed 1 passage" in keqa_command("index", "notes.txt", "--out", "i").fine()


@pytest.mark.server
def test_an_address_belongs_to_its_language_model(keqa_command, server, own, monkeypatch):
    own.write_text(f'lm = "openai/other"\napi_base = "{server.api_base}"\n')
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    addresses = []

    def roles(self, **further):
        addresses.append(self.api_base)
        raise InputError("enough")

    monkeypatch.setattr("keqa.cli.options.LanguageModels.roles", roles)
    for lm in (["--lm", "anthropic/claude"], ["--lm", "openai/other"], []):
        keqa_command("ask", "Who?", *lm)
    assert addresses == [None, server.api_base, server.api_base]
    monkeypatch.setenv("KEQA_LM", "anthropic/claude")
    assert shown(keqa_command)["api-base"] == ("the provider's", "built in")
    assert server.count == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('lmm = "x"', "is lm meant?"),
        ('[ask]\nout = "x"', "no option that keqa ask has is called out"),
        ("[asking]\ntries = 3", "there is no command keqa asking"),
        ('api_key = "sk-0123456789"', "variables of the environment"),
        ("lm = {", "is not TOML"),
        ("lm = 2020-01-01", "must be a text"),
    ],
)
def test_what_is_no_setting(keqa_command, folder, text, why):
    (folder / "keqa.toml").write_text(text)
    ended = keqa_command("ask", "Who?")
    assert ended.code == 2
    assert why in ended.err
    assert "keqa.toml" in ended.err
    assert "sk-0123456789" not in ended.err


@pytest.mark.parametrize(
    "text",
    [
        'index = "didx@stranger/evil-model"',
        'index = "/etc"',
        'index = "inside,../outside"',
        'index = "link"',
        'index = "elasticsearch://localhost:9200/x"',
        'index = "a\\u0000b"',
        'program = "~root/x"',
        'chooser = "/etc/passwd"',
        'lm = "transformers/stranger/x"',
        'lm = "openai/gpt-4o-mini"',
        'utility_lm = "openai/gpt-4o-mini"',
        'lm = "openai/x"\napi_base = "http://localhost:1/v1"',
        'embedder = "stranger/x"',
        '[ask]\nhtml = "/etc/passwd"',
        '[ask]\nlm = "x/y"',
    ],
)
def test_what_a_strangers_file_sets_is_not_used(keqa_command, folder, monkeypatch, text):
    monkeypatch.setattr("keqa.cli.options.open_retriever", lambda *_: pytest.fail("it opens something"))
    (folder / "link").symlink_to("/etc")
    (folder / "keqa.toml").write_text(text)
    ended = keqa_command("ask", "Who?")
    assert ended.code == 2
    assert "keqa config trust" in ended.err
    assert keqa_command("ask", "--help").code == 0
    assert keqa_command("index", "--help").code == 0


@pytest.mark.parametrize("text", ['lm = "openai/gpt-4o-mini"', 'index = "/etc"', '[ask]\nlm = "x/y"'])
def test_a_command_that_takes_nothing_of_a_strangers_file_runs(keqa_command, folder, text):
    (folder / "keqa.toml").write_text(text)
    assert keqa_command("testbed", "questions", "--count", "1").code == 0


def test_a_file_is_trusted_as_it_is_and_where_it_is(keqa_command, folder, tmp_path, monkeypatch):
    (folder / "keqa.toml").write_text('lm = "openai/here"\n')
    assert keqa_command("config", "trust").code == 0
    assert shown(keqa_command)["lm"][1] == "keqa.toml"
    (folder / "keqa.toml").write_text('lm = "openai/other"\n')
    assert shown(keqa_command)["lm"][1] == "keqa.toml (not trusted)"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keqa.toml").write_text('lm = "openai/here"\n')
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert shown(keqa_command)["lm"][1] == "keqa.toml (not trusted)"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes of this kind")
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "deep", "long", "keys", "headers", "inline"])
def test_a_hostile_file_of_settings_ends_in_a_line(keqa_command, folder, kind):
    file = folder / "keqa.toml"
    dotted = ".".join("a" * 32_000)
    texts = {
        "deep": "a = " + "[" * 60_000,
        "long": "# " + "x" * 70_000,
        "keys": f"{dotted} = 1",
        "headers": f"[{dotted}]",
        "inline": f"a = {{{dotted} = 1}}",
    }
    if kind == "pipe":
        os.mkfifo(file)
    elif kind in ("device", "link"):
        file.symlink_to("/dev/zero" if kind == "device" else folder / "other.toml")
        (folder / "other.toml").write_text("tries = 3\n")
    else:
        file.write_text(texts[kind])
    started = time.perf_counter()
    ended = keqa_command("config")
    assert (ended.code, "Traceback" in ended.err) == (2, False)
    assert "keqa.toml" in ended.err
    # A minute or more before.
    assert time.perf_counter() - started < 20


def test_a_file_named_by_the_variable(keqa_command, tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    monkeypatch.setenv("KEQA_CONFIG", str(file))
    assert "which is missing" in keqa_command("ask", "Who?").err
    file.write_text('api_base = "https://llm.example.org/v1"\nlm = "openai/x"\n')
    assert shown(keqa_command)["api-base"] == ("https://llm.example.org/v1", str(file))


def test_secrets_are_never_shown(keqa_command, own, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    monkeypatch.setenv("KEQA_INDEX", "elasticsearch://elastic:pass-word-1@es.example:9200/wiki")
    own.write_text('lm = "openai/sk-0123456789abcdef"\n')
    for ended in (keqa_command("config"), keqa_command("config", "--json")):
        assert ended.code == 0
        assert "OPENAI_API_KEY" in ended.out
        assert "sk-0123456789" not in ended.out
        assert "pass-word-1" not in ended.out


@pytest.mark.server
def test_what_a_variable_or_file_sets_is_passed_over_where_it_means_nothing(
    keqa_command, folder, own, server, own_index, monkeypatch
):
    own.write_text(
        'tries = 3\nembedder = "local/x"\nretriever = "bm25"\ncalibrated_on = "x.jsonl"\n'
        "full = true\ncost_per_call = 0.01\n"
    )
    for name, value in {"INDEX": own_index, "LM": "openai/scripted", "API_BASE": server.api_base}.items():
        monkeypatch.setenv(f"KEQA_{name}", str(value))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    testbed = ("--testbed", "--limit", "1", "--lm", "keqa/tiny")
    for command in (
        ["evaluate", "closed-book", *testbed],
        ["compare", "runs"],
        ["ask", "To whom is the mayor of Carmouth married?", "--json"],
        ["reproduce", "--list"],
    ):
        ended = keqa_command(*command)
        assert ended.code == 0, (command, ended.err)
    assert "nowhere is missing" in keqa_command("boundary", "train", "nowhere", "--out", "model.json").err
    monkeypatch.delenv("KEQA_LM")
    keqa_command("evaluate", "closed-book", *testbed[:3], "--out", "other").fine()
    for command, flag in (
        (["compare", "runs", "--index", "x"], "--index"),
        (["evaluate", "closed-book", "--tries", "3", *testbed], "--tries"),
        (["evaluate", "closed-book", "--index", "x", *testbed], "--index"),
    ):
        refused = keqa_command(*command)
        assert (refused.code, flag in refused.err) == (2, True)
