"""Releases and grades lessons for `cargo lab`, with nbgrader's own machinery.

Reports to standard output as JSON lines, one event a line, as kernel.py does.
"""

import argparse
import copy
import json
import logging
import os
import re
import signal
import sys
import warnings
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader import converters, preprocessors, utils
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning

from .execute import CONFIG, execute, first_text
from .harmless import make_harmless, without_scripts
from .kernel import ANSI, STARTUP_TIMEOUT_S, say
from .processes import MEMORY_MIB, end_with_parent, hold

# For the gradebook and the feedback of one notebook, which take 5 s; and for reading one, in processor time.
RECORD_WITHIN_S, READ_WITHIN_S = 120, 60
MAX_ERROR_BYTES = 4000


def read_starter(course, lesson):
    return nbformat.read(course / "release" / lesson / f"{lesson}.ipynb", as_version=4)


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
            notes.append(f"cell {grade_id} had changed its type; restored")
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


def needed(notebook, starter):
    """The cells that checks need, by their index: exercises, checks and whatever else is not as it was handed out; and of
    the course's cells those that define an item, or bind or change a variable, that a later one of these may use."""
    handed_out = {cell.source.strip() for cell in starter.cells if "nbgrader" not in cell.metadata}
    mutable = {name for cell in notebook.cells for name in MUTABLE.findall(cell.source)}
    names, variables, indexes = set(), set(), set()
    for index, cell in reversed(list(enumerate(notebook.cells))):
        if cell.cell_type != "code":
            continue
        statements = set(WORD.findall(outside_items(cell.source)))
        items = set(BOUND.findall(" ".join(map(" ".join, DEFINITION.findall(cell.source)))))
        bound = set(BOUND.findall(" ".join(LET.findall(cell.source)))) | (statements & mutable)
        is_ours = "nbgrader" not in cell.metadata and cell.source.strip() in handed_out
        if not is_ours or "::*;" in cell.source or items & names or bound & variables:
            indexes.add(index)
            names.update(WORD.findall(cell.source))
            variables |= statements
    return indexes


def outside_items(source):
    """A cell's code without its items and comments: the notebook's variables are not seen in an item."""
    kept, inside = [], False
    for line in source.splitlines():
        if line and line[0] not in " \t})]":
            inside = ITEM.match(line) is not None
        if not inside and not line.lstrip().startswith("//"):
            kept.append(line)
    return "\n".join(kept)


# Statements and items begin where their lines do.
LET = re.compile(r"^let\s+([^:=]+)", re.M)
NAMED = r"(?:(?:pub(?:\(.*?\))?|unsafe|async|const)\s+)*(?:fn|struct|enum|trait|type|mod|static|const|macro_rules!)\s+(\w+)"
DEFINITION = re.compile(rf"^(?:use\s+([^;]+)|{NAMED})", re.M)
ITEM = re.compile(rf"{NAMED}|impl\b")
# Not the first parts of a path.
BOUND = re.compile(r"\b\w+\b(?!::)")
MUTABLE = re.compile(r"^let\s+mut\s+(\w+)", re.M)
WORD = re.compile(r"\w+")
# A lesson's own check, of which the library knows nothing.
OWN_CHECK = re.compile(r"\bfn check_(\w+)")


def read_submission(path):
    """The notebook in today's format; raises on what is none."""
    notebook = nbformat.read(path, as_version=4)
    _, notebook = nbformat.validator.normalize(notebook, strip_invalid_metadata=True)
    nbformat.validate(notebook)
    return notebook


def grade(args):
    """Runs a notebook and says how that went; the executed copy goes to a file, for `record`."""
    hold(READ_WITHIN_S)
    # Whatever it waits for; the first of these is for a kernel that is built before it starts.
    signal.alarm(STARTUP_TIMEOUT_S + 3 * args.time_limit)
    starter = read_starter(args.course, args.lesson)
    try:
        notebook = read_submission(args.file)
    except MemoryError:
        raise
    except Exception as error:
        say("graded", status="unreadable", notes=[f"not a notebook: {first_text(str(error))}"], unscored={})
        return
    notes, untouched = restore(notebook, starter)
    companions = [path for path in (args.course / "release" / args.lesson).iterdir() if path.suffix != ".ipynb" and path.is_file()]
    limits = (args.cell_timeout, args.time_limit, args.memory_limit)
    whole = copy.deepcopy(notebook)
    own_checks = frozenset(name for cell in starter.cells for name in OWN_CHECK.findall(cell.source))
    cells = needed(notebook, starter)
    # What the notebook may take is counted there; the driver itself mostly waits.
    hold(2 * args.time_limit + READ_WITHIN_S)
    run = execute(notebook, companions, limits, cells, args.checks_only, own_checks)
    if args.checks_only and any(kind == "does not compile" for kind, _, _ in run.problems):
        # Perhaps for want of a cell that was left out: a trait's method does not name the trait.
        notebook = whole
        run = execute(notebook, companions, limits, cells, False, own_checks)
    nbformat.write(notebook, args.executed)
    if untouched and run.earned:
        notes.append("no exercise cell was touched: the answers stand in other cells")
    say("graded", status=run.status(untouched), notes=notes + run.notes(), unscored=run.unscored)


def prime(args):
    """Runs cells of the course's own, so that what Cargo says of them is there for kernels that may not keep it."""
    cells = [new_code_cell(source) for source in ("use quantlab::prelude::*;\nuse quantlab_course::Score;", "let one = 1;", 'println!("{one}");')]
    run = execute(new_notebook(cells=cells), [], (args.cell_timeout, args.time_limit, args.memory_limit))
    if run.problems:
        raise RuntimeError("; ".join(run.notes()))


def record(course):
    """Puts executed notebooks into the gradebook and writes their feedback; which ones, standard input says as they come."""
    # Notebooks that are run meanwhile, and measure, come first.
    os.nice(10)
    Feedback.course = course
    for line in sys.stdin:
        one = json.loads(line)
        error = in_process(RECORD_WITHIN_S, record_one, course, **one)
        say("recorded", student=one["student"], lesson=one["lesson"], error=error)


def record_one(course, student, lesson, executed):
    submitted = course / "submitted" / student / lesson
    submitted.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.read(executed, as_version=4)
    make_harmless(notebook, read_starter(course, lesson))
    nbformat.write(notebook, submitted / f"{lesson}.ipynb")
    # It has been executed; what came of that is kept.
    kept = {
        name: [step for step in getattr(converters.Autograde, name).default() if step not in (preprocessors.ClearOutput, preprocessors.Execute)]
        for name in ("sanitize_preprocessors", "autograde_preprocessors")
    }
    converter(converters.Autograde, course, lesson, student, **kept)
    steps = [*converters.GenerateFeedback.preprocessors.default(), Feedback]
    converter(converters.GenerateFeedback, course, lesson, student, preprocessors=steps)
    for page in (course / "feedback" / student / lesson).glob("*.html"):
        page.write_text(without_scripts(page.read_text()))


def in_process(within_s, work, *args, **kwargs):
    """Does it in a process of its own, which ends if it takes too long or too much memory; what went wrong, if anything."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            end_with_parent()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            # Kernels that run meanwhile come first; what it may compute is counted.
            signal.alarm(5 * within_s)
            hold(within_s)
            work(*args, **kwargs)
        except BaseException as error:
            said = in_words(error)
        finally:
            os.write(writer, said.encode(errors="replace")[-MAX_ERROR_BYTES:])
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"it took more than {within_s} s" if number in (signal.SIGALRM, signal.SIGXCPU) else f"its process was ended by signal {number}"
    return said or None


def in_words(error):
    return f"it took more than {MEMORY_MIB} MiB" if isinstance(error, MemoryError) else f"{type(error).__name__}: {error}"


class Feedback(preprocessors.NbGraderPreprocessor):
    """What a learner is shown of checks: as they were handed out, and of an error what it is, not where inside."""

    course = None

    def preprocess(self, nb, resources):
        lesson = resources["nbgrader"]["assignment"]
        starter = read_starter(self.course, lesson)
        handed_out = {cell.metadata.nbgrader.grade_id: cell.source for cell in starter.cells if utils.is_locked(cell)}
        for cell in nb.cells:
            if utils.is_grade(cell) and not utils.is_solution(cell) and cell.cell_type == "code":
                cell.source = handed_out.get(cell.metadata.nbgrader.grade_id, cell.source)
                for out in cell.outputs:
                    if out.output_type == "error":
                        out.traceback = [first_text(ANSI.sub("", "\n".join(out.traceback)))]
        return nb, resources


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
    for command in ("prepare", "prime", "grade", "record", "scores"):
        sub = commands.add_parser(command)
        if command != "prime":
            sub.add_argument("course", type=Path)
        if command == "prepare":
            sub.add_argument("lessons", nargs="*")
        if command == "grade":
            sub.add_argument("lesson")
            sub.add_argument("file", type=Path)
            sub.add_argument("executed", type=Path)
            sub.add_argument("--checks-only", action="store_true")
        if command in ("prime", "grade"):
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
        elif args.command == "prime":
            prime(args)
        elif args.command == "record":
            record(args.course)
        else:
            scores(args.course)
    except Exception as error:
        say("failure", kind="grader", cell=None, first_line="", message=in_words(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
