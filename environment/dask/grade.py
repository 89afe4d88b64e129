"""Has notebooks graded by the workers of a Dask scheduler, for `cargo lab grade --scheduler`.

Standard input says which, a JSON object a line; what comes of each is reported to standard output as kernel.py does.
"""

import json
import os
import sys
from collections import deque
from pathlib import Path

from distributed.scheduler import KilledWorker
from quantlab_client import say, some_done, work_with
from quantlab_tasks import grade_one, suspect_sooner


def path_of(numbers):
    """A path as it came: its bytes need not be UTF-8."""
    return Path(os.fsdecode(bytes(numbers)))


def take(task, results, error, where):
    """Puts down what a worker found, the outcome last: with it, the notebook counts as graded."""
    place = str(path_of(task["place"]))
    try:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".json", ".ipynb"):
            Path(place + suffix).unlink(missing_ok=True)
        for suffix in sorted(results, key=lambda suffix: suffix == ".json"):
            Path(place + suffix + ".part").write_bytes(results[suffix])
            os.replace(place + suffix + ".part", place + suffix)
    except OSError as cause:
        error = f"cannot write what a worker found: {cause}"
    say("done", number=task["number"], where=where, error=error)


class Class:
    """The notebooks that wait, and those that are at work."""

    def __init__(self, tasks):
        self.waiting, self.at_work, self.unable, self.alone = deque(tasks), {}, set(), False

    def work_off(self, client):
        """Until nothing waits. What is at work when the scheduler goes waits again."""
        client.run_on_scheduler(suspect_sooner)
        try:
            while self.waiting or self.at_work:
                self.send(client)
                for future in some_done(list(self.at_work)):
                    self.settle(client, future)
        finally:
            self.waiting.extendleft(self.at_work.values())
            self.at_work.clear()

    def send(self, client):
        threads = sum(count for worker, count in client.nthreads().items() if worker not in self.unable)
        if not threads and not self.alone:
            say("waiting", why="no worker is there that can grade; begin one: cargo lab dask worker ADDRESS")
        self.alone = not threads
        # No more than are done at once: what waits with a worker that dies is suspected, too.
        while self.waiting and len(self.at_work) < threads:
            task = self.waiting.popleft()
            try:
                files = {name: path_of(path).read_bytes() for name, path in task["files"].items()}
            except OSError as cause:
                take(task, {}, f"cannot read it: {cause}", "nobody")
                continue
            files["task.json"] = json.dumps(task["task"]).encode()
            # A key of its own: Dask must not take one notebook for another, nor for the same in an earlier run.
            self.at_work[client.submit(grade_one, files, pure=False)] = task

    def settle(self, client, future):
        """Takes what came of one. What `result` itself raises is the connection's: the notebook has no error of its own."""
        results, error, where = described(future.exception()) if future.status == "error" else future.result()
        if isinstance(error, tuple | list):
            worker, why = error
            if worker not in self.unable:
                say("waiting", why=f"the worker {worker} on {where} is sent away: {why}")
                self.unable.add(worker)
                client.retire_workers([worker])
            self.waiting.appendleft(self.at_work.pop(future))
            return
        take(self.at_work[future], results, error, where)
        del self.at_work[future]


def described(error):
    if isinstance(error, KilledWorker):
        return {}, f"two workers died of it, the last one at {error.last_worker.address}", "nobody"
    return {}, f"no worker can grade it: {type(error).__name__}: {error}", "nobody"


def main():
    notebooks = Class(json.loads(line) for line in sys.stdin)
    waiting = notebooks.waiting
    work_with(sys.argv[1], "cargo lab grade", lambda: waiting and f"{len(waiting)} notebooks", notebooks.work_off)


if __name__ == "__main__":
    main()
