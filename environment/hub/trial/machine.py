"""What a user's processes take of the machine, and the limits that they are held to."""

import collections
import contextlib
import os
import re
import threading
from pathlib import Path

from common import MEMORY, holds


def memory(pids):
    """MiB of their own, shared with others, and by share."""
    kib = collections.Counter()
    for pid in pids:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kib.update({name: int(value) for name, value in re.findall(r"^(\w+): +(\d+) kB$", text, re.M)})
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    return private // 1024, (kib["Rss"] - private) // 1024, kib["Pss"] // 1024


@contextlib.contextmanager
def memory_over_time(user):
    """MiB that all of a user's processes have of their own, every half a second."""
    seen, is_over = [0], threading.Event()

    def watch():
        while not is_over.wait(0.5):
            seen.append(memory(user.processes())[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        is_over.set()
        watcher.join()


def cpu_seconds(pids):
    """Of these processes, and of all that they started and that has ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class OneMachine:
    """What a server is held to where jupyterhub_config.py makes the control groups itself."""

    @staticmethod
    def settings():
        # systemd would start the servers outside of the trial's network.
        return {"HUB_SYSTEMD": "no"}

    @staticmethod
    def control_groups(user):
        return list(Path("/sys/fs/cgroup").rglob(f"quantlab-hub-{user.name}"))

    @staticmethod
    def limits():
        return {("memory", MEMORY << 20), ("cpu", 200_000), ("pids", 2000)}

    @staticmethod
    def enter(_):
        return []


def check_limits(user):
    in_group, limits = set(), set()
    for folder in user.place.control_groups(user):
        for file in folder.rglob("cgroup.procs"):
            in_group.update(map(int, file.read_text().split()))
        for name in ("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "pids.max"):
            if (folder / name).exists() and (limit := (folder / name).read_text().split()[0]) != "max":
                limits.add((name.split(".")[0], int(limit)))
    if "processors" in dict(user.place.limits()):
        server = user.server()
        limits.add(("processors", len(os.sched_getaffinity(server))))
        processes = re.search(r"Max processes +(\d+)", Path(f"/proc/{server}/limits").read_text())
        limits.add(("processes", int(processes[1])))
    outside = [line for pid, line in user.processes().items() if pid not in in_group]
    what = f"all of {user.name}'s {len(in_group)} processes are in their control group"
    holds(what, in_group and not outside, "; ".join(outside))
    holds("which has the limits", limits == user.place.limits(), str(limits))
