"""Lesson 34b: how long a NIC takes for many messages."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fabriclab import catalog
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_time

# messages, bytes of each, rate [B/s], messages that are posted in a second
Batch = tuple[int, float, float, float]
Sending = Callable[[int, float, float, float], Any]

# A token of DeepEP's low-latency dispatch: 7,168 numbers of a byte, a scale of 4 B for each 128, and 16 B more.
# source: deepseek-ai/DeepEP, tests/legacy/test_low_latency.py (num_fp8_bytes)
TOKEN = 7168 + 7168 // 128 * 4 + 16


@cache
def batches() -> dict[str, Batch]:
    """Return the batches on which a function is tried, by what they are."""
    rate = float(catalog.case().nic_rate)
    proxy = float(catalog.value("rdma", "proxy-post", "message_rate"))
    gpu = float(catalog.value("rdma", "gpu-post", "message_rate"))
    # illustrative: numbers of messages; 64 B is the size of a flag or a short request
    asked = [(1024, TOKEN, proxy), (1024, TOKEN, gpu), (56, 130_000.0, proxy), (100_000, 64.0, gpu)]
    found = {}
    for count, size, posts in asked:
        name = text("trace.batch", count=f"{count:,}", size=float(size), posts=f"{posts / 1e6:.3g}")
        found[name] = (count, float(size), rate, posts)
    return found


def seconds(messages: int, size: float, rate: float, posts: float) -> float:
    """Return how long it takes until the last of many messages has left a NIC."""
    return max(messages * size / rate, messages / posts)


def _bytes_alone(messages: int, size: float, rate: float, posts: float) -> float:
    return messages * size / rate


def _posts_alone(messages: int, size: float, rate: float, posts: float) -> float:
    return messages / posts


def _in_turns(messages: int, size: float, rate: float, posts: float) -> float:
    return messages * size / rate + messages / posts


def _the_shorter(messages: int, size: float, rate: float, posts: float) -> float:
    return min(messages * size / rate, messages / posts)


def _one_message(messages: int, size: float, rate: float, posts: float) -> float:
    return max(size / rate, 1 / posts)


def _in_bits(messages: int, size: float, rate: float, posts: float) -> float:
    return seconds(messages, 8 * size, rate, posts)


# What somebody with a mistake returns, by its name.
SENDING_MISTAKES: Mapping[str, Callable[..., float]] = {
    "bytes alone": _bytes_alone,
    "posts alone": _posts_alone,
    "sending waits until all is posted": _in_turns,
    "shorter of both times": _the_shorter,
    "time of one message alone": _one_message,
    "bits for bytes": _in_bits,
}


@register("check", "34b-write-sending")
def sending(answer: Sending) -> Verdict:
    """Run ``answer(messages, size, rate, posts)``, the time until all messages have left a NIC."""
    return compared("34b-write-sending", answer, batches(), seconds, SENDING_MISTAKES, format_time)
