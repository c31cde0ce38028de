from pathlib import Path

import pytest
from fixtures.drawing import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.retrievers.readers.common import RefusedError, UnreadError
from keqa.retrievers.readers.html import read_html


def text_of_html(data, path):
    document = read_html(data, path, print)
    return document.title, "".join(section.text for section in document.sections)


def read(page):
    title, text = text_of_html(page.encode(), Path("page.html"))
    return title, " ".join(text.split())


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>One</p><p>Two <b>bold</b>.</p>", "One Two bold."),
        ("<ul><li>one<li>two</ul>three", "- one - two three"),
        ("<p>a<!-- no -->b<!-- <p> -->c</p>", "abc"),
        ("<p>before<!-- never closed <p>after", "before"),
        ("<!DOCTYPE html><?xml version='1.0'?><p>x", "x"),
        ("<script>if (a <!-- b) document.write('<p>no</p>')</script><p>yes", "yes"),
        ("<SCRIPT type=x>no</Script ><style>no</style>yes<scripted>too</scripted>", "yestoo"),
        ("<script>never closed <p>no", ""),
        ("a &lt;b&gt; &amp; &eacute; c", "a <b> & é c"),
        ("1 < 2 and <p>3", "1 < 2 and 3"),
        ("a > b <p", "a > b"),
        ("<ruby>山<rp>(</rp><rt>やま</rt><rp>)</rp></ruby><ruby>田<rt>だ</ruby>さん", "山田さん"),
        ("<p>x</p><![if !IE]><p>y</p><![endif]>", "x y"),
        ("<![CDATA[x]]><p>y", "y"),
        # The end of the head may be left out, and so may the body.
        ("<html><head><title>T</title><meta charset=utf-8><body><p>All of it.</body></html>", "All of it."),
        ("<html><head><title>T</title><style>p {}</style><h1>Head</h1><p>All of it.", "Head All of it."),
        ("<head><title>T</title><script>no</script></head><body>All of it.", "All of it."),
        # A menu that is not closed holds the rest of the page.
        ("<body><nav><a>Menu</a></nav><p>One<p>Two", "One Two"),
        ("<body><nav><a>Menu</a><p>One<p>Two</body>", "Menu One Two"),
        ("<body><nav/><nav><a>Menu</a></nav><svg><path/></svg><svg/>One<svg>no</svg >", "One"),
        # Words of different elements are different words.
        ("<details><summary>More</summary>text</details>", "More text"),
        ("<button>Send</button><button>Cancel</button>", "Send Cancel"),
        ("<label>Name</label><select><option>Ulm<option>Bonn</select>", "Name Ulm Bonn"),
        ("<fieldset><legend>Berth</legend>North</fieldset>", "Berth North"),
        ("<figure>one<figcaption>two</figcaption></figure>three", "one two three"),
        ("<table><caption>Fees</caption><tr><th>Ship<td>40</table>", "Fees | Ship | 40 |"),
        ("<table><tr><th>Ship<th>Fee<tr><td>Ida<td></table>", "| Ship | Fee | |---|---| | Ida | |"),
        (
            "<table><tr><th>Ship<br>name<th>Fee<tr><td> <td><tr><td>Ida<br>(1921)<td>40</table>",
            "| Ship name | Fee | |---|---| | Ida (1921) | 40 |",
        ),
        # What spans rows or columns stands in each, in a head or body alone.
        (
            "<table><thead><tr><th rowspan=9>Grade<th colspan='2 '>Fee<tr><th>Day<th>Night</thead>"
            "<tbody><tr><td rowspan=2>A<!-- b --><td>4<td>5<tr><td>6<td rowspan=x>7<tr><td colspan=3>Sum",
            "| Grade | Fee | Fee | |---|---|---| | Grade | Day | Night | |---|---|---| | A | 4 | 5 | | A | 6 | 7 | Sum",
        ),
        ("One.<br>Two.", "One. Two."),
        # A page that is laid out by a table.
        ("<table><tr><td>Menu<td><h1>Fees</h1><p>One.<p>Two.<td>Ads</table>", "Menu Fees One. Two. Ads"),
        ("<table><tr><td>Menu<td><table><tr><td>Ida<td>40</table></table>", "Menu | Ida | 40 |"),
        ("<dl><dt>Pier<dd>7</dl>", "Pier 7"),
    ],
)
def test_the_text_of_a_page(page, text):
    assert read(page)[1] == text


def test_the_title_is_that_of_the_head_or_the_first_heading_and_the_encoding_what_the_page_says():
    assert read("<head><title>A &amp; B</title></head><h1>C</h1>")[0] == "A & B"
    assert read("<h1>C <i>D</i></h1>")[0].split() == ["C", "D"]
    page = '<meta charset="iso-8859-2"><p>żółw</p>'
    assert text_of_html(page.encode("iso-8859-2"), Path("x"))[1].strip() == "żółw"


UNITS = [
    *"<div> <p>x</p> <b> </i> < <!-- & &#x <![ </ <? <script> <li>x <b><i>x</b> <textarea></ <title> <svg>".split(),
    *("<a ", '<a a="', "<a a='", "<a b='>", "<table><tr><td>x", "<script></script"),
]
markup = st.lists(
    st.sampled_from([*UNITS, "</p>", "</div>", "-->", "x ", '"', "'", ">", "/>", "</script>", "]]>", "\x00", "\ud800"]),
    max_size=40,
)


@settings(max_examples=at_most(200))
@given(markup)
def test_any_markup_is_text_or_a_typed_error(parts):
    data = "".join(parts).encode("utf-8", "surrogatepass")
    reported, title, text = "", None, None
    try:
        title, text = text_of_html(data, Path("x.html"))
    except (RefusedError, UnreadError) as error:
        reported = str(error)
    assert reported or (isinstance(title, str) and isinstance(text, str))


def test_a_heading_that_may_be_broken_in_two_is_a_heading():
    document = read_html(b"<h1>Haus&shy;ordnung</h1><p>Ab 22 Uhr ist Ruhe.", Path("page.html"), print)
    [(_, text, place)] = document.passages("page.html", 100)
    assert (text, place.heading) == ("# Hausordnung\nAb 22 Uhr ist Ruhe.", "Hausordnung")


def test_items_of_lists_and_lines_of_code_keep_their_lines():
    page = (
        b"<p>Steps:<ol><li><p>Row:<pre>oars out\n  pull</pre><li>Rest.<ul><li>Eat.</ul></ol><dl><dt>Row<dd>Move.</dl>"
    )
    document = read_html(page, Path("page.html"), print)
    [(_, text, _)] = document.passages("page.html", 100)
    assert text == "Steps:\n- Row:\n```\noars out\n  pull\n```\n- Rest.\n- Eat.\n\nRow\n\nMove."
