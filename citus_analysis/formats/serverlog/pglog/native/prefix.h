/* Whether a record begins here, and the values in its prefix.
 *
 * A prefix is a row of elements, interpreted; `_program.py` makes them of a log_line_prefix. It matches the same texts
 * as the regular expression of the prefix: text elements are lazy, the part after %q is optional and tried first. Most
 * lines match without a second thought (`match_straight`); the others are matched with backtracking, in which a place
 * that failed once is not tried again, so that a line costs at most elements x length.
 *
 * A function written for the study's prefix alone made the walk a fifth faster (1.62 instead of 1.32 GB/s), which was 3 to
 * 4 % of the processor time of reading a log: not enough for a second grammar.
 */

#ifndef PGLOG_PREFIX_H
#define PGLOG_PREFIX_H

#include "bytes.h"

typedef struct {
    int32_t begin, end; /* offsets within the line; begin is -1 where the field is absent */
    int64_t number;     /* that digits make */
} span_t;

typedef struct {
    span_t fields[F_COUNT];
    int64_t local_xid; /* the number after the slash of a E_VXID, whose own number is the one before it */
    int32_t text;      /* offset within the line after severity, colon and spaces */
    int32_t severity;  /* -1: no record begins here */
} head_t;

#define SECOND_WIDTH 19 /* `2026-11-20 21:03:47` */

/* State from line to line: room, and the last second that a stamp showed, for many lines show the same. */
typedef struct {
    byte_t second[SECOND_WIDTH]; /* always in the form of one */
    byte_t first_severity[26];   /* number of the first severity word with that letter */
    bool failed[MAX_ELEMENTS][HEAD_LIMIT + 2];
    int32_t spent[MAX_ELEMENTS];
} memo_t;

INTERNAL void init_memo(memo_t *memo, const prefix_t *prefix);

/* Once for many lines: the values of a prefix are set anew by each line that matches. */
static inline void init_head(head_t *head)
{
    for (int field = 0; field < F_COUNT; field++) head->fields[field].begin = -1;
    head->severity = -1;
}

/* Match the beginning of a line of `length` bytes, its line end not counted. */
INTERNAL bool match_head(const prefix_t *prefix, const byte_t *line, place_t length, memo_t *memo, head_t *head);

/* The severity word at `begin`, or -1. */
INTERNAL int32_t severity_at(const prefix_t *prefix, const byte_t *line, place_t begin, place_t limit, const memo_t *memo);

INTERNAL int32_t severity_length(const prefix_t *prefix, int32_t severity);

/* Where `2026-11-20 21:03:47.877 UTC` ends, or ABSENT. */
INTERNAL place_t stamp_end(const byte_t *line, place_t begin, place_t limit, bool with_ms, memo_t *memo);

/* Where `3/4` ends, and its numbers; `begin` where there are none, for it may be empty. */
INTERNAL place_t read_vxid(const byte_t *line, place_t begin, place_t limit, int64_t *backend, int64_t *local_xid);

/* The end of syslog's header at the beginning of a line, or ABSENT; sets process and line number of a head.
 * Of a line that only continues a record (NULL) these may have any number of digits. */
INTERNAL place_t syslog_end(const byte_t *line, place_t limit, head_t *head);

#endif
