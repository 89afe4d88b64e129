"""Releases and grades lessons for `cargo lab`, with nbgrader's own machinery.

Reports to standard output as JSON lines, one event a line, as kernel.py does.
"""

import argparse
import asyncio
import contextlib
import ctypes
import logging
import os
import re
import secrets
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import nbformat
from jupyter_core.utils import run_sync
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader import converters, preprocessors, utils
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning

from kernel import ANSI, Client, descendants, error_text, resident_mib, say
from nbgrader_config import Execute, c as CONFIG

MEMORY_POLL_S = 0.1
LATE_OUTPUT_AT_MOST_S = 2
# `loop { println!() }` would otherwise fill this process's memory until its time-out.
MAX_OUTPUT_CHARS = 200_000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# A check of the course's, as lessons call it.
CHECK = re.compile(r"check_\w+\(.*\)\s*", re.S)
# The worst comes first: it names the notebook's status.
KINDS = ["forged", "out of memory", "out of time", "hung", "kernel died", "crashed", "does not compile", "panicked", "failed", "incomplete"]


def release(sources):
    """Each source notebook, named `LESSON/solution.ipynb`, as its starter's text."""
    steps = [step for step in converters.GenerateAssignment.preprocessors.default() if step not in NOT_RELEASING]
    for source in sources:
        notebook = nbformat.read(source, as_version=4)
        resources = {}
        for step in steps:
            notebook, resources = step(config=CONFIG).preprocess(notebook, resources)
        # For graders: file names and folders get lost on the way through a learning platform.
        notebook.metadata["quantlab"] = {"lesson": source.parent.name}
        say("starter", lesson=source.parent.name, text=nbformat.writes(notebook).rstrip("\n") + "\n")


# These need a gradebook, or files that a quantlab lesson does not have.
NOT_RELEASING = (preprocessors.IncludeHeaderFooter, preprocessors.InstantiateTests, preprocessors.SaveCells)


def converter(kind, course, lesson, student="*", **traits):
    """One of nbgrader's converters on a course directory; raises if it fails, with its log."""
    coursedir = CourseDirectory(config=CONFIG, root=str(course), assignment_id=lesson, student_id=student)
    app = kind(coursedir=coursedir, config=CONFIG, force=True, **traits)
    result = utils.capture_log(app)
    if not result["success"]:
        raise RuntimeError(f"{result.get('log', '')}{result['error']}".strip())


def prepare(course, lessons):
    """Fills the gradebook with the lessons' exercises."""
    for lesson in lessons:
        converter(converters.GenerateAssignment, course, lesson)


def restore(notebook, starter):
    """Puts the starter's metadata, checks and missing graded cells back; (notes, whether all is as handed out).

    nbgrader itself restores a locked cell's text, but neither metadata that got lost nor, in Rust, a cell.
    """
    wanted = {cell.metadata.nbgrader.grade_id: cell for cell in starter.cells if "nbgrader" in cell.metadata}
    by_cell_id = {cell.get("id"): grade_id for grade_id, cell in wanted.items()}
    found, notes = {}, []
    for index, cell in enumerate(notebook.cells):
        theirs = cell.metadata.pop("nbgrader", None)
        grade_id = theirs.get("grade_id") if isinstance(theirs, dict) else None
        if grade_id not in wanted:
            grade_id = by_cell_id.get(cell.get("id"))
        # Of copies, the one that was handed out counts.
        if grade_id is None or (grade_id in found and cell.get("id") != wanted[grade_id].get("id")):
            continue
        original = wanted[grade_id]
        if cell.cell_type != original.cell_type:
            new = new_code_cell if original.cell_type == "code" else new_markdown_cell
            cell = notebook.cells[index] = new(cell.source, id=cell.id)
            notes.append(f"cell {grade_id} had become another type; restored")
        if utils.is_locked(original) and cell.source != original.source:
            notes.append(f"check cell {grade_id} was changed; restored")
            cell.source = original.source
        if grade_id in found:
            found[grade_id].metadata.pop("nbgrader", None)
        cell.metadata["nbgrader"] = original.metadata.nbgrader.copy()
        found[grade_id] = cell
    touched = any(
        grade_id not in found or found[grade_id].source != cell.source
        for grade_id, cell in wanted.items()
        if utils.is_solution(cell)
    )
    previous = None
    for grade_id, original in wanted.items():
        if grade_id not in found and utils.is_grade(original):
            cell = nbformat.from_dict(original)
            ids = [id(other) for other in notebook.cells]
            notebook.cells.insert(ids.index(id(previous)) + 1 if previous else len(ids), cell)
            found[grade_id] = cell
            notes.append(f"{'answer' if utils.is_solution(original) else 'check'} cell {grade_id} was missing; put back")
        elif grade_id not in found:
            notes.append(f"exercise cell {grade_id} is missing")
        previous = found.get(grade_id, previous)
    return notes, not touched


class Run:
    """What happened while the notebook ran, and how much it may take."""

    def __init__(self, cell_timeout_s, time_limit_s, memory_limit_mib):
        self.cell_timeout_s, self.time_limit_s, self.memory_limit_mib = cell_timeout_s, time_limit_s, memory_limit_mib
        self.deadline = None
        self.hangs = 0
        self.over_memory = False
        self.stopped = None
        self.problems = []
        self.unscored = {}
        self.earned = 0

    def left_s(self):
        return self.deadline - time.monotonic()

    def cell_s(self, _cell=None):
        """A function that hangs will hang again in the check that calls it: each hang halves the time-out."""
        return max(0.5, min(self.cell_timeout_s / 2**self.hangs, self.left_s()))

    def watch_memory(self):
        """Kills the largest process below this one whenever all of them together exceed the limit."""
        while True:
            sizes = {pid: resident_mib(pid) for pid in descendants(os.getpid())}
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
        return [text + more.get(count, f" (and {count - 1} more cells)") for text, count in seen.values()]

    def status(self, untouched):
        kinds = {kind for kind, _, _ in self.problems}
        worst = next((kind for kind in KINDS if kind in kinds), "graded")
        return "untouched" if untouched and not self.earned and worst in ("incomplete", "graded") else worst


class Limited(Execute):
    """nbgrader's, with limits; no cell's failure ends the notebook, and only a number is a score."""

    run = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.timeout_func = self.run.cell_s
        # What a flood of output left behind is read before the cell's end is seen.
        self.iopub_timeout = 30

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type != "code" or not cell.source.strip():
            return cell, resources
        run, seal = self.run, None
        is_check = utils.is_grade(cell) and not utils.is_solution(cell)
        if run.deadline is None:
            # From here on: the kernel's start may have built the support crate.
            run.deadline = time.monotonic() + run.time_limit_s
            threading.Thread(target=run.watch_memory, daemon=True).start()
        if run.stopped is None and run.left_s() <= 0:
            run.stopped = f"the notebook's {run.time_limit_s} s were over"
            run.note("out of time", cell, index, run.stopped)
        if run.stopped:
            cell.outputs = [failure("NotRun", f"not run: {run.stopped}")]
        elif is_check:
            seal = self.run_check(cell, index)
        else:
            self.run_cell(cell, index)
        if is_check:
            keep_score(cell, index, run, seal)
        return cell, resources

    def run_check(self, cell, index):
        """Runs a check as the course's own function, whatever the notebook calls so, and has its score sealed."""
        seal, source = secrets.token_hex(16), cell.source
        if CHECK.fullmatch(source):
            # In brackets, for evcxr takes what begins with a colon for a command.
            cell.source = f'(::quantlab::course::{source.rstrip()}).sealed("{seal}")'
            try:
                self.run_cell(cell, index)
            finally:
                cell.source = source
            if not re.search(r"cannot find function `check_\w+` in module `::quantlab", ANSI.sub("", error_text(cell))):
                return seal
            # A teacher's own lesson with a check of its own. (No notebook can take a function out of the library.)
            self.run.problems.pop()
        self.run_cell(cell, index)
        return None

    def run_cell(self, cell, index):
        run = self.run
        allowed = run.cell_s()
        start = time.monotonic()
        self.printed = 0
        try:
            self.execute_cell(cell, index, store_history=True)
        except (DeadKernelError, CellTimeoutError) as error:
            dead = isinstance(error, DeadKernelError)
            run.stopped = "the kernel had died" if dead else "the kernel no longer answered"
            cell.outputs.append(failure("KernelDied", run.stopped))
            if dead and not run.over_memory:
                run.note("kernel died", cell, index, "")
        if run.over_memory:
            run.over_memory = False
            run.note("out of memory", cell, index, f"more than {run.memory_limit_mib} MiB")
        elif time.monotonic() - start >= allowed:
            run.hangs += 1
            cell.outputs.append(failure("TimedOut", f"stopped after {allowed:.0f} s"))
            whole = allowed < run.cell_timeout_s / 2 ** (run.hangs - 1)
            run.note("out of time" if whole else "hung", cell, index, f"stopped after {allowed:.0f} s")
        elif problem := problem_of(cell):
            run.note(problem[0], cell, index, problem[1])

    async def async_execute_cell(self, cell, cell_index, *args, **kwargs):
        channel = self.kc.iopub_channel
        if not hasattr(channel, "get_at_once"):
            channel.get_at_once, channel.get_msg = channel.get_msg, self.get_in_turn
        await super().async_execute_cell(cell, cell_index, *args, **kwargs)
        # A thread that the cell has started may print for ever.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(Client.take_late_output(self, cell, cell_index), LATE_OUTPUT_AT_MOST_S)
        return cell

    execute_cell = run_sync(async_execute_cell)

    async def get_in_turn(self, **kwargs):
        # Or a flood of messages would keep the event loop from ever looking at the time-out.
        await asyncio.sleep(0)
        return await self.kc.iopub_channel.get_at_once(**kwargs)

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "stream":
            room = MAX_OUTPUT_CHARS - self.printed
            self.printed += len(msg["content"]["text"])
            msg["content"]["text"] = msg["content"]["text"][: max(0, room)]
            if room <= 0:
                return None
        return super().process_message(msg, cell, cell_index)


def failure(name, text):
    return new_output("error", ename=name, evalue=text, traceback=[text])


def problem_of(cell):
    """(kind, first line) of what went wrong in a cell, else None."""
    error = ANSI.sub("", error_text(cell))
    stderr = "".join(out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stderr")
    panic = re.search(r"panicked at [^\n]*\n?([^\n]*)", error + stderr)
    if panic:
        # What `todo!()` says: the exercise is not answered, which is no fault of the notebook's.
        return "incomplete" if panic[1].startswith("not yet implemented") else "panicked", panic[1].strip()
    if "Subprocess terminated" in error:
        return "crashed", first_text(error)
    if error:
        return "does not compile", compiler_line(error)
    if stderr.strip() and not utils.is_grade(cell):
        return "failed", first_text(stderr)
    return None


def first_text(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


def compiler_line(text):
    """rustc's first error, without the drawing of the code around it."""
    found = re.search(r"^(?:\[E\d+\] Error:|error(?:\[E\d+\])?:)\s*.*$", text, re.M)
    return first_text(found[0] if found else text)


def keep_score(cell, index, run, seal):
    """nbgrader gives full points to a check without a result; here only a number from 0 to the points is a score.

    Behind `seal`, if there is one: a number without it is not from the check.
    """
    points, grade_id = cell.metadata.nbgrader.points, cell.metadata.nbgrader.grade_id
    results = [out for out in cell.outputs if out.output_type == "execute_result"]
    text = "".join(results[-1].data.get("text/plain", "")).strip() if results else ""
    if seal and text:
        found, _, text = text.rpartition(" ")
        if found != seal:
            run.note("forged", cell, index, "the score is not from the check")
            text = ""
        else:
            results[-1].data["text/plain"] = text
    try:
        valid = 0 <= float(text) <= points
    except ValueError:
        valid = False
    if valid:
        run.earned += float(text)
        # What the learner's code wrote there must not cost the points, as it would in nbgrader.
        cell.outputs = [out for out in cell.outputs if out.output_type == "stream"] + results[-1:]
        for out in cell.outputs:
            if out.output_type == "stream":
                out.name = "stdout"
        return
    reason = f"the check answered {text[:40]!r}, not a number from 0 to {points}" if text else "the check gave no score"
    cell.outputs = [out for out in cell.outputs if out.output_type != "execute_result"]
    cell.outputs.append(failure("NoScore", reason))
    run.unscored[grade_id] = reason


def read_submission(path):
    """The notebook in today's format; raises on what is none."""
    notebook = nbformat.read(path, as_version=4)
    _, notebook = nbformat.validator.normalize(notebook, strip_invalid_metadata=True)
    nbformat.validate(notebook)
    return notebook


def grade(args):
    name = f"{args.lesson}.ipynb"
    starter = nbformat.read(args.course / "release" / args.lesson / name, as_version=4)
    try:
        notebook = read_submission(args.file)
    except Exception as error:
        say("graded", status="unreadable", notes=[f"not a notebook: {first_text(str(error))}"], unscored={})
        return
    notes, untouched = restore(notebook, starter)
    submitted = args.course / "submitted" / args.student / args.lesson
    submitted.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, submitted / name)
    Limited.run = run = Run(args.cell_timeout, args.time_limit, args.memory_limit)
    libc = ctypes.CDLL(None)
    # Processes that a cell leaves behind stay below this one, where their memory counts.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    # `cargo lab` may be killed; no kernel shall outlive it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    steps = [Limited if step is Execute else step for step in CONFIG.Autograde.autograde_preprocessors]
    converter(converters.Autograde, args.course, args.lesson, args.student, autograde_preprocessors=steps)
    end_leftovers()
    converter(converters.GenerateFeedback, args.course, args.lesson, args.student)
    if untouched and run.earned:
        notes.append("no exercise cell was touched: the answers stand in other cells")
    say("graded", status=run.status(untouched), notes=notes + run.notes(), unscored=run.unscored)


def end_leftovers():
    """Ends what cells started and left running; the kernel's janitor ends by itself, after its work."""
    for pid in descendants(os.getpid()):
        try:
            if b"\0janitor\0" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        except OSError:  # it has ended meanwhile
            pass


def scores(course):
    """Every exercise's points, with what was given by hand meanwhile."""
    with Gradebook(CourseDirectory(config=CONFIG, root=str(course)).db_url) as book:
        for assignment in book.assignments:
            for submission in assignment.submissions:
                for one in (one for notebook in submission.notebooks for one in notebook.grades):
                    say(
                        "score", student=submission.student.id, lesson=assignment.name, exercise=one.cell.name,
                        points=one.score, max=one.max_score, by_hand=bool(one.needs_manual_grade),
                    )


def stop(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("release").add_argument("sources", type=Path, nargs="+")
    for command in ("prepare", "grade", "scores"):
        sub = commands.add_parser(command)
        sub.add_argument("course", type=Path)
        if command == "prepare":
            sub.add_argument("lessons", nargs="*")
        if command == "grade":
            sub.add_argument("lesson")
            sub.add_argument("student")
            sub.add_argument("file", type=Path)
            for limit in ("--cell-timeout", "--time-limit", "--memory-limit"):
                sub.add_argument(limit, type=int, required=True)
    args = parser.parse_args()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, stop)
    warnings.filterwarnings("ignore", category=SAWarning)
    # What nbgrader logs is part of the message when it fails.
    logging.getLogger("traitlets").addHandler(logging.NullHandler())
    try:
        if args.command == "release":
            release(args.sources)
        elif args.command == "prepare":
            prepare(args.course, args.lessons)
        elif args.command == "grade":
            grade(args)
        else:
            scores(args.course)
    except Exception as error:
        say("failure", kind="grader", cell=None, first_line="", message=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
