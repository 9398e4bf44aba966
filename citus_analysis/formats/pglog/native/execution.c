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
    work->after_local = work->prepared = work->bound = work->crowded = work->timed_before = false;
    backend->failing = NULL;
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

static void count_phase(execution_t *one, const phase_t *phase)
{
    one->phases++;
    one->duration_us += phase->duration_us;
    if (phase->log_time == NOTHING_THERE) return;
    int64_t begin = phase->log_time - (int64_t)phase->duration_us;
    if (one->start_time == NOTHING_THERE || begin < one->start_time) one->start_time = begin;
}

/* Keep two of the durations of an execution at most, and count the others as strays. */
static void keep_phases(backend_t *backend, work_t *work, int64_t parse, int64_t bind)
{
    timed_t *all = work->timed.items;
    execution_t *one = &work->execution;
    int64_t count = work->timed.count;
    one->phases = 0;
    one->duration_us = 0;
    one->start_time = NOTHING_THERE;
    work->timed.count = 0;
    for (int64_t place = 0; place < count; place++) {
        if (place != parse && place != bind) continue;
        all[work->timed.count++] = all[place];
        count_phase(one, &all[place].phase);
    }
    backend->strays += count - work->timed.count;
}

static void add_timed(assembly_t *assembly, backend_t *backend, work_t *work, const records_t *records,
                      const record_t *record, byte_t event, bool closes)
{
    execution_t *one = &work->execution;
    double duration = ((const double *)records->duration_us.values)[record->row];
    timed_t timed = {.event = event, .parses = assembly->rules.parses[record->word], .xid = record->xid};
    timed.named = event == R_PREPARE && has(&records->statement_fingerprint, record->row);
    timed.phase = (phase_t){record->offset, record->time, duration, 0, (uint32_t)record->source, 0, closes, {0}};
    if (!one->opened && !work->prepared && work->timed.count == MOST_WAITING) {
        timed_t *all = work->timed.items;
        for (int64_t place = 1; place < MOST_WAITING; place++) all[place - 1] = all[place];
        work->timed.count--;
        work->crowded = true;
        backend->strays++;
    }
    ADD(assembly, &work->timed, timed_t, timed);
    count_phase(one, &timed.phase);
}

/* Times of the log have a resolution of 1 ms. */
#define RESOLUTION_US 2000
#define SECOND_US 1000000

/* What is known to follow a phase: when it began, when it was logged, its transaction. */
typedef struct {
    int64_t begun, logged, xid;
} next_t;

static int64_t begin_of(int64_t time, double duration) { return time == NOTHING_THERE ? time : time - (int64_t)duration; }

static next_t next_of(const timed_t *timed)
{
    return (next_t){begin_of(timed->phase.log_time, timed->phase.duration_us), timed->phase.log_time, timed->xid};
}

/* Whether a phase ended when the next one began, as far as times tell: a client sends the messages of one execution
 * together. Logs of whole seconds cut the rest off. If times overlap, nothing else was executed in between. */
static bool meets(const timed_t *timed, const next_t *next)
{
    int64_t ended = timed->phase.log_time;
    if (ended == NOTHING_THERE || next->logged == NOTHING_THERE) return true;
    int64_t room = RESOLUTION_US + (ended % SECOND_US == 0 && next->logged % SECOND_US == 0 ? SECOND_US : 0);
    return next->begun - ended <= room && (timed->named || ended - next->begun <= room);
}

/* Whether two records are known to be of one transaction, and whether they are known not to be. A phase is logged within
 * a transaction. */
static bool in_same(const timed_t *timed, const next_t *next) { return timed->xid > 0 && timed->xid == next->xid; }
static bool in_other(const timed_t *timed, const next_t *next)
{
    return timed->xid == 0 || (timed->xid > 0 && next->xid > 0 && timed->xid != next->xid);
}

static bool was_executed(const backend_t *backend, int32_t name)
{
    const int32_t *names = backend->names.items;
    if (backend->names.count >= MOST_NAMES) return true;
    for (int64_t place = 0; place < backend->names.count; place++)
        if (names[place] == name) return true;
    return false;
}

static inline int32_t name_at(const records_t *records, const record_t *record)
{
    return records->statement_name ? records->statement_name[record->row] : -1;
}

/* Whether a duration is the parse phase of the statement whose next phase is known. */
static bool is_parse(const backend_t *backend, const work_t *work, const timed_t *timed, const next_t *next, int32_t name,
                     bool complete)
{
    if (timed->xid == 0 || (timed->event == R_PREPARE && !timed->parses)) return false;
    bool near = meets(timed, next);
    if (timed->named) return complete || near;
    /* Nothing but its parse phase can precede the bind phase of the unnamed statement directly. */
    if (name == UNNAMED) return complete || near || in_same(timed, next);
    /* It is the parse phase of a statement that was not executed before if the session has no other duration that may be. */
    bool alone = work->timed.count == 2 && !work->crowded && !backend->strays;
    return alone && !was_executed(backend, name) && (backend->anchored || (complete && (near || in_same(timed, next))));
}

/* Keep, of the durations before a record that names a statement, those that are proven to be its phases. */
static void choose_phases(const assembly_t *assembly, backend_t *backend, work_t *work, const records_t *records,
                          const record_t *record, byte_t event)
{
    const timed_t *all = work->timed.items;
    int64_t last = work->timed.count - 1, parse = -1, bind = -1;
    if (last < 0) return;
    if (assembly->rules.binds[record->word]) {
        /* Where all statements are logged, no other one ended in between. */
        bool complete = event == R_OPENER && backend->logs_all;
        double duration = event == R_WHOLE ? ((const double *)records->duration_us.values)[record->row] : 0;
        next_t next = {begin_of(record->time, duration), record->time, record->xid};
        const timed_t *before = &all[last];
        if (!before->parses && !in_other(before, &next) &&
            (complete || (!before->named && in_same(before, &next)) || meets(before, &next))) {
            next = next_of(before);
            bind = last--;
        }
        if (last >= 0 && (bind >= 0 || all[last].parses) &&
            is_parse(backend, work, &all[last], &next, name_at(records, record), complete))
            parse = last;
    }
    keep_phases(backend, work, parse, bind);
}

INTERNAL void keep_bound(backend_t *backend, work_t *work)
{
    const timed_t *all = work->timed.items;
    int64_t bind = work->timed.count - 1;
    while (bind > 0 && !(all[bind].named && !all[bind].parses)) bind--;
    next_t next = next_of(&all[bind]);
    bool parsed = bind > 0 && all[bind - 1].named && all[bind - 1].parses && meets(&all[bind - 1], &next);
    keep_phases(backend, work, parsed ? bind - 1 : -1, bind);
}

/* Whether a duration without a text is the execution whose bind phase the record before names. */
static bool runs_bound(const work_t *work, const records_t *records, const record_t *record)
{
    if (!work || !work->bound || !only_prepared(work) || !work->timed.count) return false;
    const timed_t *before = (const timed_t *)work->timed.items + work->timed.count - 1;
    double duration = ((const double *)records->duration_us.values)[record->row];
    next_t next = {begin_of(record->time, duration), record->time, record->xid};
    return before->named && !before->parses && !in_other(before, &next) && (in_same(before, &next) || meets(before, &next));
}

/* Kinds of statements that are logged only where all are. */
static bool shows_all(byte_t kind) { return kind == Q_SELECT || kind == Q_BEGIN || kind == Q_COMMIT || kind == Q_ROLLBACK || kind == Q_SET; }

static void add_name(assembly_t *assembly, backend_t *backend, int32_t name)
{
    if (name > UNNAMED && !was_executed(backend, name)) ADD(assembly, &backend->names, int32_t, name);
}

INTERNAL void name_failed(assembly_t *assembly, backend_t *backend, const records_t *records, const record_t *record)
{
    work_t *work = backend->failing;
    if (!work || records->severity[record->row] != S_STATEMENT || !has(&records->statement_fingerprint, record->row)) return;
    backend->failing = NULL;
    uint64_t fingerprint = fingerprint_at(records, record);
    execution_t *one = &work->execution;
    if (one->has_fingerprint && one->statement_fingerprint == fingerprint) return;
    if (one->opened) {
        /* The statement that was logged before ended without a record; another one failed. */
        if (one->has_tasks || one->is_child || work->locals.count || !one->has_fingerprint) return;
        execution_t error = *one;
        one->failed = one->fatal = one->closed = 0;
        one->byte_offset = one->end_time = one->closing_xid = NOTHING_THERE;
        one->last_offset = one->opener_offset;
        work = begin_execution(assembly, backend, record);
        if (!work) return;
        one = &work->execution;
        one->failed = one->closed = 1;
        one->fatal = error.fatal;
        one->byte_offset = one->last_offset = error.byte_offset;
        one->end_time = error.end_time;
        one->closing_xid = error.closing_xid;
    }
    one->has_fingerprint = 1;
    one->statement_fingerprint = fingerprint;
    one->statement_kind = records->statement_kind[record->row];
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
    if (event == R_BARRIER) {
        finish_execution(assembly, backend, false);
        backend->opens = backend->closes = false;
        return;
    }
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
    if (event == R_OPENER && shows_all(records->statement_kind[record->row])) backend->logs_all = true;
    if (names) {
        choose_phases(assembly, backend, work, records, record, event);
        if (assembly->rules.extended[record->word]) add_name(assembly, backend, name_at(records, record));
    }
    bool runs = event == R_DURATION && !closes && runs_bound(work, records, record);
    if (runs) {
        keep_bound(backend, work);
        close_at_bind(&work->execution, &work->bind);
        closes = true;
    }
    if (event == R_ERROR && !work->execution.opened && !work->execution.has_tasks && work->timed.count) {
        work->timed_before = true;
        keep_phases(backend, work, -1, -1);
    }
    backend->failing = event == R_ERROR ? work : NULL;
    if (event == R_PREPARE) add_prepared(work, &assembly->rules, records, record);
    backend->described = names ? &work->execution : event == R_PREPARE && binds(work, records, record) ? &work->bind : NULL;
    if (names) add_opener(&work->execution, &assembly->rules, records, record);
    if (event <= R_DURATION) add_timed(assembly, backend, work, records, record, event, closes);
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
