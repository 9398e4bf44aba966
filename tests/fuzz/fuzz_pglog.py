"""Coverage-guided fuzzing of the scanner of server logs; no part of `make test`.

    pip install atheris
    NUMBA_DISABLE_JIT=1 python tests/fuzz/fuzz_pglog.py -max_total_time=600 -max_len=600 CORPUS_FOLDER

Without compilation the kernel is Python, so that the fuzzer sees its branches. Each input is scanned by both
scanners, whole and cut in two; their rows must agree, and records, strays and blanks must cover every byte.
What it finds belongs into `tests/formats/pglog` as a case.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np

atheris: Any = import_module("atheris")

with atheris.instrument_imports(include=["citus_analysis.formats.pglog"]):
    from citus_analysis.formats.pglog import _kernel
    from citus_analysis.formats.pglog._chunks import valid_utf8
    from citus_analysis.formats.pglog._fast import scan_fast
    from citus_analysis.formats.pglog._prefix import STUDY_PREFIX, compile_prefix
    from citus_analysis.formats.pglog._scan import Chunk, scan

COMPILED_LIKE: Any = _kernel.scan_chunk


def scan_chunk(buffer: Any, newline_words: Any, *rest: Any) -> None:
    """The kernel on plain integers, as compiled code sees them: uncompiled, bytes of numpy would wrap around."""
    wide = [item.astype(np.int64) if getattr(item, "dtype", None) == np.uint8 else item for item in rest]
    COMPILED_LIKE(buffer.astype(np.int64), newline_words, *wide)


vars(_kernel)["scan_chunk"] = scan_chunk
PREFIXES = [compile_prefix(text) for text in (STUDY_PREFIX, "%t [%p]: [%l-1] user=%u,db=%d ", "%m|%u|%d|%c|", "%e: ")]
SAMPLE = b"2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] [app=psql] LOG:  "


def one_input(data: bytes) -> None:
    """Both scanners on one log."""
    if len(data) < 2:
        return
    prefix = PREFIXES[data[0] % len(PREFIXES)]
    # A byte that no log holds stands for a whole valid prefix, which chance would hardly write.
    log = valid_utf8(data[1:].replace(b"\x01", SAMPLE))
    chunk = Chunk(0, log, fresh=True)
    slow, fast = scan(chunk, prefix), scan_fast(chunk, prefix)
    if slow.frame.height != fast.frame.height or slow.rejects != fast.rejects:
        raise AssertionError("the scanners found other records")
    for name in slow.frame.columns:
        wanted, got = (frame.get_column(name).cast(str).to_list() for frame in (slow.frame, fast.frame))
        if wanted != got:
            raise AssertionError(f"{name}: {wanted} and {got}")
    if fast.parsed_bytes + fast.noise_bytes + sum(reject.byte_length for reject in fast.rejects) != len(log):
        raise AssertionError("bytes are unaccounted for")


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
