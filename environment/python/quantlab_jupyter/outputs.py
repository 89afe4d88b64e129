"""How much a notebook's cells may show: one message, one cell, and all of them."""

import contextlib
import os
import signal

from nbformat.v4 import new_output

from .processes import descendants, kernels

# What a cell prints beyond this is not kept, and a cell that has sent so many messages will not end by itself.
MAX_OUTPUT_CHARS, MAX_MESSAGES = 200_000, 20_000
# Pictures and tables; of a larger one, only that it was too large.
MAX_RESULT_CHARS = 5_000_000
# All outputs of a notebook, those that it came with too; and what each cell may have beyond, for a check's score.
MAX_NOTEBOOK_CHARS, RESERVED_CHARS = 20_000_000, 20_000
# An SVG is shown as a picture, in which no script runs.
SHOWN = ("text/plain", "text/html", "image/png", "image/jpeg", "image/svg+xml")
KINDS = ("stream", "display_data", "update_display_data", "execute_result", "error")


class Room:
    """What a notebook's outputs still may take together."""

    def __init__(self):
        self.chars = MAX_NOTEBOOK_CHARS
        self.cells_left_out = 0

    def takes(self, outputs, reserved=0):
        """Whether the notebook may have these too; they count then."""
        size = chars(outputs)
        if size > max(self.chars, reserved):
            return False
        self.chars -= size
        return True

    def leave_out(self, cell):
        self.cells_left_out += 1
        cell.outputs.append(failure("LeftOut", f"left out: the notebook's outputs are more than {MAX_NOTEBOOK_CHARS} characters"))

    def notes(self):
        of = f"left out outputs of {self.cells_left_out} cells: all are more than {MAX_NOTEBOOK_CHARS} characters"
        return [of] if self.cells_left_out else []


class Outputs:
    """For a notebook client with a `run`: keeps of what a cell sends as much as it may have."""

    def begin_outputs(self):
        self.printed = self.messages = 0
        self.reserved = RESERVED_CHARS
        self.flooded = self.leaves_out = False

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] not in KINDS:
            return super().process_message(msg, cell, cell_index)
        content = msg["content"]
        # By this name, a later message could change what is graded by then.
        content.pop("transient", None)
        self.messages += 1
        if self.messages == MAX_MESSAGES:
            self.flooded = True
            end_below_kernel()
        if msg["msg_type"] == "stream":
            room = MAX_OUTPUT_CHARS - self.printed
            self.printed += len(content["text"])
            content["text"] = content["text"][: max(0, room)]
            if room <= 0:
                return None
        elif "data" in content:
            shown = {kind: data for kind, data in content["data"].items() if kind in SHOWN and isinstance(data, str)}
            data = {kind: data if len(data) <= MAX_RESULT_CHARS else f"left out: {len(data)} characters" for kind, data in shown.items()}
            content = msg["content"] = {**content, "data": data, "metadata": {}}
        if not self.run.room.takes(content, self.reserved):
            self.leaves_out = True
            return None
        self.reserved -= chars(content)
        return super().process_message(msg, cell, cell_index)


def chars(value):
    """Characters in a message or an output."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(value) if isinstance(value, str) else sum(map(chars, parts))


def failure(name, text):
    return new_output("error", ename=name, evalue=text, traceback=[text])


def end_below_kernel():
    """Ends the processes that the kernel has started."""
    for pid in set().union(*(descendants(pid) for pid in kernels())):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
