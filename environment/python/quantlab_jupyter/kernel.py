"""Drives the quantlab kernel for `cargo lab`: runs notebooks, warms the kernel, times it.

Reports to standard output as JSON lines, one event a line; `cargo lab` turns them into text.
"""

import argparse
import asyncio
import atexit
import contextlib
import functools
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import Empty

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from .processes import INTERRUPTED, compute, descendants, end_with_parent, kernels, memory_mib, stop_on_signals

KERNEL = "quantlab"
# A kernel loads its dependency before it answers; after an edit of the support crate that is a build.
STARTUP_TIMEOUT_S = 1200
# A program that does not answer as a kernel by then is none.
VERSION_TIMEOUT_S = 60
# What a cell prints travels on its own path, and can arrive after the cell's "idle".
LATE_OUTPUT_S = 0.06
# On a busy machine, later: for so long as evcxr's threads run, which they do while they have something to send on.
LATE_OUTPUT_AT_MOST_S = 2
# Cells that write to standard error on purpose carry this tag.
STDERR_TAG = "allow-stderr"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def first_line(source):
    lines = [line for line in source.splitlines() if line.strip()]
    code = [line for line in lines if not line.lstrip().startswith("//")]
    return (code or lines or [""])[0].strip()


class CellFailed(Exception):
    """A cell that the kernel calls "ok" although it panicked or returned an Err."""


def silent_failure(cell):
    """What went wrong in a cell whose reply was "ok", else None.

    evcxr answers "ok" to a caught panic and to an Err that left the cell through `?`; both are seen
    only on standard error, where the library itself never writes.
    """
    if STDERR_TAG in cell.metadata.get("tags", []):
        return None
    stderr = "".join(
        out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stderr"
    ).strip()
    if not stderr:
        return None
    if re.search(r"^thread .* panicked at ", stderr, re.M):
        return "panic", stderr
    return "error", stderr


def say_score(cell):
    """The points of a check cell: its value's text, as nbgrader reads it."""
    nbgrader = cell.metadata.get("nbgrader", {})
    if not nbgrader.get("grade") or nbgrader.get("solution"):
        return
    values = [out.data.get("text/plain", "") for out in cell.outputs if out.output_type == "execute_result"]
    try:
        points = float(values[-1])
        points = points if math.isfinite(points) else None
    except (IndexError, ValueError):  # it ran, but gave no number: nothing that could be graded
        points = None
    say("score", check=nbgrader["grade_id"], points=points, max=nbgrader["points"])


class Streams:
    """For a notebook client: each stream of a cell as one output, whatever number of messages it comes in.

    Its pieces are joined when the cell has ended; joined one by one, as nbclient does, they take time that grows with the
    square of their number. And of each only the content is read: jupyter_client spends most of its time on dates.
    """

    pieces = {}
    # Whether what a cell prints is of no use any more.
    flooded = False

    def read_quickly(self):
        channel = self.kc.iopub_channel
        if getattr(channel.get_msg, "func", None) != self.get_quickly:
            channel.get_msg = functools.partial(self.get_quickly, channel)

    async def get_quickly(self, channel, timeout=None):
        while True:
            # Or a flood of messages would keep the event loop from ever looking at the time-out.
            await asyncio.sleep(0)
            if not await channel.socket.poll(None if timeout is None else int(timeout * 1000)):
                raise Empty
            parts = await channel.socket.recv_multipart()
            # What is no message is none of the kernel's.
            with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
                message = parts[parts.index(b"<IDS|MSG>") + 1 :]
                signature, header, parent, metadata, content = message[:5]
                read = json.loads(header)
                if read["msg_type"] != "stream":
                    return channel.session.deserialize(message)
                if not self.flooded and channel.session.sign([header, parent, metadata, content]) == signature:
                    return {
                        "header": read, "msg_type": "stream", "parent_header": json.loads(parent), "metadata": {},
                        "content": json.loads(content),
                    }

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "stream":
            name = msg["content"]["name"]
            if name in self.pieces:
                self.pieces[name].append(msg["content"]["text"])
                return None
            self.pieces[name] = []
        return super().process_message(msg, cell, cell_index)

    def join_streams(self, cell):
        for out in cell.outputs:
            if out.output_type == "stream" and self.pieces.get(out.name):
                lines = (out.text + "".join(self.pieces[out.name])).split("\n")
                # Not what a terminal would have shown for a moment, before the next piece of the line.
                out.text = "\n".join(line[line.rfind("\r", 0, max(0, len(line) - 1)) + 1 :] for line in lines)
        self.pieces = {}


class Client(Streams, NotebookClient):
    """nbclient that also takes in late output and fails on what evcxr reports as "ok"."""

    interrupted = False
    # Whether there is a kernel that can be interrupted.
    is_ready = False

    def interrupt_on_signal(self):
        """Ctrl-C interrupts the cell, as a notebook's stop button does; a second one ends the run at once, as the first does
        while the kernel starts."""
        loop, run = asyncio.get_running_loop(), asyncio.current_task()

        def interrupt():
            if self.interrupted or not self.is_ready:
                run.cancel()
            self.interrupted = True
            if self.is_ready:
                self.interruption = asyncio.ensure_future(ensure_async(self.km.interrupt_kernel()))

        loop.add_signal_handler(signal.SIGINT, interrupt)
        loop.add_signal_handler(signal.SIGTERM, run.cancel)

    async def async_start_new_kernel(self, **kwargs):
        # In the place of nbclient's own, after which the start waits on for a kernel that has ended.
        self.interrupt_on_signal()
        await super().async_start_new_kernel(**kwargs)

    async def end_start(self):
        """Ends a kernel that did not get as far as its first cell, and all that it has started."""
        atexit.unregister(self._cleanup_kernel)
        if self.kc:
            self.kc.stop_channels()
        if self.km and self.km.has_kernel:
            await ensure_async(self.km.shutdown_kernel(now=True))

    async def async_execute_cell(self, cell, cell_index, *args, **kwargs):
        if cell.cell_type != "code" or not cell.source.strip():
            return await super().async_execute_cell(cell, cell_index, *args, **kwargs)
        say("cell_start", cell=cell_index + 1, first_line=first_line(cell.source))
        start = time.monotonic()
        self.pieces = {}
        self.read_quickly()
        try:
            await super().async_execute_cell(cell, cell_index, *args, **kwargs)
        finally:
            # Before anything is judged, and on a failure too: its explanation may be what is late.
            await self.take_late_output(cell, cell_index)
            self.join_streams(cell)
            say("cell_end", cell=cell_index + 1, seconds=time.monotonic() - start)
        failure = silent_failure(cell)
        if failure:
            raise CellFailed(*failure)
        if self.interrupted:
            raise CellFailed("interrupted", "the cell ran to its end all the same")
        say_score(cell)
        return cell

    async def take_late_output(self, cell, cell_index):
        end = time.monotonic() + LATE_OUTPUT_AT_MOST_S
        while True:
            try:
                message = await ensure_async(self.kc.iopub_channel.get_msg(timeout=LATE_OUTPUT_S))
            except Empty:
                if time.monotonic() < end and compute(kernels()):
                    continue
                return
            except (RuntimeError, AttributeError):
                return
            if message["msg_type"] in ("stream", "display_data", "execute_result"):
                self.process_message(message, cell, cell_index)


def error_text(cell):
    """evcxr's error messages, which stand in the outputs of the cell; its reply has none."""
    errors = [out for out in cell.outputs if out.output_type == "error"] if cell else []
    return "\n".join("\n".join(out.traceback) or out.evalue for out in errors)


def explain(error, cell):
    """(kind, message) of what stopped a run."""
    if isinstance(error, CellFailed):
        return error.args
    if isinstance(error, CellTimeoutError):
        return "timeout", "the cell took longer than the time-out; raise it with --timeout SECONDS"
    if isinstance(error, DeadKernelError):
        return "kernel died", "the kernel ended while the cell ran (killed, out of memory, or a crash in native code)"
    if isinstance(error, CellExecutionError):
        text = ANSI.sub("", error_text(cell) or str(error))
        if "Subprocess terminated" in text:
            return "kernel died", text
        if "panicked at" in text:
            return "panic", text
        return "compile error", text
    return "failed", f"{type(error).__name__}: {error}"


async def run_notebook(source, target, timeout, page=None):
    try:
        notebook = nbformat.read(source, as_version=4)
    except Exception as error:
        say("failure", kind="unreadable notebook", cell=None, first_line="", message=str(error)[:500])
        return 1
    client = Client(
        notebook,
        timeout=timeout,
        startup_timeout=STARTUP_TIMEOUT_S,
        kernel_name=KERNEL,
        resources={"metadata": {"path": str(source.parent)}},
        record_timing=False,
        coalesce_streams=True,
    )
    start = time.monotonic()
    index, status = -1, 0
    try:
        async with client.async_setup_kernel():
            client.is_ready = True
            say("ready", seconds=time.monotonic() - start)
            for index, cell in enumerate(notebook.cells):
                await client.async_execute_cell(cell, index)
            client.set_widgets_metadata()
    except (Exception, asyncio.CancelledError) as error:
        cell = notebook.cells[index] if index >= 0 else None
        line = first_line(cell.source) if cell else ""
        kind, message = explain(error, cell)
        if index < 0:
            kind, line = "kernel did not start", ""
            await client.end_start()
        if client.interrupted or isinstance(error, asyncio.CancelledError):
            kind, message = "interrupted", message if cell else "while the kernel started"
        say("failure", kind=kind, cell=index + 1 if cell else None, first_line=line, message=message)
        status = 1
    finally:
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.execution_count is not None:
                for output in cell.outputs:
                    output.pop("transient", None)
        # Kept on failure too: it shows how far the run came.
        target.parent.mkdir(parents=True, exist_ok=True)
        side = target.with_name(f".{target.name}.{os.getpid()}")
        nbformat.write(notebook, side)
        os.replace(side, target)
    if page:
        try:
            write_page(notebook, source, page)
        except Exception as error:
            # Of a run that failed, the reason is said already.
            if status == 0:
                say("failure", kind="no page", cell=None, first_line="", message=f"{type(error).__name__}: {error}")
            status = 1
    say("done", ok=status == 0, seconds=time.monotonic() - start)
    return status


def write_page(notebook, source, page):
    # Only here: it takes half a second.
    from .page import page_of

    text, left = page_of(notebook, source.parent, source.stem)
    page.write_text(text, "utf-8")
    say("page", path=str(page), left=left)


class Kernel:
    """One kernel, cell by cell: for warming and timing."""

    def __init__(self, env=None):
        self.start = time.monotonic()
        self.manager = KernelManager(kernel_name=KERNEL)
        self.manager.start_kernel(env={**os.environ, **(env or {})})
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=STARTUP_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        self.ready_s = time.monotonic() - self.start

    def run(self, code):
        """Seconds that the cell took; an error raises."""
        start = time.monotonic()
        errors = []

        def hook(message):
            content = message["content"]
            if message["msg_type"] == "error":
                errors.append("\n".join(content["traceback"]) or content["evalue"])
            elif message["msg_type"] == "stream" and content["name"] == "stderr":
                errors.append(content["text"])

        reply = self.client.execute_interactive(code, timeout=STARTUP_TIMEOUT_S, output_hook=hook)
        if errors or reply["content"]["status"] != "ok":
            raise RuntimeError(f"the cell `{first_line(code)}` failed:\n" + ANSI.sub("", "\n".join(errors)))
        return time.monotonic() - start

    def memory_mib(self):
        """Memory of the kernel's process and all its descendants, MiB: resident, and private."""
        root = self.manager.provisioner.process.pid
        return tuple(map(sum, zip(*(memory_mib(pid) for pid in {root} | descendants(root)))))

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


def warm():
    say("note", message="starting the kernel; it builds the support crate first")
    kernel = Kernel(env={"QUANTLAB_WARM": "1"})
    try:
        say("note", message=f"kernel ready after {kernel.ready_s:.0f} s")
        seconds = kernel.run("use quantlab::prelude::*;\nlet warm = quantlab::VERSION;\nprintln!(\"{warm}\");")
        say("note", message=f"first cell after {seconds:.1f} s")
    finally:
        kernel.close()


# A table of ten rows, as a cell's last expression.
TABLE = """let frame = quantlab::polars::df!("row" => (0..10).collect::<Vec<i32>>(), "value" => vec![0.25; 10])?;
Table::from_data_frame("Ten rows", &frame)?"""


def timing():
    kernel = Kernel()
    try:
        first = kernel.run("use quantlab::prelude::*;\nlet device = best_device();")
        cells = [kernel.run(f"let trivial_{i} = {i} + 1;") for i in range(10)]
        # The first display of a table brings in code that later ones have.
        tables = [kernel.run(TABLE) for _ in range(4)]
        resident, private = kernel.memory_mib()
        report = {
            "ready_s": kernel.ready_s,
            "first_value_s": first,
            "cell_median_s": statistics.median(cells),
            "display_cell_s": statistics.median(tables[1:]),
            "kernel_rss_mib": resident,
            "kernel_private_mib": private,
        }
    finally:
        kernel.close()
    say("timing", **{key: round(value, 3) for key, value in report.items()})


def version(program):
    """Which version of itself a kernel's program names."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "asked"
        spec.mkdir()
        argv = [str(program), "--control_file", "{connection_file}"]
        text = json.dumps({"argv": argv, "display_name": "asked", "language": "rust"})
        (spec / "kernel.json").write_text(text)
        manager = KernelManager(kernel_name="asked", kernel_spec_manager=KernelSpecManager(kernel_dirs=[folder]))
        quiet = subprocess.DEVNULL
        # evcxr rewrites a stock installation of itself that it finds in Jupyter's data folder.
        manager.start_kernel(env={**os.environ, "JUPYTER_PATH": folder}, stdout=quiet, stderr=quiet)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=VERSION_TIMEOUT_S)
            reply = client.kernel_info(reply=True, timeout=VERSION_TIMEOUT_S)
            say("version", version=reply["content"]["implementation_version"])
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("source", type=Path)
    run.add_argument("target", type=Path)
    run.add_argument("--timeout", type=int, required=True)
    run.add_argument("--page", type=Path)
    commands.add_parser("version").add_argument("program", type=Path)
    commands.add_parser("warm")
    commands.add_parser("time")
    args = parser.parse_args()
    end_with_parent()
    stop_on_signals()
    try:
        if args.command == "run":
            sys.exit(asyncio.run(run_notebook(args.source.resolve(), args.target.resolve(), args.timeout, args.page)))
        elif args.command == "version":
            version(args.program)
        else:
            {"warm": warm, "time": timing}[args.command]()
    except Exception as error:
        say("failure", kind="kernel", cell=None, first_line="", message=f"{type(error).__name__}: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
