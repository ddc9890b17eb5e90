"""Models held against published measurements: our model and the textbook on sweeps, the flow engine on PCIe wirings."""

from fabriclab.validate.crossed import Report, excluded, nearest, report
from fabriclab.validate.tables import REGIMES, ErrorTable, WiringTable, gigaio, predict, regimes, table, textbook

__all__ = ["REGIMES", "ErrorTable", "Report", "WiringTable", "excluded", "gigaio", "nearest", "predict", "regimes",
           "report", "table", "textbook"]  # fmt: skip
