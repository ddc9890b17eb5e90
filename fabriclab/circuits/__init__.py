"""Optical circuit switches: matchings of traffic, rotors, hybrids with packets, topologies for a job, slices of pods.

A circuit is a light path that carries one pair of hosts at full rate and looks at no packet; to move it takes a set-up
time in which its ports are dark. `network` has all possible circuits as dark links, `decompose` says which to light in
turn, and `play` sends traffic over them on the flow engine. `fabriclab.physics.switching` has the break-even of a
single circuit, and ``fabriclab.topologies.tpu_slice`` the ports of a TPU v4 pod.

Examples
--------
>>> from fabriclab import circuits
>>> traffic = [[0, 8e6, 1e6], [1e6, 0, 8e6], [8e6, 1e6, 0]]
>>> schedule = circuits.decompose(traffic)
>>> run = circuits.play(schedule.plan("400 Gb/s", "100 us"), traffic)
>>> round(run.time * 1e6)  # 9 MB at 50 GB/s, and two set-ups
380
"""

from fabriclab.circuits.fixed import Carried, carried, patched, place, ring_with_partners
from fabriclab.circuits.hybrids import Hybrid, hybrid
from fabriclab.circuits.matchings import (
    Decomposition,
    Mistake,
    StepTrial,
    WrongMatching,
    decompose,
    fewest_turns,
    mistake_in,
    pad,
    try_step,
)
from fabriclab.circuits.plans import CircuitPlan, Lit, Played, plan, play
from fabriclab.circuits.published import (
    Gain,
    PortPower,
    Saving,
    capital_saving,
    pod_circuits,
    pod_rate,
    port_power,
    power_saving,
    power_share_of_pod,
    price_for,
    published,
)
from fabriclab.circuits.rotors import play_rotor, rotor, rotor_matchings, spread
from fabriclab.circuits.slices import (
    DrawnPod,
    any_availability,
    cube_availability,
    draw_pods,
    fixed_availability,
    goodput,
    hosts_of_a_cube,
)
from fabriclab.circuits.switches import OpticalSwitch, kinds, links, lit, network, switch
from fabriclab.circuits.topologies import (
    Occasion,
    Phases,
    TopologyChoice,
    choose_topology,
    phases,
    seconds_on,
    serve,
    when_to_change,
)
from fabriclab.circuits.traffic import skewed

__all__ = [
    "Carried",
    "CircuitPlan",
    "Decomposition",
    "DrawnPod",
    "Gain",
    "Hybrid",
    "Lit",
    "Mistake",
    "Occasion",
    "OpticalSwitch",
    "Phases",
    "Played",
    "PortPower",
    "Saving",
    "StepTrial",
    "TopologyChoice",
    "WrongMatching",
    "any_availability",
    "capital_saving",
    "carried",
    "choose_topology",
    "cube_availability",
    "decompose",
    "draw_pods",
    "fewest_turns",
    "fixed_availability",
    "goodput",
    "hosts_of_a_cube",
    "hybrid",
    "kinds",
    "links",
    "lit",
    "mistake_in",
    "network",
    "pad",
    "patched",
    "phases",
    "place",
    "plan",
    "play",
    "play_rotor",
    "pod_circuits",
    "pod_rate",
    "port_power",
    "power_saving",
    "power_share_of_pod",
    "price_for",
    "published",
    "ring_with_partners",
    "rotor",
    "rotor_matchings",
    "seconds_on",
    "serve",
    "skewed",
    "spread",
    "switch",
    "try_step",
    "when_to_change",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
