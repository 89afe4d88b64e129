"""Asks formgrader, in a Jupyter server of its own, for the pages of a course in the current folder."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request

student = sys.argv[1]
with tempfile.TemporaryDirectory() as runtime:
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", "--IdentityProvider.token=t"],
        env={**__import__("os").environ, "JUPYTER_RUNTIME_DIR": runtime, "JUPYTER_CONFIG_DIR": runtime},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    try:
        import pathlib

        address = None
        for _ in range(600):
            found = list(pathlib.Path(runtime).glob("jpserver-*.json"))
            if found and found[0].read_text():
                address = json.loads(found[0].read_text())["url"]
                break
            time.sleep(0.1)
        assert address, "the server did not start"

        def get(path):
            request = urllib.request.Request(f"{address}{path}", headers={"Authorization": "token t"})
            for attempt in range(50):
                try:
                    return urllib.request.urlopen(request, timeout=60).read().decode()
                except OSError as error:
                    if attempt == 49 or "refused" not in str(error):
                        raise
                    time.sleep(0.2)

        assert student in get("formgrader/api/submissions/01-mini"), "the submission is not listed"
        one = json.loads(get("formgrader/api/submitted_notebooks/01-mini/01-mini"))[0]
        page = get(f"formgrader/submissions/{one['id']}/")
        assert "square" in page and "nbgrader" in page, page[:2000]
        assert "the plots</a>" in page and "covers" in page
        # By this name, MathJax passes over what a learner wrote.
        assert "tex2jax: {" in page and 'class="tex2jax_ignore' in page
        for canary in ("javascript:alert", "elsewhere.example", "position: fixed"):
            assert canary not in page, page[page.index(canary) - 300 :][:600]
        print("formgrader shows it", one["score"], "of", one["max_score"])
    finally:
        server.terminate()
        server.wait()
