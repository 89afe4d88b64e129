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


def execute(code, *expected, interrupt_when=None, interrupt=lambda: manager.interrupt_kernel()):
    """Runs a cell, which is interrupted once it has said this, and waits for its end and all that it is expected to say:
    evcxr sends that from other threads, and it can come after the end."""
    said, ended, deadline = "", False, time.monotonic() + LONGEST_S
    request = client.execute(code)
    while not (ended and all(text in ANSI.sub("", said) for text in expected)):
        left = deadline - time.monotonic()
        assert left > 0, f"{code!r} {'said' if ended else 'did not end; it said'} {said!r}, not {expected}"
        try:
            message = client.get_iopub_msg(timeout=left)
        except Empty:
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        if message["msg_type"] == "stream":
            said += content["text"]
        elif message["msg_type"] == "error":
            said += "\n".join(content["traceback"]) + content["evalue"]
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            client.get_shell_msg(timeout=LONGEST_S)
            ended = True
        if interrupt_when and interrupt_when in said:
            interrupt_when = None
            interrupt()


def ask(question, code):
    """What the kernel answers about the end of this code, which it does not run."""
    request = question(code, len(code))
    while True:
        reply = client.get_shell_msg(timeout=LONGEST_S)
        if reply["parent_header"].get("msg_id") == request:
            return reply["content"]


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
        execute(f'let text = include_str!("{pipe}");', "while the cell was being compiled")
        interrupted.set()
        thread.join()


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
    execute('println!("{}", twice(kept));', "82")

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
    execute(long, "interrupted", "still there", interrupt_when="busy")
    # Variables and the library are as before.
    execute('println!("{kept} and {}", generate(&loaded, "Once", &GenerateOptions::default())?.tokens.len() > 0);', "41 and true")
    # As VS Code does it: the one process that it started, not its group.
    execute(long, "interrupted", interrupt_when="busy", interrupt=lambda: os.kill(kernel_pid, signal.SIGINT))
    # Between cells there is nothing to lose. (A cell that comes in the same moment may be the one that was meant.)
    manager.interrupt_kernel()
    time.sleep(3)
    execute('println!("{}", twice(kept));', "82")

    # A build has no variables to lose.
    build_and_interrupt()
    time.sleep(3)
    execute('println!("{}", twice(kept));', "82")

    forever = 'println!("busy"); loop { std::thread::sleep(std::time::Duration::from_millis(20)); }'
    execute(forever, "terminated", interrupt_when="busy")
    # Functions and imports stay, variables are gone, which is said, and run again, they are back.
    execute('println!("{}", twice(4));', "8")
    execute('println!("{}", kept);', "cannot find value `kept`")
    execute("let kept = 42;\nprintln!(\"{} on {}\", twice(kept), best_device());", "84 on ")
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
