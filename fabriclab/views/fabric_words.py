"""What a picture of a fabric says: its sentence, the note of each line, and what the colours mean."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Fabric, Floats
from fabriclab.texts import text
from fabriclab.views.layout import Lines, Marks, counted
from fabriclab.views.page import Table
from fabriclab.views.scene import COLOUR, WIDTH, Layer, Scene, boxes, shade, texts_at

SAYS = {mode: f"fabric.says_{mode}" for mode in ("load", "tier", "rail", "failure")}
KEYS = [COLOUR[k] for k in ("predicted", "measured", "guess", "other1", "tint", "failed", "other2", "other3")]


def coloured(place: NDArray[Any], otherwise: ArrayLike = COLOUR["grey"]) -> Floats:
    """Return a colour for each row, rail or axis, in turn, or another where there is none."""
    return np.where(place >= 0, np.array(KEYS)[place % len(KEYS)], otherwise)


def cable_colours(k: Lines, colour: str, place: NDArray[Any]) -> Floats:
    """Return the colour of each line: of its load, of a failure, or of its place."""
    if colour == "failure":
        return np.where(k.failed > 0, COLOUR["failed"], COLOUR["grey"])
    return shade(k.load) if colour == "load" else coloured(place)


def told(colour: str, load: Floats, places: NDArray[Any], failed: int, parts: int) -> str:
    """Return what the colour says, for those who do not see it."""
    seen = 100 * load[np.isfinite(load)]
    if colour == "load" and not seen.size:
        return ""
    n = np.unique(places[places >= 0]).size
    said = text(SAYS[colour], low=seen.min(initial=1e9), high=seen.max(initial=0), failed=failed, all=parts, n=n)
    return said + (" " + text("fabric.repeats", n=len(KEYS))) * (colour in ("tier", "rail") and n > len(KEYS))


def key(y: float, words: str, names: Sequence[str], colours: Sequence[float] = KEYS) -> dict[str, Layer]:
    """Return a legend in the place of the scale of loads: words, and a sample of each colour with what has it."""
    shared = [", ".join(filter(None, names[i :: len(colours)])) for i in range(len(colours))]
    seen = [(colour, name) for colour, name in zip(colours, shared, strict=True) if name]
    wide = np.array([7.0 * len(words) + 8, *(7.0 * len(name) + 32 for _, name in seen)])
    x = (WIDTH - wide.sum()) / 2 + np.cumsum(wide)
    names_at = [(at + 19, y + 6, name, 0) for at, (_, name) in zip(x.tolist(), seen, strict=False)]
    return {"scale": boxes(x[:-1], y, 14.0, 12.0, colour=np.array([colour for colour, _ in seen])),
            "ends": texts_at((float(x[0]) - 8, y + 6, words, 2), *names_at)}  # fmt: skip


def readable(m: Marks, k: Lines) -> dict[str, list[str]]:
    """Return the names of lines, and the notes that a reader of one line is told."""
    notes = []
    inside = (m.server[k.a] >= 0) & (m.server[k.a] == m.server[k.b])
    for i in range(k.a.size):
        words = [counted(int(k.cables[i]), "link" if inside[i] else "cable"), units.format_rate(float(k.fastest[i]))]
        words += [text("fabric.failed_here", n=k.failed[i])] * bool(k.failed[i])
        if not np.isnan(load := 100 * k.load[i]):
            several = "fabric.mean" if k.cables[i] > 1 else "fabric.load"
            words.append(text(several, percent=load, most=100 * k.fullest[i]))
        notes.append(", ".join(words))
    return {"names": [f"{m.names[a]} – {m.names[b]}" for a, b in zip(k.a, k.b, strict=True)], "notes": notes}


def _listed(f: Fabric, nodes: Any, *more: str) -> str:
    """Return how many of the nodes there are of each kind, as in "4 leaves, 1 spine and 16 cables"."""
    kinds, numbers = np.unique(f.kind[nodes], return_counts=True)
    words = [*(counted(int(n), f.kinds[k]) for k, n in zip(kinds, numbers, strict=True)), *more]
    return ", ".join(words[:-1]) + text("word.and") * (len(words) > 1) + words[-1]


def holder(f: Fabric) -> str:
    """Return what holds the GPUs that a picture keeps together: a server, or a box that a host stands beside."""
    return "box" if "box" in f.coord_names else "server"


def said_of(f: Fabric, m: Marks, k: Lines, share: Floats) -> list[str]:
    """Return what the picture says: load first, then failures, then the parts."""
    outside = (m.server[m.of_node] < 0) & ~np.isin(np.arange(f.n_nodes), f.endpoint)
    # Connections on the boards of a server are no cables of the network.
    cables = int(np.sum(outside[f.source[::2]] | outside[f.target[::2]])) or f.n_cables
    servers, failed = int(f.summary()["servers"]), int(k.failed.sum())
    where = " " + text(f"fabric.in_{holder(f)}", n=servers) if 1 < servers < f.n_ranks else ""
    over = _listed(f, outside, counted(cables, "cable"))
    said = [text("fabric.meet", ends=_listed(f, f.endpoint) + where, over=over)]
    said.append(text("fabric.drawn", list=_listed(f, slice(None))))
    if failed:
        said.insert(0, text("fabric.failed", n=failed, all=f.n_cables))
    if np.isfinite(share).all():
        link = int(np.argmax(share))
        said.insert(0, text("fabric.fullest", link=f.link_name(link), percent=100 * share[link]))
    return said


def worded(f: Fabric, m: Marks, k: Lines, share: Floats, layers: Mapping[str, Layer], height: float, said: str,
           colours: str, within: str = "") -> Scene:  # fmt: skip
    """Return the scene of a fabric with its words and its table; ``colours`` is what the colours say."""
    words = said_of(f, m, k, share)
    first = said or words[0][:1].upper() + words[0][1:] + "."
    alt = "; ".join([first.rstrip("."), *words[not said :]]) + f". {colours}"
    to = [(within if a == b else "") or m.names[b] for a, b in zip(k.a, k.b, strict=True)]
    table = Table({"from": [m.names[i] for i in k.a], "to": to, "cables": k.cables, "failed": k.failed,
                   "together [B/s]": k.total, "load": k.load, "fullest": k.fullest})  # fmt: skip
    return Scene(first, table, layers, height, alt)
