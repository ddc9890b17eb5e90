"""Refuse every connection that leaves this machine, and note it.

Python runs this file at its start when this folder is on PYTHONPATH, so kernels, their processes
and MPI ranks are guarded too. Each refusal is one line in the file named by NETWORK_LOG. An audit
hook cannot be taken out again; a library in C that opens sockets past Python is not seen.
"""

import _socket
import os
import sys
from typing import Any

HERE = {"", "localhost", "::", "::1", "0.0.0.0", _socket.gethostname()}
SENDS = ("socket.connect", "socket.sendto", "socket.sendmsg")
ASKS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def leaves(event: str, args: tuple[Any, ...]) -> bool:
    """Return whether an audit event means traffic, or a question about a name, beyond this machine."""
    if event in SENDS:
        address = args[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event in ASKS:
        host = args[0]
    else:
        return False
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    return isinstance(host, str) and host not in HERE and not host.startswith("127.")


def refuse(event: str, args: tuple[Any, ...]) -> None:
    """Note the attempt and stop it."""
    if not leaves(event, args):
        return
    msg = f"network blocked: {event} {args[1:] if event in SENDS else args[:2]}"
    log = os.environ.get("NETWORK_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(msg + "\n")
    raise PermissionError(msg)


sys.addaudithook(refuse)
