"""What all parts of the trial use: what is tried, how it is checked, and what is printed."""

import concurrent.futures

ADDRESS = "http://127.0.0.1:8000"
GROUP = "quantlab-try"
LESSON = "01-latency-and-precision"
MEMORY = 4096  # MiB for all of a learner's processes together

failures = []


def holds(what, is_so, note=""):
    note = f" ({note.strip()})" if note and (not is_so or len(note) < 80) else ""
    print(f"  {'holds ' if is_so else 'FAILED'}  {what}{note}", flush=True)
    if not is_so:
        failures.append(what)


def step(text):
    print(f"\n== {text}", flush=True)


def all_at_once(do, things):
    with concurrent.futures.ThreadPoolExecutor(len(things)) as pool:
        return list(pool.map(do, things))
