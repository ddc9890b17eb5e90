"""Readers of the logs that clusters leave behind."""

from fabriclab.importers.nccl_tests import read_nccl_tests

__all__ = ["read_nccl_tests"]
