"""Classification of the lines of a YCSB client's output."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from citus_analysis.formats.clients._messages import SEVERITY, THROWABLE
from citus_analysis.formats.clients._report_lines import kinds_of
from citus_analysis.formats.reading.lines import line_frame

#: `READ,1795210352805,15906` of measurementtype=raw: operation, begin (ms since 1970), latency (us).
RAW: Final = r"^(?P<section>[A-Za-z][\w-]*),(?P<began_ms>[0-9]{1,13}),(?P<latency_us>-?[0-9]{1,15})$"
#: A number as Java prints it.
NUMBER: Final = r"[-+]?(?:NaN|Infinity|[0-9]{1,30}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?)"
#: `[SECTION], Metric(unit), value`.
SUMMARY: Final = rf"^\[(?P<section>[^\]]+)\], (?P<name>.+), (?P<value>{NUMBER})$"
_CLOCK: Final = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}:[0-9]{3}"
#: `2026-11-20 21:32:36:884 2 sec: 100 operations; ...`; YCSB before 0.2 prints no time.
STATUS: Final = rf"^ ?(?:({_CLOCK}) )?(-?[0-9]{{1,9}}) sec: (-?[0-9]{{1,15}}) operations; ?(.*)$"

#: `Maximum execution time specified as: 600 secs`.
LIMIT: Final = r"^Maximum execution time specified as: ([0-9]+) secs$"

#: Version 0.1 prints no blank before the name of a value of `OVERALL`.
_WITHOUT_BLANK: Final = re.compile(rb"^\[[^\]\n]+\],[^ \t\r\n]", re.MULTILINE)
_COMMAND: Final = r"^Command line: "
_LAUNCH: Final = r"^[\w/.~-]*java\s.*\s(?:site|com\.yahoo)\.ycsb\.\w*Client\b"
_VERSION: Final = r"^YCSB Client \S+$"
_JSON: Final = (
    r'^\s*"(?:metric|measurement|value)"\s*:|^[\s\[\]{},]*[\[\]{}][\s\[\]{},]*$|^[\s,\[]*\{.*"metric"\s*:.*"value"\s*:'
)

#: Lines without data.
NOISE: Final = "|".join(
    (
        r"^\s*$",
        r"^Loading workload\.\.\.$",
        r"^Starting test\.$",
        r"^Adding shard node URL: ",
        r"^Using shards: ",
        r"^DBWrapper: report latency for each error is ",
        r"^mongo (?:client )?connection created with ",
        r"^Raw data measurement: will output to ",
        r"^\S+ latency raw data: op, timestamp\(ms\), latency\(us\)$",
        r"^\[[^\]]+\], Below is a summary of latency in microseconds:, -1$",
        r"^Maximum time elapsed\. Requesting stop for the workload\.$",
        r"^Stop requested for workload\. Now Joining!$",
        r"^Still waiting for thread .* to complete\.",
        # Messages of the bindings' loggers below warning level: a time, followed somewhere by the level.
        r"^[0-9][0-9:.,/TZ -]*\s.*\b(?:INFO|DEBUG|TRACE)\b",
    )
)
_CONTINUATION: Final = (
    r"^\s+\S|^\.\.\. [0-9]+ more|^(?:Caused by|Suppressed): |^(?:DETAIL|HINT|CONTEXT|Detail|Hint|Where|Position): "
)
_ERROR: Final = "|".join(
    (
        r"(?i)^(?:error|exception|retrying|warn|severe|fatal|unable|could not|couldn't|cannot|can't|failed|invalid)\b",
        r"\((?:No such file or directory|Permission denied|Is a directory)\)$",
        THROWABLE,
        SEVERITY,
    )
)

#: Kind -> pattern; the first that matches decides.
KINDS: Final = {
    "noise": NOISE,
    "status": STATUS,
    "summary": SUMMARY,
    "raw": RAW,
    "json": _JSON,
    "command": _COMMAND,
    "version": _VERSION,
    "limit": LIMIT,
    "launch": _LAUNCH,
    "continuation": _CONTINUATION,
    "error": _ERROR,
}

#: Kinds of lines that only a YCSB client prints.
TELLING: Final = frozenset({"status", "summary", "raw", "json", "command", "launch", "version"})

#: Each occurs once in a client's output; a second occurrence begins the output of another client.
ONCE: Final = ("Command line: ", "YCSB Client ", "[OVERALL], RunTime(ms), ", "Loading workload...", "Starting test.")
#: Lines that tell what was launched, and by which the output of another client is recognised: those of the client's
#: banner, and those that begin with these texts; the last two are whole lines.
STATES_FACTS: Final = pl.col("kind").is_in(["command", "launch", "version", "limit"]) | (
    pl.col("kind").is_in(["noise", "summary"])
    & (pl.col("text").str.starts_with(ONCE[2]) | pl.col("text").is_in(list(ONCE[3:])))
)

# Threads share the stream: the text of one can follow that of another without a line end.
_STATUS_BEGIN: Final = rf"{_CLOCK} -?[0-9]+ sec: "
_TEXTS: Final = (
    *("[OVERALL], RunTime", "Adding shard node URL: ", "Using shards: ", "DBWrapper: report ", "Error in processing "),
    *("Error in database operation", "Error inserting, not retrying", "Retrying insertion, ", "Command line: "),
    *("YCSB Client ", "Loading workload...", "Starting test."),
)
_TEXT_BEGIN: Final = "|".join(map(re.escape, _TEXTS)).replace(r"YCSB\ Client\ ", r"YCSB\ Client\ [0-9]")
_GLUED: Final = (
    rf"^(.+?)(?:{_STATUS_BEGIN})|^({_STATUS_BEGIN}.*?)(?:{_TEXT_BEGIN})|^(.*?\S)(?:{_TEXT_BEGIN})"
    rf"|^([\s\]}}]*[\]}}])[\w/.~-]*java\s"
    # A status line that was cut inside a group: the rest of the group is not data.
    rf"|^((?: ?{_CLOCK})? ?-?[0-9]+ sec: [^\[]*(?:\[[^\[\]]*\][^\[]*)*)\[[^\[\]]*$"
)
#: Limit of parts per line; interleaved threads produce only a few.
_MAX_PIECES: Final = 16
_WHOLE: Final = rf"{_COMMAND}|^[\w/.~-]*java\s"


_TEXT: Final = pl.col("text")
_PLAIN_STATUS: Final = (
    _TEXT.str.contains(STATUS)
    & ~_TEXT.str.starts_with(" ")
    & (_TEXT.str.count_matches(" sec: ", literal=True) == 1)
    & (_TEXT.str.ends_with("]") | ~_TEXT.str.contains("[", literal=True))
)
#: Whether another message may begin inside a line: a test that excludes nearly all lines in far less time.
MAY_BE_GLUED: Final = (
    # The first byte is skipped, so that a message at the beginning of the line does not count.
    _TEXT.str.slice(1).str.contains_any(list(_TEXTS))
    # The end of a JSON document, which the launcher's line may follow.
    | _TEXT.str.strip_chars_start().str.head(1).is_in(["]", "}"])
    | (_TEXT.str.contains(" sec: ", literal=True) & ~_PLAIN_STATUS)
)
#: The text of a line before another message that begins inside it; null if none does.
GLUED_HEAD: Final = pl.when(~_TEXT.str.contains(_WHOLE)).then(
    pl.coalesce(_TEXT.str.extract_groups(_GLUED).struct.field("*"))
)


def classified_lines(data: bytes, offset: int) -> pl.DataFrame:
    """Lines of a block: `offset`, `length`, `text`, `glued` (text follows without a line end) and `kind`.

    `kind` is one of noise, status, summary, raw, json, command, launch, version, limit, continuation, error, or null.
    """
    frame = line_frame(data, offset)
    if _WITHOUT_BLANK.search(data):
        frame = frame.with_columns(pl.col("text").str.replace(r"^(\[[^\]]+\]),(\S)", "$1, $2"))
    lines = frame.select("offset", "length", "text", glued=pl.lit(value=False))
    lines = lines.with_columns(kinds_of(lines["text"], KINDS))
    # Large files consist mainly of lines of these two kinds, in which no other message begins.
    plain = lines["kind"].is_in(["raw", "summary"]).fill_null(value=False)
    others = lines.filter(~plain).with_columns(suspect=MAY_BE_GLUED)
    if others["suspect"].any():
        parts = _split_glued(others.drop("kind"))
        parts = parts.with_columns(kinds_of(parts["text"], KINDS))
        lines = pl.concat([lines.filter(plain), parts]).sort("offset")
    return lines


def _split_glued(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines split where another message begins inside them (a `suspect` line); each pass splits off one part."""
    columns = ["offset", "length", "text", "glued"]
    done = [lines.filter(~lines["suspect"]).select(columns)]
    lines = lines.filter(lines["suspect"]).select(columns)
    for _ in range(_MAX_PIECES):
        if lines.is_empty():
            break
        lines = lines.with_columns(head=GLUED_HEAD, head_length=GLUED_HEAD.str.len_bytes().cast(pl.Int64))
        heads = lines.with_columns(
            length=pl.coalesce("head_length", "length"),
            text=pl.coalesce("head", "text"),
            glued=pl.col("head").is_not_null(),
        )
        done.append(heads.select(columns))
        lines = (
            lines.drop_nulls("head")
            .with_columns(
                pl.col("offset") + pl.col("head_length"),
                pl.col("length") - pl.col("head_length"),
                pl.col("text").str.slice(pl.col("head").str.len_chars()),
            )
            .select(columns)
        )
    return pl.concat([*done, lines])
