"""What the ticks of a plot say, read as a reader does: with the unit of the axis title and with raised powers."""

import re

import numpy as np

from fabriclab import units

_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_QUANTITIES = {"s": units.time, "B/s": units.rate, "B": units.size}


def value_of(words, unit=""):
    """Return the number that a tick shows, in SI units where it has one that `units` knows."""
    words = words.replace(",", "").replace("\N{MINUS SIGN}", "-")
    if raised := re.fullmatch(r"(?:([\d.]+)·)?(10|2)([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", words):
        digits, base, power = raised.groups()
        return float(digits or 1) * float(base) ** int(power.translate(_RAISED))
    number, _, own = words.partition(" ")
    unit = own or unit
    for plain, parse in _QUANTITIES.items():
        if unit.endswith(plain) and len(unit) - len(plain) <= 2 and "b/" not in unit:
            return parse(f"{number} {unit}") if float(number) else 0.0
    return float(number)


def ticks_of(layers, axis="y"):
    """Return the values of an axis's ticks, and their places [px]."""
    title = layers["quantity" if axis == "y" else "across"].fields["texts"][0]
    unit = re.search(r"\[(.*)\]", title)
    drawn = layers[f"{axis} ticks"].fields
    values = [value_of(words, unit[1] if unit else "") for words in drawn["texts"]]
    return np.array(values), np.asarray(drawn[axis])


def places_of(layers, values, axis="y"):
    """Return where an axis has values, by its ticks [px]: on a linear axis if one of its ticks is 0 or below."""
    ticks, places = ticks_of(layers, axis)
    to = np.asarray if ticks.min() <= 0 else np.log
    return np.polyval(np.polyfit(to(ticks), places, 1), to(values))
