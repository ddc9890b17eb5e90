"""Point to point: every rank sends to the next and receives from the one before, as nccl-tests measures it."""

import numpy as np

from fabriclab.collectives._algorithm import Steps, algorithm
from fabriclab.core import StepGroup


@algorithm("send_recv.direct", lambda n: (n > 1, n > 1, 0))
def send_recv(n: int, root: int) -> tuple[int, Steps]:
    """Send the whole array to the next rank, all at once."""
    rank = np.arange(n)
    return n, (StepGroup.make(rank, (rank + 1) % n, rank, reduce=False),) if n > 1 else ()
