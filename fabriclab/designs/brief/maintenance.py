"""Drains: each switch is drained once, in at most 24 nights, and the job keeps its floor in each of them."""

from fabriclab.designs.exam import Exam, Verdict, others, rate_left, verdict
from fabriclab.designs.failures import FLOOR, fault
from fabriclab.designs.nights import NIGHTS, missing, read_order
from fabriclab.registry import register
from fabriclab.texts import text


@register("requirement", "drains", place=9, needs=("size", "routes"))
def drains(exam: Exam) -> Verdict:
    """Drain the switches of each night together."""
    design = exam.design
    given = design.sheet.get("drains")
    if not given:
        words = text("designs.drains.nothing", switches=design.network.n, nights=NIGHTS)
        return verdict("drains", asked=design.network.n, reached=0, unit="switches", words=words)
    try:
        nights = read_order(design, given)
    except (TypeError, ValueError) as error:
        return verdict(
            "drains", asked=1, reached=0, unit="switches", words=str(error), passed=False
        )
    if len(nights) > NIGHTS:
        words = text("designs.drains.long", nights=len(nights), most=NIGHTS)
        return verdict(
            "drains", asked=NIGHTS, reached=len(nights), unit="nights", most=True, words=words
        )
    left_out, doubled = missing(design, nights)
    if left_out or doubled:
        key = "designs.drains.missing" if left_out else "designs.drains.twice"
        odd = left_out or doubled
        number = design.switches.tolist().index(odd[0])
        words = text(key, name=design.title(number), others=others(len(odd) - 1))
        return verdict(
            "drains",
            asked=design.network.n,
            reached=design.network.n - len(odd),
            unit="switches",
            words=words,
            passed=False,
            nodes=odd,
        )
    found = [fault(design, night, exam.healthy) for night in nights]
    worst = min(range(len(found)), key=lambda i: found[i].left)
    hurt = found[worst]
    numbers = [design.switches.tolist().index(node) for node in hurt.nodes]
    fields = {
        "night": worst + 1,
        "nights": len(nights),
        "names": ", ".join(design.title(number) for number in numbers[:6]),
        "left": hurt.left,
        "floor": FLOOR,
        "gpus": hurt.cut_off,
    }
    if hurt.left >= FLOOR - 1e-9:
        key = "designs.drains.met"
    else:
        key = "designs.drains.cut" if hurt.cut_off else "designs.drains.low"
    return rate_left("drains", hurt, text(key, **fields))
