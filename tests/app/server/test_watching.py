"""``keqa serve --watch``: questions while the index changes, and an index that follows a folder."""

import asyncio
import logging

import pytest

import keqa
from keqa.errors import InputError
from keqa.programs.records import QuestionRecord
from keqa.retrievers.watching import WatchedRetriever
from keqa.server import answers as watching
from keqa.server.answers import Answers, FolderSync, in_step
from keqa.server.intake import Intake
from keqa.server.limits import ServerLimits


class Searches:
    """A program that searches twice, and waits in between until it may go on."""

    max_question_chars = 1000

    def __init__(self, retriever):
        self.retriever = retriever
        self.waits, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.may_go_on.set()

    async def acall(self, question, **_):
        counts = [len(await asyncio.to_thread(self.retriever.search, question))]
        self.waits.set()
        while not self.may_go_on.is_set():
            await asyncio.sleep(0.01)
        counts.append(len(await asyncio.to_thread(self.retriever.search, question)))
        record = QuestionRecord(question=question, answer=str(counts), answer_source="passages")
        return type("Prediction", (), {"record": record})()


@pytest.fixture
def index(tmp_path):
    keqa.build_index([keqa.Passage("1", "Oak", "The oak is old.")], tmp_path / "index")
    return tmp_path / "index"


async def test_a_question_in_work_keeps_its_state_and_the_next_sees_the_new_one(index):
    retriever = WatchedRetriever(index, keqa.open_index(index))
    program = Searches(retriever)
    answers = Answers(program, retriever, [], ServerLimits())
    program.may_go_on.clear()
    asking = asyncio.create_task(answers.ask(answers.check("oak")))
    while not program.waits.is_set():
        await asyncio.sleep(0.01)
    keqa.build_index([keqa.Passage("1", "Oak", "The oak is old."), keqa.Passage("2", "Oak", "Another oak.")], index)
    assert len(await answers.search("oak", 10)) == 2
    program.may_go_on.set()
    assert (await asking).answer == "[1, 1]"
    assert (await answers.ask(answers.check("oak"))).answer == "[2, 2]"


async def test_an_index_that_is_broken_meanwhile_is_logged_and_the_state_of_before_answers(index, caplog):
    retriever = WatchedRetriever(index, keqa.open_index(index))
    answers = Answers(Searches(retriever), retriever, [], ServerLimits())
    next(index.glob("data/manifest-*.json")).write_text("secret")
    with caplog.at_level(logging.ERROR, "keqa.server"):
        assert len(await answers.search("oak", 10)) == 1
    assert "cannot be opened as it is now (RetrievalError)" in caplog.text
    assert "secret" not in caplog.text


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "oak.txt").write_text("The oak is old.")
    return folder


@pytest.fixture
def of_documents(documents, tmp_path):
    keqa.build_index(keqa.read_corpus([documents]), tmp_path / "own", sources=[str(documents)])
    return str(tmp_path / "own")


def test_a_folder_is_read_only_where_something_in_it_changed(documents, of_documents, monkeypatch):
    sync = FolderSync(of_documents, documents)
    assert not sync.look()
    with monkeypatch.context() as patched:
        patched.setattr(watching, "sync_folder", lambda *_, **__: pytest.fail("nothing has changed"))
        assert not sync.look()
    (documents / "elm.txt").write_text("The elm is young.")
    assert sync.look()
    (documents / "oak.txt").unlink()
    assert sync.look()
    assert [hit.passage.id for hit in keqa.open_index(of_documents).search("old young")] == ["elm.txt#1"]
    (documents / "elm.txt").unlink()
    for _ in range(2):
        with pytest.raises(InputError, match="nothing would be left"):
            sync.look()


async def test_what_the_page_adds_meanwhile_is_in_nobodys_way(documents, of_documents, monkeypatch, caplog):
    monkeypatch.setattr(watching, "EVERY", 0.001)
    sync = FolderSync(of_documents, documents)
    intake = Intake(of_documents, documents, 1000, sync.changing)
    async with in_step(sync):
        for number in range(8):
            await intake.add(f"{number}.txt", f"Elm {number} is young.".encode())
    assert (caplog.text, keqa.open_index(of_documents).manifest.passages) == ("", 9)


async def test_an_index_follows_its_folder_until_the_end(documents, of_documents, monkeypatch, caplog):
    monkeypatch.setattr(watching, "EVERY", 0.01)
    with caplog.at_level(logging.INFO, "keqa.server"):
        async with in_step(FolderSync(of_documents, documents)):
            (documents / "elm.txt").write_text("The elm is young.")
            while "brought in step" not in caplog.text:
                await asyncio.sleep(0.01)
            documents.rename(documents.with_name("elsewhere"))
            while "cannot be brought in step" not in caplog.text:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
    assert caplog.text.count("cannot be brought in step with its folder (InputError)") == 1
    assert keqa.open_index(of_documents).manifest.passages == 2
    async with in_step(None):
        pass
