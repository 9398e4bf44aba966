/* Records added to their execution. */
#include "assembly.h"

static work_t *begin_execution(assembly_t *assembly, backend_t *backend, const record_t *record)
{
    finish_execution(assembly, backend, false);
    work_t *work = backend->current = work_new(assembly);
    if (!work) return NULL;
    int64_t nodeid = assembly->rules.nodeids[record->source];
    int64_t own = nodeid == NOTHING_THERE || backend->pid == NO_PROCESS ? NOTHING_THERE : nodeid * assembly->rules.gpid_factor + backend->pid;
    bool is_child = record->gpid != NOTHING_THERE;
    work->after_local = work->prepared = work->bound = false;
    work->planned.byte_offset = NOTHING_THERE;
    work->execution = (execution_t){
        .opener_offset = NOTHING_THERE,
        .opener_time = NOTHING_THERE,
        .byte_offset = NOTHING_THERE,
        .end_time = NOTHING_THERE,
        .start_time = NOTHING_THERE,
        .gpid = is_child ? record->gpid : own,
        .shard_id = NOTHING_THERE,
        .local_xid = NOTHING_THERE,
        .closing_xid = NOTHING_THERE,
        .connect_us = NOTHING_THERE,
        .source = (uint32_t)record->source,
        .session = backend->session.session,
        .pid = (int32_t)backend->pid,
        .other_shards = -1,
        .statement_kind = NO_CODE,
        .is_child = is_child,
        .anchored = backend->anchored,
    };
    return work;
}

static void add_opener(execution_t *one, const rules_t *rules, const records_t *records, const record_t *record)
{
    one->opened = 1;
    one->extended = rules->extended[record->word];
    one->opener_offset = record->offset;
    one->opener_time = record->time;
    one->local_xid = record->xid;
    one->statement_kind = records->statement_kind[record->row];
    one->shard_id = long_at(&records->shard_id, record->row);
    one->other_shards = records->other_shards ? records->other_shards[record->row] : -1;
    int64_t values = int_at(&records->values_hash, record->row);
    one->values_hash = values == NOTHING_THERE ? 0 : (int32_t)values;
    one->has_fingerprint = has(&records->statement_fingerprint, record->row);
    one->statement_fingerprint =
        one->has_fingerprint ? ((const uint64_t *)records->statement_fingerprint.values)[record->row] : 0;
}

static void close_at(execution_t *one, const record_t *record)
{
    one->closed = 1;
    one->byte_offset = record->offset;
    one->end_time = record->time;
    one->closing_xid = record->xid;
}

static inline uint64_t fingerprint_at(const records_t *records, const record_t *record)
{
    return ((const uint64_t *)records->statement_fingerprint.values)[record->row];
}

/* Whether a record shows that nothing more was logged of the statement that was prepared: another one is prepared or
 * executed. */
static bool passes_over(const work_t *work, const rules_t *rules, const records_t *records, const record_t *record, byte_t event)
{
    if (event != R_PREPARE && event != R_OPENER && event != R_WHOLE) return false;
    if (event == R_PREPARE && (work->bound || rules->parses[record->word])) return true;
    return has(&records->statement_fingerprint, record->row) && fingerprint_at(records, record) != work->fingerprint;
}

static void add_prepared(work_t *work, const rules_t *rules, const records_t *records, const record_t *record)
{
    if (!has(&records->statement_fingerprint, record->row)) return;
    work->prepared = true;
    work->fingerprint = fingerprint_at(records, record);
    if (rules->parses[record->word]) return;
    work->bound = true;
    add_opener(&work->bind, rules, records, record);
    close_at(&work->bind, record);
}

static inline bool binds(const work_t *work, const records_t *records, const record_t *record)
{
    return work->bound && has(&records->statement_fingerprint, record->row);
}

static void add_timed(assembly_t *assembly, work_t *work, const records_t *records, const record_t *record, byte_t event,
                      bool closes)
{
    execution_t *one = &work->execution;
    double duration = ((const double *)records->duration_us.values)[record->row];
    one->phases++;
    one->duration_us += duration;
    if (record->time != NOTHING_THERE) {
        int64_t begin = record->time - (int64_t)duration;
        if (one->start_time == NOTHING_THERE || begin < one->start_time) one->start_time = begin;
    }
    timed_t timed = {.event = event, .parses = assembly->rules.parses[record->word]};
    timed.phase = (phase_t){record->offset, record->time, duration, 0, (uint32_t)record->source, 0, closes, {0}};
    ADD(assembly, &work->timed, timed_t, timed);
}

static void add_task(assembly_t *assembly, work_t *work, const records_t *records, const record_t *record)
{
    int64_t port = int_at(&records->worker_port, record->row);
    sent_task_t task = {
        .byte_offset = record->offset,
        .end_time = record->time,
        .shard_id = long_at(&records->shard_id, record->row),
        .task_us = long_at(&records->task_us, record->row),
        .source = (uint32_t)record->source,
        .host = records->worker_host ? records->worker_host[record->row] : -1,
        .port = port == NOTHING_THERE ? INT32_MIN : (int32_t)port,
    };
    work->execution.has_tasks = 1;
    ADD(assembly, &work->tasks, sent_task_t, task);
}

static local_t local_of(const records_t *records, const record_t *record)
{
    return (local_t){record->offset, record->time, long_at(&records->shard_id, record->row), 0,
                     (uint32_t)record->source, records->statement_kind[record->row], {0}};
}

/* The first cached plan for a shard is logged twice in a row for one execution. */
static void add_local(assembly_t *assembly, work_t *work, const records_t *records, const record_t *record)
{
    local_t local = local_of(records, record);
    bool repeated = work->after_local && work->last_local == local.shard_id;
    work->last_local = local.shard_id;
    if (!repeated) ADD(assembly, &work->locals, local_t, local);
}

/* Times of the log have a resolution of 1 ms. */
#define RESOLUTION_US 2000

/* Take in a connection, whether it is made or taken over from an earlier statement, for which Citus repeats the time that
 * it took to make it. Connections are made at the same time: the longest counts. */
static void add_connection(assembly_t *assembly, backend_t *backend, const records_t *records, const record_t *record)
{
    execution_t *one = &backend->current->execution;
    double took = ((const double *)records->duration_us.values)[record->row];
    int64_t port = int_at(&records->worker_port, record->row);
    connection_t made = {(int64_t)took, records->worker_host ? records->worker_host[record->row] : -1, (int32_t)port};
    bool taken = one->opener_time != NOTHING_THERE && record->time != NOTHING_THERE &&
                 record->time - made.connect_us < one->opener_time - RESOLUTION_US;
    const connection_t *known = backend->connections.items;
    for (int64_t place = 0; place < backend->connections.count && !taken; place++)
        taken = known[place].connect_us == made.connect_us && known[place].host == made.host && known[place].port == made.port;
    int64_t least = one->connect_us == NOTHING_THERE ? 0 : one->connect_us;
    one->connect_us = taken || made.connect_us < least ? least : made.connect_us;
    if (!taken) ADD(assembly, &backend->connections, connection_t, made);
}

INTERNAL void add_event(assembly_t *assembly, backend_t *backend, const records_t *records, const record_t *record, byte_t event)
{
    bool opens = event == R_OPENER || event == R_TASK;
    bool inside = event == R_LOCAL || event == R_PLANNED || event == R_CONNECT, after_opener = !inside && backend->opens;
    bool closes = event == R_ERROR || event == R_WHOLE || (event == R_DURATION && after_opener);
    bool never_closed = after_opener && (event == R_OPENER || event == R_WHOLE || event == R_PREPARE);
    /* In a segment that begins in the middle of a statement, a new xid shows that the next statement begins. */
    bool fragment = !backend->anchored && !backend->opened && record->xid >= 0 && backend->xid >= 0 &&
                    record->xid != backend->xid;
    work_t *work = backend->current;
    bool passed = work && only_prepared(work) && passes_over(work, &assembly->rules, records, record, event);
    if (!work || backend->closes || never_closed || fragment || passed) work = begin_execution(assembly, backend, record);
    if (!work) return;
    work->execution.last_offset = record->offset;
    bool names = event == R_OPENER || event == R_WHOLE;
    if (event == R_PREPARE) add_prepared(work, &assembly->rules, records, record);
    backend->described = names ? &work->execution : event == R_PREPARE && binds(work, records, record) ? &work->bind : NULL;
    if (names) add_opener(&work->execution, &assembly->rules, records, record);
    if (event <= R_DURATION) add_timed(assembly, work, records, record, event, closes);
    if (event == R_TASK) add_task(assembly, work, records, record);
    if (event == R_LOCAL) add_local(assembly, work, records, record);
    if (event == R_CONNECT) add_connection(assembly, backend, records, record);
    if (event == R_PLANNED) work->planned = local_of(records, record);
    if (event == R_ERROR) {
        work->execution.failed = 1;
        if (records->severity[record->row] != S_ERROR) work->execution.fatal = 1;
    }
    if (closes) close_at(&work->execution, record);
    work->after_local = event == R_LOCAL;
    if (!inside) backend->opens = opens;
    backend->closes = closes;
    backend->xid = record->xid;
    backend->opened += opens;
}
