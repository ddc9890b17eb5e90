"""`ruler`: own measured rates beside links of the catalog, as a table and on one logarithmic scale."""

import functools
from collections.abc import Mapping

from fabriclab import catalog, units
from fabriclab.checks import store
from fabriclab.checks.answers import times
from fabriclab.checks.predictions import label, remember
from fabriclab.checks.shown import Refused, Shown, rows_of, text
from fabriclab.core.result import Result


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
    results = [part for part in parts if isinstance(part, Result)]
    for result in results:
        remember(result)
    mine = {_mine(name): float(e["busbw"]) for name, e in store.progress()["measurements"].items()}
    links = {part: _rate(part) for part in parts if isinstance(part, str)} or dict(_links())
    rates = dict(sorted((mine | links).items(), key=lambda pair: pair[1]))
    rows = [(name, units.format_rate(rate)) for name, rate in rates.items()]
    drawn = functools.partial(_picture, mine, links, results)
    head, after = text("ruler.head").split("|"), _findings(mine, links)
    return Shown([text("ruler.title")], head=head, rows=rows, after=after, data=rates, extra=drawn)


@functools.cache
def _links() -> Mapping[str, float]:
    """Return name -> rate [B/s] of the links that a ruler knows, read from the catalog."""
    rates = {}
    for row in rows_of("ruler.csv"):
        where = {"name": row["row_name"]} if row["row_name"] else {}
        rates[row["name"]] = catalog.value(row["table"], row["part"], row["attribute"], **where)
    return rates


def _rate(name: str) -> float:
    try:
        return _links().get(name) or units.rate(name, "part")
    except ValueError:
        raise Refused(text("ruler.unknown", name=name, known=", ".join(_links()))) from None


def _mine(name: str) -> str:
    return text("ruler.mine", name=label(name))


def _picture(mine: Mapping[str, float], links: Mapping[str, float], results: list[Result]) -> str:
    from fabriclab import views

    # A result has its rounds and its source with it, which the progress file has not.
    shown: dict[str, float | Result] = {**mine}
    shown |= {_mine(r.what): r for r in results if r.busbw[-1] == mine.get(_mine(r.what))}
    return views.ruler(shown, links, caption=text("ruler.source"))._repr_mimebundle_()["text/html"]


def _findings(mine: Mapping[str, float], links: Mapping[str, float]) -> list[str]:
    """Return a sentence per link: how it compares with the fastest own measurement."""
    if not mine:
        return [text("ruler.nothing")]
    best = max(mine, key=lambda name: mine[name])
    key = {name: "ruler.faster" if rate >= mine[best] else "ruler.slower" for name, rate in links.items()}
    return [text(key[name], name=name, mine=best, factor=times(rate, mine[best])) for name, rate in links.items()]
