"""Releases lessons and keeps the gradebook for `cargo lab`, with nbgrader's own machinery.

Reports to standard output as JSON lines, one event a line, as kernel.py does.
"""

import argparse
import json
import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import nbformat
from nbgrader import converters, preprocessors, utils
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from .grade import do, in_words, read_starter
from .harmless import make_harmless, without_scripts
from .kernel import ANSI, say
from .outcome import first_text
from .processes import end_with_parent, hold

# As nbgrader itself reads a course's copy of it.
names = {"get_config": Config, "__name__": "nbgrader_config"}
exec(Path(__file__).with_name("nbgrader_config.py").read_text(), names)
CONFIG = names["c"]

# For the gradebook and the feedback of one notebook, which take 5 s.
RECORD_WITHIN_S = 120
MAX_ERROR_BYTES = 4000


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("release").add_argument("sources", type=Path, nargs="+")
    for command in ("prepare", "record", "scores"):
        commands.add_parser(command).add_argument("course", type=Path)
    commands.choices["prepare"].add_argument("lessons", nargs="*")
    args = vars(parser.parse_args())
    warnings.filterwarnings("ignore", category=SAWarning)
    # What nbgrader logs is part of the message when it fails.
    logging.getLogger("traitlets").addHandler(logging.NullHandler())
    do({"release": release, "prepare": prepare, "record": record, "scores": scores}[args.pop("command")], **args)


if __name__ == "__main__":
    main()
