"""Defaults of options from files and variables, and where each comes from."""

from __future__ import annotations

import json

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
    ended = keqa_command("config", "--json")
    assert ended.code == 0, ended.err
    return {row["option"]: (row["value"], row["from"]) for row in json.loads(ended.out)["settings"]}


def test_nothing_is_set(keqa_command):
    assert shown(keqa_command) == {
        "api-base": ("the provider's", "built in"),
        "index": ("the testbed's encyclopedia", "built in"),
        "lm": ("keqa/tiny, which ships with KEQA", "built in"),
    }


def test_a_folder_goes_before_the_user_and_variables_before_both(keqa_command, folder, own, monkeypatch):
    own.write_text('lm = "openai/own"\nindex = "own-index"\n[ask]\ntop-k = 3\nhtml = "story.html"\n')
    (folder / "keqa.toml").write_text('lm = "openai/here"\n')
    monkeypatch.setenv("KEQA_INDEX", "from-variable")
    assert shown(keqa_command) == {
        "[ask] top-k": ("3", str(own)),
        "[ask] html": ("story.html", str(own)),
        "api-base": ("the provider's", "built in"),
        "index": ("from-variable", "KEQA_INDEX"),
        "lm": ("openai/here", "keqa.toml"),
    }


def test_a_path_below_ones_own_folder(keqa_command, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    (folder / "keqa.toml").write_text('index = "~/notes-index"\nprogram = "~ann/x"\n')
    assert shown(keqa_command)["index"] == ("/home/ann/notes-index", "keqa.toml")
    assert shown(keqa_command)["program"] == ("~ann/x", "keqa.toml")


@pytest.mark.server
def test_options_take_their_defaults(keqa_command, folder, server, own_index):
    asked = ("ask", "To whom is the mayor of Carmouth married?", "--json")
    (folder / "keqa.toml").write_text(
        f'lm = "openai/scripted"\napi_base = "{server.api_base}"\nindex = "{own_index}"\n[ask]\ntries = 3\n'
    )
    ended = keqa_command(*asked)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["quizzes"][0]["tries"] == 3
    assert json.loads(keqa_command(*asked, "--tries", 4).out)["quizzes"][0]["tries"] == 4


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
        ('api_base = "http://evil.example/v1"', "a server elsewhere"),
        ('api_base = "evil.example"', "a server elsewhere"),
        ('api_base = "http://localhost@evil.example/v1"', "a server elsewhere"),
        ('index = "mine,elasticsearch://evil.example:9200/x"', "a server elsewhere"),
        ('[ask]\nhtml = "/etc/passwd"', "may not be set by the file of a folder"),
        ('[serve]\nhost = "0.0.0.0"', "may not be set by the file of a folder"),
        ('[serve]\ntoken_file = "t"', "may not be set by the file of a folder"),
        ('lmm = "x"', "is lm meant?"),
        ('[ask]\nout = "x"', "no option that keqa ask has is called out"),
        ("[asking]\ntries = 3", "there is no command keqa asking"),
        ('api_key = "sk-0123456789"', "variables of the environment"),
        ("lm = {", "is not TOML"),
        ("lm = 2020-01-01", "must be a text"),
    ],
)
def test_what_a_folder_may_not_set(keqa_command, folder, text, why):
    (folder / "keqa.toml").write_text(text)
    ended = keqa_command("ask", "Who?")
    assert ended.code == 2
    assert why in ended.err
    assert "keqa.toml" in ended.err
    assert "sk-0123456789" not in ended.err


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
