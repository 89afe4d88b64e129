"""What reads, records and shows a notebook that somebody handed in: with limits, and so that the page does nothing."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from quantlab_jupyter import execute, grade, gradebook, kernel, outputs, processes
from quantlab_jupyter.harmless import make_harmless

LINKS = """[the plots](javascript:alert(1)) and [more][x], <a href='jav&#x09;ascript:alert(2)'>tab</a>, [mine](/api/shutdown)

\\[escaped\\](javascript:alert(3)) `[code](javascript:alert(4))`

\\[y]: javascript:alert(5)

![far](https://elsewhere.example/a.png) <img src="//elsewhere.example/b.png" onerror="alert(6)"> ![near](attachment:a.png)

<div style="position: fixed; top: 0; color: red; background: url(https://elsewhere.example/c.png); margin-left: -9px">covers</div>
<style>body { display: none }</style><script>alert(7)</script><svg onload="alert(8)"></svg><iframe src="https://elsewhere.example"></iframe>

[good](https://example.org/) $a < b$

[x]: javascript:alert(9)
"""


# Elements without an end.
EMPTY = ("br", "hr", "img")


class Page(HTMLParser):
    """Whatever on a page leads or loads, and the text in which MathJax looks for formulas."""

    def __init__(self, page):
        super().__init__()
        self.places, self.tags, self.styles, self.words = [], [], [], page
        # Of the elements that are open, whether MathJax passes over them.
        self.passed_over, self.typeset = [], ""
        self.feed(page)

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            self.passed_over.pop()

    def handle_data(self, text):
        if not any(self.passed_over):
            self.typeset += text

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in EMPTY:
            self.passed_over.append(tag in ("pre", "code") or "tex2jax_ignore" in (dict(attributes).get("class") or ""))
        for name, value in attributes:
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("href", "src", "srcset", "action"):
                self.places.append(value)
            if name == "style":
                self.styles.append(value)


def as_formgrader_shows(cells):
    notebook = new_notebook(metadata={"title": "</title><script>alert(10)</script>"})
    # Unchecked, for some are no notebook's.
    notebook.cells = cells
    make_harmless(notebook, new_notebook(cells=[new_markdown_cell("[ours](../README.md)")]))
    exporter = HTMLExporter(template_name="basic")
    return Page(exporter.from_notebook_node(nbformat.from_dict(notebook))[0])


def links_lead_nowhere():
    picture = {"a.png": {"image/png": "AAAA"}}
    markdown = new_markdown_cell(LINKS, attachments=picture, metadata={"tags": ['x" onclick="alert(11)']})
    output = new_output("display_data", {"text/html": LINKS, "application/javascript": "alert(12)"}, metadata={"isolated": True})
    code = new_code_cell("let x = 1;", outputs=[output])
    page = as_formgrader_shows([markdown, new_raw_cell(LINKS), code, new_markdown_cell("[ours](../README.md)")])
    allowed = {"https://example.org/", "data:image/png;base64,AAAA", "../README.md"}
    assert set(page.places) == allowed, page.places
    assert not {"script", "style", "svg", "iframe"} & set(page.tags), page.tags
    assert page.styles and set(page.styles) == {"color: red"}, page.styles
    for shown in ("the plots", "covers", "[escaped](javascript:alert(3))", "$a &lt; b$"):
        assert shown in page.words, shown


def formulas_stay_text():
    """MathJax knows them as safe, and may set a part of one as large as the page, and anywhere."""
    formulas = "\n\n".join([
        "$\\rule{1em}{1em}$", "$$\\style{position: fixed}{2}$$", "\\\\(\\hspace{3em}\\\\)", "\\begin{align}4\\end{align}",
        "$5$</div></div>$6$", '<div class="tex2jax_process">$7$</div>',
    ])
    outputs = [new_output("display_data", {"text/html": formulas}), new_output("stream", text=formulas)]
    theirs = [new_markdown_cell(formulas), new_raw_cell(formulas), new_code_cell(formulas, outputs=outputs)]
    page = as_formgrader_shows([*theirs, new_markdown_cell("[ours](../README.md)")])
    assert "$" not in page.typeset and "\\" not in page.typeset and "ours" in page.typeset, page.typeset
    assert page.words.count("$\\rule{1em}{1em}$") >= 4 and '<div class="tex2jax_process' not in page.words, page.words


def much_text_takes_little_time():
    for text in ("<script>" * 200_000, "<b>" * 5000, "[" * 5000, "<" * 50_000):
        start = time.process_time()
        as_formgrader_shows([new_markdown_cell(text), new_code_cell(outputs=[new_output("display_data", {"text/html": text})])])
        assert time.process_time() - start < 10, text[:9]
    streams = kernel.Streams()
    cell = new_code_cell(outputs=[new_output("stream", text="a" * 200_000)])
    streams.pieces = {"stdout": ["b\rc\n", "d\r\n", "e\rf\r"]}
    start = time.process_time()
    streams.join_streams(cell)
    assert cell.outputs[0].text == "c\nd\r\nf\r" and time.process_time() - start < 1


def recording_ends():
    def takes(megabytes):
        return len(bytearray(megabytes << 20))

    def raises(text):
        raise ValueError(text)

    # One that computes for ever looks at no signal, nor does one that sleeps.
    assert "1 s" in gradebook.in_process(1, lambda: sum(iter(int, 1)))
    assert "1 s" in gradebook.in_process(1, time.sleep, 100)
    assert f"{processes.MEMORY_MIB} MiB" in gradebook.in_process(10, takes, 2 * processes.MEMORY_MIB)
    assert gradebook.in_process(10, raises, "why" * 10_000).endswith("why")
    assert gradebook.in_process(10, sys.exit) == "SystemExit: "
    assert gradebook.in_process(10, takes, 1) is None
    before = resource.getrlimit(resource.RLIMIT_DATA)
    processes.hold(60)
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] <= processes.MEMORY_MIB << 20
    processes.lift()
    assert resource.getrlimit(resource.RLIMIT_DATA) == (before[1], before[1])


def processes_are_seen_whatever_they_are_called():
    """A thread's name ends after 15 bytes, in the middle of a character, too."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "evcxr_jupyter"
        kernel.symlink_to("/bin/sh")
        code = "printf 'Hintergrund-R1\\303' > /proc/self/comm; read line; while :; do :; done"
        child = subprocess.Popen([kernel, "-c", code], stdin=subprocess.PIPE)
        try:
            assert processes.kernels() in ([child.pid], []), "it has its name, or the odd one"
            while processes.kernels():
                time.sleep(0.01)
            assert child.pid in processes.descendants(os.getpid()) and not processes.compute([child.pid])
            child.stdin.close()
            while not processes.compute([child.pid]):
                time.sleep(0.01)
        finally:
            child.kill()
            child.wait()
    assert not processes.compute([child.pid])


def memory_counts_wherever_it_is():
    with tempfile.TemporaryDirectory() as folder:
        status = Path(folder) / "7" / "status"
        status.parent.mkdir()
        status.write_text("Name:\tVmRSS: 9\nVmPeak:\t  9216 kB\nVmRSS:\t  2048 kB\nRssShmem:\t   512 kB\nVmSwap:\t  1024 kB\n")
        assert processes.held_mib(7, Path(folder)) == 3 and processes.held_mib(8, Path(folder)) == 0
    assert processes.held_mib(os.getpid()) > 1


def what_a_grader_leaves_is_ended_however_it_ends():
    # A cell's process that has left its session, and whose parent has ended; then the grader, by its limit.
    program = (
        "import os, signal, subprocess, sys\nfrom quantlab_jupyter import processes\ndef work():\n"
        "    subprocess.run(['sh', '-c', 'setsid sleep 7654323 & echo $!'])\n    os.kill(os.getpid(), signal.{})\n"
        "    signal.pause()\nprocesses.stop_on_signals()\ntry:\n    processes.in_child(work)\n"
        "except KeyboardInterrupt:\n    sys.exit(130)"
    )
    for name, status in (("SIGXCPU", -signal.SIGXCPU), ("SIGKILL", -signal.SIGKILL), ("SIGTERM", 130)):
        done = subprocess.run([sys.executable, "-c", program.format(name)], stdout=subprocess.PIPE, text=True)
        assert done.returncode == status, (name, done)
        assert not Path("/proc", done.stdout.strip()).exists(), name
    # Whoever waits for it is asked to end.
    asks = program.replace("os.kill(os.getpid(), signal.{})", "os.kill(os.getppid(), signal.SIGTERM)")
    done = subprocess.run([sys.executable, "-c", asks], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 130 and not Path("/proc", done.stdout.strip()).exists(), done


def only_what_builds_cells_is_not_run():
    for allowed in [
        ":dep rand", ':dep rand = "0.9"', ':dep rand = { version = "0.9", features = ["std"], default-features = false }', ":opt 0",
        "let x = 1; // :build_env",
    ]:
        assert not execute.BUILDS.search(allowed), allowed
    for refused in [
        ':dep q = { path = "q" }', ':dep q = { version = "1", path = "q" }', ':dep q = { git = "q" }', ":build_env A=1", ":load q",
        ':dep q = { version = "1", package = "r" }', ':dep q = "1"\n  :toolchain nightly', ':dep q = {\n path = "q" }',
    ]:
        assert execute.BUILDS.search(refused), refused


def commands_stand_before_code():
    usable = "fn usable(v: &[f64]) -> bool {\n    !v.is_empty()\n}"
    assert execute.commands_of(usable) == ([], usable)
    deps = "// What it needs.\n\n:dep rand\n :opt 0"
    assert execute.commands_of(f"{deps}\n{usable}\n:load q") == ([":dep rand", " :opt 0"], f"{usable}\n:load q")
    assert execute.commands_of("!ls") == (["!ls"], "") and execute.commands_of("") == ([], "")


def outputs_have_room_together():
    room = outputs.Room()
    half = {"data": {"text/plain": "x" * (outputs.MAX_NOTEBOOK_CHARS // 2), "text/html": ""}}
    assert room.takes(half) and room.takes([half]) and not room.takes(["x"])
    assert room.takes("7 proof", outputs.RESERVED_CHARS), "a check's score"
    run = execute.Run(1, 1, 1)
    assert (run.status(True), run.status(False), run.notes()) == ("untouched", "graded", [])
    run.room.leave_out(new_code_cell())
    assert run.status(False) == "graded" and "outputs of 1 cells" in run.notes()[0]


def checks_need_what_they_could_use():
    ours = {
        0: "use quantlab::prelude::*;",
        1: "let texts = long_work();",
        2: "let model = load();",
        3: "const TOKENS: usize = 8;\nlet mut seen = 0;",
        4: "seen += more_work();",
        5: "let unused = unsafe {\n    much_work()\n};",
    }
    exercise = {
        6: "pub(crate) fn score(texts: &[&str]) -> usize {\n    // as for the model\n    let unused = texts.len();\n    TOKENS * unused\n}",
        7: "score(&[])",
    }
    names = lambda cells: [new_code_cell(source, metadata={"nbgrader": {}} if index in exercise else {}) for index, source in cells.items()]
    starter = new_notebook(cells=names(ours | exercise))
    found = lambda own: grade.needed(new_notebook(cells=names(ours | exercise | own)), starter)
    # A function sees no variables, whatever it calls its own.
    assert found({}) == {0, 3, 6, 7}, found({})
    assert found({8: "println!(\"{}\", texts[0]);"}) == {0, 1, 3, 6, 7, 8}
    assert found({8: "unsafe {\n    model\n};\nlet more = seen;"}) == {0, 2, 3, 4, 6, 7, 8}


def what_no_notebook_has_is_not_shown():
    script = "<script>alert(13)</script>"
    svg = {"image/svg+xml": "<svg/>"}
    output = {"output_type": "display_data", "metadata": {}, "data": svg, "svg_filename": "https://elsewhere.example/d.png"}
    code = {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": None, "outputs": [output]}
    unknown = {"cell_type": "x", "id": "b", "metadata": {}, "source": "", "type": script}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "future.ipynb"
        path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 99, "metadata": {}, "cells": [code, unknown]}), "utf-8")
        try:
            grade.read_submission(path)
        except ValueError as error:
            assert "4.99" in str(error), error
        else:
            raise AssertionError("a notebook of a format to come is read")
    markdown = {"cell_type": "markdown", "id": "c", "metadata": {}, "source": "x", "type": script}
    page = as_formgrader_shows([nbformat.from_dict(code), nbformat.from_dict(markdown)])
    assert script not in page.words and not any("elsewhere" in place for place in page.places), page.words


if __name__ == "__main__":
    processes_are_seen_whatever_they_are_called()
    memory_counts_wherever_it_is()
    what_a_grader_leaves_is_ended_however_it_ends()
    only_what_builds_cells_is_not_run()
    what_no_notebook_has_is_not_shown()
    checks_need_what_they_could_use()
    links_lead_nowhere()
    formulas_stay_text()
    much_text_takes_little_time()
    recording_ends()
    outputs_have_room_together()
