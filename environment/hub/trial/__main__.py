"""Tries the hub as a class would use it: as root, on a machine that has nothing else to do for ten minutes,

    DIR/current/python/bin/python environment/hub/trial DIR

where DIR is what `cargo lab setup --shared DIR` made. It makes a teacher and six learners, users of the system who are
removed at the end. The learners log in, start servers and kernels and run lesson 1, all at once; one then takes all the
memory, one loops for ever, one is idle. As one of them, it tries to read and reach what is another's. Then the teacher
releases the lesson, and a learner hands it in. It prints what it measured, and fails if something does not hold. The
hub is alone in a network of its own. With --cluster the servers run on two nodes of Slurm, which are namespaces of this
machine; one is then drained, one dies, and the controller is started again.

It needs Debian's packages of docs/class.md, and requests and websocket, which that Python has. Where there is no
configurable-http-proxy, npm fetches it.
"""

import argparse
import grp
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# A set-up for many copies this folder.
sys.dont_write_bytecode = True

import cluster
from classroom import hold_class
from common import GROUP, all_at_once, failures, step
from exchange import exchange
from hub import OWN_NETWORK, Hub, into_own_network, release_in
from machine import OneMachine
from nodes import lose_nodes
from users import User

CHECKOUT = Path(__file__).resolve().parents[3]
LEAST_LEARNERS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--learners", type=int, default=6, help="four or more [default: 6]")
    parser.add_argument("--only", choices=["class", "nodes", "nbgrader"])
    parser.add_argument("--cluster", action="store_true", help="on two nodes of Slurm; see docs/cluster.md")
    parser.add_argument(
        "--scratch", type=Path, help="a folder that everyone can enter [default: a new one, removed at the end]"
    )
    arguments = parser.parse_args()
    if arguments.learners < LEAST_LEARNERS:
        parser.error(f"--learners: {LEAST_LEARNERS} or more, since three misbehave")
    release = release_in(arguments.dir.resolve())
    if not (release / "python/bin/jupyterhub").exists():
        parser.error(f"{release} is not a shared set-up with a hub: see docs/class.md")
    if arguments.cluster and (programs := cluster.missing()):
        parser.error(f"--cluster: {', '.join(programs)} not found; see docs/cluster.md for Debian's packages")
    if os.geteuid() != 0:
        sys.exit("run this as root: it creates users")
    if OWN_NETWORK not in os.environ:
        scratch = arguments.scratch and arguments.scratch.resolve()
        into_own_network(scratch or Path(tempfile.mkdtemp(prefix="quantlab-hub-")))
    scratch = Path(os.environ[OWN_NETWORK])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # So that a time-out's signal, too, leaves no users behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))

    (scratch / "home").mkdir(exist_ok=True)
    subprocess.run(["groupadd", "--force", GROUP], check=True)
    place = cluster.Cluster(scratch, arguments.learners) if arguments.cluster else OneMachine()
    users, hub = [], Hub(arguments.dir.resolve(), release, scratch, place)
    try:
        if arguments.cluster:
            step("Slurm starts")
            place.start()
        # The first is the teacher, whom the hub knows by name, and who may read the solutions.
        owners = CHECKOUT.stat().st_gid
        users.append(User(0, scratch, grp.getgrgid(owners).gr_name if owners else "users", place))
        for number in range(1, arguments.learners + 1):
            users.append(User(number, scratch, GROUP, place))
        step("the hub starts")
        hub.start()
        if arguments.only in (None, "class"):
            hold_class(users[1:], hub)
        if arguments.cluster and arguments.only in (None, "nodes"):
            lose_nodes(users[1:], hub, place)
        if arguments.only in (None, "nbgrader"):
            step("nbgrader's round")
            all_at_once(User.log_in, users[:2])
            exchange(users[0], users[1], hub, CHECKOUT)
    finally:
        hub.stop()
        for user in users:
            user.remove()
        if arguments.cluster:
            place.stop()
        subprocess.run(["groupdel", GROUP], capture_output=True)
        for name in ["home", "state", "exchange"] if arguments.scratch else ["."]:
            shutil.rmtree(scratch / name, ignore_errors=True)
    print()
    print(f"{len(failures)} FAILED: " + "; ".join(failures) if failures else "All of it holds.")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
