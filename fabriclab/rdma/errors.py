"""The exceptions of pyverbs: a call that the device refuses, and an argument that makes no sense."""

import os

from fabriclab.errors import FabricError


class PyverbsError(FabricError):
    """Any error of the verbs."""

    def __init__(self, msg: str, error_code: int = -1) -> None:
        self.error_code = error_code
        super().__init__(f"{msg}. Errno: {error_code}, {os.strerror(error_code)}" if error_code != -1 else msg)


class PyverbsRDMAError(PyverbsError):
    """A call that the device refused; ``error_code`` is its errno."""


class PyverbsUserError(PyverbsError):
    """A wrong argument, found before the device was asked."""
