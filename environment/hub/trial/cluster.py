"""A cluster on this machine: Slurm's controller, and nodes that each have a network, processes, a name, control groups
and a /tmp of their own, and a file system that all share.

What it is not: several machines. Nodes share processors and the system's kernel, and their file system is this
machine's, not a network's. It uses version 1 of control groups where this machine does, else version 2.
"""

import contextlib
import grp
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from common import MEMORY

HEAD = "10.77.0.1"
NODES = {"node1": "10.77.0.11", "node2": "10.77.0.12"}
GROUPS = Path("/sys/fs/cgroup")
PROGRAMS = ["slurmctld", "slurmd", "munged", "nft", "ip"]
PROLOG = Path(__file__).resolve().parents[1] / "kernel_address.py"

# As docs/cluster.md has it, and what a trial needs: its places, times that are short, more memory than there is.
SLURM_CONF = """
ClusterName=trial
SlurmctldHost=head({head})
SlurmUser=root
AuthType=auth/munge
StateSaveLocation={scratch}/slurm/state
SlurmctldPidFile={scratch}/slurm/slurmctld.pid
SlurmctldLogFile={scratch}/slurm/slurmctld.log
SlurmdSpoolDir={scratch}/slurm/%n
SlurmdPidFile={scratch}/slurm/%n/slurmd.pid
SlurmdLogFile={scratch}/slurm/%n.log
MpiDefault=none
SlurmdTimeout=60
KillWait=10
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
Prolog={scratch}/slurm/prolog.d/*
PrivateData=jobs
{nodes}
PartitionName=class Nodes=ALL Default=YES LLN=YES MaxTime=INFINITE OverSubscribe=FORCE:{times}
"""

CGROUP_CONF = """
ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
"""

# In namespaces of its own, a group of its own for each controller: all that a node sees of control groups.
BECOME_NODE = """
set -eu
hostname {name}
mount --make-rprivate /
if [ ! -f /sys/fs/cgroup/cgroup.controllers ]; then
    for group in memory cpuset cpu cpuacct devices freezer blkio pids; do
        if [ -d /sys/fs/cgroup/$group ]; then
            umount /sys/fs/cgroup/$group
            mount -t cgroup -o $group cgroup /sys/fs/cgroup/$group
        fi
    done
else
    umount /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run/munge
chown munge:munge /run/munge
runuser -u munge -- munged --foreground &
until [ -S /run/munge/munge.socket.2 ]; do sleep 0.1; done
# A shell is the first process, since one has to take in those whose parents have ended.
slurmd -D -N {name} &
wait
"""


def missing():
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if not shutil.which(name, path=path)]


class Cluster:
    """Slurm, with the nodes that are up."""

    def __init__(self, scratch, learners):
        self.folder, self.controller, self.munged, self.nodes = scratch / "slurm", None, None, {}
        # Everyone may be on one node, once the other is gone.
        processors, memory = os.cpu_count(), learners * MEMORY + 1024
        size = f"CoresPerSocket={processors} RealMemory={memory}"
        nodes = [f"NodeName={name} NodeAddr={at} {size}" for name, at in NODES.items()]
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        for name in ["", "state", "etc", "prolog.d", *NODES]:
            (self.folder / name).mkdir(exist_ok=True)
        self.log = (self.folder / "daemons.log").open("a")
        self.prolog = self.folder / "prolog.d" / PROLOG.name
        shutil.copy(PROLOG, self.prolog)
        settings = {"head": HEAD, "scratch": scratch, "nodes": "\n".join(nodes), "times": learners + 1}
        (self.folder / "etc/slurm.conf").write_text(SLURM_CONF.format(**settings))
        (self.folder / "etc/cgroup.conf").write_text(CGROUP_CONF)
        hosts = {"localhost": "127.0.0.1", "head": HEAD} | NODES
        (self.folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in hosts.items()))

    def start(self):
        def run(*command):
            subprocess.run(command, check=True)

        # This program's own, and its nodes': the machine sees none of it.
        run("mount", "--make-rprivate", "/")
        run("hostname", "head")
        run("mount", "--bind", self.folder / "etc", "/etc/slurm")
        run("mount", "--bind", self.folder / "hosts", "/etc/hosts")
        Path("/run/munge").mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run/munge")
        os.chown("/run/munge", pwd.getpwnam("munge").pw_uid, grp.getgrnam("munge").gr_gid)
        run("ip", "link", "add", "cluster", "type", "bridge")
        run("ip", "address", "add", f"{HEAD}/24", "dev", "cluster")
        run("ip", "link", "set", "cluster", "up")
        self.start_munged()
        self.start_controller()
        for name in NODES:
            self.start_node(name)
        wait_for(lambda: self.states() == dict.fromkeys(NODES, "idle"), "Slurm's nodes", 60)

    def network(self, node):
        return f"{self.folder.parent.name}-{node}"

    def daemon(self, *command):
        return subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)

    def start_munged(self):
        self.munged = self.daemon("runuser", "-u", "munge", "--", "munged", "--foreground")
        wait_for(Path("/run/munge/munge.socket.2").exists, "munged", 20)

    def stop_munged(self):
        self.munged.terminate()
        self.munged.wait()

    def start_controller(self):
        self.controller = self.daemon("slurmctld", "-D")
        wait_for(lambda: subprocess.run(["scontrol", "ping"], capture_output=True).returncode == 0, "slurmctld", 60)

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def start_node(self, name):
        network = self.network(name)
        # One may be left of a trial that was killed.
        subprocess.run(["ip", "netns", "delete", network], capture_output=True)
        for command in [
            ["netns", "add", network],
            ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", network],
            ["link", "set", name, "master", "cluster", "up"],
            ["-n", network, "address", "add", f"{NODES[name]}/24", "dev", "eth0"],
            ["-n", network, "link", "set", "eth0", "up"],
            ["-n", network, "link", "set", "lo", "up"],
        ]:
            subprocess.run(["ip", *command], check=True)
        groups = make_groups(name)
        join = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
        own = "unshare --pid --fork --kill-child --uts --mount --cgroup"
        script = f"{join} exec nsenter --net=/run/netns/{network} {own} sh -c '{BECOME_NODE.format(name=name)}'"
        self.nodes[name] = self.daemon("sh", "-c", script)

    def run_on(self, name, *command):
        """In the network of a node."""
        subprocess.run(["nsenter", f"--net=/run/netns/{self.network(name)}", *command], check=True)

    def kill_node(self, name):
        """As if its power failed: all of its processes are gone at once, and so is its network."""
        node = self.nodes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()
        subprocess.run(["ip", "netns", "delete", self.network(name)], check=True)
        remove_groups(name)

    def states(self):
        done = subprocess.run(["sinfo", "-hN", "-o", "%N %T"], capture_output=True, text=True)
        return {name: state for name, state in (line.split() for line in done.stdout.splitlines())}

    def scontrol(self, *arguments):
        subprocess.run(["scontrol", *arguments], check=True)

    def stop(self):
        subprocess.run(["scancel", "--state=RUNNING"], capture_output=True)
        for name in list(self.nodes):
            self.kill_node(name)
        for process in [self.controller, self.munged]:
            if process:
                process.terminate()
                process.wait()

    # What differs for a user from one machine: jupyterhub_config.py's groups.

    @staticmethod
    def settings():
        return {"HUB_SLURM": "yes", "HUB_HOST": HEAD}

    @staticmethod
    def job(user):
        """The number of a user's job, and its node."""
        command = ["squeue", "-h", "-t", "RUNNING", "-u", user.name, "-o", "%i %B"]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.split()
        return (lines[0], lines[1]) if lines else (None, None)

    def control_groups(self, user):
        return [folder for folder in GROUPS.rglob(f"uid_{user.uid}/job_*") if folder.is_dir()] + [
            folder for folder in GROUPS.rglob(f"job_{self.job(user)[0]}") if "uid_" not in str(folder)
        ]

    @staticmethod
    def limits():
        # Each node has all of the machine's processors, and a server two of them.
        return {("memory", MEMORY << 20), ("processors", 2), ("processes", 2000)}

    def enter(self, user):
        """What a command begins with to be in the network that a user's server is in."""
        _, node = self.job(user)
        return ["nsenter", f"--net=/run/netns/{self.network(node)}"] if node else []


def make_groups(name):
    """A control group of this node's, in each hierarchy that there is."""
    if (GROUPS / "cgroup.controllers").is_file():
        places = [GROUPS]
    else:
        places = [place for place in GROUPS.iterdir() if (place / "cgroup.procs").is_file()]
    folders = [place / f"quantlab-trial-{name}" for place in places]
    for place, folder in zip(places, folders):
        folder.mkdir(exist_ok=True)
        # A group for processors begins without any.
        for file in ["cpuset.cpus", "cpuset.mems"]:
            if (folder / file).exists() and (place / file).exists():
                (folder / file).write_text((place / file).read_text())
    return folders


def remove_groups(name):
    for top in GROUPS.glob(f"**/quantlab-trial-{name}"):
        for folder in [*sorted(top.rglob("*/"), reverse=True), top]:
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)


def wait_for(is_so, what, seconds):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{what} did not start")
        time.sleep(0.5)
