"""Live views: pictures that follow the hand, by mouse, keyboard and text.

Each takes values of the library and plain functions from control values to such values. What a view shows is a
`Scene` of arrays; the browser draws it, a test reads it, ``view.picture()`` prints it, and with ``FABRICLAB_TEXT=1``
its table and the line of code that sets it stand in its place.
"""

from fabriclab.views.live.links import beam, circuit, drift, hybrid, medium, mzi_mesh, wavelengths
from fabriclab.views.live.networks import cut, explorer, failures, mix, twist
from fabriclab.views.live.rdma import chunks, copies, queue_pair, request, savings
from fabriclab.views.live.runs import fabric, race, ruler, sweep, timeline, traffic
from fabriclab.views.live.steppers import stepper
from fabriclab.views.live.switches import packets, pays, pool, quantisation, tenants
from fabriclab.views.live.training import bubble, overlap, staleness, straggler
from fabriclab.views.live.waits import latency, tiers
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
    "chunks",
    "circuit",
    "copies",
    "cut",
    "drift",
    "explorer",
    "fabric",
    "failures",
    "gigaio",
    "hybrid",
    "latency",
    "medium",
    "mix",
    "mzi_mesh",
    "overlap",
    "packets",
    "paths",
    "pays",
    "placement",
    "pool",
    "quantisation",
    "queue_pair",
    "race",
    "request",
    "roulette",
    "ruler",
    "savings",
    "server",
    "staleness",
    "stepper",
    "straggler",
    "sweep",
    "table",
    "tenants",
    "tiers",
    "timeline",
    "traffic",
    "twist",
    "wavelengths",
    "wirings",
]
