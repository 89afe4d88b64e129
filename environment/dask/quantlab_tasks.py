"""What a Dask worker does for `cargo lab grade --scheduler`; `cargo lab dask` lets workers and schedulers find it."""

import os
import subprocess
import tempfile
from pathlib import Path

from distributed import get_worker

# What `lab grade-one` ends with where nothing can be graded.
UNABLE = 3


def grade_one(files):
    """Writes the files, has the set-up here grade the notebook, and returns what it wrote, what went wrong, and where;
    what went wrong is a pair if it would with any notebook."""
    where, home = os.uname().nodename, Path(os.environ["QUANTLAB_HOME"])
    # In the worker's own folder, of which Dask takes care.
    with tempfile.TemporaryDirectory(prefix="grade-", dir=get_worker().local_directory) as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        results = Path(folder, "results")
        results.mkdir()
        command = [home / "bin/lab", "grade-one", folder]
        if not command[0].exists():
            return {}, (get_worker().address, f"there is no set-up in {home}"), where
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        found = {path.suffix: path.read_bytes() for path in results.iterdir() if path.is_file()}
    if done.returncode == 0:
        return found, None, where
    said = done.stderr.decode(errors="replace").strip() or f"it ended with {done.returncode}"
    return found, (get_worker().address, said) if done.returncode == UNABLE else said, where


def suspect_sooner(dask_scheduler):
    """One death may be the machine's; a notebook of which two workers died is given up."""
    dask_scheduler.allowed_failures = 1
