"""Processes: which there are below one, what they may take and take, and that they end with who started them."""

import contextlib
import ctypes
import glob
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def end_with_parent():
    """`cargo lab` may be killed, or its terminal closed: no kernel shall outlive it, though each has a session of its own."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans():
    """Makes this process the parent of whatever those below it leave behind."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_leftovers():
    """Ends all processes below this one, such as what is left of kernels and of what cells started, until there are none."""
    while left := descendants(os.getpid()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def in_child(work, *args):
    """Does it in a process that limits may end; whatever that leaves behind is this one's, and ends, too."""
    adopt_orphans()
    end_with_parent()
    child = os.fork()
    if child == 0:
        end_with_parent()
        return work(*args)
    try:
        _, status = os.waitpid(child, 0)
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    finally:
        end_leftovers()
    if os.WIFSIGNALED(status):
        # It says why.
        with contextlib.suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.waitstatus_to_exitcode(status))


# What a program ends with that was interrupted.
INTERRUPTED = 130


def stop_on_signals():
    """Whatever asks this process to end does so as Ctrl-C does, once: what it has begun is then cleaned up undisturbed."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(*_):
        for name in signals:
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt

    for name in signals:
        signal.signal(name, stop)


# What a process that reads a notebook, talks with its kernel or shows it may take.
MEMORY_MIB = 1024


def hold(more_s):
    """Holds this process to so many more seconds of processor time, and to its memory; `lift` is for what it starts."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limits = {resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + more_s, resource.RLIMIT_DATA: MEMORY_MIB << 20}
    for kind, limit in limits.items():
        _, most = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def lift():
    """Takes such limits away again, as far as this user's own go."""
    for kind in (resource.RLIMIT_CPU, resource.RLIMIT_DATA):
        _, most = resource.getrlimit(kind)
        resource.setrlimit(kind, (most, most))


def descendants(root):
    """Process ids of all processes below one."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):  # it has ended meanwhile
                continue
            children.setdefault(parent, []).append(int(entry.name))
    family, new = set(), [root]
    while new:
        new = [child for pid in new for child in children.get(pid, [])]
        family.update(new)
    return family


def kernels():
    """Process ids of the kernels that this process has started."""
    return [pid for pid in descendants(os.getpid()) if name_of(pid) == "evcxr_jupyter"]


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:  # it has ended meanwhile
        return ""


def compute(pids):
    """Whether a thread of one of these is computing."""
    for stat in (stat for pid in pids for stat in glob.glob(f"/proc/{pid}/task/*/stat")):
        with contextlib.suppress(OSError, IndexError):
            if Path(stat).read_text(errors="replace").rpartition(")")[2].split()[0] == "R":
                return True
    return False


def held_mib(pid, proc=Path("/proc")):
    """Memory that one process holds, MiB: resident or swapped out; nothing if it has ended."""
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return 0
    return sum(map(int, re.findall(r"^(?:VmRSS|VmSwap):\s+(\d+)", status, re.M))) / 1024


def memory_mib(pid):
    """Memory of one process, MiB: resident, and private (shared with no other process); nothing if it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    kib = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    return kib["Rss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024
