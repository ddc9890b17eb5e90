"""All-reduce: after any single switch has failed, at least 80 % of its rate is left."""

from fabriclab.designs.exam import Exam, Verdict, rate_left
from fabriclab.designs.failures import FLOOR
from fabriclab.registry import register
from fabriclab.texts import text


@register("requirement", "all_reduce", place=8, needs=("size", "routes"))
def all_reduce(exam: Exam) -> Verdict:
    """Let each switch fail alone, and compare the ring with that of the healthy design."""
    design = exam.design
    worst = min(range(len(exam.faults)), key=lambda i: exam.faults[i].left)
    hurt = exam.faults[worst]
    fields = {"name": design.title(worst), "left": hurt.left, "floor": FLOOR}
    if hurt.link >= 0:
        fields["link"] = design.link_title(hurt.link)
    if hurt.left >= FLOOR - 1e-9:
        key = "designs.all_reduce.met"
    elif hurt.link >= 0:
        key = "designs.all_reduce.low"
    else:
        key = "designs.all_reduce.none"
        fields["servers"] = ", ".join(map(str, hurt.servers[:6]))
    return rate_left("all_reduce", hurt, text(key, **fields))
