"""What a class does: all log in and run lesson 1 at once, some misbehave, and the hub stops. Prints what it takes."""

import concurrent.futures
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from attacks import attack_on_machine, attack_over_web
from common import all_at_once, holds, step
from lesson import GENERATE, first_lesson, has_starters, steady
from machine import check_limits, cpu_seconds, memory, memory_over_time
from users import User, is_of_server

# 16 GB, and a learner may have 4.
EAT = "let mut eaten: Vec<Vec<u8>> = Vec::new();\nfor _ in 0..1000 { eaten.push(vec![1; 16 << 20]); }\neaten.len()"


def hold_class(learners, hub):
    print_machine()
    step(f"{len(learners)} learners log in at once")
    times = all_at_once(User.log_in, learners)
    print(f"  a server is ready after {min(times):.0f} to {max(times):.0f} s")
    for user in learners:
        holds(f"{user.name} has starters, no solution, and a private home", has_starters(user))

    step("one starts lesson 1, then all at once")
    run_lesson(learners)
    hog, looper, idle, *others = learners

    step("memory, and processor time of idle kernels")
    measure_idle(learners)

    step("one takes all the memory, one loops for ever, one is idle")
    misbehave(hog, looper, idle, others)

    step("what one learner cannot do to another")
    attack_on_machine(others[0], idle, hub)
    attack_over_web(others[0], idle)

    step("the hub stops and starts again")
    hub.restart()
    idle.kernel.connect()
    _, status, text = idle.kernel.run(GENERATE, 60)
    holds("servers, kernels and their variables outlive it", status == "ok", text[:200])
    others[0].ask("DELETE", f"api/kernels/{others[0].kernel.id}")
    for _ in range(30):
        left = list(others[0].home.glob(".cache/quantlab-kernels*/live/*"))
        if not left:
            break
        time.sleep(1)
    holds("a kernel that was shut down leaves nothing", not left, str(left))

    step("servers that nobody uses are ended")
    hub.restart(HUB_IDLE_SERVER="40")
    start, seconds = time.monotonic(), 0
    while (is_left := any(user.processes() or user.place.control_groups(user) for user in learners)) and seconds < 150:
        time.sleep(2)
        seconds = time.monotonic() - start
    holds("with everything that they started", not is_left, f"after {seconds:.0f} s")
    hub.restart()


def print_machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    load = os.getloadavg()[0]
    print(f"  {os.cpu_count()} processors ({cpu[1] if cpu else '?'}), {gib} GiB; {load:.1f} processes ran already")


def run_lesson(learners):
    alone = learners[-1]
    first, text, first_cpu, text_cpu, _ = first_lesson(alone)
    print(f"  alone: first value after {first:.1f} s, first text after {text:.1f} s")
    print(f"         and {first_cpu:.1f} and {text_cpu:.1f} s of a processor")
    alone.ask("DELETE", f"api/kernels/{alone.kernel.id}")
    with memory_over_time(alone) as taken:
        results = all_at_once(first_lesson, learners)
    for at, name in enumerate(["first value", "first text"]):
        seconds, cpu = [[result[column] for result in results] for column in (at, at + 2)]
        print(f"  {name} after {min(seconds):.1f} to {max(seconds):.1f} s", end=" ")
        print(f"and {statistics.median(cpu):.1f} s of a processor for each")
    print(f"  most memory of one at a time, with compiler and linker: {max(taken)} MiB of their own")
    holds("each got a text", all("The capital of France" in text for *_, text in results))
    for user in learners:
        check_limits(user)


def measure_idle(learners):
    time.sleep(10)
    before = {user: {pid: cpu_seconds([pid]) for pid in user.processes()} for user in learners}
    rows = []
    for user in learners:
        lines = user.processes()
        servers = [pid for pid, line in lines.items() if is_of_server(line)]
        rows.append((user.name, memory(servers), memory(set(lines) - set(servers)), len(lines)))
    time.sleep(60)
    print("                   server, MiB        kernel and what it started             % of a processor, idle")
    print("                   own  shared  PSS   own  shared  PSS     processes     server   kernel   disk, MiB")
    most = 0
    for (name, server, kernel, count), user in zip(rows, learners):
        lines = user.processes()
        # A server's, then a kernel's.
        used = [0, 0]
        for pid, then in before[user].items():
            used[not is_of_server(lines.get(pid, ""))] += (cpu_seconds([pid]) - then) / 60
        disk = subprocess.run(["du", "-sm", user.home / ".cache"], capture_output=True, text=True).stdout.split()[0]
        most = max(most, sum(used))
        row = "  {:16} {:4} {:6} {:5}  {:4} {:6} {:5} {:11} {:12.2%} {:8.2%} {:>8}"
        print(row.format(name, *server, *kernel, count, *used, disk))
    holds("an idle learner takes less than 3 % of a processor", most < 0.03, f"at most {most:.1%}")


def misbehave(hog, looper, idle, others):
    before = all_at_once(steady, others)
    looper.kernel.send("loop { std::hint::black_box(0); }")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        eaten = pool.submit(hog.kernel.run, EAT, 120)
        during = all_at_once(steady, others)
        _, status, text = eaten.result()
    print(f"  a cell of the others: {statistics.median(before):.2f} s before, {statistics.median(during):.2f} s during")
    holds(
        "the others' cells take no more than three times as long",
        max(during) < 3 * max(before) + 1,
        f"{max(before):.2f} s, {max(during):.2f} s",
    )
    holds("the cell that took too much was ended", status != "ok", f"{status}: {text.strip()[:100]}")
    seconds, status, text = hog.kernel.run('println!("there");', 60)
    goes_on, note = status == "ok" and "there" in text, f"{status} after {seconds:.1f} s {text[:200]}"
    holds("its learner goes on in the same kernel", goes_on, note)
    idle.kernel.connect()
    seconds, status, _ = idle.kernel.run(GENERATE, 60)
    holds("the idle learner still has all variables", status == "ok", f"after {seconds:.1f} s")
    looper.kernel.connect()
    interrupted = time.monotonic()
    looper.ask("POST", f"api/kernels/{looper.kernel.id}/interrupt")
    _, status, text = looper.kernel.run('println!("back");', 60)
    holds("the loop can be interrupted", status == "ok" and "back" in text, f"{time.monotonic() - interrupted:.1f} s")
