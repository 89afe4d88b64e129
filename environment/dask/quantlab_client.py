"""How `cargo lab` speaks to a Dask scheduler: what happens goes to standard output, a JSON object a line, as kernel.py does."""

import ctypes
import json
import logging
import signal
import sys
import time

from distributed import CancelledError, Client, wait

# How long a scheduler may be away.
AWAY_AT_MOST_S = 600
PR_SET_PDEATHSIG = 1


def say(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)


def some_done(futures):
    """Those that are done: as soon as one is; none after some seconds, in which workers may have come or gone."""
    if not futures:
        time.sleep(2)
        return set()
    try:
        return wait(futures, timeout=5, return_when="FIRST_COMPLETED").done
    except TimeoutError:
        return set()


def work_with(address, name, waiting, work_off):
    """Calls `work_off(client)` while anything waits, over as many connections as it takes; `waiting()` says what does.

    Ends the program where the scheduler stays away.
    """
    # A connection that is lost is told here, in a line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    # Whoever waits for it may be killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    away_since = None
    while waiting():
        try:
            try:
                client = Client(address, timeout=20, name=name)
            except ValueError as error:
                say("failure", message=f"{address} is no scheduler's address: {error}")
                sys.exit(1)
            with client:
                away_since = None
                try:
                    work_off(client)
                except (OSError, CancelledError) as error:
                    raise ConnectionError(error) from error
                except Exception as error:
                    if client.status != "running":
                        raise ConnectionError(error) from error
                    raise
        except OSError as error:
            now = time.monotonic()
            if away_since is None:
                away_since = now
                cause = type(error.args[0] if error.args and isinstance(error.args[0], Exception) else error).__name__
                say("waiting", why=f"the scheduler at {address} does not answer ({cause}); {waiting()} wait for it")
            if now - away_since > AWAY_AT_MOST_S:
                say("failure", message=f"no scheduler at {address} for {AWAY_AT_MOST_S} s; what is done is kept: the same command goes on")
                sys.exit(1)
            time.sleep(2)
