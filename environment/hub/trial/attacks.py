"""What one learner may not do to another."""

import json

import requests

from common import ADDRESS, LESSON, holds

# Other failures, such as a command that is not there, would prove nothing.
REFUSALS = ["Permission denied", "Operation not permitted", "Read-only file system", "Connection refused", "timed out"]
CONNECT = "import socket; socket.create_connection(('{}', {}), 5); print('connected')"


def connection_file(user):
    """It says where a kernel of theirs listens."""
    return next(user.home.glob(".local/share/jupyter/runtime/kernel-*.json"))


def attack_on_machine(thief, victim, hub):
    server, processes = victim.server(), victim.processes()
    kernel = next(pid for pid, line in processes.items() if "evcxr_jupyter" in line)
    connection = connection_file(victim)
    ports = json.loads(connection.read_text())
    live = next(victim.home.glob(".cache/quantlab-kernels*/live/kernel-*"))
    group = thief.place.control_groups(thief)[0]
    state, release = hub.state, hub.release

    def refused(what, command):
        done = thief.run_as(["sh", "-c", command], timeout=60)
        is_refused = done.returncode and not done.stdout.strip() and any(text in done.stderr for text in REFUSALS)
        holds(f"cannot {what}", is_refused, done.stdout[:80] or done.stderr[-80:])

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
    refused("signal another's processes", f"kill {' '.join(map(str, processes))}")
    refused("read the hub's secrets", f"cat {state}/cookie_secret {state}/hub.sqlite")
    refused("change the shared set-up", f"touch {release}/x || echo x >> {release}/installed.json")
    refused("leave the control group", f"echo $$ > {group.parent}/cgroup.procs")
    refused("raise the limit", f"for f in {group}/*limit* {group}/*.max; do echo 1 > $f && echo raised; done; false")
    for name in ("iopub_port", "shell_port", "control_port"):
        connect = CONNECT.format(ports["ip"], ports[name])
        refused(f"connect to another's kernel ({name})", f'/usr/bin/python3 -c "{connect}"')
    own = json.loads(connection_file(thief).read_text())
    done = thief.run_as(["/usr/bin/python3", "-c", CONNECT.format(own["ip"], own["iopub_port"])])
    holds("can connect to one's own kernel", "connected" in done.stdout, done.stderr[-200:])


def attack_over_web(thief, victim):
    """With the token by which their own server speaks with the hub, and with their browser."""
    token = {"Authorization": f"token {thief.server_environment()['JUPYTERHUB_API_TOKEN']}"}
    account = f"{ADDRESS}/hub/api/users/{victim.name}"
    for what, url in [
        ("files", f"{victim.base}/api/contents/notebooks"),
        ("kernels", f"{victim.base}/api/kernels"),
        ("account", account),
        ("tokens", f"{account}/tokens"),
    ]:
        with_token = requests.get(url, headers=token, timeout=30, allow_redirects=False)
        in_browser = thief.web.get(url, timeout=30)
        holds(
            f"cannot get another's {what} over the web",
            not with_token.ok and not in_browser.ok,
            f"{with_token.status_code}, {in_browser.status_code}",
        )
    stop = requests.delete(f"{account}/server", headers=token, timeout=30)
    holds("cannot stop another's server", not stop.ok, str(stop.status_code))
