"""Office files and e-books for tests, as small as such files can be."""

import io
import zipfile

_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_CORE = (
    '<?xml version="1.0"?><cp:coreProperties xmlns:cp='
    '"http://schemas.openxmlformats.org/package/2006/metadata/core-properties" xmlns:dc='
    '"http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>{title}</dc:title>'
    "<dcterms:modified>{modified}</dcterms:modified></cp:coreProperties>"
)
_OPF = (
    '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
    "<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator><dc:date>{date}</dc:date></metadata><manifest>"
    '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine>'
    "</package>"
)
_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="c.opf"/></rootfiles></container>'
)


def archive(files, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


def docx(paragraphs, title=None, modified="", head=""):
    """A Word document; a paragraph that begins with # is a heading of its level, and a list of rows is a table."""
    parts = []
    for text in paragraphs:
        if isinstance(text, list):
            rows = ("".join(f"<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>" for cell in row) for row in text)
            parts.append(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>")
            continue
        level = len(text) - len(text.lstrip("#"))
        style = f'<w:pPr><w:pStyle w:val="Heading{level}"/></w:pPr>' if level else ""
        parts.append(f'<w:p>{style}<w:r><w:t xml:space="preserve">{text[level:].strip()}</w:t></w:r></w:p>')
    body = f'<w:document xmlns:w="{_WORD}"><w:body>{"".join(parts)}</w:body></w:document>'
    files = {"[Content_Types].xml": _TYPES, "_rels/.rels": _RELATIONS}
    files["word/document.xml"] = f'<?xml version="1.0"?>{head}{body}'
    if title is not None:
        files["docProps/core.xml"] = _CORE.format(title=title, modified=modified)
    return archive(files)


def pptx(slides, title=""):
    """A presentation of slides with a title and a text each."""
    from pptx import Presentation

    shown = Presentation()
    shown.core_properties.title = title
    for heading, text in slides:
        slide = shown.slides.add_slide(shown.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = heading, text
    out = io.BytesIO()
    shown.save(out)
    return out.getvalue()


def xlsx(sheets, merged=()):
    """A workbook of sheets, each a list of rows; a cell may be a pair of a value and its format, or be merged."""
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for number, row in enumerate(rows, start=1):
            for column, cell in enumerate(row, start=1):
                value, form = cell if isinstance(cell, tuple) else (cell, "General")
                written = sheet.cell(number, column, value)
                written.number_format = form if isinstance(cell, tuple) else written.number_format
        for one in merged:
            sheet.merge_cells(one)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def epub(title, author, date, chapter):
    """A book of one chapter in XHTML."""
    page = f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>{chapter}</body></html>'
    opf = _OPF.format(title=title, author=author, date=date)
    return archive(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": _CONTAINER, "c.opf": opf, "a.xhtml": page}
    )


def open_document(body, title):
    """A document in OpenDocument with a title, of 5 November 2023."""
    names = ("office", "text", "table", "meta")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    meta = (
        f'<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:date>2023-11-05</dc:date></m>'
    )
    return archive({"content.xml": f"<office:body {spaces}>{body}</office:body>", "meta.xml": meta})


def pdf(pages, title="", changed="", outline=()):
    """A PDF of pages, each a list of lines with their sizes; outline: titles with page numbers from 0."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    name = NameObject
    kind = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    font = DictionaryObject({name(key): name(value) for key, value in kind.items()})
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        page[name("/Resources")] = DictionaryObject({name("/Font"): DictionaryObject({name("/F1"): font})})
        content = DecodedStreamObject()
        drawn = [
            f"BT /F1 {size} Tf 20 {760 - 20 * number} Td ({text}) Tj ET" for number, (size, text) in enumerate(lines)
        ]
        content.set_data("\n".join(drawn).encode("cp1252"))
        page[name("/Contents")] = writer._add_object(content)
    if title or changed:
        writer.add_metadata({"/Title": title, "/ModDate": changed})
    for heading, number in outline:
        writer.add_outline_item(title=heading, page_number=number)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
