"""Models held against published measurements: our model and the textbook on sweeps, the flow engine on PCIe wirings."""

from fabriclab.validate.crossed import Report, excluded, nearest, report
from fabriclab.validate.model import predict
from fabriclab.validate.ring import textbook
from fabriclab.validate.tables import REGIMES, ErrorTable, regimes, table
from fabriclab.validate.wirings import WiringTable, gigaio

__all__ = [
    "REGIMES", "ErrorTable", "Report", "WiringTable", "excluded", "gigaio", "nearest", "predict", "regimes", "report",
    "table", "textbook",
]  # fmt: skip
