"""The enumerations of the verbs, with the names and values of pyverbs 44.0.

Every member is also a name of this module: ``enums.IBV_QPS_RTS``. What this device cannot do is left out.
"""

import itertools
import json
from enum import IntEnum
from pathlib import Path
from typing import Any

TABLE = json.loads(Path(__file__).with_name("verbs.json").read_text(encoding="utf-8"))
_make: Any = IntEnum
for _name, _members in TABLE["enums"].items():
    _made = _make(_name, _members, module=__name__)
    globals()[_name] = _made
    globals().update(_made.__members__)


def __getattr__(name: str) -> Any:
    """Raise an error that lists the existing names; it is called only for names that do not exist."""
    members = itertools.chain.from_iterable(TABLE["enums"].values())
    known = ", ".join(members)
    raise AttributeError(f"fabriclab.rdma.enums has no {name!r}; the device knows {known}")
