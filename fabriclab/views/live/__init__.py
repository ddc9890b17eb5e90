"""Live views: pictures with controls, which a reader can set by mouse, by keyboard or from code.

A view takes values of the library, or plain functions from the values of its controls to such values. What it shows
is a `Scene` of arrays: the browser draws it, a test reads it, and ``view.picture()`` prints it. With
``FABRICLAB_TEXT=1`` a notebook shows the scene's table instead, with the line of code that sets the controls.
"""

from fabriclab.views.live.balancers import collisions
from fabriclab.views.live.circuit_turns import matchings
from fabriclab.views.live.cost_fronts import cost_front
from fabriclab.views.live.decision_trees import decision
from fabriclab.views.live.designs import design
from fabriclab.views.live.galleries import gallery
from fabriclab.views.live.goodputs import checkpoints
from fabriclab.views.live.groups import distance
from fabriclab.views.live.headrooms import headroom
from fabriclab.views.live.inside_switches import inside_switch
from fabriclab.views.live.links import beam, circuit, drift, hybrid, medium, mzi_mesh, wavelengths
from fabriclab.views.live.networks import cut, explorer, failures, mix, twist
from fabriclab.views.live.parallelism import parallelism
from fabriclab.views.live.pause_maps import pause_map
from fabriclab.views.live.pod_slices import slices
from fabriclab.views.live.queues import control_loops, incast
from fabriclab.views.live.rdma import chunks, copies, queue_pair, request, savings
from fabriclab.views.live.rollouts import rollout
from fabriclab.views.live.runs import fabric, race, ruler, sweep, timeline, traffic
from fabriclab.views.live.serving import tokens
from fabriclab.views.live.shared_fabrics import shared_fabric
from fabriclab.views.live.sick_links import sick_link
from fabriclab.views.live.sick_nics import sick_nic
from fabriclab.views.live.steppers import stepper
from fabriclab.views.live.steps import roofline, step
from fabriclab.views.live.switches import packets, pays, pool, quantisation, tenants
from fabriclab.views.live.training import bubble, overlap, staleness, straggler
from fabriclab.views.live.waits import latency, slowest, tiers
from fabriclab.views.live.ways import gigaio, paths, placement, roulette, server, wirings
from fabriclab.views.live.widget import Choice, Live, Slider, table
from fabriclab.views.scene import Layer, Scene

__all__ = [
    "Choice",
    "Layer",
    "Live",
    "Scene",
    "Slider",
    "beam",
    "bubble",
    "checkpoints",
    "chunks",
    "circuit",
    "collisions",
    "control_loops",
    "copies",
    "cost_front",
    "cut",
    "decision",
    "design",
    "distance",
    "drift",
    "explorer",
    "fabric",
    "failures",
    "gallery",
    "gigaio",
    "headroom",
    "hybrid",
    "incast",
    "inside_switch",
    "latency",
    "matchings",
    "medium",
    "mix",
    "mzi_mesh",
    "overlap",
    "packets",
    "parallelism",
    "paths",
    "pause_map",
    "pays",
    "placement",
    "pool",
    "quantisation",
    "queue_pair",
    "race",
    "request",
    "rollout",
    "roofline",
    "roulette",
    "ruler",
    "savings",
    "server",
    "shared_fabric",
    "sick_link",
    "sick_nic",
    "slices",
    "slowest",
    "staleness",
    "step",
    "stepper",
    "straggler",
    "sweep",
    "table",
    "tenants",
    "tiers",
    "timeline",
    "tokens",
    "traffic",
    "twist",
    "wavelengths",
    "wirings",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
