"""The hub, with the settings of a class, alone in a network of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import requests

from common import ADDRESS, GROUP, MEMORY

CONFIG = Path(__file__).resolve().parents[1] / "jupyterhub_config.py"
# Names the scratch folder, once this program is in its own network.
OWN_NETWORK = "QUANTLAB_TRY_IN"


def into_own_network(scratch):
    """Becomes this program again, where there are no other hubs, and no network."""
    scratch.mkdir(exist_ok=True)
    scratch.chmod(0o755)
    if not shutil.which("configurable-http-proxy"):
        install = ["npm", "install", "--silent", "--prefix", scratch / "npm", "configurable-http-proxy"]
        subprocess.run(install, check=True)
        os.environ["PATH"] = f"{scratch}/npm/node_modules/.bin:{os.environ['PATH']}"
    os.environ[OWN_NETWORK] = str(scratch)
    again = ["unshare", "--net", "--mount", "--uts", sys.executable, *sys.argv]
    if Path("/run/systemd/system").is_dir():
        # There systemd rules the control groups, and gives this program one of its own to divide.
        again = ["systemd-run", "--scope", "--quiet", "--property=Delegate=yes", *again]
    os.execvp(again[0], again)


def release_in(shared):
    """The set-up that kernels take now, of those that a shared folder keeps."""
    current = shared / "current"
    return current.resolve() if current.exists() else shared


class Hub:
    def __init__(self, shared, release, scratch, place):
        self.shared, self.release, self.scratch, self.place, self.process = shared, release, scratch, place, None
        self.state = scratch / "state"

    def start(self, **settings):
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HUB_SHARED": str(self.shared),
            "HUB_STATE": str(self.state),
            "HUB_EXCHANGE": str(self.scratch / "exchange"),
            "HUB_LEARNERS": GROUP,
            "HUB_TEACHERS": "quantlab-try-0",
            "HUB_MEMORY": str(MEMORY),
            **self.place.settings(),
            **settings,
        }
        log = self.scratch / "hub.log"
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [self.release / "python/bin/jupyterhub", "--config", CONFIG],
                env=environment,
                cwd=self.scratch,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        for _ in range(120):
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{ADDRESS}/hub/health", timeout=5).ok:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.5)
        sys.exit(log.read_text()[-4000:] + "\nthe hub did not start")

    def stop(self):
        """Not the servers: they outlive the hub."""
        if not self.process:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.state / "proxy.pid").read_text()), signal.SIGTERM)

    def restart(self, **settings):
        self.stop()
        self.start(**settings)
