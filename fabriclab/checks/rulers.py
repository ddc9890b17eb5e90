"""`ruler`: own measured rates beside links of the catalog, on one logarithmic scale."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Final

from fabriclab import catalog, units
from fabriclab.checks import store
from fabriclab.checks.predictions import label, remember
from fabriclab.checks.shown import Refused, Shown, rows_of, text
from fabriclab.core.result import Result

__all__ = ["ruler"]

_WIDTH: Final = 40


@functools.cache
def _links() -> Mapping[str, float]:
    """Return name -> rate [B/s] of the links that a ruler knows, read from the catalog."""
    rates = {}
    for row in rows_of("ruler.csv"):
        where = {"name": row["row_name"]} if row["row_name"] else {}
        rates[row["name"]] = catalog.value(row["table"], row["part"], row["attribute"], **where)
    return rates


def ruler(*parts: str | Result) -> Shown:
    """Place rates on one logarithmic scale: what this machine measured, and links of the catalog.

    Parameters
    ----------
    *parts : str or Result
        Names such as ``"PCIe 5"``, ``"NVLink 4"``, ``"400 Gb/s NIC"``, ``"60 GHz"``, a rate with its unit,
        or results of `fabriclab.measure`, which are kept in the progress file. What is kept there is always
        on the ruler; without a name, all links are.

    Returns
    -------
    Shown
        A row per rate, slowest first; ``data`` has name -> rate. [B/s, one direction]

    Raises
    ------
    Refused
        A ValueError: a name is unknown; the text lists those that are known.
    """
    for part in parts:
        if isinstance(part, Result):
            remember(part)
    mine = {_mine(name): float(e["busbw"]) for name, e in store.read()["measurements"].items()}
    links = {name: _rate(name) for name in [p for p in parts if isinstance(p, str)] or _links()}
    rates = dict(sorted((mine | links).items(), key=lambda pair: pair[1]))
    low, high = math.floor(math.log10(min(rates.values()))), math.ceil(math.log10(max(rates.values())))
    rows = []
    for name, rate in rates.items():
        dots = round((math.log10(rate) - low) / max(1, high - low) * _WIDTH)
        rows.append((name, units.format_rate(rate), "·" * dots + ("●" if name in mine else "|")))
    scale = text("ruler.scale", low=units.format_rate(10.0**low), high=units.format_rate(10.0**high))
    head = tuple(text("ruler.head").split("|"))
    after = (scale, *_findings(mine, links))
    drawn = functools.partial(_picture, mine, links, [p for p in parts if isinstance(p, Result)])
    return Shown((text("ruler.title"),), "plain", head, tuple(rows), after, rates, extra=drawn)


def _picture(mine: Mapping[str, float], links: Mapping[str, float], results: list[Result]) -> str:
    from fabriclab import views

    # A result has its rounds with it, which the progress file has not.
    shown: dict[str, float | Result] = {**mine, **{_mine(r.what): r for r in results}}
    return views.ruler(shown, links, caption=text("ruler.source"))._repr_mimebundle_()["text/html"]


def _mine(name: str) -> str:
    return text("ruler.mine", name=label(name))


def _rate(name: str) -> float:
    if name in _links():
        return _links()[name]
    try:
        return units.rate(name, "part")
    except ValueError:
        raise Refused(text("ruler.unknown", name=name, known=", ".join(_links()))) from None


def _findings(mine: Mapping[str, float], links: Mapping[str, float]) -> list[str]:
    """Return a sentence per link: how it compares with the fastest own measurement."""
    if not mine:
        return [text("ruler.nothing")]
    best = max(mine, key=lambda name: mine[name])
    ratio = {name: rate / mine[best] for name, rate in links.items()}
    word = {name: "ruler.faster" if r >= 1 else "ruler.slower" for name, r in ratio.items()}
    return [text(word[n], name=n, mine=best, factor=f"{max(r, 1 / r):.1f}") for n, r in ratio.items()]
