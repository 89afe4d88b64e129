"""Users of the system who are there for the trial only, with their browsers and kernels."""

import contextlib
import json
import os
import pwd
import secrets
import signal
import subprocess
import time
import uuid
from pathlib import Path

import requests
import websocket

from common import ADDRESS, LESSON


def is_of_server(line):
    return "jupyterhub-singleuser" in line


class User:
    """A user of the system, and their browser."""

    def __init__(self, number, scratch, groups, place):
        """`place` is the machine or the cluster that their server runs on."""
        self.place = place
        self.name, self.password = f"quantlab-try-{number}", secrets.token_hex(8)
        self.home = scratch / "home" / self.name
        options = ["--create-home", "--home-dir", self.home, "--shell", "/bin/bash", "--groups", groups]
        subprocess.run(["useradd", *options, self.name], check=True)
        subprocess.run(["chpasswd"], input=f"{self.name}:{self.password}", text=True, check=True)
        self.uid, self.gid = pwd.getpwnam(self.name)[2:4]
        self.base = f"{ADDRESS}/user/{self.name}"

    def log_in(self):
        """As a person does: the form, then the page of the server, which starts it."""
        start, self.web = time.monotonic(), requests.Session()
        self.web.get(f"{ADDRESS}/hub/login", timeout=30)
        form = {"username": self.name, "password": self.password, "_xsrf": self.cookie("/hub/")}
        # It leads to the server, which may be lost with its node.
        self.web.post(f"{ADDRESS}/hub/login", data=form, timeout=60)
        while True:
            page = self.web.get(f"{ADDRESS}/hub/spawn", timeout=60)
            if page.url.startswith(self.base) and page.ok:
                return time.monotonic() - start
            if time.monotonic() - start > 180:
                raise TimeoutError(f"{self.name}'s server did not start: {page.status_code} {page.url}")
            time.sleep(0.5)

    def cookie(self, path):
        return next((c.value for c in self.web.cookies if c.name == "_xsrf" and c.path == path), "")

    def xsrf(self):
        """The header that a server asks for beside its cookie."""
        return {"X-XSRFToken": self.cookie(f"/user/{self.name}/")}

    def ask(self, method, path, **more):
        reply = self.web.request(method, f"{self.base}/{path}", headers=self.xsrf(), timeout=120, **more)
        reply.raise_for_status()
        return reply.json() if reply.content else None

    def run_as(self, command, env=None, **more):
        """A command with this user's rights, where their server is."""
        rights = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups"]
        return subprocess.run(
            [*self.place.enter(self), *rights, *command],
            cwd=self.home,
            env=env or {"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
            umask=0o077,
            text=True,
            capture_output=True,
            **more,
        )

    def processes(self):
        """Their processes' command lines, by number."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                # The folder of a process that must not be looked into is root's.
                is_theirs = folder.stat().st_uid == self.uid
                if is_theirs or f"Uid:\t{self.uid}\t" in (folder / "status").read_text():
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = line.decode(errors="replace")
        return found

    def server(self):
        """The number of their server's process."""
        return next(pid for pid, line in self.processes().items() if is_of_server(line))

    def server_environment(self):
        text = Path(f"/proc/{self.server()}/environ").read_text()
        return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)

    def remove(self):
        folders = self.place.control_groups(self)
        for _ in range(50):
            pids = self.processes()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                break
            time.sleep(0.1)
        subprocess.run(["userdel", "--remove", self.name], capture_output=True)
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


class Kernel:
    """A kernel of a user's, over the server's interface, as JupyterLab uses it."""

    def __init__(self, user):
        self.user = user
        path = f"notebooks/{LESSON}/starter.ipynb"
        body = {"kernel": {"name": "quantlab"}, "name": "starter.ipynb", "type": "notebook", "path": path}
        self.id = user.ask("POST", "api/sessions", json=body)["kernel"]["id"]
        self.connect()

    def connect(self):
        """Also anew, after a pause: a browser would have answered the server's pings meanwhile."""
        user = self.user
        cookies = [f"{c.name}={c.value}" for c in user.web.cookies if f"/user/{user.name}/".startswith(c.path)]
        url = f"{user.base.replace('http', 'ws')}/api/kernels/{self.id}/channels?session_id={uuid.uuid4().hex}"
        self.socket = websocket.create_connection(url, cookie="; ".join(cookies), timeout=300, header=user.xsrf())

    def send(self, code):
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
        header |= {"username": "", "session": "try", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        message = {"channel": "shell", "header": header, "content": content}
        self.socket.send(json.dumps(message | {"parent_header": {}, "metadata": {}, "buffers": []}))
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
