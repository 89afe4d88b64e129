"""Servers as jobs of Slurm, on the nodes of a cluster: for HUB_SLURM=yes. docs/cluster.md says how to set it up."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import batchspawner
from batchspawner.batchspawner import JobStatus
from jupyterhub.apihandlers import APIHandler, default_handlers
from tornado import web


def program(name):
    # Jobs have the user's PATH, on which Slurm's programs need not be.
    if path := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"):
        return path
    sys.exit(f"the hub runs servers by Slurm and needs its program {name}, which is not on PATH here")


RUNUSER, SBATCH, SQUEUE, SCANCEL = map(program, ["runuser", "sbatch", "squeue", "scancel"])
# Of Slurm's states. A job that is COMPLETING has no server any more, like one that has ended.
WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}


class NodeSpawner(batchspawner.SlurmSpawner):
    """A server that is a job: started by its user's sbatch, looked for and ended by root."""

    exec_prefix = RUNUSER + " -u {username} --"
    batch_submit_cmd = f"{SBATCH} --parsable"
    # A server that is moved by itself to another node would be there without its kernels, and the hub would look for
    # it on the old one. So it is lost with its node, and its learner starts the next by a click.
    batch_script = """#!/bin/bash
#SBATCH --job-name=quantlab --output={{homedir}}/.quantlab-server.log --chdir={{homedir}} --export={{keepvars}}
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task={{nprocs}} --mem={{memory}} --no-requeue
{% if partition %}#SBATCH --partition={{partition}}
{% endif %}{% if runtime %}#SBATCH --time={{runtime}}
{% endif %}{% if options %}#SBATCH {{options}}
{% endif %}set -eu
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH
{{prologue}}
exec {{cmd}}
"""

    def cmd_formatted_for_batch(self):
        shell, script, *server = self.cmd
        # It finds a port on the node, and tells the hub.
        batch = str(Path(server[0]).with_name("batchspawner-singleuser"))
        return shlex.join([shell, script, batch, *server, *self.get_args()])

    async def start(self):
        """batchspawner's waits for the port of a server that has ended, until the time is up."""
        self.port, since = 0, round(time.time()) - 60
        if self.server:
            self.server.port = 0
        try:
            await self.submit_batch_script()
        except RuntimeError as error:
            raise self.failed(f"Slurm takes no server of yours: {error}") from error
        while (status := await self.query_job_status()) != JobStatus.RUNNING or not self.port:
            if status == JobStatus.NOTFOUND:
                raise self.failed(f"The server ended at once. {await self.last_lines(since)}")
            await asyncio.sleep(1)
        self.ip = self.state_gethost()
        self.db.commit()
        return self.ip, self.port

    def failed(self, message):
        """An error whose message is on the page that waits for the server."""
        error = RuntimeError(message)
        error.jupyterhub_message = message
        return error

    async def last_lines(self, since):
        """What the server wrote before it ended. Read as the user, and little of it: the file is theirs."""
        read = 'test -f "$0" && find "$0" -newermt "@$1" -exec tail -c 1000 {} +'
        command = shlex.join(["timeout", "5", "sh", "-c", read, f"{self.req_homedir}/.quantlab-server.log", str(since)])
        with contextlib.suppress(RuntimeError, ValueError):
            written = await self.run_command(f"{RUNUSER} -u {self.user.name} -- {command}", env=self.get_env())
            return " ".join(written.splitlines()[-3:])
        return ""

    async def submit_batch_script(self):
        # What a learner writes into a request to start a server would come before the limits.
        self.user_options = {}
        # One that a hub has lost, as when it was started again while the job waited.
        with contextlib.suppress(RuntimeError):
            await self.run_command(f"timeout 30 {SCANCEL} --user={self.user.name} --name=quantlab")
        return await super().submit_batch_script()

    async def query_job_status(self):
        """Gone is what Slurm says is gone. When it says nothing, as while its controller is started again, the server
        is taken to be there: the hub would leave it running, and its learner start a second one."""
        if not self.job_id:
            return JobStatus.NOTFOUND
        try:
            command = f"timeout 30 {SQUEUE} --noheader --jobs={self.job_id} --format='%T %B'"
            self.job_status = await self.run_command(command)
        except (RuntimeError, OSError, ValueError) as error:
            return JobStatus.NOTFOUND if "Invalid job id" in str(error) else JobStatus.UNKNOWN
        state = self.job_status.partition(" ")[0]
        if state in RUNNING:
            return JobStatus.RUNNING
        return JobStatus.PENDING if state in WAITING else JobStatus.NOTFOUND

    async def cancel_batch_job(self):
        if self.job_id:
            await self.run_command(f"timeout 30 {SCANCEL} {self.job_id}")


class Port(APIHandler):
    """By which a server tells its port. In the place of batchspawner's own, which takes any attribute of the spawner,
    and so what the hub would run as root."""

    @web.authenticated
    def post(self):
        token, body = self.get_auth_token(), self.get_json_body()
        port = body.get("port") if isinstance(body, dict) else None
        spawner = next((own for own in self.current_user.spawners.values() if own.api_token == token), None)
        if spawner is None or not isinstance(port, int) or not 1024 <= port < 65536:
            raise web.HTTPError(400, "this takes the port of the server whose token comes with it")
        spawner.port = port
        self.set_status(201)
        self.finish(json.dumps({"message": "the hub knows the port"}))


default_handlers[:] = [
    (path, Port if handler is batchspawner.api.BatchSpawnerAPIHandler else handler, *rest)
    for path, handler, *rest in default_handlers
]


def configure(c, setting, *, memory, cpus, processes, checks_firewall):
    """Sets the hub up for a cluster: MiB, processors and processes for each server."""
    c.JupyterHub.spawner_class = NodeSpawner
    c.NodeSpawner.start_timeout = 600  # seconds, with those in the queue
    c.NodeSpawner.req_memory = f"{memory}M"
    c.NodeSpawner.req_nprocs = str(max(1, round(cpus)))
    c.NodeSpawner.req_partition = setting("PARTITION", "")  # without these two, Slurm's own
    c.NodeSpawner.req_runtime = setting("TIME", "")  # after it, a server is ended
    c.NodeSpawner.req_options = setting("OPTIONS", "")  # others of sbatch, such as "--account=class"
    c.NodeSpawner.req_prologue = f"ulimit -u {processes} || true"
    if checks_firewall:
        check = '/usr/bin/python3 "$QUANTLAB_LESSONS/../environment/hub/kernel_address.py" --check'
        c.NodeSpawner.req_prologue += f"\n{check}"
    # Nodes speak with the hub, and its proxy with nodes.
    c.JupyterHub.hub_ip = "0.0.0.0"
    c.JupyterHub.hub_connect_ip = setting("HOST", os.uname().nodename)  # the hub's machine, as nodes know it
    # Seconds in which the way to a server that has ended may lead to another's that took its port.
    c.Spawner.poll_interval = 15
