"""Runs one notebook that was handed in, for grade.py: each cell with limits, each check with a proof of its score."""

import asyncio
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty

import zmq
from jupyter_core.utils import run_sync
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from traitlets.config import Config

from .kernel import ANSI, KERNEL, LATE_OUTPUT_AT_MOST_S, STARTUP_TIMEOUT_S, Client, Streams
from .outcome import first_text, is_marked, is_number, keep_score, problem_of, proof, result_of
from .outputs import Outputs, Room, failure
from .processes import adopt_orphans, descendants, end_leftovers, end_with_parent, held_mib, lift

MEMORY_POLL_S = 0.1
# A kernel that sends more at once is cut off.
MAX_MESSAGE_BYTES = 64 << 20
# Told within a second; a busy machine may take longer to compile the cell that asks.
KEY_WITHIN_S = 60
# A check of the library's, as lessons call it.
CHECK = re.compile(r"check_(\w+)\(.*\)\s*", re.S)
# In brackets, for evcxr takes what begins with a colon for a command.
TELL_KEY, KEY = "(::quantlab_course::tell_key({})?);", re.compile(r"^([0-9a-f]{64})$", re.M)
# No trait of the notebook's gets hold of the score: its own function shows it, called by its whole name.
SHOW_SCORE = "(::quantlab_course::Score::evcxr_display(&::quantlab_course::{}));"
# evcxr's own, some of which end the process, and a shell's.
COMMAND = re.compile(r" *[:!]")
# Those of evcxr's that change nothing of how a cell is built: what builds it is no cell's process, and may do more than one.
HARMLESS = "clear|restart|quit|vars|help|version|t|type|types|fmt|efmt|opt|explain|timing|last_error_json|last_compile_dir|show_deps|doc|preserve_vars_on_panic|offline"
# A crate by its version and features.
RELEASED = r"\"[^\"\n]*\"|\{(?:\s*(?:version\s*=\s*\"[^\"\n]*\"|features\s*=\s*\[[^\]\n]*\]|default-features\s*=\s*(?:true|false))\s*,?)*\s*\}"
BUILDS = re.compile(rf"^\s*:(?!(?:{HARMLESS})\b|dep\s+[\w-]+\s*(?:=\s*(?:{RELEASED})\s*)?$)([a-z_]+)(?=\s|$)", re.M)
# The worst comes first: it names the notebook's status.
KINDS = ["forged", "out of memory", "out of time", "hung", "kernel died", "crashed", "does not compile", "panicked", "failed", "incomplete"]
# `cargo lab grade` says there how kernels are kept in; empty without a sandbox.
SANDBOX = json.loads(os.environ.get("QUANTLAB_SANDBOX") or "{}")


class Run:
    """What happened while the notebook ran, and how much it may take."""

    def __init__(self, cell_timeout_s, time_limit_s, memory_limit_mib):
        self.cell_timeout_s, self.time_limit_s, self.memory_limit_mib = cell_timeout_s, time_limit_s, memory_limit_mib
        self.deadline = None
        self.hangs = 0
        self.over_memory = False
        self.ended_for_memory = ended_for_memory()
        self.stopped = None
        self.problems = []
        self.unscored = {}
        self.earned = 0
        self.room = Room()

    def left_s(self):
        return self.deadline - time.monotonic()

    def cell_s(self, _cell=None):
        """A function that hangs will hang again in the check that calls it: each hang halves the time-out."""
        return max(0.5, min(self.cell_timeout_s / 2**self.hangs, self.left_s()))

    def was_over_memory(self, cell):
        """Whether the last cell exceeded the limit, as far as the system, the watch or the cell itself says so."""
        before, self.ended_for_memory = self.ended_for_memory, ended_for_memory()
        over, self.over_memory = self.over_memory, False
        printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
        return over or self.ended_for_memory > before or bool(re.search(r"^memory allocation of \d+ bytes failed", printed, re.M))

    def watch_memory(self):
        """Kills the largest process below this one whenever all of them together exceed the limit."""
        while Limited.run is self:
            sizes = {pid: held_mib(pid) for pid in descendants(os.getpid())}
            if sum(sizes.values()) > self.memory_limit_mib:
                self.over_memory = True
                try:
                    os.kill(max(sizes, key=sizes.get), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(MEMORY_POLL_S)

    def note(self, kind, cell, index, message):
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        self.problems.append((kind, f"cell {index + 1} ({name})" if name else f"cell {index + 1}", message))

    def notes(self):
        """The first problem of each kind."""
        seen = {}
        for kind, cell, message in self.problems:
            seen.setdefault(kind, [f"{kind}: {cell}{': ' + message if message else ''}", 0])[1] += 1
        more = {1: "", 2: " (and 1 more cell)"}
        notes = [text + more.get(count, f" (and {count - 1} more cells)") for text, count in seen.values()]
        return notes + self.room.notes()

    def status(self, untouched):
        kinds = {kind for kind, _, _ in self.problems}
        worst = next((kind for kind in KINDS if kind in kinds), "graded")
        return "untouched" if untouched and not self.earned and worst in ("incomplete", "graded") else worst


class Limited(Outputs, Streams, NotebookClient):
    """nbclient with limits, to grade as nbgrader does; no cell's failure ends the notebook, and only a number is a score."""

    run = None
    # Checks that the lesson itself defines; the others are the library's.
    own_checks = frozenset()
    # Cells that checks need, by their index; and whether only they are run, and the others keep the outputs that they came
    # with.
    needed, only_needed = frozenset(), False
    # With which the library proves scores, in the process that runs the cells now; none if that was ended.
    key = None

    def __init__(self, notebook, **kwargs):
        super().__init__(notebook, **kwargs)
        self.startup_timeout = STARTUP_TIMEOUT_S
        self.allow_errors = self.interrupt_on_timeout = self.raise_on_iopub_timeout = True
        # A cell that was interrupted in time has answered.
        self.error_on_timeout = {"ename": "CellTimeoutError"}
        self.timeout_func = self.run.cell_s
        # What a flood of output left behind is read before the cell's end is seen.
        self.iopub_timeout = 10
        # The cells that checks need and that ran as they should, for a kernel that has to be started again.
        self.ran = []
        # Whether one of them gave evcxr a command.
        self.commanded = False

    def create_kernel_manager(self):
        manager = super().create_kernel_manager()
        manager.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        if SANDBOX:
            # A signal would meet the sandbox, not the cell.
            manager.kernel_spec.interrupt_mode = "message"
        return manager

    def start_new_kernel(self, **kwargs):
        super().start_new_kernel(preexec_fn=lift, **kwargs)

    def grade(self):
        with self.setup_kernel():
            for index, cell in enumerate(self.nb.cells):
                if cell.cell_type == "code":
                    self.grade_cell(cell, index)

    def grade_cell(self, cell, index):
        if not cell.source.strip() or (self.only_needed and index not in self.needed):
            if not self.run.room.takes(cell.outputs):
                cell.outputs = []
                self.run.room.leave_out(cell)
            return
        run, prove = self.run, None
        is_check = is_marked(cell, "grade") and not is_marked(cell, "solution")
        if run.deadline is None:
            self.key = self.take_key()
            # From here on: the kernel's start may have built the support crate.
            run.deadline = time.monotonic() + run.time_limit_s
            if not SANDBOX.get("cgroups"):
                threading.Thread(target=run.watch_memory, daemon=True).start()
        if run.stopped is None and run.left_s() <= 0:
            run.stopped = f"the notebook's {run.time_limit_s} s were up"
            run.note("out of time", cell, index, run.stopped)
        if not run.stopped and not self.key and not self.start_again():
            self.give_up(cell, index)
        builds = BUILDS.search("\n".join(commands_of(cell.source)[0]))
        if run.stopped:
            cell.outputs = [not_run(run.stopped)]
        elif builds:
            refused = f"`:{builds[1]}` changes how cells are built, which grading does not let a notebook do"
            cell.outputs = [not_run(refused)]
            run.note("failed", cell, index, f"not run: {refused}")
        elif is_check:
            noted = len(run.problems)
            prove = self.run_check(cell, index)
            # Not by forgery alone: a command of evcxr's, or a thread, may have ended the process that knew the key, or
            # taken what the check needs.
            if prove and (is_number(result_of(cell)) or (self.commanded and not result_of(cell))):
                del run.problems[noted:]
                if self.start_again():
                    prove = self.run_check(cell, index)
                else:
                    self.give_up(cell, index)
        else:
            self.run_cell(cell, index)
        if is_check:
            keep_score(cell, index, run, prove)

    def give_up(self, cell, index):
        """Runs nothing more, since no new kernel got as far as this cell."""
        run = self.run
        run.stopped = "the kernel no longer answered"
        kind = "out of time" if run.left_s() <= 0 else "kernel died"
        run.note(kind, cell, index, "a new kernel did not get as far as this cell")
        cell.outputs = [not_run(run.stopped)]

    def run_check(self, cell, index):
        """Runs a check, of the library's checks its own function, whatever the notebook calls so; how these prove points."""
        source, check = cell.source, CHECK.fullmatch(cell.source)
        if not check or check[1] in self.own_checks:
            return self.run_cell(cell, index)
        prove = functools.partial(proof, self.key, check[1])
        cell.source = SHOW_SCORE.format(source.rstrip())
        try:
            self.run_cell(cell, index)
        finally:
            cell.source = source
        return prove

    def run_cell(self, cell, index):
        run = self.run
        allowed = run.cell_s()
        died = False
        self.begin_outputs()
        self.timed_out, self.pieces = False, {}
        try:
            self.execute_cell(cell, index, store_history=True)
            answered = True
        except CellTimeoutError:
            answered = False
        except DeadKernelError:
            answered, died = False, True
        self.join_streams(cell)
        problem = problem_of(cell)
        over_memory = run.was_over_memory(cell)
        defined = False
        if self.flooded or not answered or over_memory or (problem and problem[0] == "crashed"):
            # The process that knew the key has ended, or shall. To another one in which the notebook's own items are, its
            # traits and modules, the key is not told.
            self.key = None
        if over_memory:
            run.note("out of memory", cell, index, f"more than {run.memory_limit_mib} MiB")
        elif self.flooded and not self.timed_out:
            run.hangs += 1
            cell.outputs.append(failure("TimedOut", "stopped: it did not stop printing"))
            run.note("hung", cell, index, "stopped: it did not stop printing")
        elif self.took_s >= allowed:
            run.hangs += 1
            how = "stopped" if answered else "its process was ended, since an interrupt did nothing,"
            cell.outputs.append(failure("TimedOut", f"{how} after {allowed:.0f} s"))
            whole = allowed < run.cell_timeout_s / 2 ** (run.hangs - 1)
            run.note("out of time" if whole else "hung", cell, index, f"{how} after {allowed:.0f} s")
        elif died:
            run.note("kernel died", cell, index, "")
        elif problem:
            run.note(problem[0], cell, index, problem[1])
            # What only wrote to standard error did what it says.
            defined = problem[0] == "failed"
        else:
            defined = True
        if defined and index in self.needed and not is_marked(cell, "grade"):
            commands, code = commands_of(cell.source)
            self.ran.append("\n".join([line for line in commands if re.match(r" *:dep\b", line)] + [code]))
            self.commanded |= bool(commands)
        if died:
            cell.outputs.append(failure("KernelDied", "the kernel had died"))
        if self.leaves_out:
            run.room.leave_out(cell)

    async def async_execute_cell(self, cell, cell_index, *args, **kwargs):
        self.read_quickly()
        start = time.monotonic()
        try:
            await super().async_execute_cell(cell, cell_index, *args, **kwargs)
        finally:
            # Without the waiting for what comes late.
            self.took_s = time.monotonic() - start
        # A thread that the cell has started may print for ever.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(Client.take_late_output(self, cell, cell_index), LATE_OUTPUT_AT_MOST_S)
        return cell

    execute_cell = run_sync(async_execute_cell)

    async def _async_handle_timeout(self, *args):
        # What has been printed until now is enough.
        self.flooded = self.timed_out = True
        return await super()._async_handle_timeout(*args)

    async def async_take_key(self):
        """Has the library tell the key with which it proves scores, before any of the learner's code is in the process."""
        asked, printed = self.kc.execute(TELL_KEY.format("true" if SANDBOX else "false"), store_history=False), ""
        while not (key := KEY.search(printed)):
            message = await self.kc.iopub_channel.get_msg(timeout=KEY_WITHIN_S)
            if message["parent_header"].get("msg_id") == asked and message["msg_type"] in ("stream", "error"):
                content = message["content"]
                printed += content.get("text", "") + "\n".join(content.get("traceback", []))
                if message["msg_type"] == "error":
                    raise RuntimeError(f"the library gave no key for proofs of scores: {first_text(ANSI.sub('', printed))}")
        return key[1]

    take_key = run_sync(async_take_key)

    async def async_start_again(self):
        """A new kernel, in which the cells that ran and that checks need are run again; whether it answers."""
        self.flooded = self.commanded = False
        await self.km.restart_kernel(now=True)
        begun = time.monotonic()
        try:
            await self.kc.wait_for_ready(timeout=self.startup_timeout)
            # Another set-up may have kept the kernel waiting, until all notebooks that are graded had ended.
            self.run.deadline += time.monotonic() - begun
            self.key = await self.async_take_key()
            for source in self.ran:
                asked = self.kc.execute(source, store_history=False)
                # They ran before, whatever hung since.
                await asyncio.wait_for(self.is_idle_after(asked), min(self.run.cell_timeout_s, self.run.left_s()))
        except (RuntimeError, DeadKernelError, asyncio.TimeoutError, Empty):
            self.key = None
            return False
        return True

    start_again = run_sync(async_start_again)

    async def is_idle_after(self, request):
        while True:
            message = await self.kc.iopub_channel.get_msg(timeout=None)
            if message["parent_header"].get("msg_id") == request and message["content"].get("execution_state") == "idle":
                return True


def commands_of(source):
    """The lines of a cell that evcxr takes for commands, and its code: they stand before it, among comments and empty lines."""
    lines = source.split("\n")
    is_code = (line.strip() and not line.startswith("//") and not COMMAND.match(line) for line in lines)
    begin = next((number for number, code in enumerate(is_code) if code), len(lines))
    return [line for line in lines[:begin] if COMMAND.match(line)], "\n".join(lines[begin:])


def not_run(why):
    return failure("NotRun", f"not run: {why}")


def ended_for_memory():
    """How many processes the system has ended because the notebook's control group was full."""
    for folder in SANDBOX.get("cgroups", []):
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                found = re.search(r"^oom_kill (\d+)", (Path(folder) / name).read_text(), re.M)
                if found:
                    return int(found[1])
    return 0


def execute(notebook, companions, limits, needed=frozenset(), only_needed=False, own_checks=frozenset()):
    """Runs a notebook beside these files, or only the cells that checks need; its `Run`."""
    Limited.run, Limited.needed, Limited.only_needed, Limited.own_checks = (run := Run(*limits)), needed, only_needed, own_checks
    # Processes that a cell leaves behind stay below this one, where their memory counts.
    adopt_orphans()
    end_with_parent()
    config = Config()
    # Another kernel that a notebook asks for would not be in the sandbox.
    notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Rust (quantlab)", "language": "rust"}
    # Short, for it becomes part of the names of sockets.
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        os.environ["JUPYTER_RUNTIME_DIR"] = os.path.join(folder, "run")
        work = os.path.join(folder, "work")
        if SANDBOX:
            config.KernelManager.update(transport="ipc", ip=os.path.join(folder, "socket"))
        for path in (os.environ["JUPYTER_RUNTIME_DIR"], work):
            os.mkdir(path, 0o700)
        for file in () if SANDBOX else companions:
            shutil.copy(file, work)
        try:
            manager = {"kernel_name": KERNEL, "kernel_manager_class": AsyncKernelManager}
            Limited(notebook, config=config, resources={"metadata": {"path": work}}, **manager).grade()
        finally:
            end_leftovers()
    return run
