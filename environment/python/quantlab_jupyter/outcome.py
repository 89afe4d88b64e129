"""What a cell's outputs say, for execute.py: what went wrong in it, and what the score is worth that a check showed."""

import hashlib
import math
import re

from .kernel import ANSI, error_text
from .outputs import failure


def problem_of(cell):
    """(kind, first line) of what went wrong in a cell, else None."""
    error = ANSI.sub("", error_text(cell))
    stderr = "".join(out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stderr")
    panic = re.search(r"panicked at [^\n]*\n?([^\n]*)", error + stderr)
    if panic:
        # What `todo!()` says: the exercise is not answered, which is no fault of the notebook's.
        return "incomplete" if panic[1].startswith("not yet implemented") else "panicked", first_text(panic[1])
    if "Subprocess terminated" in error:
        return "crashed", first_text(error)
    if error:
        return "does not compile", compiler_line(error)
    if stderr.strip() and not is_marked(cell, "grade"):
        return "failed", first_text(stderr)
    return None


def is_marked(cell, name):
    """Whether nbgrader has the cell down as `grade` or `solution`."""
    return bool(cell.metadata.get("nbgrader", {}).get(name))


def is_locked(cell):
    """Whether nbgrader puts the source back that was handed out."""
    return not is_marked(cell, "solution") and (is_marked(cell, "grade") or is_marked(cell, "locked"))


def first_text(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


def compiler_line(text):
    """rustc's first error, without the drawing of the code around it."""
    found = re.search(r"^(?:\[E\d+\] Error:|error(?:\[E\d+\])?:)\s*.*$", text, re.M)
    return first_text(found[0] if found else text)


def proof(key, exercise, points):
    """That the library's check gave an exercise so many points: as `course/proof.rs` computes it."""

    def keyed(data):
        return hashlib.sha256(bytes.fromhex(key) + data)

    return keyed(keyed(f"{exercise}\n{points}".encode()).digest()).hexdigest()


def result_of(cell):
    """A cell's value, as text."""
    results = [out for out in cell.outputs if out.output_type == "execute_result"]
    return "".join(results[-1].data.get("text/plain", "")).strip() if results else ""


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def keep_score(cell, index, run, prove):
    """nbgrader gives full points to a check without a result; here only a number from 0 to the points is a score.

    Behind its proof, where checks `prove` their points: another number is not from the check.
    """
    points, grade_id = cell.metadata.nbgrader.points, cell.metadata.nbgrader.grade_id
    results = [out for out in cell.outputs if out.output_type == "execute_result"]
    text = result_of(cell)
    if prove and text:
        found, _, text = text.rpartition(" ")
        if found != prove(text):
            run.note("forged", cell, index, "the score is not from the check")
            text = ""
        else:
            results[-1].data["text/plain"] = text
    if is_number(text) and 0 <= float(text) <= points:
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
