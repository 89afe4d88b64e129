"""A notebook's connection to its kernel: Jupyter's own, except for how it makes sure that the kernel hears and is heard.

Jupyter's server asks over the shell and the control channel at once, and closes both at the first answer. evcxr_jupyter
ends when one who asked over the control channel has gone before the answer: kernels died when a notebook connected while
they were starting. So only the shell channel is asked here, and closed when all that was asked has been answered: who
leaves before that, while another connects, can block a kernel for good (see `spare.Spare.leave`).
"""

import asyncio
import time

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

ASKS_EVERY_S, LOOKS_EVERY_S, LEAVES_WITHIN_S = 0.5, 0.01, 1
# One that was started again meanwhile never answers what the one before was asked.
LONGEST_WAIT_S = 2


class Connection(ZMQChannelsWebsocketConnection):
    def nudge(self):
        return asyncio.ensure_future(self.is_heard())

    async def is_heard(self):
        """Returns once the kernel has answered and what it publishes arrives; or if it is busy, or another one now, or if
        nobody listens any more, or time is up."""
        manager, iopub = self.kernel_manager, self.channels["iopub"]
        state = lambda: getattr(manager, "execution_state", None)
        published, answers = [], []
        ports, shell = list(manager.ports), manager.connect_shell()

        def hear(message):
            # What follows is for the notebook.
            iopub.stop_on_recv()
            published.append(message)

        shell.on_recv(answers.append)
        iopub.on_recv(hear)
        now = heard = time.monotonic()
        end, asked, next_ask = now + self.kernel_info_timeout, 0, now
        try:
            while now < end and self.kernel_id in self.multi_kernel_manager and list(manager.ports) == ports:
                # A busy one would answer after the cell.
                if state() == "busy" or self._close_future.done():
                    break
                if published and state() != "starting" and (len(answers) == asked or now > heard + LONGEST_WAIT_S):
                    break
                if not published:
                    heard = now
                    if now >= next_ask:
                        self.session.send(shell, "kernel_info_request")
                        asked, next_ask = asked + 1, now + ASKS_EVERY_S
                await asyncio.sleep(LOOKS_EVERY_S)
                now = time.monotonic()
        finally:
            self.leaving = asyncio.ensure_future(self.leave(shell, lambda: len(answers) < asked, ports))
            if self._close_future.done():
                # They are closed, or kept for the notebook's next connection.
                self.channels = {}
            elif not iopub.closed():
                iopub.stop_on_recv()

    async def leave(self, shell, is_to_answer, ports):
        """Closes the channel once the kernel has nothing more to answer, which may be after a cell."""
        while is_to_answer() and self.kernel_id in self.multi_kernel_manager and list(self.kernel_manager.ports) == ports:
            await asyncio.sleep(LEAVES_WITHIN_S)
        shell.close()


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(server):
    settings, name = server.web_app.settings, "kernel_websocket_connection_class"
    # Another one may be a gateway's, whose kernels are elsewhere.
    if settings[name] is ZMQChannelsWebsocketConnection:
        settings[name] = Connection
