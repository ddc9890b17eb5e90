"""Settings of the packet engine: what a switch, a network card and a scenario are like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fabriclab import registry, spelling, units

__all__ = ["LOSSLESS", "RECOVERIES", "Settings"]

RECOVERIES = ("go_back_n", "selective")
LOSSLESS = ("pause", "credits", "none")


@dataclass(frozen=True)
class Settings:
    """How packets, switches and senders behave; every field has a default and may be given in ``config``.

    Sizes, times and rates may be texts with a unit.

    Parameters
    ----------
    payload, header, gap : int
        Bytes of data in a full packet, bytes stored and sent with them, and bytes that are sent but not stored. The
        defaults are those of RoCE v2: Ethernet 14 + 4, IPv4 20, UDP 8, transport 12 and its check 4; preamble and gap
        20. [B]
    control, control_options : str, mapping
        Control loop, a name in ``registry.names("control")``, and its parameters; or a function that returns the
        rate for the next round trip, see `fabriclab.engines.packet.own.control_of`, which runs in plain Python.
    recovery : str
        What happens when a packet is missing: ``"go_back_n"`` sends it and all that follow again, ``"selective"`` sends
        it alone, and takes packets in any order.
    balance, balance_options : str, mapping
        Who chooses among the rows of a flow, a name in ``registry.names("balance")``; or a function that returns the
        port for a packet, see `fabriclab.engines.packet.own.balance_of`, which runs in plain Python.
    lossless : str
        ``"pause"`` (PFC), ``"credits"`` (InfiniBand) or ``"none"``, for links to and between switches. Inside a server
        all links have credits.
    buffer : float or str
        Memory of a switch that its packets share. [B], > 0
    headroom : float, str or None
        Memory of each ingress for what comes after a pause; None: by the formula of `headroom` for each link. [B]
    xoff : float, str or None
        Bytes of an ingress at which it pauses its sender; None: ``pause_share`` of the free buffer. [B]
    pause_share, drop_share : float
        Share of the free buffer that an ingress may hold before it pauses, and a queue before it drops. 1/8 in the
        simulator of the HPCC authors. > 0
    xon_gap, reserve : float or str
        A pause ends this far below the threshold; bytes of each ingress that never count. [B]
    response : float or str
        Time of a sender to obey a pause. 60 quanta of 512 bits at 100 Gb/s unless given. [s]
    watchdog : float, str or None
        A queue that is paused for so long throws its packets away and goes on, until it is paused anew. [s]
    credit : float, str or None
        Room for one class of one link behind it; None: twice what fills the cable, and two packets. [B]
    marking : (float, float, float) or None
        Kmin [B], Kmax [B] and the chance just below Kmax; None: what the control loop asks for. ``()`` for none. Or a
        function from the length of a queue [B] to the chance of a mark, which runs in plain Python.
    cut_through : bool
        Whether a switch forwards a packet before it has come in full.
    classes : mapping
        Label of a flow -> its class, 0 first; 0 unless given, or 1 with ``trim``.
    trim : bool
        Whether a switch cuts a packet that does not fit to its header, which goes on in class 0.
    fair : bool
        Whether a queue serves its flows in turn.
    timeout : float or str
        Time without an acknowledgement after which a sender tries again. [s]
    retries : int
        Tries without success after which a connection fails; 7 is the most that InfiniBand and RoCE allow.
    reorder : float, str or None
        With selective recovery: a packet is lost if one that was sent so much later has come; None: only a timeout or a
        trimmed packet tells. [s]
    ack_every : int
        Packets that one acknowledgement answers, with go-back-N.
    grants : bool
        Whether receivers allow their senders to go on, at the rate of their port.
    first_window : float, str or None
        With grants: bytes that a sender may send unasked; None: what fills its path. [B]
    quantum : float or str
        Bytes of a grant. [B]
    loss : float or mapping
        Chance of each packet to be lost on a link, for all links or by link number. 0..1
    receivers : mapping
        Rank -> rate at which it takes data in; at once unless given. [B/s]
    storms : sequence of (int, float, float)
        Links to network cards that are broken and pause their sender, with begin and end [s].
    jitter : float or str
        Each connection starts up to so much later, at random. [s]
    until : float, str or None
        When to stop, whatever is unfinished. [s]
    sample : float, str or None
        Distance of the samples of what is watched. [s]
    watch_links, watch_flows : sequence of int
        What is watched.
    log : int
        How many lines of the log of single packets are kept.
    """

    payload: int = 4096
    header: int = 62
    gap: int = 20
    control: str | Callable[..., Any] = "window"
    control_options: Mapping[str, Any] = field(default_factory=dict)
    recovery: str = "go_back_n"
    balance: str | Callable[..., Any] = "pinned"
    balance_options: Mapping[str, Any] = field(default_factory=dict)
    lossless: str = "pause"
    buffer: units.Quantity = 32e6  # illustrative: memory of a switch chip
    headroom: units.Quantity | None = None
    xoff: units.Quantity | None = None
    pause_share: float = 0.125
    drop_share: float = 1.0
    xon_gap: units.Quantity = 3072  # source: switch-mmu.cc of the HPCC authors, resume_offset
    reserve: units.Quantity = 4096  # source: switch-mmu.cc of the HPCC authors, reserve
    response: units.Quantity = 307.2e-9
    watchdog: units.Quantity | None = None
    credit: units.Quantity | None = None
    marking: tuple[float, ...] | Callable[[int], float] | None = None
    cut_through: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)
    trim: bool = False
    fair: bool = False
    timeout: units.Quantity = 1e-3  # illustrative: a round trip of milliseconds at most
    retries: int = 7
    reorder: units.Quantity | None = None
    ack_every: int = 1
    grants: bool = False
    first_window: units.Quantity | None = None
    quantum: units.Quantity = 16384  # illustrative: four packets
    loss: float | Mapping[int, float] = 0.0
    receivers: Mapping[int, units.Quantity] = field(default_factory=dict)
    storms: tuple[tuple[int, units.Quantity, units.Quantity], ...] = ()
    jitter: units.Quantity = 0.0
    until: units.Quantity | None = None
    sample: units.Quantity | None = None
    watch_links: tuple[int, ...] = ()
    watch_flows: tuple[int, ...] = ()
    log: int = 0

    def __post_init__(self) -> None:
        """Parse texts with units, and refuse what is out of range."""

        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        units.count(self.payload, "payload", 1, 65536)
        units.count(self.header, "header", 0, 512)
        units.count(self.gap, "gap", 0, 64)
        if isinstance(self.control, str) or not callable(self.control):
            put("control", registry.find("control", self.control))
        if isinstance(self.balance, str) or not callable(self.balance):
            put("balance", registry.find("balance", self.balance))
        put("recovery", units.choice(self.recovery, "recovery", RECOVERIES))
        put("lossless", units.choice(self.lossless, "lossless", LOSSLESS))
        for name in ("buffer", "xon_gap", "reserve", "quantum"):
            put(name, units.size(getattr(self, name), name))
        for name in ("headroom", "xoff", "credit", "first_window"):
            if getattr(self, name) is not None:
                put(name, units.size(getattr(self, name), name))
        for name in ("response", "timeout", "jitter"):
            put(name, units.time(getattr(self, name), name))
        for name in ("watchdog", "reorder", "until", "sample"):
            if getattr(self, name) is not None:
                put(name, units.time(getattr(self, name), name))
        for name in ("pause_share", "drop_share"):
            share = getattr(self, name)
            if not (units.is_number(share) and 0 < share <= 64):
                raise ValueError(f"{name} must be within 0..64, without 0, got {share!r}")
        if self.sample is not None and float(self.sample) < 1e-12:
            raise ValueError(
                f"sample must be at least 1 ps, got {self.sample!r}; leave it out for none"
            )
        for name in ("cut_through", "trim", "fair", "grants"):
            units.flag(getattr(self, name), name)
        for name in ("control_options", "balance_options", "classes", "receivers"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(
                    f"{name} must be a mapping such as a dict, got {getattr(self, name)!r:.80}"
                )
        units.count(self.retries, "retries", 0)
        units.count(self.ack_every, "ack_every", 1)
        units.count(self.log, "log", 0)
        self._check_together()

    @property
    def frame(self) -> int:
        """Size of a full packet as buffers store it [B]."""
        return self.payload + self.header

    @property
    def on_wire(self) -> int:
        """Bytes that a full packet takes on a cable [B]."""
        return self.frame + self.gap

    def _check_together(self) -> None:
        """Refuse settings that contradict each other."""
        if float(self.buffer) < self.frame:
            raise ValueError(
                f"buffer must hold a packet of {self.frame} B, got {self.buffer:g} B; a switch has megabytes"
            )
        if self.trim and self.recovery != "selective":
            raise ValueError(
                'trim needs recovery="selective": go-back-N sends all packets again, whatever the trimmed one says'
            )
        if self.trim and self.lossless != "none":
            raise ValueError(
                f'trim needs lossless="none": with {self.lossless!r} a switch has room for every packet'
            )
        self._check_marking()
        if float(self.timeout) <= 0 and self.recovery == "selective":
            raise ValueError("timeout must be > 0 s, or a lost packet is never sent again")

    def _check_marking(self) -> None:
        """Refuse limits of marking that no queue can have."""
        if callable(self.marking):
            return
        if self.marking is not None and len(self.marking) not in (0, 3):
            raise ValueError(
                f"marking must be (Kmin, Kmax, Pmax) in bytes, bytes and a chance, or (), got {self.marking!r}"
            )
        if self.marking:
            low, high, most = self.marking
            if not (0 <= low < high and 0 < most <= 1):
                raise ValueError(
                    f"marking needs 0 <= Kmin < Kmax and Pmax within 0..1, got {self.marking!r}"
                )

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings of a mapping; an unknown key is an error that lists all."""
        known = [f.name for f in fields(cls)]
        for key in config:
            if key not in known:
                raise ValueError(
                    f"config has {key!r}, which engine 'packet' does not know; it knows {', '.join(known)}"
                    f"{spelling.near(str(key), known)}"
                )
        return cls(**config)
