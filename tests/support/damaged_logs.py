"""Logs damaged on purpose: cut, torn into each other, shuffled, with letters or figures that do not belong."""

import functools
import random
import re
from pathlib import Path

import fabriclab as fl

KINDS = 8


@functools.cache
def files() -> tuple[Path, ...]:
    """Return the files of the practice cases."""
    cases = [fl.diagnosis.practice(id) for id in fl.diagnosis.practice()]
    return tuple(file for case in cases for file in case.files)


def damaged(seed: int) -> str:
    """Return a damaged text; equal seeds give equal texts."""
    rng = random.Random(seed)
    chosen = files()
    text = rng.choice(chosen).read_text(encoding="utf-8", errors="replace")
    kind = seed % KINDS
    if kind == 0:  # cut
        return text[: rng.randrange(len(text) + 1)] + "\n"
    if kind == 1:  # letters that do not belong
        letters = list(text)
        for _ in range(rng.randrange(1, 60)):
            letters[rng.randrange(len(letters))] = chr(rng.randrange(1, 0x2FF))
        return "".join(letters) + "\n"
    if kind == 2:  # ranks in another order
        lines = text.split("\n")
        rng.shuffle(lines)
        return "\n".join(lines) + "\n"
    if kind == 3:  # from Windows
        return text.replace("\n", "\r\n")
    if kind == 4:  # two programs in one file
        other = rng.choice(chosen).read_text(encoding="utf-8", errors="replace").split("\n")
        pairs = zip(text.split("\n"), other, strict=False)
        return "\n".join(a[: rng.randrange(len(a) + 1)] + b for a, b in pairs) + "\n"
    if kind == 5:  # coloured
        return text.replace("NCCL", "\x1b[31mNCCL\x1b[0m") + "\n"
    if kind == 6:  # figures that cannot be
        return (
            re.sub(r"\d+", lambda m: rng.choice(["0", "-1", "9" * 31, m[0], "nan", "1e999"]), text)
            + "\n"
        )
    return text.replace(" ", "" if rng.random() < 0.5 else "  ") + "\n"  # other gaps
