"""What a user can put right: exit code 2 and one message that says what, before anything is asked or written."""

import json
import shlex

import pytest
from fixtures.boundary import make_model

pytestmark = pytest.mark.server

TOWNS = ("Carmouth", "Marton", "Kelford", "Norhaven", "Vinton", "Calland", "Morhaven", "Wenford")
PAPER = "reproduce paper {lm} --index own --data nq:NQ-open.dev.jsonl"
TRAIN = "compile train.jsonl {lm} --index own --out made"

MISTAKES = [
    ("answer Why?", "answer"),
    ("ask", "QUESTION"),
    ("ask ''", "the question is empty"),
    ("ask '\udcff\ud800'", "the question is empty"),
    ("ask '" + "why " * 25_000 + "' {lm} --index own", "characters; at most"),
    ("ask Why? --lm nobody/nothing", "nobody/nothing"),
    ("ask Why? --lm gpt", "'gpt'"),
    ("ask Why? --lm openai/gpt-4o-mini", "OPENAI_API_KEY"),
    ("ask Why? --lm hosted_vllm/some", "--api-base"),
    ("ask Why? --api-base http://127.0.0.1:9/v1", "--api-base needs --lm"),
    ("ask Why? --lm transformers/no/such/folder", "no/such/folder"),
    ("ask Why? --index nowhere", "nowhere"),
    ("ask Why? --threshold 3/2", "--threshold must be a share above 0 and at most 1"),
    ("ask Why? --tries 0", "--tries"),
    ("ask Why? --answer-type long", "'long'"),
    ("ask Why? --answer-type choice", "--choice"),
    ("ask Why? --json --quiet", "leave out --full and --quiet"),
    ("ask Why? --index own", "knows only the testbed"),
    ("ask Why? {lm} --index own --program nowhere", "holds no compiled program"),
    ("ask Why? {lm} --index own --method nothing", "'nothing' is no method. There are"),
    ("ask Why? {lm} --index own --method standard --threshold 4/5", "--threshold means nothing to standard"),
    ("ask Why? {lm} --index own --method gate-oracle", "needs the gold answers"),
    ("ask Why? {lm} --index own --html missing/story.html", "there is no folder"),
    ("ask Why? {lm} --unanswered loudly", "'loudly' is not one of"),
    ("ask Why? --risk 0.1", "--risk needs --calibrated-on: the run file of this program"),
    ("ask Why? --delta 0.05", "--calibrated-on and --delta need --risk"),
    ("ask Why? --risk 0.1 --calibrated-on run.jsonl", "run.jsonl cannot be read: it is missing"),
    ("chat --api-base http://127.0.0.1:1/v1", "--api-base needs --lm"),
    ("demo --questions 100000", "200 test questions"),
    ("compile --out made {lm} --index own", "give one of a file of question-answer pairs, --data and --testbed"),
    (f"{TRAIN} --testbed", "give one of a file of question-answer pairs, --data and --testbed"),
    ("compile --testbed --index x --out made", "leave out --index"),
    ("compile train.jsonl {lm} --out made", "name with --index the passages that the questions are about"),
    ("evaluate rag -q train.jsonl {lm} --out none", "name with --index the passages that the questions are about"),
    (f"{TRAIN} --val-limit 3", "--val-limit needs --val"),
    (f"{TRAIN} --sample 3", "--split and --sample are those of --data"),
    ("compile --data trivia {lm} --index own --out made", "'trivia' is no benchmark"),
    ("compile --data nq:a --data nq:b {lm} --index own --out made", "nq is named twice"),
    (f"{TRAIN} --reflection-api-base http://box:1", "--reflection-api-base needs --reflection-lm"),
    (f"{TRAIN} --method keqa-full", "keqa-full is made from a compiled keqa"),
    (f"{TRAIN} --method closed-book --top-k 3", "--top-k means nothing to closed-book"),
    (f"{TRAIN} --method rag:tries=3", "rag has no tries"),
    (f"{TRAIN} --method rag --cost-per-retrieval 0.1", "cost_per_retrieval weighs searches"),
    (f"{TRAIN} --no-tuning --cost-per-retrieval 0.3", "are tuned, and that is left out: leave it out"),
    (f"{TRAIN} --budget heavy", "budget is that of gepa, mipro, simba, and bootstrap has none"),
    (f"{TRAIN} --no-reference --embedder hashing", "utility reference, and none is built"),
    (f"{TRAIN} --optimizer gepa", "--reflection-lm"),
    (f"{TRAIN} --reflection-lm openai/x", "--optimizer bootstrap asks none"),
    (f"{TRAIN} --optimizer mipro --reflection-lm {{judge}} --budget big", "not 'big'"),
    (f"{TRAIN} --optimizer gepa --reflection-lm {{judge}} --budget 0", "above 0, not 0"),
    (f"{TRAIN} --no-boundary --boundary-tries 7", "--boundary-tries is that of the boundary model"),
    (f"{TRAIN} --no-tuning --boundary-tries 7", "which --no-tuning leaves out"),
    (f"{TRAIN} --optimizer none --demos 2 --sets 1", "--demos, --sets: of --optimizer bootstrap, not of none"),
    (f"{TRAIN} --training epochs", "--training is NAME=VALUE"),
    (f"{TRAIN} --work made", "where finished work is kept, is or lies in"),
    ("compile train.jsonl {lm} --index own --out .", "holds other files"),
    ("compile train.jsonl {lm} --index own --out runs/a.jsonl/below", "runs/a.jsonl"),
    ("evaluate ragg {run}", "'ragg' is no method; is rag meant? There are closed-book, cot"),
    ("evaluate rag {run} --threshold .8", "--threshold means nothing to rag"),
    ("evaluate keqa {run} --testbed", "give either --questions"),
    ("evaluate keqa-random-reference {run}", "--program"),
    ("evaluate keqa {run} --program nowhere", "nowhere"),
    ("evaluate keqa {run} --embedder hashing", "--embedder needs --program"),
    ("serve --mcp --watch --port 9000 --no-token", "and listens nowhere: leave out --port, --no-token"),
    ("evaluate keqa --out none", "give either --questions"),
    ("evaluate keqa --testbed --index x --out none", "leave out --index"),
    ("evaluate keqa --testbed --split half --out none", "train, dev, test and lists"),
    ("evaluate keqa --testbed --limit 10000 --out none", "ask for 1 to"),
    ("evaluate keqa --questions nq --retriever dense --out none", "--retriever is the testbed's"),
    (
        "evaluate keqa --testbed --consistency-api-base http://x/v1 --out none",
        "--consistency-api-base needs --consistency-lm",
    ),
    ("compare runs keqa", "give run files only, or methods only"),
    ("compare runs none.jsonl", "none.jsonl is not there"),
    ("compare empty", "holds no run file"),
    ("compare runs --testbed --json", "and nothing is asked: leave out --testbed, --json"),
    ("view empty", "holds no run file"),
    ("view missing.jsonl", "missing"),
    ("reproduce absent.yaml", "absent.yaml cannot be read"),
    ("reproduce demo --lm openai/x --dry-run", "--lm, --dry-run is for the preset paper"),
    ("reproduce --retry-failed", "--retry-failed is for the preset paper"),
    ("reproduce paper --list", "the preset paper stands alone"),
    ("reproduce ks-llm paper", "the preset paper stands alone"),
    ("reproduce kbm --no-reference", "--no-reference is for keqa reproduce paper, not for kbm"),
    ("reproduce paper --boundary x.json", "--boundary is for keqa reproduce kbm, not for paper"),
    ("reproduce kbm {lm} --data nq", "keqa reproduce kbm needs --index, the corpus, beside --lm"),
    ("reproduce kbm --judge-api-base http://x/v1", "--judge-api-base needs --judge-lm"),
    ("reproduce kbm --boundary nowhere.json --dry-run", "nowhere.json"),
    ("reproduce ks-llm --no-reference --train x", "--train, --no-reference is for keqa reproduce paper"),
    ("reproduce ks-llm {lm} --data train.jsonl --documents own", "train.jsonl.jsonl is not there: --documents"),
    ("reproduce ks-llm {lm} --data train.jsonl --similarity /nothing/there", "/nothing/there"),
    ("reproduce skills --similarity words", "--similarity is for the preset ks-llm"),
    ("reproduce paper --lm openai/x", "--index, the corpus"),
    ("reproduce paper --lm openai/x --index own --data triviaqa", "triviaqa is none of the paper's"),
    (PAPER, "is one file, of test questions: name with --train nq:PATH"),
    (f"{PAPER} --train hotpotqa:x", "and of no hotpotqa"),
    (f"{PAPER} --no-reference --embedder hashing", "leave out --program, --train and --embedder"),
    (f"{PAPER} --no-reference --pilot x", "--pilot says what a --dry-run may expect"),
    (f"{PAPER} --no-reference --labelling-api-base http://x", "needs --labelling-lm"),
    (f"{PAPER} --no-reference --utility-api-base http://x/v1 --dry-run", "--utility-api-base needs --utility-lm"),
    (f"{PAPER} --no-reference --other-lm hosted_vllm/mine", "HOSTED_VLLM_API_BASE"),
    *(
        (f"{PAPER} --no-reference {option} nobody/knows{more}", "'nobody/knows' names no provider")
        for option in ("--lm", "--consistency-lm", "--utility-lm", "--other-lm")
        for more in ("", " --dry-run")
    ),
    ("boundary collect --out x", "give either --questions"),
    ("boundary collect --testbed --split all --out x", "train, dev, test and lists, not 'all'"),
    ("boundary check none.json nowhere", "none.json is missing"),
    ("boundary check model.json nowhere --boundary-lm keqa/tiny", "asked by a prompted boundary model"),
    ("boundary train nowhere --out m.json", "nowhere is missing"),
    ("boundary train nowhere --out .", "is a folder; name a file"),
    ("boundary train nowhere --out model.json/m.json", "model.json cannot be written"),
    ("boundary train nowhere --out m.json --training epochs=1", "--training is none of --kind light"),
    ("boundary train nowhere --out m.json --kind prompted --soft-labels", "none of --kind prompted"),
    ("boundary train nowhere --out m.json --kind finetuned --reads quiz", "none of --kind finetuned"),
    ("boundary train nowhere --out m.json --kind chooser", "add --outcomes"),
    ("boundary train --outcomes nowhere --out m.json --cost-per-call 1", "--cost-per-call is none of --kind light"),
    ("boundary train --outcomes nowhere --out m.json --kind chooser --reads quiz", "--reads is none of --kind chooser"),
    ("documents -q train.jsonl -o d.jsonl --index own", "--index is for --from index, not for --from lm"),
    ("documents -q train.jsonl -o d.jsonl --from contexts --lm openai/x", "--lm is for --from lm, not for --from"),
    ("documents -q train.jsonl -o d.jsonl --from index", "--from index needs --index"),
    ("testbed check {lm} --skill juggle", "there is no skill 'juggle'; there are 'decompose', 'judge consistency'"),
    ("testbed questions --split all", "there is no split 'all'"),
    ("serve {lm} --host 0.0.0.0 --no-token", "a token is needed"),
    ("serve {lm} --public-url keqa.example.org", "--public-url must begin with http:// or https://"),
    ("serve {lm} --index nowhere", "nowhere"),
    ("serve --index own", "Say with --lm which one to use"),
    ("serve {lm} --embedder x", "--embedder needs --program"),
    ("serve {lm} --watch", "--watch needs --index"),
    ("evaluate rag {run} --utility-lm openai/x", "--utility-lm is never asked: the roles of rag are task"),
    ("compare rag slimplm {run} --boundary-lm openai/x", "of rag, slimplm are consistency, task"),
    ("ask Who? --method closed-book {lm} --consistency-lm openai/x", "the roles of closed-book are task"),
    ("compile train.jsonl --index own --method rag -o made {lm} --utility-lm openai/x", "the roles of rag are task"),
    ("serve {lm} --index own --risk 0.1 --calibrated-on nowhere", "it is missing"),
    ("serve {lm} --index own --risk 0.1 --calibrated-on x --watch", "leave out one"),
    ("index nowhere --out x", "nowhere"),
    ("index empty --out x", "empty"),
    ("index broken.jsonl --out x", "broken.jsonl, line 2: malformed JSON"),
    ("index columns.tsv --out x", "columns.tsv"),
    ("index corpus.json --out x --language xx", "xx"),
    ("index corpus.json --out documents:idx", "Name another folder, such as documents-idx"),
    ("index corpus.json --engine abacus", "--engine must be embedded, dense, elasticsearch, not 'abacus'"),
    ("index corpus.json --engine documents", "--engine documents builds no index: it gives each question a document"),
    ("index corpus.json --engine elasticsearch-dense", "builds no index: it searches the embeddings that"),
    ("index corpus.json", "--out is missing"),
    ("index corpus.json -o x --model m", "--model is for --engine dense and elasticsearch, not for embedded"),
    ("index corpus.json -o x --engine dense --language en", "--language is for --engine embedded and elasticsearch"),
    ("index corpus.json --engine elasticsearch --url http://h:9200", "needs --url, the cluster, and --name"),
    ("index corpus.json --engine elasticsearch --name n --url http://me:hush@h:9200", "neither credentials"),
    ("search oak -i elasticsearch://me:hush@127.0.0.1:9/wiki", "ELASTICSEARCH_API_KEY"),
    ("index add own nowhere", "nowhere"),
    ("index remove own nowhere.txt", "nowhere.txt"),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with a little of everything that a command may be given."""
    from keqa.retrievers import Passage, build_index

    made = tmp_path_factory.mktemp("mistakes")
    build_index([Passage("1", "Heidi Fenman", "She married Flora Isvik.")], made / "own")
    rows = [{"question": f"To whom is the mayor of {town} married?", "answer": "Flora Isvik"} for town in TOWNS]
    (made / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [{"question": row["question"], "answer": [row["answer"]]} for row in rows[:2]]
    (made / "NQ-open.dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    for folder in ("runs", "empty"):
        (made / folder).mkdir()
    (made / "runs" / "a.jsonl").write_text('{"header": {}}')
    (made / "model.json").write_text(json.dumps(make_model().written()))
    (made / "corpus.json").write_text(json.dumps([{"title": "Forest", "text": "The oldest oak."}]))
    (made / "broken.jsonl").write_text('{"title": "Forest", "text": "An oak."}\n{"title": "Half')
    (made / "columns.tsv").write_text("number\tbody\n1\tx\n")
    return made


@pytest.mark.parametrize(("command", "message"), MISTAKES, ids=lambda value: ascii(value)[:70])
def test_what_cannot_work_is_one_message_before_anything_is_asked(
    keqa_command, server, prepared, monkeypatch, command, message
):
    monkeypatch.chdir(prepared)
    for name in ("KEQA_TOKEN", "HOSTED_VLLM_API_BASE", "HOSTED_VLLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    if "OPENAI_API_KEY" not in message:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr("keqa.server.serving.listen", lambda *_: pytest.fail("it listens"))
    lm = f"--lm openai/scripted --api-base {server.api_base}"
    run = f"--questions train.jsonl --index own --out none {lm}"
    judge = f"openai/x --reflection-api-base {server.api_base}"
    ended = keqa_command(*shlex.split(command.format(lm=lm, run=run, judge=judge)))
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert message in " ".join(ended.err.split())
    assert "Traceback" not in ended.err
    assert "hush" not in ended.err
    # What a compilation will cost may stand before it.
    assert len(ended.err) < 1500
    assert server.count == 0
    assert not [name for name in ("made", "x", "m.json", "d.jsonl") if (prepared / name).exists()]


@pytest.mark.parametrize("flag", ["--lm", "--consistency-lm", "--utility-lm", "--api-base", "--index"])
@pytest.mark.parametrize("given", ["", " "])
@pytest.mark.parametrize("command", [("ask", "Who?"), ("evaluate", "keqa", "-q", "train.jsonl")], ids=" ".join)
def test_an_option_that_is_empty_is_refused(keqa_command, prepared, monkeypatch, command, flag, given):
    monkeypatch.chdir(prepared)
    ended = keqa_command(*command, flag, given, *(("--lm", "openai/m") if flag == "--api-base" else ()))
    assert (ended.code, ended.err.strip()) == (2, f"keqa: {flag} is empty: give it a value, or leave it out")
