"""A Jupyter server's kernels: how it asks them, and the spare one: where it is started, to whom it is handed, when it
stands still, and how it ends.

Prints nothing if all is well; an assertion says what is not.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from queue import Empty

from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from quantlab_jupyter import connection, spare
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

LONGEST_S = 100
TOKEN = "for-this-test"


class Server:
    """A Jupyter server of this user's on a folder."""

    def __init__(self, root):
        self.runtime = tempfile.TemporaryDirectory(prefix="spare-")
        environment = {**os.environ, "JUPYTER_RUNTIME_DIR": self.runtime.name}
        settings = ["--port=0", "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"]
        jupyter = Path(sys.executable).with_name("jupyter")
        self.process = subprocess.Popen([jupyter, "server", "--log-level=WARN", *settings], env=environment, cwd=root)

    async def ready(self):
        self.url = await until("the server is ready", self.where)
        return self

    def where(self):
        """Nothing until its file is there, and written to its end."""
        for file in Path(self.runtime.name).glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):
                return json.loads(file.read_text())["url"]

    async def ask(self, method, address, **body):
        request = HTTPRequest(
            f"{self.url}api/{address}", method=method, headers={"Authorization": f"token {TOKEN}"}, request_timeout=LONGEST_S,
            body=json.dumps(body) if method == "POST" else None,
        )
        reply = await AsyncHTTPClient().fetch(request)
        return json.loads(reply.body or "null")

    async def open(self, notebook):
        return (await self.ask("POST", "kernels", name="quantlab", path=notebook))["id"]

    async def execute(self, kernel, code, expected=""):
        """Runs a cell by a connection of its own, as a notebook's is after a restart, and waits for its end and for what it
        is expected to say: evcxr sends that from another thread, and it can come after the end."""
        address = f"{self.url.replace('http', 'ws', 1)}api/kernels/{kernel}/channels?session_id={uuid.uuid4().hex}&token={TOKEN}"
        channel = await websocket_connect(address)
        request = {**Session().msg("execute_request", {"code": code, "silent": False}), "channel": "shell"}
        await channel.write_message(json.dumps(request, default=str))
        said, ended = "", False
        while not (ended and expected in said):
            try:
                message = json.loads(await asyncio.wait_for(channel.read_message(), LONGEST_S))
            except asyncio.TimeoutError:
                raise AssertionError(f"{code} said {said!r}, not {expected!r}" if ended else f"{code} did not end") from None
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            content = message["content"]
            said += content.get("text", "") + "\n".join(content.get("traceback", []))
            ended |= message["msg_type"] == "status" and content["execution_state"] == "idle"
        channel.close()

    def kernels(self):
        """The programs that it runs kernels by, and their folders."""
        found = {}
        for pid in children(self.process.pid):
            with contextlib.suppress(OSError):
                if "kernel" in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                    found[pid] = os.readlink(f"/proc/{pid}/cwd")
        return found


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


async def until(what, holds, longest=LONGEST_S):
    end = time.monotonic() + longest
    while time.monotonic() < end:
        found = holds()
        found = await found if asyncio.iscoroutine(found) else found
        if found:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within {longest} s: {what}")


async def spare_one(server, known, folder):
    """The kernel that is there beside the known ones."""
    new = await until("there is a spare kernel", lambda: set(server.kernels()) - set(known))
    (pid,) = new
    await until("it is in its folder", lambda: server.kernels()[pid] == str(folder))
    return pid


def stands_still(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def whole_life(root):
    old, new = root / "old", root / "new"
    server = await Server(root).ready()
    other = None
    try:
        # Where notebooks were changed last.
        first = await spare_one(server, [], new)
        kernel = await server.open("new/two.ipynb")
        assert set(server.kernels()) == {first}, "the spare kernel is the notebook's, and no other was started"
        await server.execute(kernel, 'println!("in {}.", std::env::current_dir()?.display());\nlet kept = 1;', f"in {new}.")

        # A restart takes the next one, where the notebook's new connection finds it.
        second = await spare_one(server, [first], new)
        other = await Server(root).ready()
        await asyncio.sleep(spare.QUIET_S + 3)
        assert not other.kernels(), "one user has one spare kernel"
        await server.ask("POST", f"kernels/{kernel}/restart")
        assert second in server.kernels() and first not in server.kernels(), server.kernels()
        await server.execute(kernel, 'println!("{}", kept);', "cannot find value `kept`")
        other.process.kill()

        # A kernel that dies is started anew at the ports that its notebook is connected to.
        third = await spare_one(server, [second], new)
        file = Path(server.runtime.name) / f"kernel-{kernel}.json"
        ports = json.loads(file.read_text())
        os.killpg(second, signal.SIGKILL)
        await until("it is started again", lambda: set(server.kernels()) - {second, third})
        assert json.loads(file.read_text()) == ports and third in server.kernels()
        await server.execute(kernel, "let one = 1;")

        # Another folder's notebook is not for it; and while a cell runs, it does nothing.
        elsewhere = await server.open("old/one.ipynb")
        await until("it has ended", lambda: third not in server.kernels())
        await server.execute(elsewhere, "let one = 1;")
        known = list(server.kernels())
        fourth = await spare_one(server, known, old)
        cell = asyncio.ensure_future(
            server.execute(elsewhere, "std::thread::sleep(std::time::Duration::from_secs(4));")
        )
        await until("it stands still", lambda: stands_still(fourth))
        await cell
        await until("it goes on", lambda: not stands_still(fourth))

        # However the server ends.
        server.process.kill()
        server.process.wait()
        await until("all kernels have ended", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in [*known, fourth]))
    finally:
        for one in (server, other):
            if one:
                one.process.kill()


async def nobody_leaves_before_the_answer():
    """The control channel is not asked at all, and the shell channel stays open until all that was asked is answered."""
    requests = []

    class Stream:
        heard = left = None

        def on_recv(self, heard):
            self.heard = heard

        def close(self):
            self.left = len(requests)

        closed = stop_on_recv = lambda self: False

    class Manager:
        execution_state, ports = "idle", [1, 2]
        connect_shell = lambda self: shell

    class Connection(connection.Connection):
        kernel_manager, kernel_id, multi_kernel_manager = Manager(), "one", {"one"}
        kernel_info_timeout, channels, _close_future = LONGEST_S, {}, asyncio.Future()
        session = type("Session", (), {"send": lambda self, stream, kind: requests.append((stream, kind))})()

    shell, iopub = Stream(), Stream()
    asking = Connection.__new__(Connection)
    asking.channels = {"iopub": iopub}
    # However long the answers take here.
    connection.LONGEST_WAIT_S = LONGEST_S
    asked = asyncio.ensure_future(asking.is_heard())
    await until("it has asked twice", lambda: len(requests) >= 2)
    iopub.heard("busy")
    # It does not ask again.
    assert requests == [(shell, "kernel_info_request")] * len(requests)
    for answer in range(len(requests) - 1):
        shell.heard(answer)
    await asyncio.sleep(1)
    assert shell.left is None and not asked.done(), "an answer is still to come"
    shell.heard("the last answer")
    await asked
    await until("the channel is closed", lambda: shell.left == len(requests))

    # A page that was closed or loaded again meanwhile.
    shell.left, asking = None, Connection.__new__(Connection)
    asking.channels = kept = {"iopub": iopub}
    asked = asyncio.ensure_future(asking.is_heard())
    await asyncio.sleep(0.1)
    Connection._close_future.set_result(None)
    await asyncio.wait_for(asked, LONGEST_S)
    assert asking.channels == {} and kept, "the streams are not its own any more"
    await asyncio.sleep(1.5 * connection.LEAVES_WITHIN_S)
    assert shell.left is None, "an answer is still to come"
    shell.heard("it")
    await until("the channel is closed then", lambda: shell.left)

    # Jupyter's own class gives way, a gateway's does not.
    for before, after in [(ZMQChannelsWebsocketConnection, connection.Connection), (int, int)]:
        settings = {"kernel_websocket_connection_class": before}
        application = type("Application", (), {"settings": settings})
        connection._load_jupyter_server_extension(type("Server", (), {"web_app": application}))
        assert settings["kernel_websocket_connection_class"] is after


async def who_asked_a_spare_kernel_stays_for_the_answer():
    """Also when it is a notebook's meanwhile; and not for one that has ended."""

    class Client:
        answer = left = None

        async def get_shell_msg(self, timeout):
            await asyncio.sleep(0.01)
            if self.answer is None:
                raise Empty
            return {"msg_type": self.answer}

        def stop_channels(self):
            self.left = True

        start_channels = complete = lambda self, *_args, **_settings: None

    class Manager:
        async def start_kernel(self, cwd):
            pass

        client = lambda self: client
        provisioner = type("Provisioner", (), {"process": type("Process", (), {"poll": lambda _self: ended})()})()

    def ask():
        asked = spare.Spare.__new__(spare.Spare)
        asked.manager, asked.folder, asked.lock = Manager(), "/there", contextlib.ExitStack()
        asked.starting = asyncio.ensure_future(asked.start())
        return asked

    client, ended = Client(), None
    asked = ask()
    await asyncio.sleep(0.1)
    asked.leave()
    await asyncio.sleep(0.1)
    assert not client.left and not asked.starting.done()
    client.answer = "complete_reply"
    await asked.starting
    assert client.left

    client, ended = Client(), 1
    await ask().starting
    assert client.left


async def not_what_a_new_one_would_be():
    """A spare kernel that was made from another library is not handed out."""

    class Other:
        folder, key, ended = "/there", "before the edit", False
        process = is_alive = lambda self: True

        def end(self):
            self.ended = True

    async def state(_folder):
        return {"key": "after the edit"}

    keeper = spare.Keeper.__new__(spare.Keeper)
    keeper.state, keeper.spare = state, (other := Other())
    assert await keeper.take("/there") is None and other.ended and keeper.spare is None


def memory(root):
    """The machine's memory counts, or that of the tightest group: in the cases that the library is tested on, too."""
    cases = Path(os.environ["CARGO_MANIFEST_DIR"], "../support-crate/src/model/memory/cases.json")
    for number, case in enumerate(json.loads(cases.read_text())):
        proc, cgroups = root / f"{number}/proc", root / f"{number}/cgroup"
        files = {root / f"{number}" / path: text for path, text in case["files"].items()}
        for groups, (left, total) in case["left"].items():
            for path, text in {**files, proc / "self/cgroup": groups}.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            assert spare.free_memory(proc, cgroups) == (left / total, total), (case["what"], groups)
    # What it takes would have to be given back at once.
    assert not spare.has_room(0.3, 4 << 30) and spare.has_room(0.4, 4 << 30) and spare.has_room(0.3, 24 << 30)


def folders(root):
    """Where notebooks were changed last; if all are as old, the first by name."""
    assert spare.likely_folder(root) is None
    (root / ".#one.ipynb").symlink_to("nothing")
    for at, name in enumerate(["b/one.ipynb", "a/two.ipynb", "c/three.ipynb"]):
        (root / name).parent.mkdir()
        (root / name).write_text("{}")
        os.utime(root / name, (at, at))
    assert spare.likely_folder(root) == str(root / "a")
    os.utime(root / "c/three.ipynb", (1e6, 1e6))
    assert spare.likely_folder(root) == str(root / "c")


def off():
    """By the setting."""
    os.environ[spare.SETTING] = "0"
    spare._load_jupyter_server_extension(None)
    assert spare.keeper is None


with tempfile.TemporaryDirectory() as name:
    place = Path(name).resolve()
    for part in ("memory", "folders", "root/old", "root/new"):
        (place / part).mkdir(parents=True)
    memory(place / "memory")
    folders(place / "folders")
    asyncio.run(nobody_leaves_before_the_answer())
    asyncio.run(who_asked_a_spare_kernel_stays_for_the_answer())
    asyncio.run(not_what_a_new_one_would_be())
    for notebook in ("old/one.ipynb", "new/two.ipynb"):
        (place / "root" / notebook).write_text("{}")
    os.utime(place / "root/old/one.ipynb", (0, 0))
    asyncio.run(whole_life(place / "root"))
    off()
