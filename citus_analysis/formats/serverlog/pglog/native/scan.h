/* State while a chunk is walked, and the functions that fill its columns. */
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
    head_t heads[2]; /* of the record that is read, and of the line after it: they take turns */
    head_t *head, *next;
    lines_t lines;
    messages_t *messages; /* NULL where a record is what its bytes say */
    table_t texts[T_COUNT];
    int32_t recent[T_COUNT]; /* number of the last text of each column */
    template_t *templates[TEMPLATE_SETS][TEMPLATE_WAYS];
    template_t *spare; /* where the next statement is read into */
    /* The last second that a stamp showed, and its milliseconds since 1970. */
    byte_t second[SECOND_WIDTH];
    int64_t second_clock;
    bool failed;
} scan_t;

/* For the records of a text; NULL where memory is out. Without a prefix (NULL) there are no lines to tell. */
INTERNAL scan_t *scan_new(const byte_t *text, const prefix_t *prefix, output_t *output);

/* 0, or OUT_OF_MEMORY where it did. */
INTERNAL int32_t scan_free(scan_t *scan);

/* The number of a short text among the distinct ones of its column in this chunk; the last one is tried first. */
INTERNAL int32_t text_number(scan_t *scan, enum text_column column, stretch_t stretch);

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
/* Severity and kind: every record has them. */
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
    set_32(&scan->out->texts[column], row, text_number(scan, column, (stretch_t){begin, end}));
}

/* The template that a statement fits, made where there is none; `shards` are the statement's. */
INTERNAL const template_t *template_of(scan_t *scan, place_t begin, place_t end, shards_t *shards);

/* Columns that the prefix tells: `scan->head` holds its fields. */
INTERNAL void begin_record(scan_t *scan, place_t line_begin, int64_t row);

/* Time and zone that a stamp with or without milliseconds tells. */
INTERNAL void set_clock(scan_t *scan, const byte_t *line, span_t span, int64_t row);

/* `citus_internal gpid=20000030999`: the name without the gpid. */
INTERNAL void set_application(scan_t *scan, const byte_t *line, span_t span, int64_t row);

/* Columns that a text tells. */
INTERNAL void read_text(scan_t *scan, int64_t row, enum severity severity, place_t begin, place_t end);

#endif
