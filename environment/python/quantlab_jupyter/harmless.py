"""Leaves of what learners wrote, and of what their code printed, what shows something and does nothing.

In formgrader it stands on a page that has the rights of the teacher's Jupyter server, and that renders Markdown by itself.
"""

import html
import re

import nh3
from nbconvert.filters.markdown_mistune import InvalidNotebook, IPythonRenderer, MarkdownWithMath

from .outputs import SHOWN

# For a page in which nothing runs and that loads nothing.
WITHOUT_SCRIPTS = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; font-src data:; '
    "style-src 'unsafe-inline'\">"
)
TAGS = {
    "a", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2",
    "h3", "h4", "h5", "h6", "hr", "i", "img", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "summary", "sup",
    "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}
ATTRIBUTES = {
    "*": {"align", "style", "title"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}, "a": {"href"},
    "img": {"alt", "height", "src", "width"},
}
# What the library's own tables and cards are styled by. No value is negative, none a function: text stays in its place, and
# nothing is loaded.
STYLE = re.compile(
    r"(?:(?:background-)?color|border(?:-\w+)?|padding|margin-(?:top|left)|max-width|opacity|text-align|font-(?:style|weight)) *: *[\w#%. ]+"
    r"|white-space *: *pre(?:-wrap)?|height *: *auto|line-height *: *1\.\d|font-size *: *\d\d%",
    re.A,
)


def attribute(_tag, name, value):
    if name == "style":
        return "; ".join(part for part in map(str.strip, value.split(";")) if STYLE.fullmatch(part)) or None
    # A picture from elsewhere would tell who reads when; a place on the teacher's own server is hers.
    places = {"src": r"data:image/", "href": r"https?://|mailto:"}
    return value if name not in places or re.match(places[name], value, re.I) else None


CLEANER = nh3.Cleaner(
    tags=TAGS, attributes=ATTRIBUTES, attribute_filter=attribute, url_schemes={"http", "https", "mailto", "data"},
    clean_content_tags={"script", "style"},
)


def without_scripts(page):
    """The page, as one in which no script runs, whatever stands in it."""
    return page.replace("<head>", f"<head>{WITHOUT_SCRIPTS}", 1)


# What cells and their outputs have; templates know of more.
OF_CELLS = {"attachments", "cell_type", "execution_count", "id", "metadata", "outputs", "source"}
OF_OUTPUTS = {"data", "ename", "evalue", "execution_count", "metadata", "name", "output_type", "text", "traceback"}


def leave_only(known, node):
    for name in node.keys() - known:
        del node[name]


def make_harmless(notebook, starter):
    """Cells that are as they were handed out stay so, and all else is sanitised."""
    handed_out = {cell.source: cell for cell in starter.cells if cell.cell_type == "markdown"}
    notebook.metadata = starter.metadata
    for cell in notebook.cells:
        leave_only(OF_CELLS, cell)
        # Tags and widths become parts of the page, whatever they are.
        cell.metadata = {name: value for name, value in cell.metadata.items() if name == "nbgrader"}
        if cell.cell_type == "code":
            for out in cell.outputs:
                leave_only(OF_OUTPUTS, out)
                if "data" in out:
                    out.metadata = {}
                    out.data = {kind: data for kind, data in out.data.items() if kind in SHOWN}
                    if "text/html" in out.data:
                        out.data["text/html"] = without_formulas(CLEANER.clean("".join(out.data["text/html"])))
            continue
        attachments = cell.pop("attachments", {})
        if cell.cell_type == "markdown" and cell.source in handed_out:
            if "attachments" in handed_out[cell.source]:
                cell.attachments = handed_out[cell.source].attachments
        elif cell.source.strip():
            is_raw = cell.cell_type == "raw"
            cell.source = as_markdown(cell.source if is_raw else rendered(cell.source, attachments))


def rendered(source, attachments):
    """Markdown as nbconvert shows it."""
    renderer = IPythonRenderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    try:
        return MarkdownWithMath(renderer=renderer).render(source)
    except (InvalidNotebook, RecursionError):
        return f"<pre>{html.escape(source)}</pre>"


def as_markdown(page):
    """The page, sanitised, as Markdown of one line, which is a block of HTML: Markdown looks for nothing of its own in it."""
    return without_formulas(CLEANER.clean(page)).replace("\r", "").replace("\n", "&#10;")


def without_formulas(page):
    """The page, in which MathJax sets nothing: whatever it knows as safe, a formula may move and enlarge its parts, and so
    lie over what is around it. (A class of the page's own does not pass the cleaner.)"""
    return f'<div class="tex2jax_ignore mathjax_ignore">{page}</div>'
