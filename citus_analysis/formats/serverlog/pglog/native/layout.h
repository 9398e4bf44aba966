/* Codes and structures that Python shares; written by `make layout` from `_layout.py`. */
#ifndef PGLOG_LAYOUT_H
#define PGLOG_LAYOUT_H

#include <stdint.h>

/* Of all that follows. */
#define LAYOUT_HASH 0x762ed6cba4aa82a7

#define MAX_ELEMENTS 64
#define HEAD_LIMIT 1000
#define OUT_OF_MEMORY (-2)
#define MAX_SHARDS 8

enum kind {
    K_DURATION,
    K_EXECUTE,
    K_PARSE,
    K_BIND,
    K_STATEMENT,
    K_PARAMETERS,
    K_TASK,
    K_CHECKPOINT,
    K_AUTOVACUUM,
    K_LOCK_WAIT,
    K_TEMP_FILE,
    K_CONNECTION,
    K_ERROR,
    K_DETAIL,
    K_OTHER,
};

enum phase {
    P_PARSE,
    P_BIND,
    P_EXECUTE,
    P_STATEMENT,
};

enum severity {
    S_DEBUG,
    S_INFO,
    S_NOTICE,
    S_WARNING,
    S_LOG,
    S_ERROR,
    S_FATAL,
    S_PANIC,
    S_DETAIL,
    S_HINT,
    S_QUERY,
    S_CONTEXT,
    S_STATEMENT,
    S_LOCATION,
    S_BACKTRACE,
};

enum statement_kind {
    Q_SELECT,
    Q_INSERT,
    Q_UPDATE,
    Q_DELETE,
    Q_MERGE,
    Q_COPY,
    Q_BEGIN,
    Q_COMMIT,
    Q_ROLLBACK,
    Q_PREPARE,
    Q_SET,
    Q_DDL,
    Q_UTILITY,
    Q_OTHER,
};

enum text_column {
    T_ZONE,
    T_APPLICATION,
    T_USER,
    T_DATABASE,
    T_CLIENT_HOST,
    T_SQLSTATE,
    T_WORKER_HOST,
    T_STATEMENT_NAME,
    T_COUNT,
};

enum element_kind {
    E_LITERAL,
    E_TEXT,
    E_STAMP,
    E_DIGITS,
    E_VXID,
    E_SESSION,
    E_STATE,
    E_EPOCH,
    E_SYSLOG,
};

enum field {
    F_NONE,
    F_CLOCK,
    F_EPOCH,
    F_PID,
    F_HEX_PID,
    F_VXID,
    F_LINE,
    F_APP,
    F_USER,
    F_DATABASE,
    F_HOST,
    F_REMOTE,
    F_STATE,
    F_COUNT,
};

typedef uint8_t byte_t;

typedef struct {
    void *values; /* one per row; codes and numbers of texts begin as zeros */
    byte_t *valid; /* one bit per row, which begins as zero */
} column_t;

typedef struct {
    int64_t begin;
    int64_t end;
} stretch_t;

typedef struct {
    int32_t kind;
    int32_t field; /* that it fills */
    int32_t padding; /* spaces: -1 behind it, 1 before it */
    int32_t first; /* begin of a literal; fewest digits; whether a stamp has milliseconds */
    int32_t second; /* end of a literal; most digits */
    int32_t third; /* whether a minus may precede digits */
} element_t;

typedef struct {
    const element_t *elements;
    const byte_t *literals;
    const byte_t *severities; /* rows of `severity_width`: length of a word, then its bytes */
    int32_t count; /* of the elements */
    int32_t optional_from; /* first element that may be absent with all behind it */
    int32_t severity_count;
    int32_t severity_width;
} prefix_t;

typedef struct {
    const byte_t *text;
    int64_t size;
    int64_t offset; /* where the chunk begins in the source */
    int64_t tail; /* bytes behind the chunk that belong to its only record */
    int64_t line_cap; /* a longer record is capped */
    int64_t excerpt; /* bytes that are looked at of a capped record */
    int32_t fresh; /* nothing but blank lines is before the chunk */
    int32_t zeros; /* some byte of it is 0 */
} chunk_t;

typedef struct {
    int64_t lines; /* the last one without line end included: more records there cannot be */
    int32_t ascii; /* whether all bytes are */
    int32_t zeros; /* whether some byte is 0 */
} survey_t;

typedef struct {
    column_t byte_offset;
    column_t byte_length;
    column_t clock;
    column_t local_xid;
    column_t session_line;
    column_t gpid;
    column_t shard_id;
    column_t placement_id;
    column_t task_us;
    column_t statement_fingerprint;
    column_t duration_us;
    column_t pid;
    column_t backend_id;
    column_t worker_port;
    column_t message;
    column_t texts[8];
    column_t severity;
    column_t kind;
    column_t phase;
    column_t statement_kind;
    column_t capped; /* one bit per row in `values`, too */
    stretch_t *distinct_texts[8];
    stretch_t *messages;
    stretch_t *strays;
    stretch_t *shards; /* row and number of the shards behind the first of a statement */
    int64_t text_counts[8];
    int64_t rows;
    int64_t message_count;
    int64_t stray_count;
    int64_t shard_count;
    int64_t blank_bytes;
    int64_t record_bytes;
} output_t;

typedef struct {
    const int32_t *pids;
    const byte_t *pids_valid; /* NULL where every value is there, as the next one */
    const int64_t *lines;
    const byte_t *lines_valid;
    const byte_t *severities;
    const int64_t *offsets;
} tied_by_t;

#endif
