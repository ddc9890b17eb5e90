"""The clock of grading: the processor time of a process and of all that descends from it, whatever they do."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from fabriclab.course.grading import _clock
from fabriclab.course.grading._clock import ProcessorClock
from support.budgets import budget

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
SPIN = """
import os, sys, threading, time

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def done():
    print("done", flush=True)
    sys.stdin.readline()
"""
# As the parent of learners' processes does: orphans come to it.
ABOVE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
pid = os.fork()
if pid:
    os.close(0)
    os.close(1)
    signal.pause()
print(os.getpid(), flush=True)
"""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """Look for descendants every 0.1 s also where a look costs much, so that no test waits for one."""
    monkeypatch.setattr(_clock, "_MOST_APART", 0.1)


@contextmanager
def running(body):
    """Run code below a process that takes its orphans; yield its number, and a function that waits for ``done``."""
    command = [sys.executable, "-c", ABOVE + SPIN + body]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as above:
        try:
            pid = int(above.stdout.readline())

            def wait():
                assert above.stdout.readline() == "done\n"

            yield pid, wait
        finally:
            os.killpg(above.pid, signal.SIGKILL)


def used(body, *, family=True):
    """Return what the clock shows of some code when it has said that it is done."""
    with running(body) as (pid, wait):
        clock = ProcessorClock(pid, family=family)
        begin = clock.read()
        wait()
        time.sleep(0.15)  # what lives is looked for again
        return clock.read() - begin


def test_work_is_counted_and_sleep_is_not():
    assert used("spin(0.3); done()") == pytest.approx(0.3, abs=0.05)
    assert used("time.sleep(0.3); done()") < 0.05


def test_every_thread_is_counted_and_a_sleeping_one_is_not():
    threads = (
        "threads = [threading.Thread(target=spin, args=(0.2,)) for _ in range(2)]\n"
        "threads.append(threading.Thread(target=time.sleep, args=(0.2,)))\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "done()"
    )
    assert used(threads, family=False) == pytest.approx(0.4, abs=0.05)


CHILD = "if not os.fork():\n    spin(0.3)\n"
CHILDREN = {
    "alive": CHILD + "    done()\ntime.sleep(9)",
    "dead, and not waited for": CHILD
    + "    print('done', flush=True)\n    os._exit(0)\ntime.sleep(9)",
    "waited for": CHILD + "    os._exit(0)\nos.wait()\ndone()",
    "waited for by its parent, which was waited for": (
        "if not os.fork():\n    if not os.fork():\n        spin(0.3)\n        os._exit(0)\n"
        "    os.wait()\n    os._exit(0)\nos.wait()\ndone()"
    ),
    "an orphan": (
        "if not os.fork():\n    if not os.fork():\n        os.setsid()\n        spin(0.3)\n        done()\n"
        "    os._exit(0)\nos.wait()\ntime.sleep(9)"
    ),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_child_is_counted_whatever_became_of_it(name):
    assert used(CHILDREN[name]) == pytest.approx(0.3, abs=0.05)


@pytest.mark.alone  # looks that come late miss the last part of a child's time
def test_a_child_that_nobody_waits_for_stays_in_the_time_when_it_is_gone():
    body = (
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "if not os.fork():\n    spin(0.4)\n    os._exit(0)\n"
        "time.sleep(0.01)\nwhile True:\n    try: os.wait()\n    except ChildProcessError: break\ndone()"
    )
    with running(body) as (pid, wait):
        clock = ProcessorClock(pid, family=True)
        shown = [clock.read()]
        while shown[-1] < 0.3:
            time.sleep(0.02)
            shown.append(clock.read())
        wait()
        time.sleep(0.1)
        shown.append(clock.read())
        assert shown == sorted(shown)
        assert shown[-1] - shown[0] == pytest.approx(0.4, abs=0.11)  # but for the time since a look


def test_without_a_family_children_are_left_out():
    assert used(CHILDREN["waited for"], family=False) < 0.05


def test_it_never_goes_down_and_stays_where_it_is_when_all_are_dead():
    with running("spin(0.2); done()") as (pid, wait):
        clock = ProcessorClock(pid, family=True)
        wait()
        before = clock.read()
    time.sleep(0.1)
    assert before <= clock.read() < before + 0.05


def test_it_is_within_50_ms_of_what_the_kernel_tells_when_all_is_over():
    """Three processes with threads and system calls, held against the resource usage of the family."""
    body = (
        "for seconds in (0.1, 0.2):\n    if not os.fork():\n"
        "        thread = threading.Thread(target=spin, args=(seconds,))\n        thread.start()\n"
        "        for _ in range(20_000): os.stat('/')\n        thread.join()\n        os._exit(0)\n"
        "spin(0.1)\nos.wait()\nos.wait()\nprint('done', flush=True)\nsys.stdin.readline()"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", SPIN + body]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        clock = ProcessorClock(process.pid, family=True)
        begin = clock.read()  # of other processes that these tests have started
        assert process.stdout.readline() == "done\n"
        time.sleep(0.1)
        shown = clock.read() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert shown == pytest.approx(told, abs=0.05)


@pytest.mark.alone
def test_a_reading_costs_microseconds():
    with running("time.sleep(9)") as (pid, _):
        clock = ProcessorClock(pid, family=False)
        begin = time.process_time()
        for _ in range(10_000):
            clock.read()
        assert time.process_time() - begin < budget(0.1)  # 1.0 us each on a quiet machine
