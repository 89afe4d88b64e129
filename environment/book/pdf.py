"""The book as a PDF: the page on which Sphinx has put all others is prepared, and a browser prints it."""

import os
import re
import subprocess

# The mark that Sphinx leaves where a document begins.
DOCUMENT = re.compile(r'<span id="(document-[^"]+)"></span>')


def for_print(page):
    """Answers unfolded; and a place for each link, for headings of two documents may have the same."""
    front, *documents = DOCUMENT.split(page)
    parts = [front]
    for name, text in zip(documents[::2], documents[1::2]):
        places = set(re.findall(r'\bid="([^"]+)"', text))
        text = re.sub(r'\bid="([^"]+)"', rf'id="{name}#\1"', text)
        # From one document to another, Sphinx has written the place so.
        local = lambda link: f'href="#{name}#{link[1]}"' if link[1] in places else link[0]
        parts += [f'<span id="{name}"></span>', re.sub(r'href="#([^"]+)"', local, text)]
    page = "".join(parts).replace("<details>", "<details open>")
    return re.sub(r'href="(notebooks/[^"/]+/solution)\.html"', r'href="#document-\1"', page)


def print_page(browser, page, output):
    """Has a browser print a page into a PDF, with an outline of its headings; what went wrong, if anything did."""
    output.unlink(missing_ok=True)
    command = [browser, "--headless", "--disable-gpu", "--generate-pdf-document-outline", "--no-pdf-header-footer"]
    # Chromium does not start as root otherwise; the page is this book.
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    # Formulas are set by a script: the page's clock runs ahead, and it is printed when that has come to rest.
    command += ["--virtual-time-budget=120000", f"--print-to-pdf={output}", page.as_uri()]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{browser} does not print: {error}"]
    if ran.returncode != 0 or not output.is_file():
        return [f"{browser} does not print: {ran.stderr.strip()[-500:]}"]
    # A browser that is kept from reading the page prints that it cannot.
    printed = len(re.findall(rb"/Type\s*/Page\b", output.read_bytes()))
    documents = len(DOCUMENT.findall(page.read_text("utf-8")))
    return [] if printed >= documents else [f"{browser} printed {printed} pages of a book of {documents} chapters"]
