"""How much of the sources was read, in bytes as they lie on the disk."""

import gzip
import json
import random

from keqa.retrievers import read_corpus


def test_bytes_are_counted_as_files_and_lines_are_read(tmp_path):
    folder, records = tmp_path / "documents", tmp_path / "records.jsonl.gz"
    folder.mkdir()
    (folder / "one.txt").write_text("The oak is old. " * 100)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    drawn = random.Random(0)
    with gzip.open(records, "wt") as stream:
        for number in range(1000):
            stream.write(json.dumps({"id": number, "text": f"{drawn.getrandbits(4000):x}"}) + "\n")
    in_all = 1600 + 20 + records.stat().st_size
    reported = []
    passages = list(read_corpus([folder, records], progress=lambda *now: reported.append(now)))
    assert len(passages) > 1000
    assert {total for _, total in reported} == {in_all}
    done = [done for done, _ in reported]
    assert done == sorted(done)
    # The files, each when it is begun, then the records a hundred at a time.
    assert done[:3] == [0, 20, 1620]
    assert len(set(done)) > 8
    assert done[-1] == in_all
