/* The prefix of a record: whether a line begins with it, and the values in it.
 *
 * A prefix is interpreted as a sequence of elements, which `compiled.py` makes from a log_line_prefix. It
 * matches the same texts as the regular expression of the prefix: text elements are lazy, the part after %q is optional
 * and tried first. Most lines match without backtracking (`match_straight`). With backtracking, a place that failed is
 * not tried again, so that the cost of a line is at most elements x length.
 *
 * A function for the study's prefix alone made the scan a fifth faster (1.62 instead of 1.32 GB/s), which was 3 to 4 % of
 * the processor time of reading a log: not enough to justify a second grammar.
 */

#ifndef PGLOG_PREFIX_H
#define PGLOG_PREFIX_H

#include "bytes.h"

typedef struct {
    int32_t begin, end; /* offsets within the line; begin is -1 if the field is absent */
    int64_t number;     /* value of its digits */
} span_t;

typedef struct {
    span_t fields[F_COUNT];
    int64_t local_xid; /* the number after the slash of an E_VXID; its span has the number before it */
    int32_t text;      /* offset of the text after severity, colon and spaces */
    int32_t severity;  /* -1: no record begins here */
} head_t;

#define SECOND_WIDTH 19 /* `2026-11-20 21:03:47` */

/* State kept between lines: the last second of a stamp, because many lines have the same, and memory. */
typedef struct {
    byte_t second[SECOND_WIDTH]; /* always in the form of a second */
    byte_t first_severity[26];   /* number of the first severity word that begins with each letter */
    bool failed[MAX_ELEMENTS][HEAD_LIMIT + 2];
    int32_t spent[MAX_ELEMENTS];
    place_t begins[MAX_ELEMENTS], ends[MAX_ELEMENTS]; /* of the elements, if they matched without backtracking */
    int32_t matched; /* number of elements that matched so */
    bool ambiguous;                                   /* whether the prefix has texts whose ends may be elsewhere */
    head_t latest;                                    /* the head with the latest ends */
} memo_t;

INTERNAL void init_memo(memo_t *memo, const prefix_t *prefix);

/* Needed once for all lines: each line that matches sets all values of the prefix. */
static inline void init_head(head_t *head)
{
    for (int field = 0; field < F_COUNT; field++) head->fields[field].begin = -1;
    head->severity = -1;
}

/* Match the beginning of a line of `length` bytes, its line end not counted. Values that could also end elsewhere are
 * absent: a separator may be part of a value, and no one can tell which of them it is. */
INTERNAL bool match_head(const prefix_t *prefix, const byte_t *line, place_t length, memo_t *memo, head_t *head);

/* The severity word at `begin`, or -1. */
INTERNAL int32_t severity_at(const prefix_t *prefix, const byte_t *line, place_t begin, place_t limit, const memo_t *memo);

INTERNAL int32_t severity_length(const prefix_t *prefix, int32_t severity);

/* The end of `2026-11-20 21:03:47.877 UTC`, or ABSENT. */
INTERNAL place_t stamp_end(const byte_t *line, place_t begin, place_t limit, bool with_ms, memo_t *memo);

/* The end of `3/4`, and its numbers; `begin` without numbers, for it may be empty. */
INTERNAL place_t read_vxid(const byte_t *line, place_t begin, place_t limit, int64_t *backend, int64_t *local_xid);

/* The end of syslog's header at the beginning of a line, or ABSENT; sets process and line number of the head.
 * Without a head (NULL), for lines that only continue a record, these numbers may have any number of digits. */
INTERNAL place_t syslog_end(const byte_t *line, place_t limit, head_t *head);

#endif
