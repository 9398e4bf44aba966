"""A small fixed piece of work each second, timed: how fast the processor, the memory and the disk of a host are now.

This text runs alone, with the Python that a host has: it imports nothing but the standard library. A run's throughput
can then be compared with what the same machine did at the same moments (:mod:`citus_analysis.formats.canary`). One
sample takes 1 to 4 ms of CPU time, so that a sample each second takes less than half a per cent of a processor.

Arguments: seconds between two samples.
"""

import os
import sys
import tempfile
import time

#: Bytes of the block that is copied: more than the second level of caches holds.
BLOCK_BYTES = 4 << 20
#: Bytes of a write to the disk, which are those of a page.
PAGE_BYTES = 8192
#: A write to the disk in so many samples: each waits for the device.
SAMPLES_PER_WRITE = 5


def add_integers(number: int) -> None:
    """Additions by the interpreter."""
    total = 0
    for one in range(number):
        total += one


def copy_block(block: bytes, target: bytearray) -> None:
    """A copy of a block of memory, to where memory is allocated already."""
    target[:] = block


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


class Stopwatch:
    """Prints a line for a piece of work: time, work, number of its units, and µs of CPU time and of time it took."""

    def __init__(self, work: str, units: int) -> None:
        self.work, self.units = work, units

    def __enter__(self) -> None:
        self.now = time.time()
        self.begin, self.used = time.perf_counter(), time.thread_time()

    def __exit__(self, *error: object) -> None:
        used, passed = time.thread_time() - self.used, time.perf_counter() - self.begin
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.now)) + f".{int(self.now % 1 * 1e6):06}"
        sys.stdout.write(f"canary {stamp} {self.work} {self.units} {used * 1e6:.1f} {passed * 1e6:.1f}\n")
        sys.stdout.flush()


def take_samples(interval_s: float) -> None:
    """Samples until the process is ended."""
    block, target, page = bytes(BLOCK_BYTES), bytearray(BLOCK_BYTES), bytes(PAGE_BYTES)
    read_end, write_end = os.pipe()
    count = 0
    # The file has no name, so that nothing is left of it.
    with tempfile.TemporaryFile() as file:
        while True:
            due = time.monotonic() + interval_s
            with Stopwatch("cpu", 20000):
                add_integers(20000)
            with Stopwatch("memory", 1):
                copy_block(block, target)
            with Stopwatch("system", 200):
                pass_through_pipe(200, read_end, write_end)
            with Stopwatch("wakeup", 3):
                sleep_milliseconds(3)
            if count % SAMPLES_PER_WRITE == 0:
                with Stopwatch("disk", 1):
                    force_page(file.fileno(), page)
            count += 1
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    take_samples(float(sys.argv[1]))
