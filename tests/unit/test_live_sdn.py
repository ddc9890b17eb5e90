"""Views of software-defined fabrics: what they show is what the library says, for every order and every share."""

import itertools

import numpy as np
import pytest

from fabriclab import live, sdn
from fabriclab.texts import text
from fabriclab.views.live import rollouts, shared_fabrics
from fabriclab.views.scene import COLOUR

REVERSE = sdn.rules("s-a-b-c-d"), sdn.rules("s-c-b-a-d")
DRAIN = sdn.rules("s-a-d"), sdn.rules("s-b-c-d")


# a rollout ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("change", "pair"), [("reverse", REVERSE), ("drain", DRAIN)])
def test_the_list_of_orders_is_the_count_of_the_library(change, pair):
    counted = sdn.all_orders(*pair, sources="s", destination="d")
    table = live.rollout(change).scene.table
    arrives = table["all packets arrive"] == text("live.rollout.yes")
    safe = {tuple(order.split()) for order in table["order"][arrives].tolist()}
    assert safe == set(counted.safe) and table.n_rows == counted.total == 24
    assert np.count_nonzero(~arrives) == {"reverse": 18, "drain": 22}[change]


def test_twenty_orders_have_a_loop_somewhere_and_two_of_them_lose_nothing():
    table = live.rollout().scene.table
    stars = text("live.rollout.cell_aside"), text("live.rollout.cell_loop")
    columns = [table[f"after {n}"].tolist() for n in (1, 2, 3)]
    has_loop = [any(cell in stars for cell in row) for row in zip(*columns, strict=True)]
    arrives = table["all packets arrive"] == text("live.rollout.yes")
    assert sum(has_loop) == 20 and np.count_nonzero(np.array(has_loop) & arrives) == 2


@pytest.mark.parametrize("change", ["reverse", "drain"])
def test_packets_run_along_the_rules_from_s_and_a_loop_has_its_colour(change):
    plan = rollouts._CHANGES[change]
    for order, step in itertools.product(rollouts.orders()[::5], range(5)):
        state = rollouts.states_of(plan, order)[step]
        layers = live.rollout(change, order, step).scene.layers
        rules = layers["rules"].fields
        pairs = zip(state.path[:-1], state.path[1:], strict=True)
        used = {text("live.rollout.arrow", switch=a, following=b) for a, b in pairs}
        flows = np.flatnonzero(rules["flow"] > 0)
        assert {rules["names"][k] for k in flows} == used
        in_loop = {rules["names"][k] for k in np.flatnonzero(rules["colour"] == COLOUR["wrong"])}
        assert len(in_loop) == len(state.circle) == layers["circle"].fields["x"].size
        assert layers["lost"].fields["x"].size == (state.kind == "hole")


def test_arrows_end_at_the_box_of_the_next_switch():
    for change in ("reverse", "drain"):
        plan = rollouts._CHANGES[change]
        for one, other in plan.cables:
            for a, b in ((one, other), (other, one)):
                path = rollouts.cable_path(plan, a, b, 5.0)
                for point, switch in ((path[0], a), (path[-1], b)):
                    away = np.abs(point - plan.place[switch]) - np.array(rollouts._BOX) / 2
                    assert 0 < away.max() < 16


def test_without_the_overview_nothing_tells_the_number_of_orders():
    view = live.rollout("reverse", "a c b s", 2, overview=False)
    assert view.scene.side is None and "18" not in str(view.scene.said)
    assert view.scene.table["rule"].tolist() == ["to d: a", "to d: d", "to d: c", "to d: b"]
    with pytest.raises(ValueError, match="order must be one of"):
        live.rollout("reverse", "a b c")


# tenants ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("a", "b"), [(8, 1), (1, 1), (1, 16), (5, 3)])
def test_shares_by_hand(a, b):
    def part(sharing):
        return shared_fabrics.shares_of(shared_fabrics.Case(sharing, (a, b))).part[0]

    assert part("flow") == pytest.approx(a / (a + b))
    assert part("tenant") == pytest.approx(1 / 2)
    assert part("weight") == pytest.approx(1 / 4)
    assert part("spine") == pytest.approx(1 / 2)


def test_nobody_loses_by_an_idle_neighbour_and_only_own_spines_waste():
    for sharing in ("flow", "tenant", "weight"):
        alone = shared_fabrics.shares_of(shared_fabrics.Case(sharing, (8, 0)))
        assert alone.rate.tolist() == pytest.approx([50e9, 0])
    own = shared_fabrics.shares_of(shared_fabrics.Case("spine", (8, 0)))
    assert own.rate.tolist() == pytest.approx([25e9, 0])
    assert own.spine[0].tolist() == pytest.approx([25e9, 0])


def test_the_floor_of_a_weight_holds_whatever_the_others_send():
    for a in range(1, 17):
        b_gets = shared_fabrics.shares_of(shared_fabrics.Case("weight", (a, 1))).rate[1]
        assert b_gets >= 0.75 * 50e9 * (1 - 1e-9)


def test_lines_are_as_thick_as_the_rates_that_they_carry():
    scene = live.shared_fabric("flow", 8, 1).scene
    shares = shared_fabrics.shares_of(shared_fabrics.Case("flow", (8, 1)))
    lines = scene.layers["tenants"].fields
    rate = (lines["width"] - 1.2) / shared_fabrics._THICK * 50e9
    over = np.array([name.endswith("spine 1") for name in lines["names"]])
    assert rate[over].sum() == pytest.approx(2 * shares.spine[:, 0].sum(), rel=1e-4)
    assert rate[~over].sum() > 0 and np.all(rate >= 0)
