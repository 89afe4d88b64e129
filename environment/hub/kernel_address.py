#!/usr/bin/python3
"""The address of a machine on which a user's kernels listen, and the firewall that keeps it for this user.

A kernel's messages go over TCP, signed but not encrypted: without this, every user of the machine could read what
others' cells print. The hub's configuration takes it as a module. On a cluster each node runs it:

    Prolog=/etc/slurm/prolog.d/*        in slurm.conf: as root, before a job of the user $SLURM_JOB_UID
    python3 kernel_address.py --check   as the user, in the job: fails where the firewall is not there
"""

import os
import shutil
import socket
import subprocess
import sys

NFT = shutil.which("nft", path="/usr/sbin:/usr/bin:/sbin")


def address_of(uid):
    return f"127.{128 + (uid >> 16) % 128}.{(uid >> 8) % 256}.{uid % 256}"


def keep_address(uid):
    """From here on only this user, and root, can connect to it."""
    # All of it each time: a firewall that is loaded anew has forgotten it.
    rules = f"""
        add table ip quantlab_hub
        add set ip quantlab_hub own {{ type ipv4_addr . uid; }}
        add element ip quantlab_hub own {{ {address_of(uid)} . {uid} }}
        add chain ip quantlab_hub output {{ type filter hook output priority 0; }}
        flush chain ip quantlab_hub output
        add rule ip quantlab_hub output ip daddr 127.128.0.0/9 meta skuid != 0 ip daddr . meta skuid != @own reject
    """
    subprocess.run([NFT or "nft", "-f", "-"], input=rules, text=True, check=True)


def can_connect(address):
    with socket.create_server((address, 0)) as server:
        try:
            socket.create_connection(server.getsockname(), 5).close()
        except OSError:
            return False
    return True


def is_kept():
    """Whether of two addresses only this user's is open to them. Nobody but root can read the firewall's rules."""
    uid = os.getuid()
    return can_connect(address_of(uid)) and not can_connect(address_of(uid ^ 1))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if os.getuid() != 0 and not is_kept():
            sys.exit(
                "On this node others could read what your kernels print: its Prolog has not run "
                "kernel_address.py (docs/cluster.md)."
            )
    else:
        # It never fails: Slurm would take the node from everyone. A server looks for itself whether it is safe.
        try:
            keep_address(int(os.environ["SLURM_JOB_UID"]))
        except Exception as error:
            print(f"kernel_address.py: {error}", file=sys.stderr)
