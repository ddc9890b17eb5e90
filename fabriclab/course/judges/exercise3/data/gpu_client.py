# mypy: ignore-errors
"""What a learner's function sees of a server with GPUs: a refused registration is an OSError, as from the kernel.

This file is sent to the learner's process as text, so it imports nothing of the course.
"""


class Server:
    """A server whose GPU takes part in a transfer; its answers come from the grader."""

    def __init__(self, raw):
        self._raw, self.nics, self.chunk = raw, raw.nics, raw.chunk

    def register(self, gpu, nic, call="ibv_reg_mr"):
        """Register memory of a GPU with a NIC; an OSError says that the kernel refuses it."""
        number, words = self._raw.registration(gpu, nic, call)
        if number:
            raise OSError(number, words)

    def path(self, gpu, nic, mechanism):
        """Return the copies of a transfer between a GPU and a NIC, "peer" or "pinned"."""
        return self._raw.path(gpu, nic, mechanism)


def client(raw):
    """Return the server as a learner's function gets it."""
    return Server(raw)
