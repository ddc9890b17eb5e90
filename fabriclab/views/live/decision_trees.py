"""A live view of a decision among networks: a tree of questions that lights up, and what a step costs on each."""

from functools import lru_cache

import numpy as np

from fabriclab import catalog, economics
from fabriclab.core import Floats
from fabriclab.economics.tree import Branch, Edge
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, EDGE, Layer, Scene, boxes, heading, lines, texts

_TEAMS = ("all", "Ethernet", "InfiniBand", "new")
_LEAST_SENT, _MOST_SENT = 0.1, 100  # ends of the slider [GB]
_PRICES = (50, 230)  # source: Introl-IBE has 230 % for InfiniBand; ends of the slider
_FULL = 100.0  # percent
_LONGEST = 0.10  # what the longest bar stands for, of the cheapest
_LONGEST_FINE = 0.01  # and where no network costs more than that over the cheapest
_NEARLY = 0.0005  # part up to which two costs are told as the same, since one decimal of a per cent says 0.0

# The picture in px: left end and width of each column, and the row of each question and answer.
_WIDTH = 570.0
_SIDE = 306.0
_HEIGHT = 384.0
_TOP, _ROW, _HIGH = 30.0, 50.0, 32.0
_COLUMNS = ((EDGE, 210.0), (254.0, 154.0), (440.0, 124.0))
_PLACES = {
    "stays": (0, 0),
    "none": (2, 0),
    "few": (0, 1),
    "boxes": (1, 1),
    "pcie": (2, 1),
    "sockets": (0, 2),
    "tcp": (2, 2),
    "lossy": (0, 3),
    "paths": (1, 3),
    "multipath": (2, 3),
    "go_back_n": (2, 4),
    "pauses": (0, 5),
    "lossless": (2, 5),
    "infiniband": (2, 6),
}
_BAR_LEFT, _BAR_WIDE, _BAR_HIGH, _BAR_STEP, _BAR_TOP = EDGE, 270.0, 8.0, 52.0, 52.0


@lru_cache(maxsize=64)
def decided(sent: float, price: float, team: str, gpus: int) -> economics.Decision:
    """Return the decision for bytes of a GPU [GB], a price of InfiniBand [% of the case's], a team and a job's GPUs."""
    return economics.decide(
        levels=economics.team(team),
        sent=sent * 1e9,
        price_infiniband=price / _FULL,
        gpus=float(gpus),
    )


def decision(
    sent: float = 35.0,
    price: int = 100,  # illustrative: as much as the case's network
    team: str = "all",
    *,
    gpus: int = 1024,
) -> Live:
    """Show which network a job should run on, as questions with numbers; the path to the answer is lit.

    A network is good enough if a step on it costs at most half a per cent more than on the cheapest, and the first
    that is good enough is taken, from kernel TCP to InfiniBand: a choice, not a result. `fabriclab.economics.decide`
    computes the costs.

    Parameters
    ----------
    sent : float
        What each GPU sends to other servers in a step, 0.1..100; 35.0 in the running case [GB].
    price : int
        Price of InfiniBand, 50..230 [% of the price of the case's network, which all others have].
    team : str
        "all": lacks nothing; "Ethernet", "InfiniBand": has the skills of these networks alone; "new": has none.
    gpus : int
        GPUs of the job; all of them fit on a PCIe fabric up to 16.
    """
    arguments = {"sent": sent, "price": price, "team": team, "gpus": gpus}
    names = tuple(text(f"live.decision.team_{each}") for each in _TEAMS)
    controls: dict[str, Control] = {
        "sent": Slider(_LEAST_SENT, _MOST_SENT, unit="GB", log=True),
        "price": Slider(*_PRICES, unit="%"),
        "team": Choice(_TEAMS, names=names),
    }
    decided(sent, float(price), team, gpus)  # refuses what no decision takes

    def scene(sent: float, price: int, team: str) -> Scene:
        """Return the scene for the controls and the given GPUs."""
        return tree_scene(sent, price, team, gpus)

    return live_view("decision", arguments, scene, controls, room=2)


def tree_scene(sent: float, price: int, team: str, gpus: int) -> Scene:
    """Return the tree with its lit path, and what a step costs on each network beside it."""
    here = decided(sent, float(price), team, gpus)
    said = answer_words(here)
    setting = text(
        "live.decision.setting",
        sent=sent,
        price=price,
        team=text(f"live.decision.team_{team}"),
        gpus=gpus,
    )
    return Scene(
        said,
        cost_table(here),
        {**edge_layers(here), **question_layers(here, sent), **answer_layers(here)},
        _HEIGHT,
        alt=f"{said} {setting}",
        hint=text("live.decision.hint"),
        width=_WIDTH,
        side=Scene("", layers=bar_layers(here), height=_HEIGHT, width=_SIDE),
    )


def name_of(key: str) -> str:
    """Return the name of a network in words."""
    return economics.in_words(key)


def short_name(key: str) -> str:
    """Return the name of a network that fits into a box, where the questions above say that it is Ethernet."""
    return text(f"live.decision.net_{key}")


def answer_words(here: economics.Decision) -> str:
    """Return the finding: the answer with its cost, and how much more the next one costs."""
    costs = here.costs
    cost = costs[here.answer]
    if not here.runner_up:
        return text("live.decision.alone", answer=name_of(here.answer), cost=cost)
    more = costs[here.runner_up] / cost - 1
    first = text("live.decision.said", answer=name_of(here.answer), cost=cost)
    other = name_of(here.runner_up)
    if abs(more) < _NEARLY:
        return f"{first} " + text("live.decision.same", other=other, nearly=_NEARLY)
    key = "next" if more >= 0 else "cheaper"
    return f"{first} " + text(f"live.decision.{key}", other=other, more=abs(more))


def cost_table(here: economics.Decision) -> Table:
    """Return a row for each network that the job can run on, the cheapest first."""
    found = {key: cost for key, cost in here.costs.items() if cost < np.inf}
    least = min(found.values())
    return Table(
        {
            "network": [name_of(key) for key in found],
            "step [s]": [here.steps[key] for key in found],
            "USD for a step": list(found.values()),
            "times the cheapest": [cost / least for cost in found.values()],
            "answer": ["yes" if key == here.answer else "" for key in found],
        }
    )


# Layers -----------------------------------------------------------------------------------------


def corner(key: str) -> tuple[float, float, float]:
    """Return the left end, the top and the width of a box. [px]."""
    column, row = _PLACES[key]
    left, wide = _COLUMNS[column]
    return left, _TOP + _ROW * row, wide


def edge_path(edge: Edge) -> Floats:
    """Return the line from a question to what follows: to the right within a row, else down and then to the right."""
    left, top, wide = corner(edge.source)
    to_left, to_top, to_wide = corner(edge.target)
    middle = top + _HIGH / 2
    to_middle = to_top + _HIGH / 2
    if to_top == top:
        return np.array([[left + wide, middle], [to_left, middle]])
    if to_left == left:
        x = left + 26.0
        return np.array([[x, top + _HIGH], [x, to_top]])
    x = left + min(wide, to_wide) / 2
    if to_left < left:  # back to the first column, from above
        end = to_left + to_wide - 20.0
        between = (top + _HIGH + to_top) / 2
        return np.array([[x, top + _HIGH], [x, between], [end, between], [end, to_top]])
    return np.array([[x, top + _HIGH], [x, to_middle], [to_left, to_middle]])


def edge_layers(here: economics.Decision) -> dict[str, Layer]:
    """Return all lines of the tree, those of the path in ink, with their labels."""
    edges = sorted(here.tree.edges, key=lambda edge: edge.lit)
    lit = np.array([edge.lit for edge in edges])
    paths = [edge_path(edge) for edge in edges]
    to_right = np.array([path[0, 1] == path[1, 1] for path in paths])
    start = np.array([path[0] for path in paths])
    return {
        "edges": lines(
            paths,
            width=np.where(lit, 2.6, 1.0),
            colour=np.where(lit, COLOUR["ink"], COLOUR["hair"]),
        ),
        "labels": texts(
            start[:, 0] + 6,
            start[:, 1] + np.where(to_right, -8.0, 9.0),
            [text(f"live.decision.{edge.label}") for edge in edges],
            size=11.0,
            halo=1.0,
            colour=np.where(lit, COLOUR["ink"], COLOUR["soft"]),
        ),
    }


def note_of(branch: Branch) -> str:
    """Return the number of a question beside its threshold."""
    if branch.key == "stays":
        return text("live.decision.note_sent", sent=branch.value)
    if branch.key == "few":
        return text("live.decision.note_gpus", n=branch.value, most=branch.threshold)
    return text("live.decision.note_cost", more=branch.value - 1, most=branch.threshold - 1)


def question_layers(here: economics.Decision, sent: float) -> dict[str, Layer]:
    """Return the questions with their numbers; those off the path recede. Bytes of a GPU [GB]."""
    need = sent / catalog.case().window  # GB/s
    tree = here.tree
    keys = [*tree.branches]
    place = np.array([corner(key) for key in keys])  # (Q, 3): left, top, width
    words = [text(f"live.decision.ask_{key}") for key in keys]
    on_path = np.array([key in tree.path for key in keys])
    return {
        "title": heading(14.0, text("live.decision.tree", need=need)),
        "questions": boxes(
            place[:, 0],
            place[:, 1],
            place[:, 2],
            _HIGH,
            colour=COLOUR["sunk"],
            edge=np.where(on_path, COLOUR["ink"], COLOUR["line"]),
            round=6.0,
            names=words,
            notes=[note_of(tree.branches[key]) for key in keys],
        ),
        "words": texts(
            place[:, 0] + 8,
            place[:, 1] + _HIGH / 2,
            words,
            size=12.0,
            colour=np.where(on_path, COLOUR["ink"], COLOUR["soft"]),
        ),
    }


def answer_layers(here: economics.Decision) -> dict[str, Layer]:
    """Return a box for each network, of which the answer is filled."""
    tree = here.tree
    keys = [key for key in _PLACES if key in tree.leaves]
    place = np.array([corner(key) for key in keys])  # (A, 3): left, top, width
    chosen = np.array([key == tree.answer for key in keys])
    return {
        "answers": boxes(
            place[:, 0],
            place[:, 1],
            place[:, 2],
            _HIGH,
            colour=np.where(chosen, COLOUR["ink"], COLOUR["paper"]),
            edge=np.where(chosen, COLOUR["ink"], COLOUR["line"]),
            round=6.0,
            names=[name_of(key) for key in keys],
            notes=[cost_note(here, key) for key in keys],
        ),
        "answer names": texts(
            place[:, 0] + place[:, 2] / 2,
            place[:, 1] + _HIGH / 2,
            [short_name(key) for key in keys],
            align=1.0,
            size=12.0,
            bold=np.where(chosen, 1.0, 0.0),
            colour=np.where(chosen, COLOUR["paper"], COLOUR["soft"]),
        ),
    }


def cost_note(here: economics.Decision, key: str) -> str:
    """Return what a step costs on a network, and how much more than on the cheapest."""
    cost = here.costs[key]
    if cost == np.inf:
        return text("live.decision.cannot")
    least = min(here.costs.values())
    key = "cost" if longest_bar(here) == _LONGEST else "cost_fine"
    return text(f"live.decision.{key}", cost=cost, more=cost / least - 1)


def longest_bar(here: economics.Decision) -> float:
    """Return what the longest bar stands for, of the cheapest: less where all networks cost nearly the same."""
    found = [cost for cost in here.costs.values() if cost < np.inf]
    return _LONGEST_FINE if max(found) / min(found) - 1 < _LONGEST_FINE else _LONGEST


def bar_layers(here: economics.Decision) -> dict[str, Layer]:
    """Return by how much a step costs more than on the cheapest network, as a bar for each that can run the job."""
    found = {key: cost for key, cost in here.costs.items() if cost < np.inf}
    least = min(found.values())
    more = np.array([cost / least - 1 for cost in found.values()])
    y = _BAR_TOP + _BAR_STEP * np.arange(more.size)
    wide = np.maximum(_BAR_WIDE * np.minimum(more / longest_bar(here), 1.0), 1.0)
    answers = np.array([key == here.answer for key in found])
    told = [cost_note(here, key) for key in found]
    beyond = [text("live.decision.beyond") if part > _LONGEST else "" for part in more]
    return {
        "title": heading(14.0, text("live.decision.bars")),
        "names": texts(
            _BAR_LEFT,
            y,
            [short_name(key) for key in found],
            bold=np.where(answers, 1.0, 0.0),
            size=12.0,
        ),
        "costs": texts(_BAR_LEFT + _BAR_WIDE, y, told, align=2.0, size=12.0, colour=COLOUR["soft"]),
        "bars": boxes(
            _BAR_LEFT,
            y + 10,
            wide,
            _BAR_HIGH,
            colour=np.where(answers, COLOUR["ink"], COLOUR["edge"]),
            round=0.0,
            names=[name_of(key) for key in found],
            notes=told,
        ),
        "beyond": texts(
            _BAR_LEFT + _BAR_WIDE, y + 27, beyond, align=2.0, size=11.0, colour=COLOUR["soft"]
        ),
    }
