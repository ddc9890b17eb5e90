"""Addresses: the GID of a context, and the path to it."""

import re

from fabriclab.rdma.errors import PyverbsUserError


class GID:
    """The 128-bit address of a port, as eight groups of four hexadecimal digits."""

    __slots__ = ("_gid",)

    def __init__(self, val: str = "0000:0000:0000:0000:0000:0000:0000:0000") -> None:
        self.gid = val

    @property
    def gid(self) -> str:
        """The address as text; it may be sent to another process."""
        return self._gid

    @gid.setter
    def gid(self, val: str) -> None:
        if not re.fullmatch(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){7}", val):
            raise PyverbsUserError(f"a GID is eight groups of four hexadecimal digits with colons, got {val!r}")
        self._gid = val.lower()

    def __repr__(self) -> str:
        """Return it as a person would type it."""
        return f"GID({self._gid!r})"


class GlobalRoute:
    """Where packets go, in the terms of the global header."""

    __slots__ = ("dgid", "flow_label", "hop_limit", "sgid_index", "traffic_class")

    def __init__(
        self,
        dgid: GID | None = None,
        flow_label: int = 0,
        sgid_index: int = 0,
        hop_limit: int = 1,
        traffic_class: int = 0,
    ) -> None:
        self.dgid, self.flow_label, self.sgid_index = dgid or GID(), flow_label, sgid_index
        self.hop_limit, self.traffic_class = hop_limit, traffic_class


class AHAttr:
    """A path: port, and a global route, without which this device reaches nobody."""

    __slots__ = ("dlid", "gr", "is_global", "port_num", "sl", "src_path_bits", "static_rate")

    def __init__(
        self,
        gr: GlobalRoute | None = None,
        dlid: int = 0,
        sl: int = 0,
        src_path_bits: int = 0,
        static_rate: int = 0,
        is_global: int = 0,
        port_num: int = 1,
    ) -> None:
        self.gr, self.dlid, self.sl, self.src_path_bits = gr or GlobalRoute(), dlid, sl, src_path_bits
        self.static_rate, self.is_global, self.port_num = static_rate, is_global, port_num
