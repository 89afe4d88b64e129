"""Has models measured by the workers of a Dask scheduler, for `cargo lab sweep --scheduler`.

Standard input is a JSON object: the `units` that are to be measured, the `state` of the library, and which of them were
`measured` before, each with its processor. Every kind of processor among the workers measures all of them; a machine one at a
time, whatever number of workers it has.
"""

import json
import sys
import time
from collections import deque

from distributed.scheduler import KilledWorker
from quantlab_client import AWAY_AT_MOST_S, say, some_done, work_with
from quantlab_tasks import measure_one

# A kind of which no machine is left, while there are others: how long one is waited for.
GONE_AT_MOST_S = 60
# A result that lies with a worker: how long it may be on its way.
RESULT_WITHIN_S = 30
# Of so many workers that died of it, or went while they were at it, a unit is given up.
DEATHS = 2


def in_words(error):
    """What Dask says of a failure that is not a benchmark's, in a line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} (were scheduler and workers begun by `cargo lab dask`?)"


class Machine:
    """Where a worker is."""

    def __init__(self, answer):
        said = json.loads(answer)
        self.processor, self.id = said["processor"], said["machine"]


class Sweep:
    """What every kind of processor has yet to measure, and what is being measured."""

    def __init__(self, units, state, measured):
        self.units, self.state, self.measured = units, state, measured
        # By the worker's address; None where nothing can be measured.
        self.machines = {}
        # By the kind of processor: units, with how many workers died of each.
        self.waiting, self.gone_since = {}, {}
        self.at_work, self.alone = {}, False

    def left(self):
        if not self.waiting:
            return f"{len(self.units)} measurements"
        left = sum(map(len, self.waiting.values()))
        return left and f"{left} measurements"

    def question(self, unit=None):
        return json.dumps({"state": self.state, "unit": unit})

    def work_off(self, client):
        """Until nothing waits. What is at work when the scheduler goes waits again."""
        try:
            while self.left() or self.at_work:
                workers = set(client.nthreads())
                self.meet(client, workers)
                self.take_back(workers)
                self.give_up_kinds_that_are_gone()
                self.send(client)
                for future in some_done(list(self.at_work)):
                    self.settle(future)
        finally:
            for worker, unit, deaths in self.at_work.values():
                self.wait_again(worker, unit, deaths)
            self.at_work.clear()
            # Another scheduler has other workers, which take their time.
            self.machines.clear()
            self.gone_since.clear()

    def meet(self, client, workers):
        """Asks new workers what they are; a kind that is new has everything before it."""
        new = [worker for worker in workers if worker not in self.machines]
        answers = client.run(measure_one, self.question(), workers=new, on_error="return") if new else {}
        for worker, said in answers.items():
            if isinstance(said, OSError):
                # It did not answer; if it is still there, it is asked again.
                continue
            answer, error, where = (None, in_words(said), "its machine") if isinstance(said, Exception) else said
            try:
                machine = None if error else Machine(answer)
            except (ValueError, KeyError, TypeError):
                error = f"it does not say what it is, but {answer[:200]!r}"
            if error:
                self.unable(worker, where, error)
            else:
                self.machines[worker] = machine
                self.kinds(machine.processor)
        able = any(self.machines.values())
        if not able and not self.alone:
            say("waiting", why="no worker is there that can measure; begin one: cargo lab dask worker ADDRESS --nthreads 1")
        self.alone = not able

    def unable(self, worker, where, error):
        why = error[1] if isinstance(error, tuple | list) else error
        say("waiting", why=f"the worker {worker} on {where} measures nothing: {why}")
        self.machines[worker] = None

    def kinds(self, processor):
        if processor not in self.waiting:
            before = [one["unit"] for one in self.measured if one["processor"] == processor]
            self.waiting[processor] = deque((unit, 0) for unit in self.units if unit not in before)
            say("kind", processor=processor, units=len(self.waiting[processor]), before=len(self.units) - len(self.waiting[processor]))

    def take_back(self, workers):
        """A task is bound to its worker, for which Dask would wait for ever."""
        for future, (worker, unit, deaths) in list(self.at_work.items()):
            if worker not in workers:
                future.cancel()
                del self.at_work[future]
                self.died(worker, unit, deaths + 1)
        self.machines = {worker: machine for worker, machine in self.machines.items() if worker in workers}

    def died(self, worker, unit, deaths):
        if deaths < DEATHS:
            self.wait_again(worker, unit, deaths)
        else:
            self.failed(unit, self.machines[worker].processor, f"{DEATHS} workers went while they measured it")

    def wait_again(self, worker, unit, deaths):
        self.waiting[self.machines[worker].processor].appendleft((unit, deaths))

    def give_up_kinds_that_are_gone(self):
        there = {machine.processor for machine in self.machines.values() if machine}
        at_most = GONE_AT_MOST_S if there else AWAY_AT_MOST_S
        for kind, units in self.waiting.items():
            if kind in there or not units:
                self.gone_since.pop(kind, None)
            elif time.monotonic() - self.gone_since.setdefault(kind, time.monotonic()) > at_most:
                for unit, _ in units:
                    self.failed(unit, kind, "no machine of this kind is left")
                units.clear()

    def send(self, client):
        busy = {self.machines[worker].id for worker, _, _ in self.at_work.values()}
        for worker, machine in self.machines.items():
            if machine and machine.id not in busy and self.waiting[machine.processor]:
                unit, deaths = self.waiting[machine.processor][0]
                future = client.submit(measure_one, self.question(unit), workers=[worker], allow_other_workers=False, pure=False)
                self.at_work[future] = (worker, unit, deaths)
                self.waiting[machine.processor].popleft()
                busy.add(machine.id)

    def settle(self, future):
        """Takes what came of one; what a worker is to blame for, another one of its kind measures."""
        worker, unit, deaths = self.at_work[future]
        machine = self.machines[worker]
        if future.status == "finished":
            try:
                answer, error, where = future.result(timeout=RESULT_WITHIN_S)
            except TimeoutError:
                # Its worker has it, and went: that is seen in the next round.
                return
        elif future.status == "error":
            if isinstance(future.exception(), KilledWorker):
                del self.at_work[future]
                return self.died(worker, unit, deaths + 1)
            answer, error, where = None, (worker, in_words(future.exception())), "its machine"
        else:
            return
        del self.at_work[future]
        measured = None if error else self.checked(answer, unit, machine)
        if measured:
            say("measured", measured=measured)
        elif error and not isinstance(error, tuple | list):
            self.failed(unit, machine.processor, error)
        else:
            self.wait_again(worker, unit, deaths)
            self.unable(worker, where, error or f"it answers what it was not asked: {answer[:200]!r}")

    def checked(self, answer, unit, machine):
        """The answer as JSON, if it is one to this question."""
        try:
            measured = json.loads(answer)
            is_to_this = (measured["unit"], measured["state"], measured["processor"]) == (unit, self.state, machine.processor)
            return measured if is_to_this else None
        except (ValueError, KeyError, TypeError):
            return None

    def failed(self, unit, processor, why):
        say("failed", unit=unit, processor=processor, why=why)


def main():
    sweep = Sweep(**json.load(sys.stdin))
    work_with(sys.argv[1], "cargo lab sweep", sweep.left, sweep.work_off)


if __name__ == "__main__":
    main()
