"""Tries the hub as a class would use it: as root, on a machine that has nothing else to do for ten minutes,

    DIR/current/python/bin/python environment/hub/try.py DIR

where DIR is what `cargo lab setup --shared DIR` made. Six new users of the system, who are removed at the end, log in,
start servers and kernels and run lesson 1, all at once; one then takes all the memory, one loops for ever, one is idle.
As one of them, it tries to read and reach what is another's. Then a teacher releases the lesson, and a learner hands it
in. It prints what it measured, and fails if something does not hold. The hub is alone in a network of its own.
"""

import argparse
import concurrent.futures
import contextlib
import grp
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import requests
import websocket

HUB = "http://127.0.0.1:8000"
GROUP = "quantlab-try"
# Names the scratch folder, once this program is in its own network.
OWN_NETWORK = "QUANTLAB_TRY_IN"
LESSON = "01-latency-and-precision"
LIMIT = 4096  # MiB
# A cell that is compiled, linked and loaded, and generates a text.
GENERATE = 'println!("{}", generate(&loaded, prompts[0], &options)?.text);'

# 16 GB, and a learner may have 4.
EAT = "let mut eaten: Vec<Vec<u8>> = Vec::new();\nfor _ in 0..1000 { eaten.push(vec![1; 16 << 20]); }\neaten.len()"

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


class User:
    """A user of the system, and their browser."""

    def __init__(self, number, scratch, groups):
        self.name, self.password = f"quantlab-try-{number}", secrets.token_hex(8)
        self.home = scratch / "home" / self.name
        subprocess.run(
            [
                "useradd",
                "--create-home",
                "--home-dir",
                self.home,
                "--shell",
                "/bin/bash",
                "--groups",
                groups,
                self.name,
            ],
            check=True,
        )
        subprocess.run(["chpasswd"], input=f"{self.name}:{self.password}", text=True, check=True)
        self.uid, self.gid = pwd.getpwnam(self.name)[2:4]
        self.base = f"{HUB}/user/{self.name}"

    def log_in(self):
        """As a person does: the form, then the page of the server, which starts it."""
        start, self.web = time.monotonic(), requests.Session()
        self.web.get(f"{HUB}/hub/login", timeout=30)
        form = {"username": self.name, "password": self.password, "_xsrf": self.cookie("/hub/")}
        self.web.post(f"{HUB}/hub/login", data=form, timeout=60).raise_for_status()
        while True:
            page = self.web.get(f"{HUB}/hub/spawn", timeout=60)
            if page.url.startswith(self.base) and page.ok:
                break
            if time.monotonic() - start > 180:
                raise TimeoutError(f"{self.name}'s server did not start: {page.status_code} {page.url}")
            time.sleep(0.5)
        return time.monotonic() - start

    def cookie(self, path):
        return next((c.value for c in self.web.cookies if c.name == "_xsrf" and c.path == path), "")

    def ask(self, method, path, **more):
        headers = {"X-XSRFToken": self.cookie(f"/user/{self.name}/")}
        reply = self.web.request(method, f"{self.base}/{path}", headers=headers, timeout=120, **more)
        reply.raise_for_status()
        return reply.json() if reply.content else None

    def run_as(self, command, env=None, **more):
        """A command with this user's rights."""
        return subprocess.run(
            command,
            user=self.uid,
            group=self.gid,
            extra_groups=os.getgrouplist(self.name, self.gid),
            cwd=self.home,
            env=env or {"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
            umask=0o077,
            text=True,
            capture_output=True,
            **more,
        )

    def processes(self):
        """Who they are, by number, with their command lines."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == self.uid or (folder / "status").read_text().split("Uid:\t")[1].startswith(
                    f"{self.uid}\t"
                ):
                    found[int(folder.name)] = (
                        (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
        return found

    def server_pid(self):
        return next(pid for pid, line in self.processes().items() if "jupyterhub-singleuser" in line)

    def remove(self):
        for _ in range(50):
            pids = self.processes()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                break
            time.sleep(0.1)
        subprocess.run(["userdel", "--remove", self.name], capture_output=True)


class Kernel:
    """A kernel of a user's, over the server's interface, as JupyterLab uses it."""

    def __init__(self, user):
        self.user = user
        body = {
            "kernel": {"name": "quantlab"},
            "name": "starter.ipynb",
            "type": "notebook",
            "path": f"notebooks/{LESSON}/starter.ipynb",
        }
        self.id = user.ask("POST", "api/sessions", json=body)["kernel"]["id"]
        self.connect()

    def connect(self):
        cookies = "; ".join(
            f"{c.name}={c.value}" for c in self.user.web.cookies if f"/user/{self.user.name}/".startswith(c.path)
        )
        url = f"{self.user.base.replace('http', 'ws')}/api/kernels/{self.id}/channels?session_id={uuid.uuid4().hex}"
        self.socket = websocket.create_connection(
            url, cookie=cookies, timeout=300, header=[f"X-XSRFToken: {self.user.cookie(f'/user/{self.user.name}/')}"]
        )

    def send(self, code):
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "",
            "session": "try",
            "date": "",
            "version": "5.3",
        }
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        self.socket.send(
            json.dumps(
                {
                    "header": header,
                    "parent_header": {},
                    "metadata": {},
                    "content": content,
                    "channel": "shell",
                    "buffers": [],
                }
            )
        )
        return header["msg_id"]

    def run(self, code, timeout=240):
        """The seconds that a cell took, its status and what it wrote."""
        start, status, text = time.monotonic(), None, ""
        wanted, is_idle = self.send(code), False
        while status is None or not is_idle:
            left = start + timeout - time.monotonic()
            if left <= 0:
                return timeout, "timeout", text
            self.socket.settimeout(left)
            try:
                message = json.loads(self.socket.recv())
            except websocket.WebSocketTimeoutException:
                return timeout, "timeout", text
            if message["parent_header"].get("msg_id") != wanted:
                continue
            content, kind = message["content"], message["header"]["msg_type"]
            if kind == "stream":
                text += content["text"]
            elif kind == "error":
                text += "\n".join(content.get("traceback", []))
            elif kind == "execute_reply":
                status = content["status"]
            elif kind == "status":
                is_idle = content["execution_state"] == "idle"
        return time.monotonic() - start, status, text


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
    # A browser would have answered the server's pings meanwhile.
    user.kernel.connect()
    results = [user.kernel.run(f"// {secrets.token_hex(4)}\n{GENERATE}") for _ in range(times)]
    if any(status != "ok" for _, status, _ in results):
        print(f"  {user.name}: {results[-1][2][:600]}")
        return float("nan")
    return statistics.median(seconds for seconds, _, _ in results)


def memory(pids):
    """MiB of their own, shared with others, and by share."""
    private = rss = pss = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kib = {name: int(value) for name, value in re.findall(r"^(\w+): +(\d+) kB$", text, re.M)}
            private += kib["Private_Clean"] + kib["Private_Dirty"]
            rss += kib["Rss"]
            pss += kib["Pss"]
    return private // 1024, (rss - private) // 1024, pss // 1024


@contextlib.contextmanager
def most_memory_of(user):
    """What all of a user's processes have of their own, every half a second."""
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


def is_of_server(line):
    return "jupyterhub-singleuser" in line


def cpu_seconds(pids):
    """Of these processes, and of all that they started and that has ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def group_folders(user):
    """The folders of the control groups that the hub made for a user."""
    return [Path(path) for path in Path("/sys/fs/cgroup").rglob(f"quantlab-hub-{user.name}")]


def limits_are_set(user):
    in_group, limits = set(), set()
    for folder in group_folders(user):
        in_group.update(map(int, (folder / "cgroup.procs").read_text().split()))
        for name in ("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "pids.max"):
            if (folder / name).exists():
                limits.add((name.split(".")[0], int((folder / name).read_text().split()[0])))
    outside = [line for pid, line in user.processes().items() if pid not in in_group]
    holds(
        f"all of {user.name}'s {len(in_group)} processes are in their control group",
        in_group and not outside,
        "; ".join(outside),
    )
    holds("which has the limits", limits == {("memory", LIMIT << 20), ("cpu", 200_000), ("pids", 2000)}, str(limits))


def tries_of(thief, victim, state, release):
    """What one learner may not do to another."""
    server = victim.server_pid()
    pids = list(victim.processes())
    kernel = next(pid for pid, line in victim.processes().items() if "evcxr_jupyter" in line)
    connection = next(victim.home.glob(".local/share/jupyter/runtime/kernel-*.json"))
    ports = json.loads(connection.read_text())
    live = next(victim.home.glob(".cache/quantlab-kernels*/live/kernel-*"))
    own_group = group_folders(thief)[0]

    def refused(what, command):
        done = thief.run_as(["sh", "-c", command], timeout=60)
        holds(f"cannot {what}", done.returncode != 0 and not done.stdout.strip(), done.stdout[:80])

    refused("list another's home", f"ls {victim.home}")
    refused("read another's notebook", f"cat {victim.home}/notebooks/{LESSON}/starter.ipynb")
    refused("read the environment of another's server", f"cat /proc/{server}/environ")
    refused(
        "read the environment or memory of another's kernel",
        f"cat /proc/{kernel}/environ /proc/{kernel}/mem; cat /proc/{kernel}/maps",
    )
    refused("look into another's open files", f"ls /proc/{kernel}/fd /proc/{server}/cwd/")
    refused("read another's connection file", f"cat {connection}")
    refused("look into a live kernel's folder", f"ls {live}")
    refused("signal another's processes", f"kill {' '.join(map(str, pids))}")
    refused("read the hub's secrets", f"cat {state}/cookie_secret {state}/hub.sqlite")
    refused("change the shared set-up", f"touch {release}/x || echo x >> {release}/installed.json")
    refused("leave the control group", f"echo $$ > {own_group.parent}/cgroup.procs")
    refused(
        "raise the limit", f"for f in {own_group}/*limit* {own_group}/*.max; do echo 1 > $f && echo raised; done; false"
    )
    connect = "import socket; socket.create_connection(('{}', {}), 5); print('connected')"
    for name in ("iopub_port", "shell_port", "control_port"):
        refused(
            f"connect to another's kernel ({name})", f'/usr/bin/python3 -c "{connect.format(ports["ip"], ports[name])}"'
        )
    own = json.loads(next(thief.home.glob(".local/share/jupyter/runtime/kernel-*.json")).read_text())
    done = thief.run_as(["/usr/bin/python3", "-c", connect.format(own["ip"], own["iopub_port"])])
    holds("can connect to one's own kernel", "connected" in done.stdout, done.stderr[-200:])

    # The hub's token of their own server, by which it speaks with the hub, and their browser.
    environment = dict(
        item.split("=", 1)
        for item in Path(f"/proc/{thief.server_pid()}/environ").read_text().split("\0")
        if "=" in item
    )
    token = {"Authorization": f"token {environment['JUPYTERHUB_API_TOKEN']}"}
    for what, url in [
        ("files", f"{victim.base}/api/contents/notebooks"),
        ("kernels", f"{victim.base}/api/kernels"),
        ("account", f"{HUB}/hub/api/users/{victim.name}"),
        ("tokens", f"{HUB}/hub/api/users/{victim.name}/tokens"),
    ]:
        with_token = requests.get(url, headers=token, timeout=30, allow_redirects=False)
        in_browser = thief.web.get(url, timeout=30)
        holds(
            f"cannot get another's {what} over the web",
            not with_token.ok and not in_browser.ok,
            f"{with_token.status_code}, {in_browser.status_code}",
        )
    stop = requests.delete(f"{HUB}/hub/api/users/{victim.name}/server", headers=token, timeout=30)
    holds("cannot stop another's server", not stop.ok, str(stop.status_code))


def start_hub(arguments, scratch, python, **settings):
    environment = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HUB_SHARED": str(arguments.dir),
        "HUB_STATE": str(scratch / "state"),
        "HUB_EXCHANGE": str(scratch / "exchange"),
        "HUB_LEARNERS": GROUP,
        "HUB_TEACHERS": "quantlab-try-0",
        "HUB_MEMORY": str(LIMIT),
        # It would start the servers outside of this network.
        "HUB_SYSTEMD": "no",
        **settings,
    }
    log = (scratch / "hub.log").open("a")
    config = Path(__file__).resolve().parent / "jupyterhub_config.py"
    hub = subprocess.Popen(
        [python / "jupyterhub", "--config", config],
        env=environment,
        cwd=scratch,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    for _ in range(120):
        with contextlib.suppress(requests.RequestException):
            if requests.get(f"{HUB}/hub/health", timeout=5).ok:
                return hub
        if hub.poll() is not None:
            break
        time.sleep(0.5)
    sys.exit((scratch / "hub.log").read_text()[-4000:] + "\nthe hub did not start")


def stop_hub(hub, scratch):
    """Not the servers: they outlive the hub."""
    hub.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        hub.wait(60)
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((scratch / "state/proxy.pid").read_text()), signal.SIGTERM)


def nbgrader_round(teacher, learner, checkout, release):
    """Released, fetched, submitted, collected, graded, returned."""
    environment = dict(
        item.split("=", 1)
        for item in Path(f"/proc/{teacher.server_pid()}/environ").read_text().split("\0")
        if "=" in item
    )

    def by_teacher(command, folder="."):
        done = teacher.run_as(["sh", "-euc", f"cd {folder}\n{command}"], env=environment, timeout=900)
        holds(
            command.strip().replace("\n", "; "),
            done.returncode == 0,
            (done.stderr or done.stdout)[-600:] if done.returncode else "",
        )
        return done.stdout + done.stderr

    def off(user):
        """The parts of JupyterLab that are turned off."""
        page = user.web.get(f"{user.base}/lab", timeout=60).text
        return json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.S)[1])[
            "disabledExtensions"
        ]

    nbgrader = "@jupyter/nbgrader"
    holds("nbgrader's menu is on", nbgrader not in off(learner) + off(teacher), str(off(learner)))
    holds(
        "formgrader is in the teacher's only",
        f"{nbgrader}:formgrader" in off(learner) and f"{nbgrader}:formgrader" not in off(teacher),
    )
    lab = release / "bin/lab"
    by_teacher(f"{lab} release --nbgrader ~/course {LESSON}", checkout)
    by_teacher(f"nbgrader generate_assignment {LESSON}", "~/course")
    by_teacher(f"nbgrader release_assignment {LESSON}", "~/course")
    listed = learner.ask("GET", "assignments?course_id=quantlab")
    holds(
        "the learner's assignment list has the lesson",
        [a["assignment_id"] for a in listed["value"]] == [LESSON],
        str(listed)[:300],
    )
    what = {"course_id": "quantlab", "assignment_id": LESSON}
    listed = learner.ask("POST", "assignments/fetch", json=what)
    holds("fetched", (learner.home / LESSON / f"{LESSON}.ipynb").exists(), str(listed)[:300])
    # An answer to the first exercise, saved as JupyterLab saves it.
    path = f"api/contents/{LESSON}/{LESSON}.ipynb"
    notebook = learner.ask("GET", path)["content"]
    solution = json.loads((checkout / "notebooks" / LESSON / "solution.ipynb").read_text())
    ids = lambda cell: cell["metadata"].get("nbgrader", {}).get("grade_id")  # noqa: E731
    answers = {ids(cell): "".join(cell["source"]) for cell in solution["cells"] if ids(cell)}
    for cell in notebook["cells"]:
        if ids(cell) == "l1-resolve-dtype":
            cell["source"] = answers["l1-resolve-dtype"]
    learner.ask("PUT", path, json={"type": "notebook", "content": notebook})
    listed = learner.ask("POST", "assignments/submit", json=what)
    holds("submitted", any(a["status"] == "submitted" for a in listed["value"]), str(listed)[:300])
    inbound = teacher.home.parents[1] / "exchange/quantlab/inbound"
    done = learner.run_as(["ls", inbound])
    holds("learners cannot list what was handed in", any(inbound.iterdir()) and done.returncode != 0, done.stdout)
    by_teacher(f"nbgrader collect {LESSON}", "~/course")
    start = time.monotonic()
    by_teacher(f"{lab} grade ~/submitted --output ~/course", checkout)
    print(f"  graded in {time.monotonic() - start:.0f} s")
    grades = (teacher.home / "course/grades.csv").read_text()
    print("   ", "\n    ".join(grades.splitlines()))
    by_teacher(f"cp --parents */{LESSON}/*.txt ~/course/feedback", "~/submitted")
    by_teacher(f"nbgrader release_feedback {LESSON}", "~/course")
    listed = learner.ask("POST", "assignments/fetch_feedback", json=what)
    pages = list((learner.home / LESSON / "feedback").rglob("*.html"))
    holds(
        "the learner has the feedback",
        len(pages) == 1 and "check_resolve_dtype" in pages[0].read_text(),
        str(listed)[:300],
    )
    page = teacher.web.get(f"{teacher.base}/formgrader", timeout=60)
    holds(
        "formgrader answers the teacher, not the learner",
        page.ok and not learner.web.get(f"{learner.base}/formgrader", timeout=60).ok,
    )


def into_own_network(scratch):
    """Becomes this program again, where there are no other hubs, and no network."""
    scratch.mkdir(exist_ok=True)
    scratch.chmod(0o755)
    if not shutil.which("configurable-http-proxy"):
        install = ["npm", "install", "--silent", "--prefix", scratch / "npm", "configurable-http-proxy"]
        subprocess.run(install, check=True)
        os.environ["PATH"] = f"{scratch}/npm/node_modules/.bin:{os.environ['PATH']}"
    os.environ[OWN_NETWORK] = str(scratch)
    again = ["unshare", "--net", sys.executable, *sys.argv]
    if Path("/run/systemd/system").is_dir():
        # There, systemd rules the control groups: in one that is ours to divide.
        again = ["systemd-run", "--scope", "--quiet", "--property=Delegate=yes", *again]
    os.execvp(again[0], again)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--learners", type=int, default=6)
    parser.add_argument("--only", choices=["class", "nbgrader"])
    parser.add_argument(
        "--scratch", type=Path, help="a folder that all may enter [default: a new one, removed at the end]"
    )
    arguments = parser.parse_args()
    arguments.dir = arguments.dir.resolve()
    if os.geteuid() != 0:
        sys.exit("as root: it makes users")
    if OWN_NETWORK not in os.environ:
        into_own_network(arguments.scratch or Path(tempfile.mkdtemp(prefix="quantlab-hub-")))
    scratch = Path(os.environ[OWN_NETWORK])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # So that a time-out's signal, too, leaves no users behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))

    release = (arguments.dir / "current").resolve() if (arguments.dir / "current").exists() else arguments.dir
    checkout = Path(__file__).resolve().parents[2]
    (scratch / "home").mkdir(exist_ok=True)
    subprocess.run(["groupadd", "--force", GROUP], check=True)
    users, hub = [], None
    try:
        # The first is the teacher, whom the hub knows by name, and who may read the solutions.
        owners = checkout.stat().st_gid
        users.append(User(0, scratch, grp.getgrgid(owners).gr_name if owners else "users"))
        users += [User(number, scratch, GROUP) for number in range(1, arguments.learners + 1)]
        step("the hub starts")
        hub = start_hub(arguments, scratch, release / "python/bin")
        if arguments.only != "nbgrader":
            hub = the_class(arguments, users[1:], scratch, release, hub)
        if arguments.only != "class":
            step("nbgrader's round")
            all_at_once(User.log_in, users[:2])
            nbgrader_round(users[0], users[1], checkout, release)
    finally:
        if hub:
            stop_hub(hub, scratch)
        for user in users:
            folders = group_folders(user)
            user.remove()
            for folder in folders:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        subprocess.run(["groupdel", GROUP], capture_output=True)
        for name in ["home", "state", "exchange"] if arguments.scratch else ["."]:
            shutil.rmtree(scratch / name, ignore_errors=True)
    print()
    print(f"{len(failures)} FAILED: " + "; ".join(failures) if failures else "All of it holds.")
    sys.exit(bool(failures))


def the_class(arguments, learners, scratch, release, hub):
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    load = os.getloadavg()[0]
    print(f"  {os.cpu_count()} processors ({cpu[1] if cpu else '?'}), {gib} GiB; {load:.1f} processes ran already")
    step(f"{len(learners)} learners log in at once")
    times = all_at_once(User.log_in, learners)
    print(f"  a server is there after {min(times):.0f} to {max(times):.0f} s")
    for user in learners:
        holds(f"{user.name} has starters, no solution, and a private home", starters(user))

    step("one starts lesson 1, then all at once")
    alone = learners[-1]
    first, text, first_cpu, text_cpu, _ = first_lesson(alone)
    print(f"  alone: first value after {first:.1f} s, first text after {text:.1f} s")
    print(f"         and {first_cpu:.1f} and {text_cpu:.1f} s of a processor")
    alone.ask("DELETE", f"api/kernels/{alone.kernel.id}")
    with most_memory_of(alone) as most:
        results = all_at_once(first_lesson, learners)
    for at, name in enumerate(["first value", "first text"]):
        seconds, cpu = [[result[column] for result in results] for column in (at, at + 2)]
        print(f"  {name} after {min(seconds):.1f} to {max(seconds):.1f} s", end=" ")
        print(f"and {statistics.median(cpu):.1f} s of a processor for each")
    print(f"  most memory of one at a time, with compiler and linker: {max(most)} MiB of their own")
    holds("each got a text", all("The capital of France" in text for *_, text in results))
    for user in learners:
        limits_are_set(user)
    hog, looper, idle, *others = learners

    step("memory, and processor time of idle kernels")
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
    for (name, server, kernel, count), user in zip(rows, learners):
        lines = user.processes()
        used = [
            sum(
                cpu_seconds([pid]) - then
                for pid, then in before[user].items()
                if is_of_server(lines.get(pid, "")) == wanted
            )
            / 60
            for wanted in (True, False)
        ]
        disk = subprocess.run(["du", "-sm", user.home / ".cache"], capture_output=True, text=True).stdout.split()[0]
        print(
            "  {:16} {:4} {:6} {:5}  {:4} {:6} {:5} {:11} {:12.2%} {:8.2%} {:>8}".format(
                name, *server, *kernel, count, *used, disk
            )
        )
    holds("an idle learner takes less than 3 % of a processor", used[0] + used[1] < 0.03)

    step("one takes all the memory, one loops for ever, one is idle")
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
    holds(
        "its learner goes on in the same kernel",
        status == "ok" and "there" in text,
        f"{status} after {seconds:.1f} s {text[:200]}",
    )
    # A browser would have answered the server's pings.
    idle.kernel.connect()
    seconds, status, text = idle.kernel.run(GENERATE, 60)
    holds("who was idle has all variables", status == "ok", f"after {seconds:.1f} s")
    looper.kernel.connect()
    interrupted = time.monotonic()
    looper.ask("POST", f"api/kernels/{looper.kernel.id}/interrupt")
    seconds, status, text = looper.kernel.run('println!("back");', 60)
    holds("the loop can be interrupted", status == "ok" and "back" in text, f"{time.monotonic() - interrupted:.1f} s")

    step("what one learner cannot do to another")
    tries_of(others[0], idle, scratch / "state", release)

    step("the hub stops and starts again")
    stop_hub(hub, scratch)
    hub = start_hub(arguments, scratch, release / "python/bin")
    idle.kernel.connect()
    seconds, status, text = idle.kernel.run(GENERATE, 60)
    holds("servers, kernels and their variables outlive it", status == "ok", text[:200])
    others[0].ask("DELETE", f"api/kernels/{others[0].kernel.id}")
    for _ in range(30):
        left = list(others[0].home.glob(".cache/quantlab-kernels*/live/*"))
        if not left:
            break
        time.sleep(1)
    holds("a kernel that was shut down leaves nothing", not left, str(left))

    step("servers that nobody uses are ended")
    stop_hub(hub, scratch)
    hub = start_hub(arguments, scratch, release / "python/bin", HUB_IDLE_SERVER="40")
    start = time.monotonic()
    while any(user.processes() or group_folders(user) for user in learners) and time.monotonic() - start < 150:
        time.sleep(2)
    holds(
        "with all that they started",
        not any(user.processes() or group_folders(user) for user in learners),
        f"after {time.monotonic() - start:.0f} s",
    )
    stop_hub(hub, scratch)
    return start_hub(arguments, scratch, release / "python/bin")


def starters(user):
    lessons = user.home / "notebooks"
    return (
        (lessons / LESSON / "starter.ipynb").exists()
        and not list(lessons.rglob("solution.ipynb"))
        and user.home.stat().st_mode & 0o777 == 0o700
    )


if __name__ == "__main__":
    main()
