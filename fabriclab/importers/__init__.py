"""Readers of the logs and tables that clusters leave behind."""

from fabriclab.importers.nccl_tests import read_nccl_tests
from fabriclab.importers.opensm import Subnet, read_forwarding_tables, read_ibnetdiscover

__all__ = ["Subnet", "read_forwarding_tables", "read_ibnetdiscover", "read_nccl_tests"]
