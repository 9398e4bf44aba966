"""A small fixed piece of work each second, timed: how fast the processor, the memory and the disk of a host are now.

This text runs alone, with the Python that a host has: it imports nothing but the standard library. A run's throughput
can then be compared with what the same machine did at the same moments (:mod:`citus_analysis.formats.canary`). One
sample takes some 0.9 ms of CPU time where the processor is busy, 3.5 ms where it was idle, and 32 KiB of the caches.

Each sample ends with the CPU time of the programs that are not the run's own: all that it sees in `/proc`, except the
kernel's, servers and load generators by their names, and the programs that its own parent started. It ends with its
parent, too.

Arguments: seconds between two samples, and samples for each write to the disk.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time

#: Additions, bytes through a pipe, and sleeps of a millisecond in a sample.
ADDITIONS, PIPED_BYTES, SLEEPS = 5000, 50, 1
#: Bytes of the block of which a sample reads a byte of each kilobyte, 512 in all. A line of the caches comes again
#: after 16 samples, when others have long displaced it. Some hypervisors map pages anew that a guest has not touched
#: for a moment: in a block of 4 MiB this took 35 ms of an idle machine's processor.
BLOCK_BYTES, STRIDE_BYTES, LINE_BYTES = 512 << 10, 1 << 10, 64
#: Bytes of a write to the disk, which are those of a page.
PAGE_BYTES = 8192
#: Programs of the run, wherever they were started.
OWN_PROGRAMS = (
    *("postgres", "postmaster", "pgbouncer", "odyssey", "pgcat", "haproxy"),
    *("java", "ycsb", "go-ycsb", "pgbench", "sysbench", "go-tpc", "tclsh", "wish", "hammerdb", "benchbase", "locust"),
    *("k6", "jmeter", "perf", "iostat", "vmstat", "pidstat"),
)
#: Largest part of a processor for counting the CPU time of other programs: it is counted less often if there are many.
LARGEST_PART = 0.001
#: Flag of the kernel's threads in `/proc/PID/stat`.
KERNEL_THREAD = 0x00200000


def add_integers(number: int) -> None:
    """Additions by the interpreter."""
    total = 0
    for one in range(number):
        total += one


def read_lines(block: bytes, number: int) -> None:
    """Reads of distant lines of memory, of which no two of successive numbers are the same."""
    block[number * LINE_BYTES % STRIDE_BYTES :: STRIDE_BYTES]


def pass_through_pipe(number: int, read_end: int, write_end: int) -> None:
    """Bytes through a pipe and back: two calls of the operating system each."""
    for _ in range(number):
        os.write(write_end, b"x")
        os.read(read_end, 1)


def sleep_milliseconds(number: int) -> None:
    """Sleeps of a millisecond; what is beyond is the delay until a process gets a processor."""
    for _ in range(number):
        time.sleep(0.001)


def force_page(file: int, page: bytes) -> None:
    """A page written to a file, and forced to the disk."""
    os.pwrite(file, page, 0)
    os.fdatasync(file)


def open_nameless_file() -> int | None:
    """A file in a folder for temporary files, of which nothing is left; the module `tempfile` would cost 10 ms.

    None: no such folder can be written to.
    """
    for folder in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):  # noqa: S108 - folders that `tempfile` tries, too
        path = f"{folder or '/tmp'}/canary-{os.getpid()}"  # noqa: S108 - O_EXCL refuses a file or link that is there
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            continue
        os.unlink(path)  # noqa: PTH108 - importing pathlib costs milliseconds
        return file
    return None


class Stopwatch:
    """Writes a line for a piece of work: time, work, number of its units, and µs of CPU time and of time it took."""

    def __init__(self, work: str, units: int) -> None:
        self.work, self.units = work, units

    def __enter__(self) -> None:
        self.now = time.time()
        self.begin, self.used = time.perf_counter(), time.thread_time()

    def __exit__(self, *error: object) -> None:
        used, passed = time.thread_time() - self.used, time.perf_counter() - self.begin
        sys.stdout.write(f"canary {stamp(self.now)} {self.work} {self.units} {used * 1e6:.1f} {passed * 1e6:.1f}\n")


def stamp(now: float) -> str:
    """A time in UTC, with microseconds."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}"


class Process:
    """A process as `/proc/PID/stat` describes it: parent, program, and ticks of its own and of ended children."""

    def __init__(self, pid: int) -> None:
        # Each second for each process: a file object would cost more than the reading.
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            head, _, rest = os.read(file, 4096).rpartition(b")")
        finally:
            os.close(file)
        fields = rest.split(None, 21)
        self.name = head.partition(b"(")[2].decode("ascii", "replace")
        self.parent, self.is_kernels = int(fields[1]), bool(int(fields[6]) & KERNEL_THREAD)
        self.own, self.ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        self.begin = int(fields[19])

    @property
    def program(self) -> str:
        """Its name, as a word."""
        return "".join(one if one.isalnum() or one in "-.:+" else "_" for one in self.name) or "_"


class OtherPrograms:
    """CPU time of the programs that are not the run's own, since the last count."""

    def __init__(self) -> None:
        #: The process that started this one, and all that descend from it, are the run's own.
        self.family = {os.getppid()}
        self.left_out: set[int] = set()
        self.seen: dict[int, Process] = {}
        #: Process -> ticks of its ended children that were counted as theirs, and are not among its own yet.
        self.counted: dict[int, int] = {}
        self.last = time.monotonic()
        self.cost = 0.0
        self.ticks = os.sysconf("SC_CLK_TCK")
        self.count(time.monotonic())
        # From now on, only other programs are read.
        self.cost = 0.0

    def count(self, now: float) -> dict[str, int]:
        """Program -> ticks since the last count; a child that ended is counted with its parent."""
        begin = time.thread_time()
        there = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - names only
        self.left_out &= there
        self.family &= there
        current: dict[int, Process] = {}
        for pid in sorted(there - self.left_out):
            try:
                current[pid] = Process(pid)
            except (OSError, ValueError, IndexError):  # it ended
                continue
        for pid, one in list(current.items()):
            if one.is_kernels or one.name.startswith(OWN_PROGRAMS) or self.is_family(pid, current):
                self.left_out.add(pid)
                del current[pid]
        gone: dict[int, int] = {}
        for pid, one in self.seen.items():
            if pid not in current or current[pid].begin != one.begin:
                gone[one.parent] = gone.get(one.parent, 0) + one.own + one.ended
        used: dict[str, int] = {}
        counted: dict[int, int] = {}
        for pid, one in current.items():
            before = self.seen.get(pid)
            if before is None or before.begin != one.begin:
                ticks = one.own + one.ended
            else:
                grown = one.ended - before.ended
                earlier, now_gone = self.counted.get(pid, 0), gone.get(pid, 0)
                ticks = one.own - before.own + max(0, grown - earlier - now_gone)
                # A parent may have been read just before it took over the time of its child.
                counted[pid] = max(0, now_gone - max(0, grown - earlier))
            if ticks > 0:
                used[one.program] = used.get(one.program, 0) + ticks
        self.seen, self.counted, self.last = current, counted, now
        self.cost = time.thread_time() - begin
        return used

    def is_family(self, pid: int, current: dict[int, Process]) -> bool:
        """Whether a process is the parent of this one or descends from it; it may have another parent later."""
        way = []
        while pid in current and pid not in self.family:
            way.append(pid)
            pid = current[pid].parent
        if pid in self.family:
            self.family.update(way)
        return pid in self.family

    def write(self) -> None:
        """Print a line: time, processors, µs of CPU time and of time since the last count, and the largest program."""
        now, last = time.monotonic(), self.last
        used = self.count(now)
        most = max(used, key=used.__getitem__) if used else "-"
        cores, passed = os.cpu_count() or 1, (now - last) * 1e6
        total = min(sum(used.values()) / self.ticks * 1e6, cores * passed)
        sys.stdout.write(f"others {stamp(time.time())} {cores} {total:.1f} {passed:.1f} {most}\n")


def take_samples(interval_s: float, samples_per_write: int) -> None:
    """Samples until the process, or its parent, is ended."""
    # Written, so that each page of it is a page of memory.
    block, page = b"x" * BLOCK_BYTES, bytes(PAGE_BYTES)
    read_end, write_end = os.pipe()
    count, parent = 0, os.getppid()
    for one in (signal.SIGTERM, signal.SIGHUP):
        # The last line is written at the end.
        signal.signal(one, lambda *_: sys.exit(0))
    others = OtherPrograms() if os.path.exists("/proc/self/stat") else None  # noqa: PTH110 - importing pathlib costs milliseconds
    file = open_nameless_file()
    try:
        while os.getppid() == parent:
            due = time.monotonic() + interval_s
            with Stopwatch("cpu", ADDITIONS):
                add_integers(ADDITIONS)
            with Stopwatch("memory", BLOCK_BYTES // STRIDE_BYTES):
                read_lines(block, count)
            with Stopwatch("system", PIPED_BYTES):
                pass_through_pipe(PIPED_BYTES, read_end, write_end)
            with Stopwatch("wakeup", SLEEPS):
                sleep_milliseconds(SLEEPS)
            if file is not None and count % samples_per_write == 0:
                with Stopwatch("disk", 1):
                    force_page(file, page)
            if others and count and count % math.ceil(others.cost / (LARGEST_PART * interval_s) or 1) == 0:
                others.write()
            sys.stdout.flush()
            count += 1
            time.sleep(max(0.0, due - time.monotonic()))
    finally:
        if others:
            others.write()
        sys.stdout.flush()


if __name__ == "__main__":
    take_samples(float(sys.argv[1]), int(sys.argv[2]))
