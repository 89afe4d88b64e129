# JupyterHub for a class, run as root. docs/class.md says how to set it up on one machine, docs/cluster.md on a cluster,
# and trial/ tries both.
import fcntl
import json
import os
import pwd
import signal
import sys
import time
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner

sys.path.insert(0, str(Path(__file__).parent))
import kernel_address  # noqa: E402

c = get_config()  # noqa: F821


def setting(name, default):
    """A setting; the variable HUB_NAME of the hub's environment comes before what stands here."""
    return os.environ.get("HUB_" + name, default)


SHARED = Path(setting("SHARED", "/srv/quantlab"))  # what `cargo lab setup --shared` made
STATE = Path(setting("STATE", "/var/lib/quantlab-hub"))  # the hub's database and secrets
ADDRESS = setting("ADDRESS", "http://127.0.0.1:8000")  # a web server in front of it does TLS
LEARNERS = setting("LEARNERS", "learners")  # the system's group of those who may log in
TEACHERS = set(setting("TEACHERS", "teacher").split(","))
MEMORY = int(setting("MEMORY", "4096"))  # MiB for all of a learner's processes together
CPUS = float(setting("CPUS", "2"))  # processors for them, at most
PROCESSES = int(setting("PROCESSES", "2000"))  # and threads
IDLE_KERNEL = int(setting("IDLE_KERNEL", "7200"))  # seconds until an idle kernel is ended,
IDLE_SERVER = int(setting("IDLE_SERVER", "10800"))  # and a server
COURSE = setting("COURSE", "quantlab")  # nbgrader's name for it
EXCHANGE = Path(setting("EXCHANGE", "/srv/exchange"))  # where it exchanges notebooks
FIREWALL = setting("FIREWALL", "yes")  # "no": learners could read what others' kernels print
SLURM = setting("SLURM", "no")  # "yes": servers are jobs on the nodes of a cluster, by slurm.py
SYSTEMD = setting("SYSTEMD", "yes" if Path("/run/systemd/system").is_dir() else "no")  # makes the control groups


# What a server is started from, and with.


def release():
    """The set-up that is current now. A running server keeps its own when a newer one takes the name."""
    current = SHARED / "current"
    return (current if current.exists() else SHARED).resolve(strict=True)


def before_spawn(spawner):
    user, home = pwd.getpwnam(spawner.user.name), release()
    installed = json.loads((home / "installed.json").read_text())
    course = Path(installed["support_crate"]).parent
    hub = course / "environment/hub"
    settings = [hub / "settings" / ("teacher" if user.pw_name in TEACHERS else "learner"), hub / "settings/all"]
    spawner.cmd = ["/bin/sh", str(hub / "server.sh"), f"{home}/python/bin/jupyterhub-singleuser"]
    spawner.environment = {
        "PATH": f"{home}/python/bin:{home}/bin:{installed['sysroot']}/bin:/usr/local/bin:/usr/bin:/bin",
        "QUANTLAB_HOME": str(home),
        "QUANTLAB_LESSONS": str(course / "notebooks"),
        "QUANTLAB_IDLE_KERNEL": str(IDLE_KERNEL),
        "QUANTLAB_COURSE": COURSE,
        "QUANTLAB_EXCHANGE": str(EXCHANGE),
        # It comes before all others. Here nbgrader's menu is on again, which a set-up turns off.
        "JUPYTER_CONFIG_PATH": ":".join(map(str, settings)),
        # Others compute beside each; what it is for stands in environment/src/jupyter/installed.rs.
        "GOMP_SPINCOUNT": "1000",
        # Memory for one more kernel each is not there.
        "QUANTLAB_SPARE_KERNEL": "0",
    }
    if FIREWALL == "yes":
        spawner.environment["QUANTLAB_KERNEL_ADDRESS"] = kernel_address.address_of(user.pw_uid)
        # On a cluster it is the nodes' to keep.
        if SLURM != "yes":
            kernel_address.keep_address(user.pw_uid)


if FIREWALL == "yes" and SLURM != "yes" and not kernel_address.NFT:
    sys.exit("the hub needs Debian's package nftables, or HUB_FIREWALL=no, which lets learners read what others print")

# As a kernel does: an update is not to remove the set-up that the hub itself runs from.
if (in_use := Path(sys.prefix).parent / "in-use.lock").exists():
    held = in_use.open()
    fcntl.flock(held, fcntl.LOCK_SH)


# The limits, held by the system's kernel for all that a learner starts.


class Group:
    """A control group: a folder in version 2, one for each controller in version 1."""

    ROOT = Path("/sys/fs/cgroup")
    PREFIX = "quantlab-hub-"

    def __init__(self, name):
        self.name = self.PREFIX + name
        lines = Path("/proc/self/cgroup").read_text().split()
        self.own = {
            controller: path
            for line in lines
            for names, path in [line.split(":", 2)[1:]]
            for controller in names.split(",")
        }
        if (self.ROOT / "cgroup.controllers").is_file():
            limits = {
                "memory.max": MEMORY << 20,
                "memory.swap.max": 0,
                "cpu.max": f"{round(CPUS * 100_000)} 100000",
                "pids.max": PROCESSES,
            }
            self.limits = {self.parent_in_version_2() / self.name: limits}
        else:
            limits = {
                "memory": {"memory.limit_in_bytes": MEMORY << 20, "memory.memsw.limit_in_bytes": MEMORY << 20},
                "cpu": {"cpu.cfs_quota_us": round(CPUS * 100_000)},
                "pids": {"pids.max": PROCESSES},
            }
            self.limits = {
                self.ROOT / controller / self.own[controller].strip("/") / self.name: files
                for controller, files in limits.items()
            }

    def parent_in_version_2(self):
        """The hub's own group, ready to have limited ones in it."""
        path = self.ROOT / self.own[""].strip("/")
        parent = path.parent if path.name == "hub" else path
        try:
            (parent / "cgroup.subtree_control").write_text("+memory +cpu +pids")
        except OSError:
            # A group that has those must not hold processes itself.
            (parent / "hub").mkdir(exist_ok=True)
            for pid in (parent / "cgroup.procs").read_text().split():
                (parent / "hub/cgroup.procs").write_text(pid)
            (parent / "cgroup.subtree_control").write_text("+memory +cpu +pids")
        return parent

    def make(self):
        self.end()
        for folder, files in self.limits.items():
            folder.mkdir()
            for name, value in files.items():
                # Where there is no swap, it has no limit.
                if "sw" not in name or (folder / name).exists():
                    (folder / name).write_text(str(value))

    def join(self):
        for folder in self.limits:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def end(self):
        """Ends all processes in it, and removes it."""
        for folder in self.limits:
            for _ in range(100):
                pids = (folder / "cgroup.procs").read_text().split() if folder.exists() else []
                for pid in map(int, pids):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                if not pids:
                    break
                time.sleep(0.02)
            if folder.exists():
                folder.rmdir()


class GroupSpawner(LocalProcessSpawner):
    """A server that is in its control group before it becomes the user's."""

    def make_preexec_fn(self, name):
        become_user, group = super().make_preexec_fn(name), Group(name)
        group.make()

        def in_group():
            group.join()
            become_user()

        return in_group

    async def stop(self, now=False):
        await super().stop(now)
        # What the server leaves behind, such as a program started in a terminal.
        Group(self.user.name).end()


if SLURM == "yes":
    import slurm

    slurm.configure(c, setting, memory=MEMORY, cpus=CPUS, processes=PROCESSES, checks_firewall=FIREWALL == "yes")
elif SYSTEMD == "yes":
    # Not tried yet.
    c.JupyterHub.spawner_class = "systemdspawner.SystemdSpawner"
    c.SystemdSpawner.mem_limit = f"{MEMORY}M"
    c.SystemdSpawner.cpu_limit = CPUS
    c.SystemdSpawner.unit_name_template = "quantlab-hub-{USERNAME}"
    c.SystemdSpawner.isolate_tmp = True
    c.SystemdSpawner.unit_extra_properties = {"TasksMax": str(PROCESSES), "MemorySwapMax": "0", "UMask": "0077"}
else:
    c.JupyterHub.spawner_class = GroupSpawner

c.Spawner.pre_spawn_hook = before_spawn
c.Spawner.default_url = "/lab/tree/notebooks"
c.Spawner.env_keep = ["LANG", "LC_ALL"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 120


# Who may do what.

c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.allowed_groups = {LEARNERS}
c.PAMAuthenticator.open_sessions = False
c.Authenticator.allowed_users = TEACHERS
c.JupyterHub.load_roles = [
    # Teachers can see who is there, and start and stop servers; not open them.
    {"name": "teacher", "users": sorted(TEACHERS), "scopes": ["admin-ui", "list:users", "read:users", "servers"]},
    {
        "name": "idle",
        "services": ["idle"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    },
]
c.JupyterHub.services = [
    {"name": "idle", "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE_SERVER}"]},
]


# The hub itself.

c.JupyterHub.bind_url = ADDRESS
c.JupyterHub.db_url = f"sqlite:///{STATE}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{STATE}/cookie_secret"
c.ConfigurableHTTPProxy.pid_file = f"{STATE}/proxy.pid"
# A hub that is started again finds the servers that it had.
c.JupyterHub.cleanup_servers = False

os.umask(0o077)
STATE.mkdir(parents=True, exist_ok=True)
STATE.chmod(0o700)
# nbgrader asks that everyone may write there; with the sticky bit, each owns what they put there.
EXCHANGE.mkdir(parents=True, exist_ok=True)
if EXCHANGE.stat().st_mode & 0o7777 != 0o1777:
    EXCHANGE.chmod(0o1777)

# A container for each learner instead: with the package dockerspawner beside the hub, and the image of Containerfile in
# this folder. Then users need not be the system's, and the image has set-up and lessons. nbgrader's exchange goes by
# ngshare there, for all containers' files are one user's. Not tried yet:
#   c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
#   c.Spawner.pre_spawn_hook = None
#   c.Spawner.cmd = ["jupyterhub-singleuser", "--MultiKernelManager.kernel_info_timeout=600"]
#   c.DockerSpawner.image = "quantlab-hub"
#   c.DockerSpawner.volumes = {"quantlab-{username}": "/home/quantlab"}
#   c.DockerSpawner.mem_limit, c.DockerSpawner.cpu_limit = f"{MEMORY}M", CPUS
#   c.DockerSpawner.extra_host_config = {"pids_limit": PROCESSES}
#   c.DockerSpawner.remove = True
#   c.JupyterHub.hub_ip = "172.17.0.1"  # Docker's bridge, by which containers reach the hub
