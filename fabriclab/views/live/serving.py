"""Live view of inference: tokens per second over the batch, for servers that wait differently long for collectives."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fabriclab import units
from fabriclab.core import Floats, Ints
from fabriclab.texts import text
from fabriclab.training import Serving, largest_batch
from fabriclab.views.asides import Curve, Spot, curve_panel
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.page import three
from fabriclab.views.scene import COLOUR, Scene

_WIDTH, _HEIGHT = 560.0, 330.0  # of the picture [px]
_MOST = 256  # requests at a time
_SHORTEST, _LONGEST = 5.0, 300.0  # ends of the slider [us]
_MICRO = 1e-6
_LOOKS = (("edge", 1.0), ("ink", 3.0))  # colour and mark of the first and of the second server
_READERS = ("all", "each")


@dataclass(frozen=True, slots=True)
class Box:
    """A server over the batch: what a token takes without start-ups of collectives, and how many it waits for."""

    name: str
    batch: Ints  # (B,)
    rest: Floats  # (B,) [s]
    sums: int
    startup: float  # mean of a collective [s]

    def rate(self, latency: float, readers: str) -> Floats:
        """Return tokens per second over the batch, (B,), of all requests or of each."""
        each = 1 / (self.rest + self.sums * latency)
        return each * self.batch if readers == "all" else each


def tokens(
    servings: Mapping[str, Serving],
    latency: float | None = None,
    batch: int = 1,
    readers: str = "all",
) -> Live:
    """Compare the tokens per second of two servers over the number of requests at a time.

    Parameters
    ----------
    servings : mapping of str to Serving
        Two servers by name; the slider sets how long the second one waits for each collective.
    latency : float, optional
        Start-up of a collective of the second server [us]; by default as it is.
    batch : int
        Requests at a time: a power of two up to 256.
    readers : str
        ``"all"`` shows the tokens of all requests together, ``"each"`` those of one.

    Raises
    ------
    ValueError
        If there are not two servers, or one cannot take 256 requests at a time.
    """
    boxes = boxes_of(servings)
    if latency is None:  # as it is, with the digits that the sentence has
        own = float(np.clip(boxes[1].startup / _MICRO, _SHORTEST, _LONGEST))
        latency = float(f"{own:.3g}")
    arguments = {
        "servings": servings,
        "latency": latency,
        "batch": batch,
        "readers": readers,
    }
    controls: dict[str, Control] = {
        "latency": Slider(_SHORTEST, _LONGEST, unit="us", log=True),
        "batch": Choice(tuple(int(n) for n in boxes[0].batch)),
        "readers": Choice(
            _READERS, names=tuple(text(f"live.tokens.{readers}") for readers in _READERS)
        ),
    }
    scene = partial(tokens_scene, boxes)
    return live_view("tokens", arguments, scene, controls, held=("servings",))


def boxes_of(servings: Mapping[str, Serving]) -> tuple[Box, Box]:
    """Return what the picture needs of two servers, whatever the controls say."""
    if len(servings) != 2:
        raise ValueError(f"servings must be two servers by name, got {len(servings)}")
    first, second = (box_of(name, serving) for name, serving in servings.items())
    return first, second


def box_of(name: str, serving: Serving) -> Box:
    """Return a server over the batch."""
    fitting = largest_batch(serving.room, serving.layout)
    if fitting < _MOST:
        raise ValueError(
            f"servings must have room for {_MOST} requests, {name!r} has room for {fitting}"
        )
    batch = 2 ** np.arange(int(np.log2(_MOST)) + 1)
    rest = []
    for each in batch:
        at_batch = serving.replace(batch=int(each))
        rest.append(at_batch.token - at_batch.parts["latency"])
    startup = serving.parts["latency"] / max(serving.sums, 1)
    return Box(name, batch, np.array(rest), serving.sums, startup)


def tokens_scene(boxes: tuple[Box, Box], latency: float, batch: int, readers: str) -> Scene:
    """Return the curves of two servers, with the chosen batch marked on both."""
    first, second = boxes
    rates = (first.rate(first.startup, readers), second.rate(latency * _MICRO, readers))
    at = int(np.flatnonzero(first.batch == batch)[0])
    curves = []
    spots = []
    for box, rate, (colour, mark) in zip(boxes, rates, _LOOKS, strict=True):
        curves.append(Curve(box.name, box.batch.astype(float), rate, COLOUR[colour], mark))
        spots.append(Spot(float(batch), float(rate[at]), three(rate[at]), shape=mark))
    panel = curve_panel(
        text(f"live.tokens.title_{readers}"),
        text("live.tokens.axis"),
        curves,
        spots,
        show_x="{:,.0f}".format,
        show_y="{:,.0f}".format,
        ticks_x=first.batch.astype(float),
        log_x=True,
        log_y=readers == "all",
        height=_HEIGHT,
        width=_WIDTH,
    )
    sentence = finding(boxes, rates, latency, batch, at)
    columns = {
        text("live.tokens.column"): first.batch,
        f"{first.name} [1/s]": rates[0],
        f"{second.name} [1/s]": rates[1],
    }
    values = text(
        f"live.tokens.alt_{readers}",
        first=first.name,
        one=float(rates[0][at]),
        second=second.name,
        two=float(rates[1][at]),
    )
    return replace(
        panel,
        said=sentence,
        table=Table(columns),
        alt=f"{sentence} {values}",
        side=ratio_panel(boxes, rates, batch, at),
    )


def ratio_panel(boxes: tuple[Box, Box], rates: tuple[Floats, Floats], batch: int, at: int) -> Scene:
    """Return how many times the tokens of the first server the second one gives, over the batch."""
    first, second = boxes
    x = first.batch.astype(float)
    ratio = rates[1] / rates[0]
    return curve_panel(
        text("live.tokens.ratio", first=first.name, second=second.name),
        text("live.tokens.axis"),
        [
            Curve(text("live.tokens.even"), x, np.ones(x.size)),
            Curve("", x, ratio, COLOUR["ink"], 3.0),
        ],
        [Spot(float(batch), float(ratio[at]), f"{ratio[at]:.3g}")],
        show_x="{:,.0f}".format,
        show_y="{:g}".format,
        ticks_x=x[::2],
        log_x=True,
        zero_y=False,
        height=_HEIGHT,
    )


def finding(
    boxes: tuple[Box, Box], rates: tuple[Floats, Floats], latency: float, batch: int, at: int
) -> str:
    """Return in words which server gives more tokens, by how much, and what a token waits for."""
    first, second = boxes
    gain = float(rates[1][at] / rates[0][at])
    waiting = second.sums * latency * _MICRO
    return text(
        "live.tokens.said",
        batch=batch,
        second=second.name,
        first=first.name,
        gain=gain,
        sums=second.sums,
        latency=units.format_time(latency * _MICRO),
        waiting=units.format_time(waiting),
        share=100 * waiting / (waiting + float(second.rest[at])),
    )
