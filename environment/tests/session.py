"""One kernel as an editor drives it: started from kernel.json alone, interrupted, gone on with.

Prints nothing if all is well; an assertion says what is not.
"""

import os
import re
import signal
import tempfile
import threading
import time
from queue import Empty

from jupyter_client.manager import KernelManager

ANSI = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_S = 100
LATE_S = 0.5


def execute(code, interrupt_when=None, interrupt=lambda: manager.interrupt_kernel()):
    """All that a cell says; it is interrupted once it has said this."""
    said, deadline = "", time.monotonic() + LONGEST_S
    request = client.execute(code)
    while time.monotonic() < deadline:
        message = client.get_iopub_msg(timeout=LONGEST_S)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "stream":
            said += content["text"]
        elif message["msg_type"] == "error":
            said += "\n".join(content["traceback"]) + content["evalue"]
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            client.get_shell_msg(timeout=LONGEST_S)
            return ANSI.sub("", said + late_output())
        if interrupt_when and interrupt_when in said:
            interrupt_when = None
            interrupt()
    raise AssertionError(f"{code!r} did not end; it said {said!r}")


def ask(question, code):
    """What the kernel answers about the end of this code, which it does not run."""
    request = question(code, len(code))
    while True:
        reply = client.get_shell_msg(timeout=LONGEST_S)
        if reply["parent_header"].get("msg_id") == request:
            return reply["content"]


def late_output():
    """What a cell wrote to standard error travels on its own path, and may arrive after its end."""
    said = ""
    while True:
        try:
            message = client.get_iopub_msg(timeout=LATE_S)
        except Empty:
            return said
        if message["msg_type"] == "stream":
            said += message["content"]["text"]


def build_and_interrupt():
    """A cell that rustc does not come to the end of: it reads a pipe that nobody writes to."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe)

        def interrupt_once_it_reads():
            with open(pipe, "w"):  # waits for a reader
                manager.interrupt_kernel()
                interrupted.wait(LONGEST_S)

        interrupted = threading.Event()
        thread = threading.Thread(target=interrupt_once_it_reads)
        thread.start()
        said = execute(f'let text = include_str!("{pipe}");')
        interrupted.set()
        thread.join()
        return said


# What an editor's process has that was started from a desktop, not from a shell.
bare = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin"}
manager = KernelManager(kernel_name="quantlab")
manager.start_kernel(env=bare)
kernel_pid = manager.provisioner.process.pid
client = manager.client()
client.start_channels()
try:
    client.wait_for_ready(timeout=LONGEST_S)
    execute("use quantlab::prelude::*;\nlet kept = 41;\nfn twice(x: i32) -> i32 { 2 * x }")
    said = execute('println!("{}", twice(kept));')
    assert "82" in said, said

    # Long work of the library ends by itself, and no variable is lost.
    execute('let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;')
    # Shift-Tab behind a name, and Tab.
    for name, documentation in [
        ("load_model", "As load_model_and_tokenizer, with every option."),
        ("let t: Timing", "How long generating took."),
        ("let l = load_model_and_tokenizer(", "Loads the first of candidates that can be loaded."),
        ("let s = loaded.summary", "One line on what was loaded"),
    ]:
        shown = ask(client.inspect, name)
        assert shown["found"] and documentation in shown["data"]["text/plain"], f"{name}: {shown}"
    offered = ask(client.complete, "let n = 1;\nloaded.")["matches"]
    assert {"model", "tokenizer", "summary()"} <= set(offered), offered

    long = 'println!("busy"); loop { generate(&loaded, "Once", &GenerateOptions::default())?; }'
    said = execute(long, interrupt_when="busy")
    assert "interrupted" in said and "still there" in said, said
    said = execute('println!("{kept} {}", generate(&loaded, "Once", &GenerateOptions::default())?.tokens.len());')
    assert re.search(r"^41 \d+$", said.strip()), f"variables and the library are as before: {said}"
    # As VS Code does it: the one process that it started, not its group.
    said = execute(long, interrupt_when="busy", interrupt=lambda: os.kill(kernel_pid, signal.SIGINT))
    assert "interrupted" in said, said
    # Between cells there is nothing to lose. (A cell that comes in the same moment may be the one that was meant.)
    manager.interrupt_kernel()
    time.sleep(0.5)
    said = execute('println!("{}", twice(kept));')
    assert "82" in said, said

    # A build has no variables to lose.
    said = build_and_interrupt()
    assert "while the cell was being compiled" in said, said
    said = execute('println!("{}", twice(kept));')
    assert "82" in said, said

    forever = 'println!("busy"); loop { std::thread::sleep(std::time::Duration::from_millis(20)); }'
    said = execute(forever, interrupt_when="busy")
    assert "terminated" in said, said
    said = execute('println!("{}", twice(4));')
    assert "8" in said, f"functions and imports stay: {said}"
    said = execute('println!("{}", kept);')
    assert "cannot find value `kept`" in said, f"variables are gone, and that is said: {said}"
    said = execute("let kept = 42;\nprintln!(\"{} on {}\", twice(kept), best_device());")
    assert "84 on " in said, f"run again, they are back: {said}"
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
