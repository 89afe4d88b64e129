"""What a cluster does that a machine does not: the controller is started again, a node is drained, one dies."""

import contextlib
import html
import shutil
import time

import requests

from cluster import PROLOG
from common import ADDRESS, LESSON, all_at_once, holds, step
from machine import check_limits
from users import Kernel

KEEP = 'let kept = String::from("kept");'
SHOW = 'println!("{kept}");'
SLURM_REFUSES = ["Access/permission denied", "Invalid user id", "only permitted by root"]
NOTEBOOK = f"notebooks/{LESSON}/own.ipynb"


def lose_nodes(learners, hub, cluster):
    step(f"{len(learners)} learners on {len(cluster.nodes)} nodes")
    hub.restart()
    times = all_at_once(log_in, learners)
    print(f"  a server is ready after {min(times):.0f} to {max(times):.0f} s")
    places = all_at_once(start_working, learners)
    print("  " + ", ".join(f"{user.name} on {place}" for user, place in zip(learners, places)))
    holds("they are spread over the nodes", abs(places.count("node1") - places.count("node2")) <= 1)

    step("what one learner cannot do to another by Slurm, and by the hub")
    here = [user for user, place in zip(learners, places) if place == "node1"]
    there = [user for user, place in zip(learners, places) if place == "node2"]
    attack_by_slurm(here[0], here[1], cluster)
    attack_by_hub(here[0], cluster)

    step("the controller is started again, and the hub's munged")
    cluster.kill_controller()
    # Longer than the hub waits until it looks after a server again.
    time.sleep(45)
    holds("without it servers go on", all(all_at_once(goes_on, learners)))
    cluster.start_controller()
    time.sleep(20)
    cluster.stop_munged()
    # Not as long as Slurm takes to give the nodes up: its controller needs it to hear them.
    time.sleep(20)
    cluster.start_munged()
    time.sleep(20)
    # The hub would have taken away the way to a server that it had given up.
    holds("and after it, by the hub", all(all_at_once(goes_on, learners)))

    step("nodes lose their firewall")
    cluster.prolog.write_text("#!/bin/sh\n")
    for node in cluster.nodes:
        cluster.run_on(node, "nft", "delete", "table", "ip", "quantlab_hub")
    stop_server(here[0])
    page = fail_to_start(here[0])
    holds("a server does not start, and says why", "others could read what your kernels print" in page, page[-200:])
    shutil.copy(PROLOG, cluster.prolog)
    # The others' addresses are closed to themselves now; they would have to start their servers again.
    for node in cluster.nodes:
        for user in learners:
            cluster.run_on(node, "env", f"SLURM_JOB_UID={user.uid}", cluster.prolog)
    log_in(here[0])
    start_working(here[0])

    step("node1 is drained")
    cluster.scontrol("update", "nodename=node1", "state=drain", "reason=maintenance")
    holds("its learners go on", all(all_at_once(goes_on, here)))
    stop_server(here[0])
    seconds = log_in(here[0])
    start_working(here[0])
    _, node = cluster.job(here[0])
    holds("who starts anew is on the other", node == "node2", f"{node}, after {seconds:.0f} s")
    there.append(here.pop(0))
    cluster.scontrol("update", "nodename=node1", "state=resume")

    step("node1 dies")
    for user in here:
        write_notebook(user)
    cluster.kill_node("node1")
    start = time.monotonic()
    holds("the others go on", all(all_at_once(goes_on, there)))
    while "down" not in cluster.states()["node1"] and time.monotonic() - start < 300:
        time.sleep(1)
    print(f"  Slurm knows after {time.monotonic() - start:.0f} s (SlurmdTimeout: 60)")
    all_at_once(log_in, here)
    print(f"  its learners have a server again {time.monotonic() - start:.0f} s after its death")
    nodes = [cluster.job(user)[1] for user in here]
    holds("on the other", nodes == ["node2"] * len(here), str(nodes))
    holds("with their notebooks", all(read_notebook(user) for user in here))
    all_at_once(start_working, here)
    holds("and work again", all(all_at_once(goes_on, here)))

    step("it comes back")
    cluster.start_node("node1")
    start = time.monotonic()
    while cluster.states()["node1"] != "idle" and time.monotonic() - start < 120:
        time.sleep(1)
    stop_server(here[0])
    log_in(here[0])
    _, node = cluster.job(here[0])
    holds("and takes the next server", node == "node1", str(node))
    all_at_once(stop_server, learners)


def log_in(user):
    return user.log_in()


def fail_to_start(user):
    """The page that says why."""
    page = user.web.get(f"{ADDRESS}/hub/spawn", timeout=60)
    for _ in range(60):
        if "Spawn failed" in page.text:
            break
        time.sleep(1)
        page = user.web.get(f"{ADDRESS}/hub/spawn-pending/{user.name}", timeout=60)
    return html.unescape(page.text)


def start_working(user):
    """A kernel with a variable; returns the node."""
    user.kernel = Kernel(user)
    _, status, text = user.kernel.run(KEEP)
    if status != "ok":
        print(f"  {user.name}: {text[:300]}")
    return user.place.job(user)[1]


def goes_on(user):
    with contextlib.suppress(requests.RequestException, OSError):
        user.kernel.connect()
        _, status, text = user.kernel.run(SHOW, 90)
        return status == "ok" and text.strip() == "kept"
    return False


def stop_server(user):
    header = {"X-XSRFToken": user.cookie("/hub/")}
    user.web.delete(f"{ADDRESS}/hub/api/users/{user.name}/server", headers=header, timeout=60).raise_for_status()
    while user.processes():
        time.sleep(0.5)


def write_notebook(user):
    cell = {"cell_type": "markdown", "metadata": {}, "source": user.name}
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    user.ask("PUT", f"api/contents/{NOTEBOOK}", json={"type": "notebook", "format": "json", "content": content})


def read_notebook(user):
    return user.ask("GET", f"api/contents/{NOTEBOOK}")["content"]["cells"][0]["source"] == user.name


def attack_by_slurm(thief, victim, cluster):
    number, node = cluster.job(victim)

    def refused(what, command):
        done = thief.run_as(command, timeout=60)
        # Not by the program's status: scontrol's says nothing.
        is_refused = not done.stdout and any(text in done.stderr for text in SLURM_REFUSES)
        holds(f"cannot {what}", is_refused, done.stdout[:80] or done.stderr[-120:])

    # Slurm's programs, with the thief's rights and not root's.
    refused("end another's job", ["scancel", number])
    refused("enter another's job", ["srun", f"--jobid={number}", "--overlap", "id"])
    refused("change another's job", ["scontrol", "update", f"jobid={number}", "timelimit=1"])
    refused("drain a node", ["scontrol", "update", f"nodename={node}", "state=drain", "reason=x"])
    refused("start a job as another", ["sbatch", f"--uid={victim.uid}", "--wrap", "id"])
    refused("read another's script", ["scontrol", "write", "batch_script", number, "-"])
    seen = thief.run_as(["squeue", "-h", "-o", "%u"]).stdout.split()
    holds("sees no jobs but their own", seen and set(seen) == {thief.name}, str(seen))
    holds("the victim's job is still there", cluster.job(victim)[0] == number)


def attack_by_hub(thief, cluster):
    environment = thief.server_environment()
    token = {"Authorization": f"token {environment['JUPYTERHUB_API_TOKEN']}"}
    mark = thief.home / "not-root"
    url = f"{environment['JUPYTERHUB_API_URL']}/batchspawner"
    command = f"id > {mark}; squeue"
    for body in [{"batch_query_cmd": command}, {"port": 8000, "exec_prefix": command}, {"port": 22}, {}, []]:
        requests.post(url, headers=token, json=body, timeout=30)
    stop_server(thief)
    ask = {"X-XSRFToken": thief.cookie("/hub/")}
    more = {"memory": "9000M", "prologue": "id", "options": "--comment=own"}
    thief.web.post(f"{ADDRESS}/hub/api/users/{thief.name}/server", headers=ask, json=more, timeout=120)
    log_in(thief)
    start_working(thief)
    holds("cannot set the commands of the hub", not mark.exists())
    check_limits(thief)
