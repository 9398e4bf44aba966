"""Detection of the `log_line_prefix` of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

from citus_analysis.errors import FormatError
from citus_analysis.formats.serverlog.pglog._prefix import (
    DETAIL_WORDS,
    SEVERITY_WORDS,
    STUDY_PREFIX,
    SYSLOG_HEADER,
    Prefix,
    compile_prefix,
)
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import valid_utf8
from citus_analysis.formats.serverlog.pglog.fallback.chosen_reader import count_heads
from citus_analysis.formats.serverlog.pglog.inference.infer import infer_prefix
from citus_analysis.formats.serverlog.pglog.languages.detected import language_of
from citus_analysis.formats.sources.content import HEAD_BYTES, Content
from citus_analysis.redaction import redact

_SAMPLE: Final = 2**20
_SEVERITY: Final = b"(?:" + "|".join(SEVERITY_WORDS).encode() + b")[1-5]?"
#: Two spaces follow a severity; after the process in brackets and a colon (RDS), copies may have one.
_MARK: Final = re.compile(rb"(?:^|[^A-Za-z])" + _SEVERITY + rb":  |:\[[0-9]+\]: ?" + _SEVERITY + rb": ")
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


def best_prefix(sample: bytes) -> Prefix | None:
    """The prefix inferred from a sample; None if its records have none that can be inferred."""
    text = valid_utf8(sample[: sample.rfind(b"\n") + 1] or sample)
    if 0 < len(_STUDY_HEAD.findall(text)) == len(_MARK.findall(text)):
        # Its texts between fields are in no other prefix, so that nothing is left to infer.
        return _STUDY
    # A line that looks like syslog's may be part of a statement, so a prefix is inferred without that header, too.
    found = [_inferred(_without_header(text), syslog=True)] if _is_syslog(text) else []
    found.append(_inferred(text, syslog=False) if not any(found) or not _is_mostly_syslog(text) else None)
    fitting = [(count_heads(text, prefix), prefix) for prefix in found if prefix is not None]
    most, best = max(fitting, key=lambda pair: pair[0], default=(0, None))
    return best if most else None


def _inferred(text: bytes, *, syslog: bool) -> Prefix | None:
    found = infer_prefix(text.decode("utf-8", "replace"))
    return None if found is None else replace(found, syslog=syslog)


def _without_header(text: bytes) -> bytes:
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
    text = valid_utf8(head[: head.rfind(b"\n") + 1] or head)
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
    head = as_english(head)
    return may_be_log(head) and any(
        count_heads(valid_utf8(head), prefix) > 0 and explains(head, prefix)
        for prefix in _as_stated(stated)
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
    language = language_of(content.head)
    samples = (_english(sample, language) for sample in _samples(content))
    found = _find_prefix(content, samples, given)
    return replace(found, verbose=_is_verbose(_english(content.head, language)), language=language)


def _is_verbose(sample: bytes) -> bool:
    """Whether records say where in the server's source their messages come from, as with all of them if verbose."""
    if b"LOCATION:  " not in sample:
        return False
    marks = (_mark(line) for line in sample.split(b"\n") if b"LOCATION:  " in line and not line.startswith(b"\t"))
    return any(mark is not None and mark[0].endswith(b"LOCATION:  ") for mark in marks)


def as_english(head: bytes) -> bytes:
    """The beginning of a log, with messages in English."""
    return _english(head, language_of(head))


def _english(sample: bytes, language: str) -> bytes:
    if not language:
        return sample
    from citus_analysis.formats.serverlog.pglog.languages.translation import in_english

    return in_english(sample, language)


def _find_prefix(content: Content, samples: Iterable[bytes], given: str | None) -> Prefix:
    prefix = None if given is None else compile_prefix(given)
    wanted = () if given is None else _as_stated(given)
    found: Prefix | None = None
    for sample in samples:
        if not sample.strip():
            return prefix or compile_prefix(STUDY_PREFIX)
        text = valid_utf8(sample)
        fits = next((one for one in wanted if (not one.syslog or _is_syslog(text)) and count_heads(text, one)), None)
        if fits is not None:
            return fits
        found = best_prefix(sample) or found
        # What the beginning does not decide, more records may.
        # The text that another program wrote before all lines may look like fields of a prefix.
        found = None if found is not None and found.wrapped and b"\n\t" not in sample else found
        if found is not None and (not found.undecided or len(sample) < HEAD_BYTES):
            return found
    if found is None and _STUDY_HEAD.search(text):
        found = _STUDY
    if found is not None:
        return found
    raise _misfit(content, sample, given)


def _as_stated(given: str) -> tuple[Prefix, ...]:
    """The variants of a given prefix: SHOW and YAML lose the space at its end, and syslog may precede it."""
    texts = (given,) if given.endswith(" ") else (given, f"{given} ")
    return tuple(replace(compile_prefix(text), syslog=syslog) for text in texts for syslog in (False, True))


def _samples(content: Content) -> Iterator[bytes]:
    """The first 64 KiB, which usually suffice, then the first megabyte."""
    yield content.head
    with closing(content.open()) as stream:
        yield stream.read(_SAMPLE)


def _misfit(content: Content, sample: bytes, given: str | None) -> FormatError:
    first = redact(sample.split(b"\n", 1)[0][: 4 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
    tried = "none could be inferred" if given is None else f"{given!r} does not fit, and none could be inferred"
    if sample[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\x00" in sample[:4]:
        way_out = "the file looks like UTF-16; convert it with iconv -f UTF-16 -t UTF-8"
    elif _WHOLE.search(sample):
        way_out = "syslog joined several lines of a message; set syslog_split_messages = on, or log to stderr"
    else:
        way_out = "pass the server's own, SHOW log_line_prefix, as option log_line_prefix or in config.yml"
    return FormatError(
        f"no line begins with a log_line_prefix: {tried}; the first line is {first!r}",
        path=content.path,
        place="line 1",
        way_out=way_out,
    )
