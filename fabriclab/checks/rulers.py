"""`ruler`: own measured rates beside links of the catalog, as a table and on one logarithmic scale."""

import functools
import math
from collections.abc import Mapping

import fabriclab
from fabriclab import catalog, units
from fabriclab.checks import store
from fabriclab.checks.answers import times
from fabriclab.checks.predictions import label, remember
from fabriclab.checks.shown import Refused, Shown
from fabriclab.core import Result
from fabriclab.exercises.parts import rows_of
from fabriclab.texts import text


def ruler(*parts: str | Result) -> Shown:
    """Place rates on one logarithmic scale: what this machine measured, and links of the catalog.

    Parameters
    ----------
    *parts : str or Result
        Names such as ``"PCIe 5"``, ``"NVLink 4"``, ``"400 Gb/s NIC"``, ``"60 GHz"``, in any case and with or
        without spaces; a rate with its unit; or results of `fabriclab.measure`, which are kept in the progress
        file. What is kept there is always on the ruler; without a name, all links are.

    Returns
    -------
    Shown
        A row per rate, fastest first; ``data`` has name -> rate. [B/s, one direction]

    Raises
    ------
    Refused
        A ValueError: a name is unknown; the text lists those that are known.
    """
    results = [part for part in parts if isinstance(part, Result)]
    for result in results:
        remember(result)
    mine = {_mine(name): float(e["busbw"]) for name, e in store.held()["measurements"].items()}
    links = dict(_rate(part) for part in parts if isinstance(part, str)) or dict(_links())
    rates = dict(sorted((mine | links).items(), key=lambda pair: -pair[1]))
    # In text the dots are the ruler: ten of them for ten times the rate, from the slowest on.
    dots = {name: 1 + round(10 * math.log10(rate / min(rates.values()))) for name, rate in rates.items()}
    rows = [(name, units.format_rate(rate), "." * dots[name]) for name, rate in rates.items()]
    head, after = text("ruler.head").split("|"), _findings(mine, links)
    # A result has its rounds and its source with it, which the progress file has not.
    own = {**mine} | {_mine(r.what): r for r in results if r.busbw[-1] == mine.get(_mine(r.what))}
    drawn, live = functools.partial(_picture, own, links, after), lambda: fabriclab.live.ruler(own, links)
    return Shown([text("ruler.title")], head=head, rows=rows, after=after, data=rates, picture=drawn, live=live)


@functools.cache
def _links() -> Mapping[str, float]:
    """Return name -> rate [B/s] of the links that a ruler knows, read from the catalog."""
    rates = {}
    for row in rows_of("ruler.csv", __file__):
        where = {"name": row["row_name"]} if row["row_name"] else {}
        rates[row["name"]] = catalog.value(row["table"], row["part"], row["attribute"], **where)
    return rates


def _rate(part: str) -> tuple[str, float]:
    """Return the name of a link as the catalog spells it, or a rate as it was written, with the rate [B/s]."""
    for name, rate in _links().items():
        if _loose(name) == _loose(part):
            return name, rate
    try:
        return part, units.rate(part, "part")
    except ValueError:
        raise Refused(text("ruler.unknown", name=part, known=", ".join(_links()))) from None


def _loose(name: str) -> str:
    return "".join(name.casefold().split())


def _mine(name: str) -> str:
    return text("ruler.mine", name=label(name))


def _picture(own: Mapping[str, float | Result], links: Mapping[str, float], said: list[str]) -> str:
    first, *rest = [said[0].rstrip("."), *said[1:]] if own else [None, *said]
    drawn = fabriclab.views.ruler(own, links, finding=first, caption=" ".join([*rest, text("ruler.source")]))
    return str(drawn._repr_mimebundle_()["text/html"])


def _findings(mine: Mapping[str, float], links: Mapping[str, float]) -> list[str]:
    """Return a sentence per link: how it compares with the fastest own measurement."""
    if not mine:
        return [text("ruler.nothing")]
    best = max(mine, key=lambda name: mine[name])
    key = {name: "ruler.faster" if rate >= mine[best] else "ruler.slower" for name, rate in links.items()}
    return [text(key[name], name=name, mine=best, factor=times(rate, mine[best])) for name, rate in links.items()]
