"""One kernel as an editor drives it: started from kernel.json alone, interrupted, gone on with.

Prints nothing if all is well; an assertion says what is not.
"""

import os
import re
import time

from jupyter_client.manager import KernelManager

ANSI = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_S = 300


def execute(code, interrupt_when=None):
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
            return ANSI.sub("", said)
        if interrupt_when and interrupt_when in said:
            interrupt_when = None
            manager.interrupt_kernel()
    raise AssertionError(f"{code!r} did not end; it said {said!r}")


# What an editor's process has that was started from a desktop, not from a shell.
bare = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin"}
manager = KernelManager(kernel_name="quantlab")
manager.start_kernel(env=bare)
client = manager.client()
client.start_channels()
try:
    client.wait_for_ready(timeout=LONGEST_S)
    execute("use quantlab::prelude::*;\nlet kept = 41;\nfn twice(x: i32) -> i32 { 2 * x }")
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
