"""How Sphinx makes the book. `build.py` lays out what it reads."""

project = "quantlab"
author = "the authors of quantlab"
copyright = author
html_title = "quantlab: measuring and quantizing language models"

extensions = ["myst_nb", "sphinx.ext.mathjax", "sphinxcontrib.bibtex"]
nb_execution_mode = "off"
# What cells print as they go on belongs together.
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
bibtex_bibfiles = ["references.bib"]

# The lessons' headings number themselves, and docs begin at whatever level they please.
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type", "misc.highlighting_failure"]

html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "home_page_in_toc": False,
}
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = ""
# From the page's own folder: no other machine is asked. jupyter-server-mathjax brings these fonts and no others.
mathjax_path = "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full"
mathjax2_config = {
    "tex2jax": {"inlineMath": [["\\(", "\\)"]], "processClass": "math", "ignoreClass": "tex2jax_ignore"},
    "HTML-CSS": {"availableFonts": [], "webFont": "STIX-Web", "imageFont": None},
    "CommonHTML": {"linebreaks": {"automatic": True}},
    "showMathMenu": False,
    "messageStyle": "none",
}
myst_update_mathjax = False
