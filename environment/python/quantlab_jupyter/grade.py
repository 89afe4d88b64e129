"""Grades one notebook for `cargo lab`, without nbgrader, whose import takes over a second: gradebook.py takes what came of it.

Reports to standard output as JSON lines, one event a line, as kernel.py does.
"""

import argparse
import copy
import re
import signal
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .execute import execute
from .kernel import STARTUP_TIMEOUT_S, say
from .outcome import first_text, is_locked, is_marked
from .processes import INTERRUPTED, MEMORY_MIB, hold, in_child, stop_on_signals

# For reading one, in processor time.
READ_WITHIN_S = 60


def read_starter(course, lesson):
    return nbformat.read(course / "release" / lesson / f"{lesson}.ipynb", as_version=4)


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
            cell = notebook.cells[index] = new(cell.source, id=cell.get("id", original.get("id")))
            notes.append(f"cell {grade_id} had changed its type; restored")
        if is_locked(original) and cell.source != original.source:
            notes.append(f"check cell {grade_id} was changed; restored")
            cell.source = original.source
        if grade_id in found:
            found[grade_id].metadata.pop("nbgrader", None)
        cell.metadata["nbgrader"] = original.metadata.nbgrader.copy()
        found[grade_id] = cell
    touched = any(
        grade_id not in found or found[grade_id].source != cell.source
        for grade_id, cell in wanted.items()
        if is_marked(cell, "solution")
    )
    previous = None
    for grade_id, original in wanted.items():
        if grade_id not in found and is_marked(original, "grade"):
            cell = nbformat.from_dict(original)
            ids = [id(other) for other in notebook.cells]
            notebook.cells.insert(ids.index(id(previous)) + 1 if previous else len(ids), cell)
            found[grade_id] = cell
            notes.append(f"{'answer' if is_marked(original, 'solution') else 'check'} cell {grade_id} was missing; put back")
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
    # Of what is to come, the package lets anything pass, and templates show cells and outputs of other kinds as they are.
    if notebook.nbformat_minor > nbformat.v4.nbformat_minor:
        newest = f"{nbformat.v4.nbformat}.{nbformat.v4.nbformat_minor}"
        raise ValueError(f"its format is 4.{notebook.nbformat_minor}; the newest that can be read is {newest}")
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


def do(work, *args, **kwargs):
    """Does it; what goes wrong is an event, too."""
    stop_on_signals()
    try:
        work(*args, **kwargs)
    except Exception as error:
        say("failure", kind="grader", cell=None, first_line="", message=in_words(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def in_words(error):
    return f"it took more than {MEMORY_MIB} MiB" if isinstance(error, MemoryError) else f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("grade")
    one.add_argument("course", type=Path)
    one.add_argument("lesson")
    one.add_argument("file", type=Path)
    one.add_argument("executed", type=Path)
    one.add_argument("--checks-only", action="store_true")
    for command in (one, commands.add_parser("prime")):
        for limit in ("--cell-timeout", "--time-limit", "--memory-limit"):
            command.add_argument(limit, type=int, required=True)
    args = parser.parse_args()
    do(in_child, {"grade": grade, "prime": prime}[args.command], args)


if __name__ == "__main__":
    main()
