/* The role of a line, determined by the line alone. */
#ifndef PGLOG_LINE_H
#define PGLOG_LINE_H

#include "prefix.h"

/* As in records.py: a line continues a record, begins one, or belongs to none. */
enum role { CONTINUED, RECORD, STRAY };

typedef struct {
    const prefix_t *prefix;
    int64_t line_cap; /* only the beginning of longer lines is known */
    bool zeros;       /* whether lines may contain a zero byte, which no record does */
    bool timed;       /* whether records begin with a time, which hardly any other text resembles */
    bool syslog;      /* whether each line, continuation lines included, begins with syslog's header */
    byte_t rare;      /* byte that is in every head of a timed prefix, but in few texts */
    place_t least;    /* length of the shortest such head */
    memo_t memo;
    head_t other; /* head of a second record in a line */
} lines_t;

INTERNAL void init_lines(lines_t *lines, const prefix_t *prefix);

/* NULL if out of memory. */
INTERNAL lines_t *lines_new(const prefix_t *prefix, int64_t line_cap);

/* The place after white space. */
INTERNAL place_t indent_end(const byte_t *text, place_t begin, place_t end);

/* The role of a line of `size` bytes, its line end included; sets `head` if it begins a record. */
INTERNAL enum role role_of(lines_t *lines, const byte_t *line, place_t size, head_t *head);

#endif
