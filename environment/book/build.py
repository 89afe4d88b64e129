"""Makes the course's website from its executed solutions and the docs: `build.py CHECKOUT WORK OUTPUT [BROWSER PDF]`.

Sphinx reads a copy of the course in WORK that has been prepared for reading: an exercise shows what a learner starts
from, its answer folded below; checks are left out; a plot is the SVG that the cell showed, inline, so that it follows the
page's colours. Nothing is executed, and no page asks another machine for anything.
"""

import html.parser
import json
import os
import re
import shutil
import sys
from html import escape, unescape
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import pdf
from sphinx.cmd.build import main as sphinx

HERE = Path(__file__).parent
# Where they stand in the checkout; all of docs, and these.
OTHERS = ["notebooks/README.md", "notebooks/PRIMER.md", "support-crate/embedded/MODEL_CARD.md"]
PAGES = ["index.md", "glossary.md", "references.md", "references.bib", "conf.py"]
# Of each lesson, the picture on the first page.
PICTURES = {
    "00-transformer": "How far your numbers are from the library's",
    "01-latency-and-precision": "One long step over the prompt, then a short one per token",
    "02-quantized-inference": "Throughput by batch size",
    "03-perplexity": "Where is the model surprised?",
    "04-post-training-quantization": "Where the weights are, and where the sixteen numbers",
    "05-outliers": "Where the model's own inputs are large",
    "06-three-bits": "What bits buy",
    "07-own-kernel": "What bounds a model on this machine",
    "08-serving": "The knee",
}


def text_of(cell):
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def flag(cell, name):
    return bool(cell["metadata"].get("nbgrader", {}).get(name))


def markdown(cell_id, text):
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": text}


def answered(cell, start):
    """An exercise: what the learner starts from, and the answer folded."""
    if cell["cell_type"] == "markdown":
        return [markdown(cell["id"], f"<details><summary>An answer, with the numbers of the run shown here</summary>\n\n{text_of(cell)}\n\n</details>")]
    answer = "\n".join(line for line in text_of(cell).split("\n") if not re.search(r"// (BEGIN|END) SOLUTION", line))
    folded = f"<details><summary>An answer</summary>\n\n```rust\n{answer}\n```\n\n</details>"
    # What the cell printed or showed belongs to the answer.
    return [{**cell, "source": start, "outputs": []}, markdown(f"{cell['id']}-answer", folded), *output_only(cell)]


def output_only(cell):
    if not cell.get("outputs"):
        return []
    return [{**cell, "id": f"{cell['id']}-output", "source": "", "metadata": {"tags": ["remove-input"]}}]


def inline_plots(cell):
    """The SVG of a plot in place of the HTML that keeps it as an address."""
    for output in cell.get("outputs", []):
        svg = output.get("data", {}).pop("image/svg+xml", None)
        if svg is not None:
            svg = svg if isinstance(svg, str) else "".join(svg)
            output["data"]["text/html"] = figure(svg)
    return cell


def figure(svg):
    # A blank line would end the HTML block; sizes are the page's to choose.
    svg = re.sub(r'(<svg[^>]*?) width="\d+" height="\d+"', r"\1", re.sub(r"\n+", "\n", svg), count=1)
    return f'<figure class="plot">{svg}</figure>'


def picture_of(folder):
    """A lesson's picture for the first page, with its title, which leads to the lesson."""
    cells = json.loads((folder / "solution.ipynb").read_text("utf-8"))["cells"]
    outputs = [output.get("data", {}).get("text/html", "") for cell in cells for output in cell.get("outputs", [])]
    shown = "".join(output if isinstance(output, str) else "".join(output) for output in outputs)
    # Each plot is shown as an image whose address is the SVG.
    plots = re.findall(r'<img src="data:image/svg\+xml;charset=utf-8,([^"]*)"[^>]*? alt="([^"]*)"', shown)
    svg = next(unquote(svg) for svg, title in plots if unescape(title) == PICTURES[folder.name])
    title = text_of(cells[0]).partition("\n")[0].lstrip("# ")
    return f'<a href="notebooks/{folder.name}/solution.html">{figure(svg)}<span>{escape(title)}</span></a>'


def lesson(folder, target):
    """One lesson as a chapter."""
    solution, starter = (json.loads((folder / name).read_text("utf-8")) for name in ("solution.ipynb", "starter.ipynb"))
    starts = {cell["id"]: text_of(cell) for cell in starter["cells"]}
    chapter = []
    for cell in solution["cells"]:
        if flag(cell, "solution"):
            chapter += answered(cell, starts[cell["id"]])
        elif not flag(cell, "grade"):
            chapter.append(cell)
    solution["cells"] = [inline_plots(cell) for cell in chapter]
    # Sphinx has a lexer for Rust, and no kernel is asked.
    solution["metadata"]["language_info"]["pygments_lexer"] = "rust"
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(solution), "utf-8")


def chapters(checkout):
    return sorted(folder for folder in (checkout / "notebooks").iterdir() if (folder / "solution.ipynb").is_file())


def prepare(checkout, work):
    """The copy that Sphinx reads, laid out as the checkout is, so that links between pages hold."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for folder in chapters(checkout):
        lesson(folder, work / "notebooks" / folder.name / "solution.ipynb")
    for page in PAGES:
        shutil.copy(HERE / page, work / page)
    index = (work / "index.md").read_text("utf-8")
    listed = "\n".join(f"notebooks/{folder.name}/solution" for folder in chapters(checkout))
    pictures = "\n".join(map(picture_of, chapters(checkout)))
    index = index.replace("LESSONS", listed).replace("PICTURES", f'<div class="pictures">\n{pictures}\n</div>')
    (work / "index.md").write_text(index, "utf-8")
    held = {checkout / path for path in OTHERS} | set((checkout / "docs").glob("*.md"))
    for path in held:
        target = work / path.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(for_readers(path.read_text("utf-8"), path, held), "utf-8")
    for picture in [*(checkout / "docs").glob("*.png"), *(checkout / "support-crate/embedded").glob("*.svg")]:
        shutil.copy(picture, work / picture.relative_to(checkout))
    static = work / "_static"
    static.mkdir()
    shutil.copy(HERE / "book.css", static)
    mathjax(static / "mathjax")


def for_readers(text, path, held):
    """Links to files that the book does not hold become their names; a starter's becomes its chapter's."""

    def link(match):
        words, address = match.groups()
        if re.match(r"[a-z]+:|#", address):
            return match[0]
        if address.endswith("starter.ipynb"):
            return f"[{words}]({address.replace('starter', 'solution')})"
        target = Path(os.path.normpath(path.parent / address.partition("#")[0]))
        kept = target in held or (target.suffix in (".png", ".svg") or target.name == "solution.ipynb") and target.exists()
        return match[0] if kept else words

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, text)


def mathjax(target):
    """MathJax as the pinned Python package ships it, without what pages of this book never load."""
    source = files("jupyter_server_mathjax") / "static"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("localization", "SVG"))


class Page(html.parser.HTMLParser):
    """What a page loads from elsewhere, and what it links to."""

    def __init__(self):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(filter(None, [attrs.get("id"), attrs.get("name") if tag == "a" else None]))
        if tag == "a":
            self.links.append(attrs.get("href") or "")
        elif tag == "link" and attrs.get("rel") not in ("canonical", "author"):
            self.loads.append(attrs.get("href") or "")
        elif tag in ("script", "img", "iframe", "source", "video", "audio", "object", "embed"):
            self.loads += [attrs[key] for key in ("src", "srcset", "data") if attrs.get(key)]


def faults(output):
    """What is wrong with the pages: loads from other machines, links that lead nowhere."""
    pages = {}
    for path in output.rglob("*.html"):
        if "mathjax" not in path.parts:
            pages[path] = Page()
            pages[path].feed(path.read_text("utf-8"))
    # Style sheets, and styles within pages.
    for path in [*output.rglob("*.css"), *pages]:
        foreign = re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s;]+)""", path.read_text("utf-8"))
        yield from (f"{path.relative_to(output)} loads {load}" for load in foreign)
    for path, page in pages.items():
        where = path.relative_to(output)
        yield from (f"{where} loads {load}" for load in page.loads if re.match(r"(https?:)?//", load))
        for link in page.links:
            address, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:|//", address) or not link or link == "#":
                continue
            target = (path.parent / address).resolve() if address else path
            if not target.exists():
                yield f"{where} links to {link}, which is not there"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{where} links to {link}, and there is no such place"


def unlisted(checkout):
    """Papers that a lesson names and the bibliography lacks."""
    known = (HERE / "references.bib").read_text("utf-8")
    for folder in chapters(checkout):
        text = (folder / "solution.ipynb").read_text("utf-8")
        for paper in re.findall(r"https://(?:arxiv\.org/abs|doi\.org)/[^)\s\"\\]+", text):
            if f"{{{paper}}}" not in known:
                yield f"{folder.name} names {paper}, which references.bib lacks"


def made(builder, work, output):
    """Has Sphinx make of WORK what one of its builders makes; its status."""
    return sphinx(["-b", builder, "-q", "-W", "--keep-going", "-d", str(work / "_doctrees"), str(work), str(output)])


def main():
    checkout, work, output = map(Path, sys.argv[1:4])
    printed = sys.argv[4:]
    found = list(unlisted(checkout))
    if not found:
        prepare(checkout, work)
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        (output / ".quantlab-book").touch()
        status = made("html", work, output)
        if status != 0:
            return status
        found = list(faults(output))
    if printed and not found:
        folder = work.parent / "one-page"
        shutil.rmtree(folder, ignore_errors=True)
        status = made("singlehtml", work, folder)
        if status != 0:
            return status
        page = folder / "index.html"
        page.write_text(pdf.for_print(page.read_text("utf-8")), "utf-8")
        found = list(faults(folder)) or pdf.print_page(printed[0], page, Path(printed[1]))
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
