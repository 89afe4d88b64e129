"""A spare kernel: started ahead by the Jupyter server, and handed to the next notebook in its folder.

The server loads this as an extension, and starts every kernel by its `Provisioner`. One user has one spare at most, while a
quarter of the memory is free; what is measured in notebooks comes first: it starts while all kernels are idle, and stands
still when one is not. QUANTLAB_SPARE_KERNEL=0 turns it off.
"""

import asyncio
import atexit
import contextlib
import fcntl
import json
import os
import signal
import time
import uuid
from pathlib import Path
from queue import Empty

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from .kernel import KERNEL

SETTING = "QUANTLAB_SPARE_KERNEL"
# By which the package's entry point names the class below.
PROVISIONER = "quantlab"
# All kernels have been idle for so long before the spare one starts, or goes on starting.
QUIET_S = 3
# Of the memory, free; and what it takes itself must be free beside that.
LEAST_FREE, ITS_OWN_BYTES = 0.25, 500 << 20
# After one that had to end, or could not start; longer each time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60, 3600
# Others wait for these, which a kernel holds for the first moment of its start.
LOCKS = ("kernel-start.lock", "warm.lock")
# How often it looks, while nothing and while something starts.
LOOKS_EVERY_S, STARTING_LOOKS_EVERY_S = 1, 0.1
# Notebooks changed in one session are of one age.
SESSION_S = 600
# It makes evcxr load what it answers a first cell from.
QUESTION = "use quantlab::prelude::*;\nlet device = best_device();\ndevice."

keeper = None


class Provisioner(LocalProvisioner):
    """Jupyter's own, except that a kernel may be there already."""

    started = False
    restart_asked = False

    async def shutdown_requested(self, restart=False):
        self.restart_asked = restart

    async def launch_kernel(self, cmd, **kwargs):
        # One that died is started again where its clients look for it: at the same ports. So is one that is restarted
        # for several of them, since only the one that asked for it connects anew.
        clients = getattr(self.parent.parent, "_kernel_connections", {}).get(self.kernel_id, 0)
        may_move = not self.started or (self.restart_asked and clients <= 1)
        self.started, self.restart_asked = True, False
        if keeper is None or self.parent.kernel_name != KERNEL or isinstance(self.parent, SpareManager):
            return await super().launch_kernel(cmd, **kwargs)
        folder = os.path.realpath(kwargs.get("cwd") or ".")
        spare = await keeper.take(folder) if may_move else None
        keeper.next_folder(folder)
        if spare is None:
            return await super().launch_kernel(cmd, **kwargs)
        await self.cleanup()
        # As long as this one: a kernel that only just started is yet to read its connection file.
        self.manager, there = spare.manager, spare.manager.provisioner
        self.process, self.pid, self.pgid, self.cwd = there.process, there.pid, there.pgid, folder
        self.connection_info = spare.manager.get_connection_info()
        # What the last one was doing when it ended is over.
        self.parent.execution_state = "starting"
        return self.connection_info


class SpareManager(AsyncKernelManager):
    """Starts a kernel that is to be handed on."""


class Spare:
    """A kernel without a notebook."""

    def __init__(self, parent, folder, key, lock):
        file = Path(parent.connection_dir) / f"kernel-{uuid.uuid4()}.json"
        self.manager = SpareManager(
            kernel_name=KERNEL, parent=parent, kernel_spec_manager=parent.kernel_spec_manager, connection_file=str(file)
        )
        self.folder, self.key, self.lock = folder, key, lock
        self.stands_still = False
        self.starting = asyncio.ensure_future(self.start())

    async def start(self):
        await self.manager.start_kernel(cwd=self.folder)
        client = self.manager.client()
        # Its heart need not beat: it may be standing still.
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        try:
            client.complete(QUESTION, len(QUESTION))
            answer = None
            while answer != "complete_reply" and self.process().poll() is None:
                with contextlib.suppress(Empty):
                    answer = (await client.get_shell_msg(timeout=LOOKS_EVERY_S))["msg_type"]
        finally:
            client.stop_channels()

    def is_alive(self):
        failed = self.starting.done() and not self.starting.cancelled() and self.starting.exception()
        process = self.process()
        return not failed and (process is None or process.poll() is None)

    def process(self):
        return self.manager.provisioner and self.manager.provisioner.process

    def send(self, number):
        if self.process():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.manager.provisioner.pgid, number)

    def stand_still(self, still):
        """Or go on, if it is not to."""
        if self.process() and still != self.stands_still:
            self.send(signal.SIGSTOP if still else signal.SIGCONT)
            if still and self.holds_lock():
                # At the next look, then.
                self.send(signal.SIGCONT)
            else:
                self.stands_still = still

    def holds_lock(self):
        with contextlib.suppress(OSError):
            return any(os.readlink(fd).endswith(LOCKS) for fd in Path(f"/proc/{self.process().pid}/fd").iterdir())
        return False

    def leave(self):
        """Ends what is about it being spare; but what it was asked, it answers. One who left before that, while a notebook
        connects, could block it for good: its library (zeromq 0.6.0) waits for a lock that it has promised to a task, which
        can run on no other thread.
        """
        self.lock.close()

    def end(self):
        self.send(signal.SIGKILL)
        self.starting.cancel()
        self.leave()
        self.manager.cleanup_connection_file()


class Keeper:
    """Has a spare kernel where the next notebook is likely to be opened."""

    def __init__(self, server):
        self.kernels, self.log = server.kernel_manager, server.log
        self.program = server.kernel_spec_manager.get_kernel_spec(KERNEL).argv[0]
        self.spare = None
        self.folder = likely_folder(Path(server.root_dir))
        self.quiet_since = time.monotonic()
        self.not_before, self.pause = 0, FIRST_PAUSE_S

    def next_folder(self, folder):
        self.folder, self.quiet_since = folder, time.monotonic()

    async def take(self, folder):
        """The spare kernel, if it is in this folder and what a new one would be."""
        spare, self.spare = self.spare, None
        if spare is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            if spare.folder == folder and spare.process() and spare.is_alive() and spare.key == (await self.state(folder))["key"]:
                spare.stand_still(False)
                spare.leave()
                self.pause = FIRST_PAUSE_S
                return spare
        spare.end()
        return None

    async def run(self):
        try:
            while True:
                await self.look()
                starts = self.spare and not self.spare.starting.done()
                await asyncio.sleep(STARTING_LOOKS_EVERY_S if starts else LOOKS_EVERY_S)
        except Exception as error:
            # Notebooks start as they do without it.
            self.log.warning("no more spare kernels: %s: %s", type(error).__name__, error)
            self.end()

    async def look(self):
        now = time.monotonic()
        if any(kernel["execution_state"] in ("busy", "starting", "restarting") for kernel in self.kernels.list_kernels()):
            self.quiet_since = now
        quiet = now - self.quiet_since >= QUIET_S
        if self.spare:
            if not self.spare.is_alive() or free_memory()[0] < LEAST_FREE:
                self.end()
                self.not_before, self.pause = now + self.pause, min(2 * self.pause, LONGEST_PAUSE_S)
            elif not self.spare.starting.done():
                self.spare.stand_still(not quiet)
        elif self.folder and quiet and now >= self.not_before and has_room(*free_memory()):
            try:
                await self.make()
            except OSError as error:
                self.log.warning("no spare kernel in %s: %s", self.folder, error)
                self.folder = None

    async def make(self):
        state = await self.state(self.folder)
        if state["key"] is None:
            return
        os.makedirs(os.path.dirname(state["lock"]), exist_ok=True)
        lock = open(state["lock"], "a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return
        # A notebook may have been opened meanwhile; its kernel comes first.
        if self.spare or time.monotonic() - self.quiet_since < QUIET_S:
            lock.close()
            return
        self.spare = Spare(self.kernels, self.folder, state["key"], lock)

    async def state(self, folder):
        """What a kernel would be made from there now, and the lock that the user's only spare one holds."""
        asked = await asyncio.create_subprocess_exec(
            self.program, "kernel-state", cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        said, _ = await asked.communicate()
        return json.loads(said) if asked.returncode == 0 else {"key": None}

    def end(self):
        if self.spare:
            self.spare.end()
            self.spare = None


def likely_folder(root):
    """Where notebooks were changed last; of a course that nobody has touched, the first."""
    ages = {}
    for path in sorted({*root.glob("*.ipynb"), *root.glob("*/*.ipynb")}):
        # Some editors' locks are links to nothing.
        with contextlib.suppress(OSError):
            ages[path] = path.stat().st_mtime // SESSION_S
    return os.path.realpath(max(ages, key=ages.get).parent) if ages else None


def has_room(free, total):
    return free - ITS_OWN_BYTES / total >= LEAST_FREE


def free_memory(proc=Path("/proc"), cgroups=Path("/sys/fs/cgroup")):
    """What part of the memory this user's programs may still take, and of how many bytes: the machine's, or that of a group
    around them.

    It reads what the library reads for its `available_memory`, which cannot be asked each second without a process beside
    what is being measured. Both are tried on the same cases, those of `model/memory/cases.json`.
    """
    sizes = {name: int(rest.split()[0]) for name, rest in map(lambda line: line.split(":"), (proc / "meminfo").read_text().splitlines())}
    free = [(sizes["MemAvailable"] / sizes["MemTotal"], sizes["MemTotal"] << 10)]
    groups = {}
    with contextlib.suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups.update((name, path.strip("/")) for name in controllers.split(","))
    if "memory" in groups:
        root, own, limit, used, prefix = cgroups / "memory", groups["memory"], "limit_in_bytes", "usage_in_bytes", "total_"
    else:
        root, own, limit, used, prefix = cgroups, groups.get("", ""), "max", "current", ""
    folder = root / own
    while folder.is_relative_to(root):
        with contextlib.suppress(OSError, ValueError):
            most, taken = (int((folder / f"memory.{name}").read_text()) for name in (limit, used))
            facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            reclaimable = sum(int(facts.get(prefix + name, 0)) for name in ("inactive_file", "active_file", "slab_reclaimable"))
            free.append((max(most - taken + reclaimable, 0) / most, most))
        folder = folder.parent
    return min(free)


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(server):
    global keeper
    if os.environ.get(SETTING) != "0":
        factory = KernelProvisionerFactory.instance(parent=server)
        if factory.default_provisioner_name != "local-provisioner":
            server.log.info("no spare kernel: kernels are started by %s", factory.default_provisioner_name)
            return
        factory.default_provisioner_name = PROVISIONER
        keeper = Keeper(server)
        atexit.register(keeper.end)
        server.io_loop.add_callback(keeper.run)
