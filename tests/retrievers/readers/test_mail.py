"""E-mail messages as documents."""

from email.message import EmailMessage

import pytest

from keqa.errors import InputError
from keqa.retrievers import read_corpus
from keqa.retrievers.base import Place


def read(path, data):
    path.write_bytes(data)
    return [(one.title, one.text, one.place) for one in read_corpus([path], notice=lambda said: None)]


def message(text=None, html=None, charset="utf-8"):
    made = EmailMessage()
    made["Subject"], made["Date"] = "Schlüssel für den Turm", "Fri, 31 May 2024 23:10:00 +0200"
    made["From"], made["To"] = "Ida Holm <ida@skarn.example>", "Jörg Åse <joerg@skarn.example>"
    if text is not None:
        made.set_content(text, charset=charset)
    if html is not None:
        (made.add_alternative if text is not None else made.set_content)(html, subtype="html")
    return made


HEAD = "From: Ida Holm <ida@skarn.example>. To: Jörg Åse <joerg@skarn.example>."
PLACE = Place("m.eml", None, "", "2024-05-31")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (message("Der Schlüssel hängt am Haken."), "Der Schlüssel hängt am Haken."),
        (message("Der Schlüssel hängt am Haken.", charset="iso-8859-1"), "Der Schlüssel hängt am Haken."),
        (message("The key is here.", "<p>The <b>key</b> is there.</p>"), "The key is here."),
        (message("\n", "<p>The key is <i>there</i>.</p>"), "The key is there."),
        (message(None, '<meta charset="koi8-r"><p>Ключ ß.</p>'), "Ключ ß."),
    ],
)
def test_a_message_has_its_subject_date_people_and_text(tmp_path, given, text):
    assert read(tmp_path / "m.eml", given.as_bytes()) == [("Schlüssel für den Turm", f"{HEAD} {text}", PLACE)]


@pytest.mark.parametrize(
    ("charset", "encoding", "text"),
    [
        *(("us-ascii", "utf-8", "Schlüssel"), ("iso-8859-1", "cp1252", "“Turm” – 5 €"), ("koi8-r", "koi8-r", "Ключ")),
        # What no page is in.
        *(("cp850", "cp850", "Schlüssel"), ("utf-7", "utf-7", "Schlüssel")),
    ],
)
def test_a_message_is_read_as_what_it_says_it_is_in(tmp_path, charset, encoding, text):
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
    assert [found for _, found, _ in read(tmp_path / "m.eml", head.encode() + text.encode(encoding))] == [text]


def test_attachments_are_named_and_not_read_and_a_forwarded_message_is_read(tmp_path):
    made = message("See the list.")
    made.add_attachment("the secret list", filename="liste ä.txt")
    made.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="plan.pdf")
    made.add_attachment(message("What was said before."))
    ((_, text, _),) = read(tmp_path / "m.eml", made.as_bytes())
    assert text == f"{HEAD} See the list. What was said before. Attachments: liste ä.txt, plan.pdf."


@pytest.mark.parametrize(
    "data",
    [
        b"Subject: =?utf-8?q?"
        + b"=?a?q?" * 50_000
        + b"\nDate: 99 Foo 10000000000\nContent-Type: text/plain; charset=none\n\nHi",
        b"Content-Type: multipart/mixed; boundary=a\n\nHi",
        b"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit\n\nT\xfcr\x81",
        b"Content-Transfer-Encoding: base64\nContent-Type: text/plain\n\nSGVs*bG8",
        b"Content-Type: text/plain; charset=idna\n\nxn--a",
        b"Hi",
    ],
)
def test_a_broken_message_is_read_as_far_as_it_goes(tmp_path, data):
    assert len(read(tmp_path / "m.eml", data)) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"Content-Type: %s\n\n",
        b"Content-Type:" + b" " * 30 + b"%s\n\n",
        b"Content-Type:\n\t%s\n\n",
        b"Content-Type: %s\r\r",
    ],
)
def test_a_message_that_is_nested_without_end_is_refused(tmp_path, line):
    kinds = (b"multipart/mixed; boundary=%d" % n for n in range(5000))
    nested = b"".join(line % kind + b"--%d" % n + line[-1:] for n, kind in enumerate(kinds))
    with pytest.raises(InputError, match="more than 30 parts that hold others"):
        read(tmp_path / "m.eml", nested)
