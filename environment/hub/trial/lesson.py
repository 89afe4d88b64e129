"""Lesson 1, as far as its first text, and cells that use what it loaded."""

import secrets
import statistics
import time

from common import LESSON
from machine import cpu_seconds
from users import Kernel, is_of_server

# A cell that is compiled, linked and loaded, and generates a text.
GENERATE = 'println!("{}", generate(&loaded, prompts[0], &options)?.text);'


def has_starters(user):
    lessons = user.home / "notebooks"
    return (
        (lessons / LESSON / "starter.ipynb").exists()
        and not list(lessons.rglob("solution.ipynb"))
        and user.home.stat().st_mode & 0o777 == 0o700
    )


def lesson_cells(user):
    """The code cells of the learner's own starter, up to the first text."""
    notebook = user.ask("GET", f"api/contents/notebooks/{LESSON}/starter.ipynb")["content"]
    cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    last = next(at for at, cell in enumerate(cells) if "generate(&loaded, prompt" in cell)
    return cells[: last + 1]


def first_lesson(user):
    """Seconds to the kernel's first value and to the first text, processor seconds for both, and the text."""
    cells = lesson_cells(user)
    start = time.monotonic()
    user.kernel = Kernel(user)
    seconds, cpu, text = [], [], ""
    for cell in cells:
        _, status, text = user.kernel.run(cell)
        seconds.append(time.monotonic() - start)
        cpu.append(cpu_seconds(pid for pid, line in user.processes().items() if not is_of_server(line)))
        if status != "ok" and "not finished" not in text and "todo" not in text.lower():
            print(f"  {user.name}: {text[:600]}")
    return seconds[0], seconds[-1], cpu[0], cpu[-1], text


def steady(user, times=5):
    """Seconds for a cell that is compiled anew and generates a text."""
    user.kernel.connect()
    results = [user.kernel.run(f"// {secrets.token_hex(4)}\n{GENERATE}") for _ in range(times)]
    if any(status != "ok" for _, status, _ in results):
        print(f"  {user.name}: {results[-1][2][:600]}")
        return float("nan")
    return statistics.median(seconds for seconds, _, _ in results)
