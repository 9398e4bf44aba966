/* The compiled scanner's interface; `_native.py` mirrors it. */
#ifndef PGLOG_SCANNER_H
#define PGLOG_SCANNER_H

#include "bytes.h"
#include "prefix.h"

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* An Arrow column in the making: `valid` (one bit a row) begins as zeros, and so do the values of what numbers something:
 * every number is one of something, also where none is meant. */
typedef struct {
    void *values;
    byte_t *valid;
} column_t;

/* Kinds of records, in the order of `schema.KINDS`. */
enum kind {
    K_DURATION, K_EXECUTE, K_PARSE, K_BIND, K_STATEMENT, K_PARAMETERS, K_TASK, K_CHECKPOINT,
    K_AUTOVACUUM, K_LOCK_WAIT, K_TEMP_FILE, K_CONNECTION, K_ERROR, K_DETAIL, K_OTHER
};
/* Phases, in the order of the column `phase`. */
enum phase { P_PARSE, P_BIND, P_EXECUTE, P_STATEMENT };

/* The text columns: numbers of distinct texts. */
enum text_column {
    T_ZONE, T_APPLICATION, T_USER, T_DATABASE, T_CLIENT_HOST, T_SQLSTATE, T_WORKER_HOST, T_STATEMENT_NAME, TEXT_COLUMNS
};

typedef struct {
    int64_t begin, end;
} stretch_t;

typedef struct {
    const byte_t *text;
    int64_t size;
    int64_t offset;   /* where the chunk begins in the source */
    int64_t tail;     /* bytes behind the chunk that belong to its only record */
    int64_t line_cap; /* a longer record is capped */
    int64_t excerpt;  /* bytes that are looked at of a capped record */
    int32_t fresh;    /* nothing but blank lines is before the chunk */
    int32_t zeros;    /* some byte of it is 0 */
} chunk_t;

typedef struct {
    /* int64 */
    column_t byte_offset, byte_length, clock, local_xid, session_line, gpid, shard_id, placement_id, task_us;
    /* uint64 */
    column_t fingerprint;
    /* double */
    column_t duration_us;
    /* int32 */
    column_t pid, backend_id, worker_port, message, texts[TEXT_COLUMNS];
    /* uint8 */
    column_t severity, kind, phase, statement_kind;
    /* one bit a row */
    column_t capped;
    stretch_t *distinct_texts[TEXT_COLUMNS];
    stretch_t *messages, *strays;
    int64_t text_counts[TEXT_COLUMNS];
    int64_t rows, message_count, stray_count, blank_bytes, record_bytes;
} output_t;

#define OUT_OF_MEMORY (-2)

typedef struct {
    int64_t lines; /* the last one without line end included: more records there cannot be */
    int32_t ascii, zeros; /* whether all bytes are, and whether some byte is 0 */
} survey_t;

EXPORTED survey_t pglog_survey(const byte_t *text, int64_t size);

/* Fill `output`, which has room for as many rows as the chunk has lines, with the records of a chunk; 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_scan(const chunk_t *chunk, const prefix_t *prefix, output_t *output);

/* Fill the columns of `output` that texts tell. Text number i is from bounds[i] to bounds[i + 1]; `severities` are numbers
 * of `enum severity`. 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_read_texts(const byte_t *text, int64_t rows, const int64_t *bounds, const byte_t *severities,
                                  output_t *output);

/* Copy stretches of a text one behind the other; `data` has room for all. */
EXPORTED void pglog_gather(const byte_t *text, int64_t count, const stretch_t *places, byte_t *data);

/* How many lines begin a record; or OUT_OF_MEMORY. */
EXPORTED int64_t pglog_heads(const byte_t *text, int64_t size, const prefix_t *prefix);

/* Where the last record begins that may go on behind the text (whole lines); -1 where the last opener is none. */
EXPORTED int64_t pglog_last_record(const byte_t *text, int64_t size, int64_t line_cap, const prefix_t *prefix);

/* What is remembered of each process, from chunk to chunk. */
typedef struct ties ties_t;
EXPORTED ties_t *pglog_ties_new(void);
EXPORTED void pglog_ties_free(ties_t *ties);

/* What rows are tied by: Arrow columns, of which `valid` is NULL where every value is there, and `values` too where none
 * is. */
typedef struct {
    const int32_t *pids;
    const byte_t *pids_valid;
    const int64_t *lines;
    const byte_t *lines_valid;
    const byte_t *severities;
    const int64_t *offsets;
} tied_by_t;

/* For each row the offset of the record that it is a detail of; `valid` (one bit a row) begins as zeros. 0 or
 * OUT_OF_MEMORY. */
EXPORTED int32_t pglog_tie(ties_t *ties, int64_t rows, const tied_by_t *by, int64_t *targets, byte_t *valid);

#endif
