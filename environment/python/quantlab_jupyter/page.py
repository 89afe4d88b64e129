"""An executed notebook as one page: pictures, styles and formulas are in it, nothing in it runs, and it loads nothing."""

import copy
import re
from html import escape

from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from .harmless import without_scripts

# JupyterLab's, without what it would load: MathJax, require.js, Mermaid and widgets. Dark where the reader's system is; plots
# are drawn on white, so their lightness is turned round there, and their hues stay.
TEMPLATE = """{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block html_head_css -%}
<style>
main { max-width: 64rem; margin: 0 auto; }
.jp-OutputArea-output { overflow-x: auto; }
math[display="block"] { margin: 1em 0; }
@media screen and (prefers-color-scheme: dark) {
{% include 'static/theme-dark.css' %}
.jp-OutputArea-output img[src^="data:image/svg"] { filter: invert(0.93) hue-rotate(180deg); }
}
</style>
{%- endblock -%}"""


class Renderer(IPythonRenderer):
    """Markdown with formulas as MathML, which browsers show by themselves."""

    def __init__(self, left, **options):
        super().__init__(escape=False, embed_images=True, **options)
        self.left = left

    def block_math(self, body):
        return self.math(body, "block")

    def inline_math(self, body):
        return self.math(body, "inline")

    def latex_environment(self, name, body):
        return self.math(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")

    def math(self, tex, display):
        known = re.sub(r"\\arg(?![a-zA-Z])", r"\\operatorname{arg}", tex.strip().replace("{aligned}", "{split}"))
        try:
            math = convert(known, display=display)
        except Exception:
            math = "\\"
        # In text, an underscore keeps its backslash. So does a command that is not known; of an environment that is not,
        # the ampersands stay.
        math = math.replace("\\_", "_")
        if "\\" in math or ">&<" in math:
            self.left.append(f"a formula stays TeX: {tex.strip()}")
            return f"<code>{escape(tex.strip())}</code>"
        # The name space is not needed in HTML, and would give the elements of a heading another name.
        return re.sub(r' xmlns="[^"]*"', "", math)


class Page(HTMLExporter):
    """What could not be put into the page is in `left`, a line each."""

    def __init__(self, **options):
        # Not from the working directory, where a learner may have a folder that is called like one of the templates'.
        super().__init__(raw_template=TEMPLATE, extra_template_basedirs=[], **options)
        self.left = []

    @pass_context
    def markdown2html(self, context, source):
        attachments = context.get("cell", {}).get("attachments", {})
        path = context["resources"]["metadata"]["path"]
        return MarkdownWithMath(Renderer(self.left, attachments=attachments, path=path)).render(source)


def page_of(notebook, folder, title):
    """The page, and what could not be put into it; pictures are looked for in the notebook's folder."""
    notebook = copy.deepcopy(notebook)
    # A kernel that did not start has not said so.
    notebook.metadata.setdefault("language_info", {"name": "Rust"})
    # The state of widgets, which take scripts.
    notebook.metadata.pop("widgets", None)
    exporter = Page()
    page, _ = exporter.from_notebook_node(notebook, {"metadata": {"path": str(folder), "name": title}})
    far = re.findall(r'<img\b[^>]*?\ssrc="(?!data:)([^"]*)"', page)
    return without_scripts(page), exporter.left + [f"a picture is not in the notebook's folder: {source}" for source in far]
