"""Size: at least 1,000 GPUs, in servers of four or eight, each with a NIC that has a cable."""

import numpy as np

from fabriclab.designs.exam import Exam, Verdict, others, verdict
from fabriclab.registry import register
from fabriclab.texts import text

GPUS = 1000  # source: the brief of exercise 2
SERVER_SIZES = (4, 8)  # source: the brief of exercise 2


@register("requirement", "size", place=1)
def size(exam: Exam) -> Verdict:
    """Count the GPUs of servers that have a cable."""
    design = exam.design
    has = np.zeros(design.servers, dtype=np.bool_)
    has[design.network.port_server] = True
    gpus = int(has.sum()) * design.gpus
    bare = design.fabric.endpoint[~has[design.fabric.server]]
    fields = {"gpus": gpus, "servers": design.servers, "each": design.gpus, "asked": GPUS}
    if design.gpus not in SERVER_SIZES:
        words = text("designs.size.server", **fields)
        return verdict("size", asked=8, reached=design.gpus, unit="GPUs", words=words, passed=False)
    joined = design.fabric.source[design.network.port_link]
    loose = np.setdiff1d(design.fabric.endpoint, joined)
    if gpus >= GPUS and loose.size:
        words = text(
            "designs.size.loose", name=design.label(int(loose[0])), others=others(loose.size - 1)
        )
        asked = design.servers * design.gpus
        return verdict(
            "size", asked=asked, reached=asked - loose.size, unit="NICs", words=words, nodes=loose
        )
    key = "designs.size.met" if gpus >= GPUS else "designs.size.few"
    return verdict(
        "size", asked=GPUS, reached=gpus, unit="GPUs", words=text(key, **fields), nodes=bare
    )
