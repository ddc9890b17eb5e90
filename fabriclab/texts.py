"""Every sentence that people read comes from one table per language.

``FABRICLAB_LANGUAGE=pseudo`` makes all of them 40% longer, with accents: what does not change then, or does not fit,
was written in the wrong place.
"""

import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

LANGUAGE = "FABRICLAB_LANGUAGE"
_ACCENTS = str.maketrans("aeiouyAEIOUYnc", "áéíóúýÁÉÍÓÚÝñç")


@functools.cache
def _loaded() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(Path(__file__).with_name("texts_en.json").read_text(encoding="utf-8"))
    return found


@functools.cache
def _pseudo() -> Mapping[str, str]:
    return {key: "|".join(map(_longer, sentence.split("|"))) for key, sentence in _loaded().items()}


def _longer(sentence: str) -> str:
    """Return a sentence 40% longer; its fields stay as they are."""
    parts = re.split(r"(\{[^}]*\})", sentence)
    words = "".join(part if i % 2 else part.translate(_ACCENTS) for i, part in enumerate(parts))
    return words + "~" * (len(sentence) * 2 // 5)


def table() -> Mapping[str, str]:
    """Return the sentences of the language in use, by key."""
    language = os.environ.get(LANGUAGE, "en")
    if language not in ("en", "pseudo"):
        raise ValueError(f"{LANGUAGE} must be en or pseudo, got {language!r}")
    return _pseudo() if language == "pseudo" else _loaded()


def text(key: str, /, **fields: object) -> str:
    """Return the sentence ``key`` with its fields filled in."""
    return table()[key].format(**fields)


def keys(start: str) -> list[str]:
    """Return the keys that begin with ``start``, in the order of the table."""
    return [key for key in _loaded() if key.startswith(start)]
