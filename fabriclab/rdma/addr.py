"""Addresses: the GID of a context, and the path to it."""

import re
from dataclasses import dataclass, field

from fabriclab.rdma.errors import PyverbsUserError


class GID:
    """The 128-bit address of a port, as eight groups of four hexadecimal digits; it may be sent as text."""

    __slots__ = ("gid",)

    def __init__(self, val: str = "0000:0000:0000:0000:0000:0000:0000:0000") -> None:
        if not re.fullmatch(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){7}", val):
            raise PyverbsUserError(f"a GID is eight groups of four hexadecimal digits with colons, got {val!r}")
        self.gid = val.lower()


@dataclass(slots=True)
class GlobalRoute:
    """Where packets go, in the terms of the global header."""

    dgid: GID = field(default_factory=GID)
    flow_label: int = 0
    sgid_index: int = 0
    hop_limit: int = 1
    traffic_class: int = 0


@dataclass(slots=True)
class AHAttr:
    """A path: port, and a global route, without which this device reaches nobody."""

    dlid: int = 0
    sl: int = 0
    src_path_bits: int = 0
    static_rate: int = 0
    is_global: int = 0
    port_num: int = 1
    gr: GlobalRoute = field(default_factory=GlobalRoute)
