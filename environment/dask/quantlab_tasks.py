"""What a Dask worker does for `cargo lab grade` and `cargo lab sweep`; `cargo lab dask` lets workers and schedulers find it."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from distributed import get_worker

# What `lab grade-one` and `lab measure-one` end with where nothing can be graded, or measured.
UNABLE = 3
# As much of a benchmark's messages as says why it failed.
LAST_WORDS = 2000


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


def measure_one(question, dask_worker=None):
    """Has the set-up here answer a question, JSON as `lab measure-one` reads it; returns as `grade_one` does, the answer first.

    Dask says which worker it is to what is no task."""
    where, worker = os.uname().nodename, dask_worker or get_worker()
    try:
        lab = Path(os.environ["QUANTLAB_HOME"], "bin/lab")
        if not lab.exists():
            return None, (worker.address, f"there is no set-up in {lab.parent.parent}"), where
        # What the machine is, it knows at once, or never will.
        within_s = None if json.loads(question)["unit"] else 60
        with tempfile.TemporaryDirectory(prefix="measure-", dir=worker.local_directory) as folder:
            done = subprocess.run(
                [lab, "measure-one"], cwd=folder, input=question, capture_output=True, text=True, errors="replace", timeout=within_s
            )
    except Exception as error:
        return None, (worker.address, f"{type(error).__name__}: {error}"), where
    if done.returncode == 0:
        # Before it, what was fetched may have said something.
        return (done.stdout.splitlines() or [""])[-1], None, where
    said = done.stderr.strip()[-LAST_WORDS:] or f"it ended with {done.returncode}"
    return None, (worker.address, said) if done.returncode == UNABLE else said, where


def suspect_sooner(dask_scheduler):
    """One death may be the machine's; a notebook of which two workers died is given up."""
    dask_scheduler.allowed_failures = 1
