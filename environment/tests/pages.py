"""Notebooks as pages: `pages.py LESSONS`. Whatever a notebook brings along, its page runs nothing and loads nothing."""

import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from quantlab_jupyter.page import page_of

TEXT = r"""# What $\frac{a}{b}$ means

$$s = \sqrt{\text{bits\_per\_weight}}$$ and `$x$`, $\nosuchthing{x}$, $\begin{nosuch} a & b \end{nosuch}$

\begin{aligned} a &= b \end{aligned}

![near](near.png) ![far](https://elsewhere.example/far.png) ![above](../above.png)
"""
DOES = "<script src='https://elsewhere.example/a.js'></script><img onerror='alert(1)' src='x:'>"


def a_page_is_whole_and_does_nothing():
    cells = [new_markdown_cell(TEXT), new_code_cell("let x: u8 = 1;", outputs=[new_output("display_data", {"text/html": DOES})])]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "near.png").write_bytes(b"picture")
        notebook = new_notebook(cells=cells, metadata={"title": "a </title> b", "widgets": {}})
        before = nbformat.writes(notebook)
        page, left = page_of(notebook, Path(folder), "mine")
    assert nbformat.writes(notebook) == before
    head, body = page.split("</head>")
    # The first thing that a browser reads: it holds for all that follows.
    assert re.search(r"<head><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:;", head)
    # What a notebook brings along cannot act; the page itself has no script that could fail to.
    assert "<script" not in head and body.count("<script") == 1 and "cdnjs" not in page and "unpkg" not in page
    assert "<mfrac>" in body and "<msqrt>" in body and "bits_per_weight" in body and "<mtable" in body and "ns0:" not in body
    assert "<code>$x$</code>" in body and r"<code>\nosuchthing{x}</code>" in body
    assert "prefers-color-scheme: dark" in head and 'class="kd">let' in body.replace("'", '"')
    assert "data:image/png;base64,cGljdHVyZQ==" in body
    assert r"<code>\begin{nosuch} a &amp; b \end{nosuch}</code>" in body
    far = "a picture is not in the notebook's folder: "
    tex = "a formula stays TeX: "
    assert left == [tex + r"\nosuchthing{x}", tex + r"\begin{nosuch} a & b \end{nosuch}", far + "https://elsewhere.example/far.png", far + "../above.png", far + "x:"], left


def all_of_a_lesson_is_on_its_page(lessons):
    found = sorted(lessons.glob("*/solution.ipynb"))
    assert found
    for path in found:
        page, left = page_of(nbformat.read(path, as_version=4), path.parent, path.stem)
        assert left == [] and "<math" in page and "<script" not in page, (path, left)


if __name__ == "__main__":
    a_page_is_whole_and_does_nothing()
    all_of_a_lesson_is_on_its_page(Path(sys.argv[1]))
