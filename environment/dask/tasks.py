"""Has notebooks graded by the workers of a Dask scheduler, for `cargo lab grade --scheduler`.

Standard input says which, a JSON object a line; what comes of each is reported to standard output as kernel.py does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from distributed import CancelledError, Client, wait
from distributed.scheduler import KilledWorker

# How long a scheduler may be away.
AWAY_AT_MOST_S = 600


def say(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)


def grade_one(files):
    """On a worker: writes the files, has the set-up there grade the notebook, and returns what it wrote."""
    home = Path(os.environ.get("QUANTLAB_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quantlab")
    with tempfile.TemporaryDirectory(prefix="quantlab-grade-") as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if not (home / "bin/lab").exists():
            raise RuntimeError(f"no set-up in {home} on {os.uname().nodename}: cargo lab setup")
        Path(folder, "results").mkdir()
        command = [home / "bin/lab", "grade-one", folder]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        results = {path.suffix: path.read_bytes() for path in Path(folder, "results").iterdir() if path.is_file()}
        said = done.stderr.decode(errors="replace").strip() if done.returncode else None
        return results, said, os.uname().nodename


def submitted(client, task):
    files = {name: Path(path).read_bytes() for name, path in task["files"].items()} | {"task.json": json.dumps(task["task"]).encode()}
    # A key of its own: Dask must not take one notebook for another, nor for the same in an earlier run.
    return client.submit(grade_one, files, pure=False)


def take(task, results, said, where):
    """Puts down what a worker found."""
    for suffix, content in results.items():
        Path(task["place"] + suffix).write_bytes(content)
    say("done", number=task["number"], where=where, error=said)


def work_off(client, waiting):
    """Until nothing waits; what was not done when the scheduler goes waits again."""
    # One death may be the machine's. Whoever dies of the same notebook again has it from there.
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 1))
    at_work, warned = {}, False
    try:
        while waiting or at_work:
            threads = sum(client.nthreads().values())
            if not threads and not warned:
                say("waiting", why="no worker is there; begin one: cargo lab dask worker ADDRESS")
            warned = not threads
            # No more than are done at once: what waits with a worker that dies is suspected, too.
            while waiting and len(at_work) < threads:
                task = waiting.popleft()
                at_work[submitted(client, task)] = task
            try:
                # No longer than this before it is looked for new workers.
                done = wait(list(at_work), timeout=5, return_when="FIRST_COMPLETED").done if at_work else time.sleep(2)
            except TimeoutError:
                continue
            for future in done or ():
                take(at_work.pop(future), *outcome_of(future))
    except CancelledError:
        raise OSError("the scheduler forgot what it was given") from None
    finally:
        waiting.extendleft(at_work.values())


def outcome_of(future):
    try:
        return future.result()
    except KilledWorker as killed:
        return {}, f"two workers died of it, the last one at {killed.last_worker.address}", "no worker"
    except (OSError, RuntimeError) as error:
        return {}, f"no worker can grade it: {error}", "no worker"


def main():
    address, waiting = sys.argv[1], deque(json.loads(line) for line in sys.stdin)
    away_since = None
    while waiting:
        left = len(waiting)
        try:
            with Client(address, timeout=20, name="cargo lab grade") as client:
                work_off(client, waiting)
        except OSError as error:
            now = time.monotonic()
            if away_since is None or len(waiting) < left:
                away_since = now
                say("waiting", why=f"the scheduler at {address} does not answer ({type(error).__name__}); {len(waiting)} notebooks wait for it")
            if now - away_since > AWAY_AT_MOST_S:
                say("failure", message=f"no scheduler at {address} for {AWAY_AT_MOST_S} s; what is graded is kept: the same command goes on")
                sys.exit(1)
            time.sleep(2)


if __name__ == "__main__":
    main()
