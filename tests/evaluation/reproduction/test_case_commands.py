import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.evaluation.reproduction.case_commands import check_command, options_of
from keqa.evaluation.reproduction.expectations import case_names, load_case


@pytest.mark.parametrize(
    "command",
    [
        "keqa compare keqa rag:top_k=5 --testbed --limit 60 --program {folder}/program --out {folder}",
        "keqa compile --testbed --limit 200 --out {folder}/program --work {folder}/work --embedder hashing-256",
        "keqa compile train.jsonl --val sets/val.jsonl -o {folder} --lm keqa/tiny --reflection-lm=keqa/tiny",
        "keqa evaluate ks-llm:similarity=local/minilm -q two.jsonl --index own --threshold 4/5 -o {folder} --json",
        "keqa compare gate-boundary:model={folder}/b.json,of=certainty kbm:model=kbm.json keqa:threshold=4/5 --testbed",
        "keqa ask 'Who is it?' --select --choice 'A and B' --choice 'C'",
        "keqa testbed check --skill 'reads a passage' --json",
        "keqa demo --questions 60 --json",
        "keqa documents --testbed --limit 20 --from index --out {folder}/documents.jsonl",
        "keqa compare ks-llm standard-doc --testbed --index documents:{folder}/documents.jsonl --out {folder}",
    ],
)
def test_what_runs_here_on_what_is_here(command):
    check_command(command, {})


def test_every_case_that_ships_may_run():
    assert [load_case(name).name for name in case_names()] == case_names()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("keqa compare rag --api-base http://x/v1 -o {folder}", "--api-base http://x/v1 is not the case's to say"),
        ("keqa compare rag --consistency-api-base=http://x", "--consistency-api-base http://x is not"),
        ("keqa compile --testbed -o {folder} --reflection-api-base http://x", "may not give --reflection-api-base"),
        ("keqa compare rag --lm transformers/x/y", "--lm transformers/x/y is not the language model that ships"),
        ("keqa compare rag -m ollama/x", "--lm ollama/x is not the language model that ships"),
        ("keqa compare rag --utility-lm openai/x", "--utility-lm openai/x is not"),
        ("keqa compile --testbed -o {folder} --reflection-lm openai/x", "--reflection-lm openai/x is not"),
        ("keqa compile --testbed -o {folder} --embedder a/model", "--embedder a/model may be fetched"),
        ("keqa compare ks-llm:similarity=a/model --testbed", "names an embedder that may be fetched"),
        ("keqa compare gate-boundary:model=/etc/passwd --testbed", "names a file outside the working folder"),
        ("keqa evaluate kbm:model=../other/kbm.json --testbed", "names a file outside the working folder"),
        ("keqa evaluate gate-boundary:model=link/x.json --testbed", "names a file outside the working folder"),
        ("keqa compare rag --data nq", "--data nq is not the case's to say"),
        ("keqa compare rag --testbed --out /home/me", "--out /home/me is elsewhere"),
        ("keqa compare rag --testbed --out runs", "--out runs is elsewhere"),
        ("keqa compare rag --testbed --out {folder}/../x", "is elsewhere"),
        ("keqa compile --testbed --out {folder} --work work", "--work work is elsewhere"),
        ("keqa evaluate rag -q ../secret.jsonl", "--questions ../secret.jsonl is outside the working folder"),
        ("keqa evaluate rag -q /etc/passwd", "--questions /etc/passwd is outside"),
        ("keqa evaluate rag -q link/x.jsonl", "--questions link/x.jsonl is outside"),
        ("keqa evaluate rag -q two.jsonl --index https://es:9200/x", "--index https://es:9200/x is outside"),
        ("keqa compare rag --testbed --index documents:/etc/x", "--index documents:/etc/x is outside"),
        ("keqa compare rag --testbed --index documents:../x", "--index documents:../x is outside"),
        ("keqa documents --testbed --lm openai/x -o {folder}/x", "--lm openai/x is not the language model that ships"),
        ("keqa documents --testbed -o here.jsonl", "--out here.jsonl is elsewhere"),
        ("keqa evaluate rag -q two.jsonl --program ~/x", "--program ~/x is outside"),
        ("keqa compile ../train.jsonl -o {folder}", "the file ../train.jsonl is outside"),
        ("keqa index docs --url http://x", "may not run keqa index"),
        ("keqa testbed", "may not run keqa testbed"),
        ("keqa reproduce mine.yaml", "a command is 'keqa"),
        ("OPENAI_BASE_URL=http://x keqa demo", "a command is 'keqa"),
        ("env keqa demo", "a command is 'keqa"),
        ("keqa demo --force", "may not give --force to keqa demo"),
        ("keqa compare rag -ohere", "may not give -ohere"),
        ("keqa compare -- rag", "may not give --"),
        ("keqa compare rag:top_k", "written as name=value"),
        ("keqa compare rag --testbed=yes", "--testbed takes no value"),
        ("keqa compare rag --limit", "--limit lacks its value"),
        ("keqa compare rag --limit '5; rm'", "is neither a number nor a name"),
        ("keqa compare 'rag", "No closing quotation"),
    ],
)
def test_what_a_case_may_not_do(tmp_path, monkeypatch, command, message):
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match=re.escape(message)):
        check_command(command, {})


def test_what_the_user_gives_as_well_may_be_used():
    command = "keqa compare rag --lm openai/x --api-base http://x/v1 --index es:9200 --data nq:/data/nq -o {folder}"
    given = {
        "--lm": ["openai/x"],
        "--api-base": ["http://x/v1"],
        "--index": ["es:9200"],
        "--data": ["x", "nq:/data/nq"],
    }
    check_command(command, given)
    assert options_of(command) == {*given, "--out"}
    for option in given:
        with pytest.raises(ValueError, match=option):
            check_command(command, {**given, option: ["other"]})


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(["keqa", "compare", "rag", "--lm", "-m", "--out", "--api-base", "{folder}", "="]) | st.text()
    )
)
def test_any_command_may_run_or_is_refused_in_words(words):
    try:
        check_command(" ".join(words), {})
    except ValueError as error:
        message = str(error)
    else:
        message = "it may run"
    assert message


@pytest.mark.parametrize(
    "command",
    [
        "keqa evaluate rag --testbed --index notes@evil/model",
        "keqa evaluate rag --questions q.jsonl --index notes,/etc",
        "keqa evaluate rag --questions q.jsonl --index notes,../other",
        "keqa evaluate rag --questions hotpotqa --index notes",
        "keqa compile squad --out {folder}/p",
        "keqa compile train.jsonl --val squad --out {folder}/p",
    ],
)
def test_nothing_is_fetched_and_no_index_elsewhere_is_read(command):
    with pytest.raises(ValueError, match=r"may be fetched|outside the working folder|is no file of questions"):
        check_command(command, {})


def test_several_indexes_of_the_working_folder_may_be_joined():
    check_command("keqa evaluate rag --questions q.jsonl --index notes,more/notes", {})
