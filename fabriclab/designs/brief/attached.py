"""Attached: no single switch takes with it the last path of a GPU, through any NIC of its server."""

from fabriclab.designs.exam import Exam, Verdict, others, verdict
from fabriclab.registry import register
from fabriclab.texts import text


@register("requirement", "attached", place=7, needs=("size", "routes"))
def attached(exam: Exam) -> Verdict:
    """Let each switch fail alone, and count the GPUs that nothing reaches."""
    design = exam.design
    numbers = range(len(exam.faults))
    worst = max(numbers, key=lambda i: exam.faults[i].cut_off)
    hurt = exam.faults[worst]
    several = sum(fault.cut_off > 0 for fault in exam.faults)
    if not hurt.cut_off:
        words = text("designs.attached.met", switches=len(exam.faults))
        return verdict("attached", asked=0, reached=0, unit="GPUs", most=True, words=words)
    words = text(
        "designs.attached.cut",
        name=design.title(worst),
        gpus=hurt.cut_off,
        servers=", ".join(map(str, hurt.servers[:6])),
        others=others(several - 1),
    )
    ends = design.fabric.endpoint[[s in hurt.servers for s in design.fabric.server.tolist()]]
    return verdict(
        "attached",
        asked=0,
        reached=hurt.cut_off,
        unit="GPUs",
        most=True,
        words=words,
        nodes=[*hurt.nodes, *ends.tolist()],
    )
