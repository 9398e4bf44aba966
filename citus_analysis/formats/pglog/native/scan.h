/* State of a scan, and the functions that fill its columns. */
#ifndef PGLOG_SCAN_H
#define PGLOG_SCAN_H

#include "line.h"
#include "statement.h"

#define TEMPLATE_SETS 64
#define TEMPLATE_WAYS 8

/* Hash table of the numbers of distinct texts. */
typedef struct {
    int32_t *slots;
    uint32_t mask, used;
} table_t;

/* Messages of syslog, see syslog.h. */
typedef struct messages messages_t;

typedef struct {
    const byte_t *text;
    const prefix_t *prefix;
    output_t *out;
    head_t heads[2]; /* of the current record and of the next line, alternating */
    head_t *head, *next;
    lines_t lines;
    messages_t *messages; /* NULL except in logs of syslog */
    table_t texts[T_COUNT];
    int32_t recent[T_COUNT]; /* number of the last text of each column */
    template_t *templates[TEMPLATE_SETS][TEMPLATE_WAYS];
    template_t *spare; /* memory for the next statement */
    /* The last second of a stamp, and its microseconds since 1970. */
    byte_t second[SECOND_WIDTH];
    int64_t second_clock;
    bool failed;
} scan_t;

/* The state for a text; NULL if out of memory. Without a prefix (NULL), the text is not divided into lines. */
INTERNAL scan_t *scan_new(const byte_t *text, const prefix_t *prefix, output_t *output);

/* 0, or OUT_OF_MEMORY if the scan ran out of memory. */
INTERNAL int32_t scan_free(scan_t *scan);

/* The number of a short text among the distinct ones of its column in this chunk; the last one is tried first. */
INTERNAL int32_t text_number(scan_t *scan, enum text_column column, slice_t slice);

static inline void mark(column_t *column, int64_t row) { column->valid[row >> 3] |= (byte_t)(1 << (row & 7)); }
static inline void set_64(column_t *column, int64_t row, int64_t value)
{
    ((int64_t *)column->values)[row] = value;
    mark(column, row);
}
static inline void set_32(column_t *column, int64_t row, int64_t value)
{
    ((int32_t *)column->values)[row] = (int32_t)value;
    mark(column, row);
}
/* For severity and kind, which every record has. */
static inline void put_8(column_t *column, int64_t row, int value) { ((byte_t *)column->values)[row] = (byte_t)value; }
static inline void set_8(column_t *column, int64_t row, int value)
{
    put_8(column, row, value);
    mark(column, row);
}
static inline void set_duration(column_t *column, int64_t row, int64_t microseconds)
{
    ((double *)column->values)[row] = (double)microseconds;
    mark(column, row);
}
static inline void set_text(scan_t *scan, enum text_column column, int64_t row, place_t begin, place_t end)
{
    set_32(&scan->out->texts[column], row, text_number(scan, column, (slice_t){begin, end}));
}

/* The template that fits a statement, made if there is none; sets `shards` and `values` to the statement's. */
INTERNAL const template_t *template_of(scan_t *scan, place_t begin, place_t end, shards_t *shards, uint32_t *values);

/* Set the columns that are read from the prefix, whose fields are in `scan->head`. */
INTERNAL void begin_record(scan_t *scan, place_t line_begin, int64_t row);

/* Set time and zone from a stamp with or without milliseconds. */
INTERNAL void set_clock(scan_t *scan, const byte_t *line, span_t span, int64_t row);

/* Set application and gpid: `citus_internal gpid=20000030999` has both. */
INTERNAL void set_application(scan_t *scan, const byte_t *line, span_t span, int64_t row);

/* Set the columns that are read from a text. */
INTERNAL void read_text(scan_t *scan, int64_t row, enum severity severity, place_t begin, place_t end);

#endif
