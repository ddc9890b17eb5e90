"""Circuits that stay, bytes that change rail, and links of rings, counted by hand."""

import numpy as np
import pytest

from fabriclab import circuits, metrics, simulation, topologies
from fabriclab.topologies import gigaio
from fabriclab.workload.volumes import Traffic

# 0 and 1 exchange 50, 2 and 3 40, 0 and 2 30, 1 and 3 20, 0 and 3 10: the example of lesson 25
FOUR = np.zeros((4, 4))
for _one, _other, _size in ((0, 1, 50), (2, 3, 40), (0, 2, 30), (1, 3, 20), (0, 3, 10)):
    FOUR[_one, _other] = _size


def test_the_pairs_with_the_most_bytes_get_the_circuits():
    chosen = circuits.place(FOUR, 2)
    assert chosen == [(0, 1), (2, 3), (0, 2), (1, 3)]
    fabric = circuits.patched(chosen, 4, 2, "400 Gb/s")
    assert circuits.carried(fabric, FOUR).hops == pytest.approx(160 / 150)


def test_what_two_hosts_send_to_each_other_is_added():
    matrix = [[0, 6, 7], [6, 0, 0], [0, 0, 0]]
    assert circuits.place(matrix, 1) == [(0, 1)]


def test_a_greedy_choice_may_leave_islands():
    pairs = np.kron(np.eye(2), np.ones((4, 4)))
    np.fill_diagonal(pairs, 0)
    pairs[0, 4] = 0.1
    with pytest.raises(ValueError, match="connected"):
        circuits.patched(circuits.place(pairs, 3), 8, 3, "50 GB/s")


def test_bytes_of_two_servers_of_two_by_hand():
    sent = Traffic(np.array([0, 0, 0]), np.array([1, 2, 3]), np.array([6.0, 4.0, 1.0]))
    assert sent.relayed(2) == pytest.approx(0.2)
    assert sent.between_servers(4, 2).tolist() == [[0, 5], [0, 0]]
    swapped = sent.moved(np.array([0, 1, 3, 2]))
    assert swapped.relayed(2) == pytest.approx(0.8)
    assert Traffic(np.array([0]), np.array([1]), np.array([6.0])).relayed(2) == 0


def test_rings_leave_a_box_over_their_own_cable():
    fabric = topologies.build("gigaio", wiring="2s-2rp-split-flat")
    routes = simulation.links_of_rings(fabric, gigaio.rings(fabric))
    assert len(routes) == 4
    assert all(not any("cpu" in link for link in ring) for ring in routes)
    up = [[link for link in ring if "apa" in link and "-> draco" in link] for ring in routes]
    assert [len(links) for links in up] == [2, 2, 2, 2]
    assert len({link for links in up for link in links}) == 8


def test_even_traffic_between_servers_needs_two():
    one = topologies.build("mi300x")
    with pytest.raises(ValueError, match="two servers or more"):
        metrics.to_other_servers(one, "50 GB/s")
