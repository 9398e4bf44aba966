/* A record of csvlog or jsonlog, and functions for both forms that read its parts and write its rows. */
#ifndef PGLOG_ROW_H
#define PGLOG_ROW_H

#include "scan.h"

/* Details in the order of their rows. */
#define DETAILS 5

/* The parts of a record as written in its row. Absent texts begin at ABSENT. */
typedef struct {
    slice_t stamp, user, database, host, application, state, said, details[DETAILS];
    int64_t pid, line, backend, local_xid; /* if absent: process and line -1, transaction 0/-1 */
    int32_t severity;
} log_record_t;

typedef struct {
    scan_t *scan;
    const chunk_t *chunk;
    byte_t *text;
    place_t spare; /* place for the next unescaped text */
    int64_t most;
} reader_t;

static const slice_t nothing = {ABSENT, ABSENT};

static const log_record_t none = {
    {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT},
    {{ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}}, -1, -1, 0, -1, -1,
};

static inline bool is_filled(slice_t slice) { return slice.end > slice.begin; }

/* Write the record from `begin` to `end`, and each of its details, as rows of the output. */
INTERNAL int32_t put_record(reader_t *reader, const log_record_t *record, place_t begin, place_t end);

/* Whether a text is the severity of a record: a word that may end in the level of a debug message. */
INTERNAL bool read_severity(reader_t *reader, slice_t text, int32_t *severity);

/* Whether a text is a time. */
INTERNAL bool is_stamp(reader_t *reader, slice_t text);

/* A virtual transaction, or nothing. */
INTERNAL bool read_transaction(reader_t *reader, slice_t text, log_record_t *record);

/* Read at most `most` digits; an empty field leaves the number unchanged. */
INTERNAL bool read_number(const byte_t *text, slice_t field, place_t most, int64_t *number);

/* Read the row of csvlog at `begin`; `loose`: accept numbers of columns that no version of PostgreSQL writes. */
INTERNAL int32_t read_csv(reader_t *reader, place_t begin, bool loose, place_t *end);

/* Read the object of jsonlog in the line at `begin`. */
INTERNAL int32_t read_json(reader_t *reader, place_t begin, place_t *end);

#endif
