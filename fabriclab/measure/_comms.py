"""The collectives over MPI and over Gloo, as `_rounds.Communicator`; each library is loaded when it is used."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.measure._rounds import slices

YIELDS = "OMPI_MCA_mpi_yield_when_idle"


class _Buffers:
    def __init__(self, items: int, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.send, self.recv = np.zeros((2, -(-items // size) * size), np.float32)


class MpiRanks(_Buffers):
    """One rank of MPI's world communicator."""

    def __init__(self, items: int) -> None:
        from mpi4py import MPI

        self.comm = MPI.COMM_WORLD
        self.about = MPI.Get_library_version().split(",")[0].split("\n")[0].strip()
        self.about += " (a waiting rank yields its core)" if os.environ.get(YIELDS) == "1" else ""
        super().__init__(items, self.comm.Get_rank(), self.comm.Get_size())

    def _counts(self, n: int) -> list[int]:
        return [part.stop - part.start for part in slices(n, self.size)]

    def barrier(self) -> None:
        self.comm.Barrier()

    def all_reduce(self, n: int) -> None:
        self.comm.Allreduce(self.send[:n], self.recv[:n])

    def reduce_scatter(self, n: int) -> None:
        counts = self._counts(n)
        self.comm.Reduce_scatter(self.send[:n], self.recv[: counts[self.rank]], counts)

    def all_gather(self, n: int) -> None:
        counts = self._counts(n)
        self.comm.Allgatherv(self.send[: counts[self.rank]], [self.recv[:n], counts])

    def broadcast(self, n: int) -> None:
        self.comm.Bcast((self.recv if self.rank else self.send)[:n])

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        table = np.empty((self.size, numbers.size))
        self.comm.Allgather(numbers, table)
        return table


class GlooRanks(_Buffers):
    """One rank of torch's Gloo; where nobody says where to meet, the variables of torchrun do."""

    def __init__(self, items: int, rank: int = -1, size: int = -1, meet: str = "env://") -> None:
        import torch
        import torch.distributed as dist

        self.dist: Any = dist
        self._tensor = torch.from_numpy
        if not dist.is_initialized():
            dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size)
        self.group = None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        self.about = f"Gloo of torch {torch.__version__.split('+')[0]}"
        # Newer releases of torch have these two under another name.
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        super().__init__(items, dist.get_rank(), dist.get_world_size())

    def barrier(self) -> None:
        self.dist.barrier(self.group)

    def all_reduce(self, n: int) -> None:
        self.recv[:n] = self.send[:n]  # Gloo adds in place
        self.dist.all_reduce(self._tensor(self.recv[:n]), group=self.group)

    def reduce_scatter(self, n: int) -> None:
        block = -(-n // self.size)  # Gloo takes equal blocks only, so the last one is filled up
        self._scatter(self._tensor(self.recv[:block]), self._tensor(self.send[: block * self.size]), group=self.group)

    def all_gather(self, n: int) -> None:
        block = -(-n // self.size)
        self._gather(self._tensor(self.recv[: block * self.size]), self._tensor(self.send[:block]), group=self.group)

    def broadcast(self, n: int) -> None:
        self.dist.broadcast(self._tensor((self.recv if self.rank else self.send)[:n]), 0, group=self.group)

    def gather(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        table = np.empty((self.size, numbers.size))
        self._gather(self._tensor(table.reshape(-1)), self._tensor(numbers), group=self.group)
        return table
