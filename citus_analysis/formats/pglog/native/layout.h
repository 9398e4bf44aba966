/* Codes and structures shared with Python. `make layout` writes all but the structures. */
#ifndef PGLOG_LAYOUT_H
#define PGLOG_LAYOUT_H

#include <stdint.h>

/* Hash of the declarations below. */
#define LAYOUT_HASH 0x745a18a699dd231

#define MAX_ELEMENTS 64
#define HEAD_LIMIT 1000
#define HELD_BACK 32768
#define OUT_OF_MEMORY (-2)
#define NOT_IN_ORDER (-3)
#define IRREGULAR (-4)
#define MORE_ROOM (-5)
#define MAX_SHARDS 8

enum kind {
    K_DURATION,
    K_EXECUTE,
    K_PARSE,
    K_BIND,
    K_STATEMENT,
    K_PARAMETERS,
    K_PLAN,
    K_CONNECT,
    K_TASK,
    K_LOCAL,
    K_CHECKPOINT,
    K_AUTOVACUUM,
    K_LOCK_WAIT,
    K_TEMP_FILE,
    K_CONNECTION,
    K_ERROR,
    K_WRAPAROUND,
    K_CRASH,
    K_OUT_OF_MEMORY,
    K_ARCHIVE_FAILED,
    K_CHECKSUM,
    K_DEADLOCK,
    K_STATEMENT_TIMEOUT,
    K_TOO_MANY_CONNECTIONS,
    K_DISK_FULL,
    K_DETAIL,
    K_OTHER,
};

enum phase {
    P_PARSE,
    P_BIND,
    P_EXECUTE,
    P_STATEMENT,
    P_FETCH,
    P_FASTPATH,
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
    T_TRACE_CONTEXT,
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
    E_HOST,
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

enum record_event {
    R_PREPARE,
    R_WHOLE,
    R_DURATION,
    R_LOCAL,
    R_OPENER,
    R_TASK,
    R_ERROR,
    R_PLANNED,
    R_CONNECT,
    R_BARRIER,
    R_NOTHING,
};

enum row_form {
    W_CSV,
    W_LOOSE_CSV,
    W_JSON,
};

typedef uint8_t byte_t;

typedef struct {
    void *values; /* one per row; initially 0 for codes and numbers of texts */
    byte_t *valid; /* one bit per row, initially 0 */
} column_t;

typedef struct {
    int64_t begin;
    int64_t end;
} slice_t;

typedef struct {
    int32_t kind;
    int32_t field; /* the field that it fills */
    int32_t padding; /* spaces: -1 after it, 1 before it */
    int32_t first; /* beginning of a literal, or of the words that a text may be; fewest digits; whether a stamp has ms */
    int32_t second; /* end of a literal, or of these words; most digits */
    int32_t third; /* whether a minus may precede digits */
} element_t;

typedef struct {
    const element_t *elements;
    const byte_t *literals;
    const byte_t *severities; /* rows of `severity_width`: length of a word, then its bytes */
    int32_t count; /* number of elements */
    int32_t optional_from; /* first element that may be absent, together with all after it */
    int32_t severity_count;
    int32_t severity_width;
    int32_t verbose; /* whether messages begin with an SQLSTATE */
} prefix_t;

typedef struct {
    const byte_t *text;
    int64_t size;
    int64_t offset; /* offset of the chunk in the source */
    int64_t tail; /* bytes after the chunk that belong to its only record */
    int64_t line_cap; /* length above which a record is capped */
    int64_t excerpt; /* bytes read of a capped record */
    int32_t fresh; /* whether only blank lines precede the chunk */
    int32_t zeros; /* whether some byte is 0 */
    byte_t *spare; /* in logs of syslog, memory of the same size after the text; else NULL */
} chunk_t;

typedef struct {
    int64_t lines; /* number of lines, a last one without line end included */
    int32_t ascii; /* whether all bytes are ASCII */
    int32_t zeros; /* whether some byte is 0 */
} text_facts_t;

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
    column_t values_hash;
    column_t message;
    column_t texts[9];
    column_t severity;
    column_t kind;
    column_t phase;
    column_t statement_kind;
    column_t capped; /* `values` also has one bit per row */
    slice_t *distinct_texts[9];
    slice_t *messages;
    slice_t *strays;
    slice_t *shards; /* row and number of the shards after the first of a statement */
    int64_t text_counts[9];
    int64_t rows;
    int64_t message_count;
    int64_t stray_count;
    int64_t shard_count;
    int64_t blank_bytes;
    int64_t record_bytes;
} output_t;

typedef struct {
    const int32_t *pids;
    const byte_t *pids_valid; /* NULL if all are valid; likewise lines_valid */
    const int64_t *lines;
    const byte_t *lines_valid;
    const byte_t *severities;
    const int64_t *offsets;
} link_columns_t;

typedef struct {
    const void *values; /* NULL if no row is valid */
    const byte_t *valid; /* one bit per row; NULL if all rows are valid */
    int64_t shift; /* number of bits before the first row's */
} numbers_t;

typedef struct {
    int64_t first_time;
    int64_t last_time;
} source_times_t;

typedef struct {
    const byte_t *timed; /* record_event by kind and phase, for records with a duration */
    const byte_t *untimed; /* the same for records without a duration */
    const byte_t *parses; /* whether a kind and phase are a parse phase */
    const byte_t *extended; /* whether they are a statement over the extended protocol */
    const byte_t *statements; /* whether they are a statement line */
    const byte_t *binds; /* whether a bind phase precedes them */
    const int32_t *nodes; /* node of each source */
    const int64_t *nodeids; /* nodeid of each source's node */
    source_times_t *times; /* times of each source's records */
    int64_t gpid_factor;
    int64_t file_room; /* larger than any offset */
    int64_t distributed; /* whether a statement on a shard is a local execution */
} rules_t;

typedef struct {
    int64_t rows;
    const int64_t *order; /* rows sorted by session; NULL: in order already, which is checked */
    const uint32_t *sources; /* source of each row; NULL: all have `source` */
    int64_t source;
    numbers_t pid;
    numbers_t byte_offset;
    numbers_t log_time;
    numbers_t session_line;
    numbers_t local_xid;
    numbers_t gpid;
    numbers_t duration_us;
    numbers_t shard_id;
    numbers_t task_us;
    numbers_t worker_port;
    numbers_t statement_fingerprint;
    numbers_t values_hash;
    const byte_t *words; /* kind and phase as one number */
    const byte_t *severity;
    const byte_t *statement_kind;
    const int32_t *worker_host; /* number of the host, -1: none; NULL: no row has one */
    const int32_t *other_shards; /* number of the text, likewise */
    const int32_t *statement_name; /* number of the name, likewise; UNNAMED: the unnamed statement */
} records_t;

typedef struct {
    int64_t opener_offset;
    int64_t opener_time;
    int64_t byte_offset;
    int64_t end_time;
    int64_t last_offset;
    int64_t start_time;
    int64_t gpid;
    int64_t shard_id;
    int64_t local_xid;
    int64_t closing_xid;
    int64_t session_seq;
    int64_t connect_us;
    uint64_t statement_fingerprint;
    double duration_us;
    uint32_t source;
    uint32_t session;
    int32_t pid;
    int32_t phases;
    int32_t other_shards;
    int32_t values_hash; /* of the statement's constants and parameters; 0: none */
    byte_t opened;
    byte_t closed;
    byte_t extended;
    byte_t failed;
    byte_t fatal;
    byte_t has_tasks;
    byte_t has_locals;
    byte_t is_child;
    byte_t in_transaction;
    byte_t anchored;
    byte_t first_on_shard;
    byte_t has_fingerprint;
    byte_t statement_kind;
    byte_t unused[3];
} execution_t;

typedef struct {
    int64_t byte_offset;
    int64_t log_time;
    double duration_us;
    uint32_t execution;
    uint32_t source;
    byte_t name; /* 0 parse, 1 bind, 2 execute */
    byte_t closes;
    byte_t unused[6];
} phase_t;

typedef struct {
    int64_t byte_offset;
    int64_t end_time;
    int64_t shard_id;
    int64_t task_us;
    int64_t gpid; /* of its execution; likewise all that follow but the source, the host and the port */
    int64_t statement_offset; /* where the execution was reported: at its end, else its last record */
    int64_t statement_seq;
    uint32_t execution;
    uint32_t source;
    uint32_t statement_source;
    uint32_t session;
    int32_t pid;
    int32_t host; /* number of the host; -1: none */
    int32_t port; /* INT32_MIN: none */
    int32_t values_hash; /* of its execution; 0: none */
    byte_t failed;
    byte_t is_child;
    byte_t anchored;
    byte_t unused[5];
} sent_task_t;

typedef struct {
    int64_t byte_offset;
    int64_t log_time;
    int64_t shard_id;
    uint32_t execution;
    uint32_t source;
    byte_t statement_kind;
    byte_t unused[7];
} local_t;

typedef struct {
    int64_t begins; /* first time of its executions */
    int64_t executions;
    uint32_t session;
    int32_t node;
    byte_t anchored; /* whether no record is missing before its first execution */
    byte_t unused[7];
} session_t;

typedef struct {
    int64_t gpid;
    int64_t place; /* place of the last record before the gap */
    int32_t node;
    int32_t unused;
} missing_t;

typedef struct {
    void *items;
    int64_t count;
} array_t;

typedef struct {
    array_t executions;
    array_t phases;
    array_t tasks;
    array_t locals;
    array_t sessions;
    array_t missing;
} assembled_t;

#endif
