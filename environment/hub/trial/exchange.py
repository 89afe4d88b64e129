"""nbgrader's exchange, all the way round, between a teacher and a learner."""

import json
import re
import time

from common import LESSON, holds

NBGRADER = "@jupyter/nbgrader"
# What is answered, of all that the lesson asks.
ANSWERED = "l1-resolve-dtype"


def exchange(teacher, learner, hub, checkout):
    """Released, fetched, submitted, collected, graded, returned."""
    environment = teacher.server_environment()
    lab = hub.release / "bin/lab"
    what = {"course_id": "quantlab", "assignment_id": LESSON}

    def by_teacher(command, folder="~/course"):
        done = teacher.run_as(["sh", "-euc", f"cd {folder}\n{command}"], env=environment, timeout=900)
        holds(command, done.returncode == 0, (done.stderr or done.stdout)[-600:] if done.returncode else "")

    check_menus(teacher, learner)
    by_teacher(f"{lab} release --nbgrader ~/course {LESSON}", checkout)
    by_teacher(f"nbgrader generate_assignment {LESSON}")
    by_teacher(f"nbgrader release_assignment {LESSON}")
    listed = learner.ask("GET", "assignments?course_id=quantlab")
    there = [a["assignment_id"] for a in listed["value"]]
    holds("the learner's assignment list has the lesson", there == [LESSON], str(listed)[:300])
    listed = learner.ask("POST", "assignments/fetch", json=what)
    holds("fetched", (learner.home / LESSON / f"{LESSON}.ipynb").exists(), str(listed)[:300])
    answer(learner, checkout)
    listed = learner.ask("POST", "assignments/submit", json=what)
    holds("submitted", any(a["status"] == "submitted" for a in listed["value"]), str(listed)[:300])
    inbound = hub.scratch / "exchange/quantlab/inbound"
    done = learner.run_as(["ls", inbound])
    holds("learners cannot list what was handed in", any(inbound.iterdir()) and done.returncode != 0, done.stdout)
    by_teacher(f"nbgrader collect {LESSON}")
    start = time.monotonic()
    by_teacher(f"{lab} grade ~/submitted --output ~/course", checkout)
    print(f"  graded in {time.monotonic() - start:.0f} s")
    grades = (teacher.home / "course/grades.csv").read_text()
    print("   ", "\n    ".join(grades.splitlines()))
    by_teacher(f"nbgrader release_feedback {LESSON}")
    listed = learner.ask("POST", "assignments/fetch_feedback", json=what)
    pages = list((learner.home / LESSON / "feedback").rglob("*.html"))
    is_there = len(pages) == 1 and "check_resolve_dtype" in pages[0].read_text()
    holds("the learner has the feedback", is_there, str(listed)[:300])
    teachers, learners = (user.web.get(f"{user.base}/formgrader", timeout=60) for user in (teacher, learner))
    holds("formgrader answers the teacher, not the learner", teachers.ok and not learners.ok)


def check_menus(teacher, learner):
    def off(user):
        """The parts of JupyterLab that are turned off."""
        page = user.web.get(f"{user.base}/lab", timeout=60).text
        config = json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.S)[1])
        return config["disabledExtensions"]

    teachers, learners = off(teacher), off(learner)
    holds("nbgrader's menu is on", NBGRADER not in learners + teachers, str(learners))
    formgrader = f"{NBGRADER}:formgrader"
    holds("formgrader is in the teacher's only", formgrader in learners and formgrader not in teachers)


def answer(learner, checkout):
    """An answer to the first exercise, saved as JupyterLab saves it."""
    path = f"api/contents/{LESSON}/{LESSON}.ipynb"
    notebook = learner.ask("GET", path)["content"]
    solution = json.loads((checkout / "notebooks" / LESSON / "solution.ipynb").read_text())

    def answered(cells):
        return [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade_id") == ANSWERED]

    for cell in answered(notebook["cells"]):
        cell["source"] = "".join(answered(solution["cells"])[-1]["source"])
    learner.ask("PUT", path, json={"type": "notebook", "content": notebook})
