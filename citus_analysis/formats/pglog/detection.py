"""Detection of the `log_line_prefix` of a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.core.arrow_arrays import fill_null_integers
from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import HEAD_BYTES, Content
from citus_analysis.formats.pglog.compiled import count_heads
from citus_analysis.formats.pglog.inference import infer_prefix
from citus_analysis.formats.pglog.languages import detect_language
from citus_analysis.formats.pglog.prefix import (
    DETAIL_WORDS,
    SEVERITY_WORDS,
    STUDY_PREFIX,
    SYSLOG_HEADER,
    Prefix,
    compile_prefix,
)
from citus_analysis.formats.pglog.string_views import replace_invalid_utf8
from citus_analysis.formats.pglog.tables import ChunkTables
from citus_analysis.redaction import redact

if TYPE_CHECKING:
    import pyarrow as pa

_SAMPLE: Final = 2**20
_SEVERITY: Final = b"(?:" + "|".join(SEVERITY_WORDS).encode() + b")[1-5]?"
#: Two spaces follow a severity; after the process in brackets and a colon (RDS), copies may have one.
_MARK: Final = re.compile(rb"(?:^|[^A-Za-z])" + _SEVERITY + rb":  |:\[[0-9]+\]: ?" + _SEVERITY + rb": ")
_PROCESS_IN_BRACKETS: Final = re.compile(rb":\[[0-9]+\]:")
#: The prefix that the study fixed and the runner sets, as a record has it.
_STUDY: Final = replace(compile_prefix(STUDY_PREFIX), inferred=True)
_STUDY_HEAD: Final = re.compile(b"(?m)" + _STUDY.pattern.encode())
#: The end of a severity and the bytes after it.
_MARK_END: Final = re.compile(rb"[A-Z1-5]: ")
_TIME: Final = re.compile(rb"[0-9]{2}:[0-9]{2}:[0-9]{2}|[0-9]{10}\.[0-9]{3}")
_MOSTLY: Final = 0.9
_SYSLOG: Final = re.compile(f"(?m){SYSLOG_HEADER}".encode())
#: A message with its further lines or its details in one line of syslog (`syslog_split_messages = off`).
_WHOLE: Final = re.compile(f"(?m){SYSLOG_HEADER}[^\\n]*#012(?:#011|[^\\n]*(?:{DETAIL_WORDS}):  )".encode())
_SHOWN: Final = 160
#: Among more lines, one may come from another program.
_FEW_LINES: Final = 5


def may_be_log(head: bytes) -> bool:
    """Whether a line may have a severity: the text has the bytes that surround one. Fast, true of few other files."""
    return (b":  " in head and _MARK_END.search(head) is not None) or b":[" in head


def has_mark_signs(head: bytes) -> bool:
    """Whether a text has what follows a severity, in any language. Much faster than to find its language."""
    return b":  " in head or _PROCESS_IN_BRACKETS.search(head) is not None


def looks_like_log(head: bytes) -> bool:
    """Whether some lines have a time before a severity, with any prefix."""
    marks = [(line, _mark(line)) for line in head.splitlines()[:200]]
    return any(mark and _TIME.search(line[: min(mark.start(), 200)]) for line, mark in marks)


def _mark(line: bytes) -> re.Match[bytes] | None:
    """The severity of a line. Most lines of other files have none; searches for fewer bytes exclude them faster."""
    return _MARK.search(line[:1000]) if b": " in line and _MARK_END.search(line) else None


def is_server_log(head: bytes, prefix: Prefix) -> bool:
    """Whether the text is a server's log, not a client's output of the server's messages.

    Without any prefix a record looks like the output of psql. Then the text is a log if it contains a `LOG` record
    (by default sent to no client) and consists almost only of records and their continuation lines (which begin with
    a tab); psql also prints rows, command tags and `LINE 1: ...`.
    """
    if prefix.text:
        return True
    lines = [line for line in head[: head.rfind(b"\n") + 1 or len(head)].split(b"\n") if line.strip()]
    fitting = sum(1 for line in lines if line.startswith(b"\t") or _MARK.match(line[:1000]))
    return any(line.startswith(b"LOG:  ") for line in lines) and fitting >= _MOSTLY * len(lines)


def infer_best_prefix(sample: bytes) -> Prefix | None:
    """The prefix inferred from a sample; None if its records have none that can be inferred."""
    text = replace_invalid_utf8(sample[: sample.rfind(b"\n") + 1] or sample)
    if 0 < len(_STUDY_HEAD.findall(text)) == len(_MARK.findall(text)):
        # Its texts between fields are in no other prefix, so that nothing is left to infer.
        return _STUDY
    # A line that looks like syslog's may be part of a statement, so a prefix is inferred without that header, too.
    found = [_infer_sample_prefix(_strip_syslog_headers(text), syslog=True)] if _is_syslog(text) else []
    found.append(_infer_sample_prefix(text, syslog=False) if not any(found) or not _is_mostly_syslog(text) else None)
    fitting = [(count_heads(text, prefix), prefix) for prefix in found if prefix is not None]
    most, best = max(fitting, key=lambda pair: pair[0], default=(0, None))
    return best if most else None


def _infer_sample_prefix(text: bytes, *, syslog: bool) -> Prefix | None:
    found = infer_prefix(text.decode("utf-8", "replace"))
    return None if found is None else replace(found, syslog=syslog)


def _strip_syslog_headers(text: bytes) -> bytes:
    """The lines of syslog without its header; other lines are left out."""
    return b"\n".join(line[found.end() :] for line in text.split(b"\n") if (found := _SYSLOG.match(line)))


def _is_mostly_syslog(text: bytes) -> bool:
    return len(_SYSLOG.findall(text)) > _MOSTLY * text.count(b"\n")


def explains(head: bytes, prefix: Prefix) -> bool:
    """Whether nearly all lines begin a record with a prefix or continue one.

    If they do not, or if a text that no escape prints begins the records, other programs may have changed the lines.
    """
    if prefix.wrapped:
        return False
    text = replace_invalid_utf8(head[: head.rfind(b"\n") + 1] or head)
    goes_on = re.compile(prefix.continuation_pattern.encode())
    lines = text.split(b"\n")[:-1] or [text]
    others = sum(1 for line in lines if not goes_on.match(line))
    began = 0 if prefix.syslog else count_heads(text, prefix)
    return others - began <= max((1 - _MOSTLY) * len(lines), len(lines) > _FEW_LINES)


def is_explained(head: bytes, stated: str) -> bool:
    r"""Whether nearly all lines begin a record with a stated prefix or continue one.

    Example:
        >>> head = b"10.0.0.4 2026-05-01 10:00:00.123 UTC [104] LOG:  ready\n"
        >>> is_explained(head, "%h %m [%p] "), is_explained(head, "%m [%p] ")
        (True, False)
    """
    head = translate_log_head(head)
    return may_be_log(head) and any(
        count_heads(replace_invalid_utf8(head), prefix) > 0 and explains(head, prefix)
        for prefix in _list_prefix_variants(stated)
        if not prefix.syslog
    )


def _is_syslog(head: bytes) -> bool:
    """Whether lines have syslog's header, and none contains several lines of a message."""
    return _SYSLOG.search(head) is not None and _WHOLE.search(head) is None


def find_prefix(content: Content, given: str | None) -> Prefix:
    """The prefix of a log: the given one if it fits a line, else the one inferred from the log.

    Raises:
        FormatError: no prefix fits a line of the first megabyte.
        UsageError: the given prefix is malformed.
    """
    language = detect_language(content.head)
    samples = (_translate_sample(sample, language) for sample in _iterate_log_samples(content))
    found = _find_prefix(content, samples, given)
    return replace(found, verbose=_is_verbose(_translate_sample(content.head, language)), language=language)


def _is_verbose(sample: bytes) -> bool:
    """Whether records say where in the server's source their messages come from, as with all of them if verbose."""
    if b"LOCATION:  " not in sample:
        return False
    marks = (_mark(line) for line in sample.split(b"\n") if b"LOCATION:  " in line and not line.startswith(b"\t"))
    return any(mark is not None and mark[0].endswith(b"LOCATION:  ") for mark in marks)


def translate_log_head(head: bytes) -> bytes:
    """The beginning of a log, with messages in English."""
    return _translate_sample(head, detect_language(head))


def _translate_sample(sample: bytes, language: str) -> bytes:
    if not language:
        return sample
    from citus_analysis.formats.pglog.translation import translate_to_english

    return translate_to_english(sample, language)


def _find_prefix(content: Content, samples: Iterable[bytes], given: str | None) -> Prefix:
    prefix = None if given is None else compile_prefix(given)
    wanted = () if given is None else _list_prefix_variants(given)
    found: Prefix | None = None
    for sample in samples:
        if not sample.strip():
            return prefix or compile_prefix(STUDY_PREFIX)
        text = replace_invalid_utf8(sample)
        fits = next((one for one in wanted if (not one.syslog or _is_syslog(text)) and count_heads(text, one)), None)
        if fits is not None:
            return fits
        found = infer_best_prefix(sample) or found
        # What the beginning does not decide, more records may. The text that another program wrote before all lines may
        # look like fields of a prefix.
        found = None if found is not None and found.wrapped and b"\n\t" not in sample else found
        if found is not None and (not found.undecided or len(sample) < HEAD_BYTES):
            return found
    if found is None and _STUDY_HEAD.search(text):
        found = _STUDY
    if found is not None:
        return found
    raise _make_prefix_error(content, sample, given)


def _list_prefix_variants(given: str) -> tuple[Prefix, ...]:
    """The variants of a given prefix: SHOW and YAML lose the space at its end, and syslog may precede it."""
    texts = (given,) if given.endswith(" ") else (given, f"{given} ")
    return tuple(replace(compile_prefix(text), syslog=syslog) for text in texts for syslog in (False, True))


def _iterate_log_samples(content: Content) -> Iterator[bytes]:
    """The first 64 KiB, which usually suffice, then the first megabyte."""
    yield content.head
    with closing(content.open()) as stream:
        yield stream.read(_SAMPLE)


def _make_prefix_error(content: Content, sample: bytes, given: str | None) -> FormatError:
    first = redact(sample.split(b"\n", 1)[0][: 4 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
    tried = "none could be inferred" if given is None else f"{given!r} does not fit, and none could be inferred"
    if sample[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\x00" in sample[:4]:
        hint = "the file looks like UTF-16; convert it with iconv -f UTF-16 -t UTF-8"
    elif _WHOLE.search(sample):
        hint = "syslog joined several lines of a message; set syslog_split_messages = on, or log to stderr"
    else:
        hint = "pass the server's own, SHOW log_line_prefix, as option log_line_prefix or in config.yml"
    return FormatError(
        f"no line begins with a log_line_prefix: {tried}; the first line is {first!r}",
        path=content.path,
        place="line 1",
        hint=hint,
    )


# Logs of two servers, one after the other in one file: their processes would be taken for those of one server.
#
# Parts of one log in another order, repeated parts, and a clock that was set back look alike at first: time goes back.
# In two servers' logs, a process also wrote at times between those at which a process of the same number had written
# before, which no single process does.

#: Records of several processes are not exactly in the order of their times.
_DISORDER_US: Final = 300_000
#: Records that are compared at most.
_MOST_RECORDS: Final = 5_000_000
#: A clock that is set back repeats a small part of the time that a log covers.
_LEAST_OVERLAP: Final = 0.4
_NONE: Final = np.iinfo(np.int64).min


def refuse_several_servers(
    chunks: Iterable[ChunkTables], again: Callable[[], Iterable[ChunkTables]]
) -> Iterator[ChunkTables]:
    """The chunks of a log as they are.

    Args:
        chunks: the chunks.
        again: gives them once more; called if time goes back.

    Raises:
        FormatError: the log is of two servers.
    """
    latest, known = _NONE, False
    for chunk in chunks:
        times = _times(chunk.rows)
        if not known and len(times):
            highest = np.maximum.accumulate(np.maximum(times, latest))
            if bool(((highest - times > _DISORDER_US) & (times != _NONE)).any()):
                _refuse_two_servers(again())
                known = True
            latest = int(highest[-1])
        yield chunk


def _times(rows: pa.RecordBatch) -> Integers:
    import pyarrow as pa

    column = rows.column("log_time")
    if column.null_count == len(column):
        return np.full(len(column), _NONE)
    return fill_null_integers(column.view(pa.int64()), _NONE).astype(np.int64)


def _numbers(rows: pa.RecordBatch, name: str) -> Integers:
    column = rows.column(name)
    return (
        np.full(len(column), -1)
        if column.null_count == len(column)
        else fill_null_integers(column, -1).astype(np.int64)
    )


def _refuse_two_servers(chunks: Iterable[ChunkTables]) -> None:
    parts: list[list[Integers]] = []
    rows = 0
    for chunk in chunks:
        one = chunk.rows
        parts.append([_times(one), *(_numbers(one, name) for name in ("pid", "session_line", "byte_offset"))])
        rows += len(one)
        if rows > _MOST_RECORDS:
            break
    time, pid, line, offset = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    kept = (time != _NONE) & (pid >= 0)
    time, pid, line, offset = (column[kept] for column in (time, pid, line, offset))
    if not len(time):
        return
    place = int(np.argmax(np.maximum.accumulate(time) - time))
    if not _are_of_two((time[:place], pid[:place], line[:place]), (time[place:], pid[place:], line[place:])):
        return
    raise FormatError(
        "holds the logs of two servers, one after the other: time goes back, and processes of the same number wrote at "
        "the same time before",
        place=f"byte {offset[place]}",
        hint="give each server's log as a file of its own",
    )


def _are_of_two(before: tuple[Integers, ...], after: tuple[Integers, ...]) -> bool:
    """Whether two parts of a log, each of times, processes and numbers of lines, are of two servers."""
    if not len(before[0]) or not len(after[0]):
        return False
    spans = [int(part[0].max() - part[0].min()) for part in (before, after)]
    common = min(int(part[0].max()) for part in (before, after)) - max(int(part[0].min()) for part in (before, after))
    if common <= _LEAST_OVERLAP * min(spans):
        return False
    processes = np.intersect1d(before[1], after[1])
    between = copied = 0
    for process in processes[:1000]:
        (early, _, first), (late, _, second) = (tuple(c[part[1] == process] for c in part) for part in (before, after))
        inside = late[(late > early.min()) & (late < early.max())]
        copied += int(np.isin(inside, early).sum())
        # Numbers that go on rising are of one session, during which the clock was set back.
        goes_on = bool(first.max() > 0 and second.min() > first.max())
        between += 0 if goes_on else int((~np.isin(inside, early)).sum())
    return between > copied
