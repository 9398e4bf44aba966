/* The part that a line plays, as the line alone shows it. */
#ifndef PGLOG_LINE_H
#define PGLOG_LINE_H

#include "prefix.h"

/* As in _records.py: a line goes on with a record, begins one, or belongs to none. */
enum role { CONTINUED, RECORD, STRAY };

typedef struct {
    const prefix_t *prefix;
    int64_t line_cap; /* a longer line is known by its beginning only */
    bool zeros;       /* whether lines may hold a byte that is 0, which no record does */
    bool timed;       /* whether records begin with a time: no other text looks like the beginning of one */
    bool syslog;      /* whether each line begins with syslog's header, also one that continues a record */
    byte_t rare;      /* every head under a timed prefix holds it, few texts do */
    place_t least;    /* and no such head is shorter */
    memo_t memo;
    head_t other; /* of a second record in a line */
} lines_t;

INTERNAL void init_lines(lines_t *lines, const prefix_t *prefix);

/* NULL where memory is out. */
INTERNAL lines_t *lines_new(const prefix_t *prefix, int64_t line_cap);

/* After white space. */
INTERNAL place_t indent_end(const byte_t *text, place_t begin, place_t end);

/* The part of a line of `size` bytes, its line end included; where it begins a record, its head. */
INTERNAL enum role role_of(lines_t *lines, const byte_t *line, place_t size, head_t *head);

#endif
