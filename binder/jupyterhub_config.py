"""A JupyterHub for one class on one machine; docs/jupyterhub.md tells how to set it up, and why each value is there.

Start it with ``jupyterhub -f binder/jupyterhub_config.py``. Settings of your own go into another file that begins with
``load_subconfig("/srv/fabriclab/binder/jupyterhub_config.py")``.
"""

import asyncio
import os
import sys
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner
from jupyterhub.utils import can_connect

c = get_config()  # noqa: F821
COURSE = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent

# A server takes one to two seconds of a core until it answers. If all of a class start at once, all wait for the last.
STARTS_AT_ONCE = max(2, os.cpu_count() or 1)
STUDENTS = 60  # more than that many servers are refused, because they would not fit into 24 GiB
GIB = 2**30


class InTurn:
    """Starts a few servers at a time; whoever comes meanwhile sees the page that says "starting", and is never refused.

    JupyterHub's own limit, ``concurrent_spawn_limit``, refuses instead, with an error that asks to try again.
    """

    turn = asyncio.Semaphore(STARTS_AT_ONCE)

    async def start(self):
        """Wait for a turn, start the server, and keep the turn until the server answers or has ended."""
        async with self.turn:
            ip, port = await super().start()
            end = asyncio.get_running_loop().time() + self.http_timeout
            while asyncio.get_running_loop().time() < end:
                if can_connect(ip, port) or await self.poll() is not None:
                    break
                await asyncio.sleep(0.2)
            return ip, port


class StudentSpawner(InTurn, LocalProcessSpawner):
    """Starts the server of a student as that user of the system, after bringing new lessons."""


c.JupyterHub.spawner_class = StudentSpawner
c.JupyterHub.active_server_limit = STUDENTS
c.JupyterHub.concurrent_spawn_limit = STUDENTS  # `InTurn` does it, and refuses nobody
c.Spawner.start_timeout = 600  # [s] with the wait for a turn
c.Spawner.http_timeout = 120  # [s] of the server alone, on a busy machine

if (
    PROGRAMS / "configurable-http-proxy"
).exists():  # beside this Python; else it is on the search path
    c.ConfigurableHTTPProxy.command = [str(PROGRAMS / "configurable-http-proxy")]

c.Spawner.cmd = [str(COURSE / "binder" / "hub_student"), sys.executable]
c.Spawner.default_url = "/lab/tree/fabriclab/notebooks/00_start_here.ipynb"
# `hub_student` lets no process of a student have more memory than this.
c.Spawner.mem_limit = 1 * GIB
c.Spawner.environment = {
    # Lessons and exercises keep their progress in one file, outside of the folder that a student may delete.
    "FABRICLAB_PROGRESS": lambda spawner: os.path.expanduser(
        f"~{spawner.user.name}/fabriclab-progress.json"
    ),
    # What needs more than this is refused with advice, before anything is allocated.
    "FABRICLAB_MEMORY": "512 MiB",
    # Two cores for a class: a library that starts threads of its own gains nothing there.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    # What a cell has freed goes back to the system. By itself glibc keeps up to 64 MiB, and more for each thread. With
    # 4 MiB instead of 1, a kernel after lesson 31 is anything from 160 to 230 MiB large, with 1 MiB at most 186.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2**20),
}
c.Spawner.args = [
    # An idle kernel ends after two hours, also below an open page, and a server without kernels half an hour later.
    "--MappingKernelManager.cull_idle_timeout=7200",
    "--MappingKernelManager.cull_connected=True",
    "--MappingKernelManager.cull_interval=300",
    "--ServerApp.shutdown_no_activity_timeout=1800",
    "--LabApp.extension_manager=readonly",
]
