"""Memory and CPU time of each process of the servers of a host, as its kernel accounts for them.

This text runs alone, with the Python that a host has: it imports nothing but the standard library. Its lines are read
by :mod:`citus_analysis.formats.backends`. To account for the memory of a process, the kernel visits its page tables,
which takes 0.1 to 1 ms; CPU time is found in some 20 microseconds. After each of both, the next waits at least a
hundred times the CPU time that it took, so that both together take at most a fiftieth of a processor, whatever the
number of connections. A sample in which memory is not read has only CPU times.

Memory is readable for root and the server's own user; to others, only CPU time and page tables are.

Arguments: seconds between two samples, at least.
"""

import os
import sys
import time

#: Pause after a sample, in CPU times of the sample.
PAUSE_PER_COST = 100.0
#: Names of a server's processes.
NAMES = ("postgres", "postmaster")
#: Rows of smaps_rollup: all, memory of its own, shared memory; parts of pages that others map, too.
MEMORY = ("Pss", "Pss_Anon", "Pss_Shmem")
MS_PER_TICK = 1000.0 / os.sysconf("SC_CLK_TCK")
UNKNOWN = "-"


def read_text(process: str, name: str) -> str:
    """A file of a process; empty if it has ended, or its memory is not readable."""
    try:
        # Paths of pathlib would double the time of a sample.
        with open(f"/proc/{process}/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def find_kilobytes(text: str, name: str) -> str:
    """The number of a row `name: 123 kB`."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == f"{name}:":
            return words[1]
    return UNKNOWN


def find_processes() -> dict[str, str]:
    """The processes of servers: pid -> parent and ms of CPU time."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        # The name is in parentheses, and may contain any character.
        name, _, rest = read_text(process, "stat").partition("(")[2].rpartition(")")
        if name in NAMES:
            fields = rest.split()
            found[process] = f"{fields[1]} {(int(fields[11]) + int(fields[12])) * MS_PER_TICK:.0f}"
    return found


def find_memory(process: str) -> str:
    """Numbers of kB of memory and of page tables of a process."""
    memory = read_text(process, "smaps_rollup")
    numbers = [find_kilobytes(memory, row) for row in MEMORY]
    return " ".join([*numbers, find_kilobytes(read_text(process, "status"), "VmPTE")])


def take_samples(interval_s: float) -> None:
    """Samples until the process, or its parent, is ended."""
    memory_due = 0.0
    started_by = os.getppid()
    while True:
        time.sleep(interval_s)
        if os.getppid() != started_by:
            return
        now, used = time.time(), time.thread_time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}"
        found = find_processes()
        listed = time.thread_time()
        memory = {}
        if time.monotonic() >= memory_due:
            memory = {process: find_memory(process) for process in found}
            memory_due = time.monotonic() + PAUSE_PER_COST * (time.thread_time() - listed)
        nothing = " ".join([UNKNOWN] * (len(MEMORY) + 1))
        for process, rest in found.items():
            parent, used_ms = rest.split()
            sys.stdout.write(f"backend {stamp} {process} {parent} {memory.get(process, nothing)} {used_ms}\n")
        if not found:
            sys.stdout.write(f"backend {stamp} none\n")
        sys.stdout.flush()
        time.sleep(max(0.0, PAUSE_PER_COST * (listed - used) - interval_s))


if __name__ == "__main__":
    take_samples(float(sys.argv[1]))
