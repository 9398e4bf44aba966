/* The state of an assembly: its backends and unfinished executions. */
#ifndef PGLOG_ASSEMBLY_H
#define PGLOG_ASSEMBLY_H

#include "sessions.h"

/* An array that grows. */
typedef struct {
    void *items;
    int64_t count, room;
} list_t;

typedef struct {
    phase_t phase;
    int64_t xid;
    byte_t event, parses, named; /* named: whether it names its statement */
} timed_t;

/* A connection that a session made. */
typedef struct {
    int64_t connect_us;
    int32_t host, port;
} connection_t;

/* An unfinished execution with its records. */
typedef struct {
    execution_t execution;
    list_t timed, tasks, locals;
    int64_t last_local; /* shard of the last local execution */
    bool after_local;
    local_t planned; /* what the planner said of a plan for the own node's shard; nothing if its offset is unknown */
    bool prepared, bound; /* whether a parse or bind phase names its statement, and whether a bind phase does */
    bool crowded, timed_before; /* whether more durations preceded those kept, and whether any preceded its failure */
    uint64_t fingerprint; /* of that statement */
    execution_t bind;     /* what the record of the bind phase says, as if it were the only one */
} work_t;

typedef struct {
    int64_t node, pid;
    bool used;

    int64_t line, place; /* of the last record */
    int64_t newest, floor; /* latest time of all records, and of the records before the last restart */
    bool timeless;         /* whether a record has no time */

    bool anchored, sampled, on_shard_seen, opens, closes;
    int64_t opened, xid; /* statements that began in the segment; xid of the last record */
    int64_t kept;
    session_t session;
    bool logs_all;          /* whether all statements are logged (log_statement = all) */
    int64_t strays;         /* durations before statements that were no phase of theirs, as far as is known */
    list_t names;           /* (int32_t) prepared statements that were executed, up to MOST_NAMES */
    work_t *failing;        /* execution that the last record reported as failed: a detail may name its statement */
    execution_t *described; /* execution that the last record named: the parameters that follow are its own */
    work_t *current, *held; /* execution that gets records; the complete one before it, kept until it is complete */
    list_t connections;     /* (connection_t) that the session made */
    list_t undecided;       /* (work_t *) executions of a session without a logged statement so far */
} backend_t;

struct assembly {
    rules_t rules;
    backend_t *backends;
    uint64_t mask, used;
    list_t executions, phases, tasks, locals, sessions, missing;
    list_t spare; /* (work_t *) */
    int64_t session_count, execution_count;
    bool failed;
};

/* A place for one more item; NULL if out of memory. */
INTERNAL void *list_add(list_t *list, size_t size);

/* Add a value to a list; sets `failed` if out of memory. */
#define ADD(assembly, list, type, value)                    \
    do {                                                    \
        type *added_ = list_add((list), sizeof(type));      \
        if (added_) *added_ = (value);                      \
        else (assembly)->failed = true;                     \
    } while (0)

INTERNAL work_t *work_new(assembly_t *assembly);
INTERNAL void work_done(assembly_t *assembly, work_t *work);

/* The backend of a process on a node; NULL if out of memory. */
INTERNAL backend_t *backend_of(assembly_t *assembly, int64_t node, int64_t pid);

/* Durations kept of a statement that is not yet known, and names kept of a session. */
#define MOST_WAITING 4
#define MOST_NAMES 64

/* The number of the name of the unnamed statement. */
#define UNNAMED 0

/* The process of records without one. */
#define NO_PROCESS (-1)

/* Complete the current execution of a backend; `torn`: records are missing after it. */
INTERNAL void finish_execution(assembly_t *assembly, backend_t *backend, bool torn);

/* Close an execution at its bind phase: the execution itself took less than the limit of what is logged. */
static inline void close_at_bind(execution_t *one, const execution_t *bind)
{
    one->opened = one->closed = one->extended = 1;
    one->opener_offset = bind->opener_offset;
    one->opener_time = bind->opener_time;
    one->local_xid = bind->local_xid;
    one->statement_kind = bind->statement_kind;
    one->shard_id = bind->shard_id;
    one->other_shards = bind->other_shards;
    one->values_hash = bind->values_hash;
    one->has_fingerprint = bind->has_fingerprint;
    one->statement_fingerprint = bind->statement_fingerprint;
    one->byte_offset = bind->byte_offset;
    one->end_time = bind->end_time;
    one->closing_xid = bind->closing_xid;
}

/* Whether only phases before the execution itself were logged, as far as is known. */
static inline bool only_prepared(const work_t *work)
{
    return work->prepared && !work->execution.opened && !work->execution.failed && !work->execution.has_tasks;
}

/* Keep, of the durations before a bind phase that names its statement and is all that is known of an execution, the one of
 * its parse phase. */
INTERNAL void keep_bound(backend_t *backend, work_t *work);

/* Complete the session of a backend and begin the next one. */
INTERNAL void finish_session(assembly_t *assembly, backend_t *backend);

/* The values of a record, not yet interpreted. */
typedef struct {
    int64_t row, source, offset, place, time, gpid, xid;
    byte_t word;
} record_t;

static inline bool has(const numbers_t *numbers, int64_t row)
{
    if (!numbers->values) return false;
    int64_t bit = row + numbers->shift;
    return !numbers->valid || (numbers->valid[bit >> 3] >> (bit & 7) & 1);
}

static inline int64_t long_at(const numbers_t *numbers, int64_t row)
{
    return has(numbers, row) ? ((const int64_t *)numbers->values)[row] : NOTHING_THERE;
}

static inline int64_t int_at(const numbers_t *numbers, int64_t row)
{
    return has(numbers, row) ? ((const int32_t *)numbers->values)[row] : NOTHING_THERE;
}

/* Add a record to the execution of its backend, or to a new one. */
INTERNAL void add_event(assembly_t *assembly, backend_t *backend, const records_t *records, const record_t *record,
                        byte_t event);

/* Name the statement of an execution that failed, as the detail of its error does. */
INTERNAL void name_failed(assembly_t *assembly, backend_t *backend, const records_t *records, const record_t *record);

#endif
