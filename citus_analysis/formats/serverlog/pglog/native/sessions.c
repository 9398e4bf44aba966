/* One pass over records that gives the statements of all sessions. */
#include "sessions.h"

#include <stdlib.h>

/* An array that grows. */
typedef struct {
    void *items;
    int64_t count, room;
} list_t;

typedef struct {
    phase_t phase;
    byte_t event, parses;
} timed_t;

/* An execution with what belongs to it, while it is put together. */
typedef struct {
    execution_t execution;
    list_t timed, tasks, locals;
    int64_t last_local; /* shard of the record before, if that was a local execution */
    bool after_local;
} work_t;

typedef struct {
    int64_t node, pid;
    bool used;

    int64_t line, place; /* of the last record */
    int64_t newest, floor; /* latest time of all records, and of those before the last restart */
    bool timeless;         /* a record has no time */

    bool anchored, sampled, on_shard_seen, opens, closes;
    int64_t opened, xid; /* statements that began in the segment; xid of the last record */
    int64_t kept;
    session_t session;
    work_t *current, *held; /* that records are added to; complete, until the next one of the session is */
    list_t undecided;       /* (work_t *) of a session of which no statement was seen yet */
} backend_t;

struct assembly {
    rules_t rules;
    backend_t *backends;
    uint64_t mask, used;
    list_t executions, phases, tasks, locals, sessions, missing;
    list_t spare; /* (work_t *) */
    int64_t session_count, execution_count;
    bool drained, failed;
};

static void *list_add(list_t *list, size_t size)
{
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 4;
        void *items = realloc(list->items, (size_t)room * size);
        if (!items) return NULL;
        list->items = items;
        list->room = room;
    }
    return (byte_t *)list->items + (size_t)list->count++ * size;
}

/* Add a value to a list, or note that memory is out. */
#define ADD(assembly, list, type, value)                    \
    do {                                                    \
        type *added_ = list_add((list), sizeof(type));      \
        if (added_) *added_ = (value);                      \
        else (assembly)->failed = true;                     \
    } while (0)

static void work_free(work_t *work)
{
    if (!work) return;
    free(work->timed.items);
    free(work->tasks.items);
    free(work->locals.items);
    free(work);
}

static void works_free(list_t *list)
{
    for (int64_t number = 0; number < list->count; number++) work_free(((work_t **)list->items)[number]);
    free(list->items);
}

static work_t *work_new(assembly_t *assembly)
{
    if (assembly->spare.count) return ((work_t **)assembly->spare.items)[--assembly->spare.count];
    work_t *work = calloc(1, sizeof *work);
    if (!work) assembly->failed = true;
    return work;
}

static void work_done(assembly_t *assembly, work_t *work)
{
    work->timed.count = work->tasks.count = work->locals.count = 0;
    work_t **place = list_add(&assembly->spare, sizeof *place);
    if (place) *place = work;
    else work_free(work);
}

assembly_t *pglog_assembly_new(const rules_t *rules)
{
    assembly_t *assembly = calloc(1, sizeof *assembly);
    if (!assembly) return NULL;
    assembly->rules = *rules;
    assembly->mask = 1023;
    assembly->backends = calloc(assembly->mask + 1, sizeof *assembly->backends);
    if (assembly->backends) return assembly;
    free(assembly);
    return NULL;
}

void pglog_assembly_free(assembly_t *assembly)
{
    if (!assembly) return;
    for (uint64_t slot = 0; slot <= assembly->mask; slot++) {
        work_free(assembly->backends[slot].current);
        work_free(assembly->backends[slot].held);
        works_free(&assembly->backends[slot].undecided);
    }
    free(assembly->backends);
    works_free(&assembly->spare);
    list_t *lists[] = {&assembly->executions, &assembly->phases,   &assembly->tasks,
                       &assembly->locals,     &assembly->sessions, &assembly->missing};
    for (size_t number = 0; number < sizeof lists / sizeof *lists; number++) free(lists[number]->items);
    free(assembly);
}

static backend_t *backend_slot(backend_t *backends, uint64_t mask, int64_t node, int64_t pid)
{
    uint64_t slot = mix((uint64_t)pid ^ (uint64_t)node << 40) & mask;
    while (backends[slot].used && (backends[slot].pid != pid || backends[slot].node != node)) slot = (slot + 1) & mask;
    return &backends[slot];
}

static backend_t *backend_of(assembly_t *assembly, int64_t node, int64_t pid)
{
    backend_t *backend = backend_slot(assembly->backends, assembly->mask, node, pid);
    if (backend->used) return backend;
    if (2 * (assembly->used + 1) > assembly->mask) {
        uint64_t mask = 2 * assembly->mask + 1;
        backend_t *larger = calloc(mask + 1, sizeof *larger);
        if (!larger) return NULL;
        for (uint64_t old = 0; old <= assembly->mask; old++) {
            backend_t *one = &assembly->backends[old];
            if (one->used) *backend_slot(larger, mask, one->node, one->pid) = *one;
        }
        free(assembly->backends);
        assembly->backends = larger;
        assembly->mask = mask;
        backend = backend_slot(larger, mask, node, pid);
    }
    assembly->used++;
    *backend = (backend_t){.node = node, .pid = pid, .line = NOTHING_THERE, .newest = NOTHING_THERE, .floor = NOTHING_THERE};
    return backend;
}

/* Phases: what closes is execute, what comes last before is bind, the rest is parse, unless the records say it. */
static void put_phases(assembly_t *assembly, const work_t *work, uint32_t number)
{
    const timed_t *timed = work->timed.items;
    for (int64_t place = 0; place < work->timed.count; place++) {
        phase_t phase = timed[place].phase;
        bool last = place + 1 == work->timed.count || timed[place + 1].phase.closes;
        bool parse = timed[place].event == R_PREPARE ? timed[place].parses : !last;
        phase.name = phase.closes ? 2 : parse ? 0 : 1;
        phase.execution = number;
        ADD(assembly, &assembly->phases, phase_t, phase);
    }
}

/* Whether a local execution was logged during bind and is logged once more behind the statement line. */
static bool logged_again(const work_t *work, const local_t *local)
{
    int64_t opener = work->execution.opener_offset;
    if (opener == NOTHING_THERE || local->byte_offset >= opener) return false;
    const local_t *all = work->locals.items;
    for (int64_t place = 0; place < work->locals.count; place++)
        if (all[place].byte_offset >= opener && all[place].shard_id == local->shard_id) return true;
    return false;
}

static void put_out(assembly_t *assembly, work_t *work)
{
    if (!work) return;
    uint32_t number = (uint32_t)assembly->execution_count++;
    put_phases(assembly, work, number);
    for (int64_t place = 0; place < work->tasks.count; place++) {
        sent_task_t task = ((sent_task_t *)work->tasks.items)[place];
        task.execution = number;
        ADD(assembly, &assembly->tasks, sent_task_t, task);
    }
    for (int64_t place = 0; place < work->locals.count; place++) {
        local_t local = ((local_t *)work->locals.items)[place];
        if (logged_again(work, &local)) continue;
        local.execution = number;
        work->execution.has_locals = 1;
        ADD(assembly, &assembly->locals, local_t, local);
    }
    ADD(assembly, &assembly->executions, execution_t, work->execution);
    work_done(assembly, work);
}

/* An execution that counts: it waits until the next one of its session tells whether they share a transaction. */
static void keep(assembly_t *assembly, backend_t *backend, work_t *work)
{
    execution_t *one = &work->execution;
    one->session_seq = backend->kept++;
    if (backend->session.executions++ == 0) backend->session.anchored = one->anchored;
    if (one->start_time != NOTHING_THERE &&
        (backend->session.begins == NOTHING_THERE || one->start_time < backend->session.begins))
        backend->session.begins = one->start_time;
    if (one->is_child && one->opened && one->shard_id != NOTHING_THERE && !backend->on_shard_seen) {
        backend->on_shard_seen = true;
        one->first_on_shard = one->anchored;
    }
    work_t *before = backend->held;
    if (before && one->local_xid > 0 && before->execution.local_xid == one->local_xid)
        before->execution.in_transaction = one->in_transaction = 1;
    put_out(assembly, before);
    backend->held = work;
}

static bool counts_surely(const execution_t *one)
{
    return one->opened || one->has_tasks || (one->phases > 0 && one->failed);
}

/* An error without a statement counts in a session of which a statement is logged: it may be seen later. */
static void decide(assembly_t *assembly, backend_t *backend, bool sampled)
{
    work_t **works = backend->undecided.items;
    for (int64_t number = 0; number < backend->undecided.count; number++) {
        const execution_t *one = &works[number]->execution;
        if (counts_surely(one) || (sampled && one->failed && !one->fatal)) keep(assembly, backend, works[number]);
        else work_done(assembly, works[number]);
    }
    backend->undecided.count = 0;
}

static void finish_execution(assembly_t *assembly, backend_t *backend)
{
    work_t *work = backend->current;
    if (!work) return;
    backend->current = NULL;
    const execution_t *one = &work->execution;
    if (one->opened && !backend->sampled) {
        backend->sampled = true;
        decide(assembly, backend, true);
    }
    bool counts = counts_surely(one), fails = one->failed && !one->fatal;
    if (!counts && !fails) work_done(assembly, work);
    else if (backend->sampled) keep(assembly, backend, work);
    else ADD(assembly, &backend->undecided, work_t *, work);
}

static void finish_session(assembly_t *assembly, backend_t *backend)
{
    finish_execution(assembly, backend);
    decide(assembly, backend, backend->sampled);
    put_out(assembly, backend->held);
    backend->held = NULL;
    if (backend->session.executions) ADD(assembly, &assembly->sessions, session_t, backend->session);
    backend->session = (session_t){.node = (int32_t)backend->node, .begins = NOTHING_THERE};
    backend->session.session = (uint32_t)++assembly->session_count;
    backend->sampled = backend->on_shard_seen = false;
    backend->kept = 0;
}

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

/* What is read of a record before anything is known of it. */
typedef struct {
    int64_t row, source, offset, place, time, gpid, xid;
    byte_t word;
} record_t;

static byte_t event_of(const rules_t *rules, const records_t *records, const record_t *record)
{
    byte_t event = (has(&records->duration_us, record->row) ? rules->timed : rules->untimed)[record->word];
    if (event == R_OPENER && rules->distributed && rules->statements[record->word] && record->gpid == NOTHING_THERE &&
        has(&records->shard_id, record->row))
        return R_LOCAL;
    byte_t severity = records->severity[record->row];
    bool error = severity == S_ERROR || severity == S_FATAL || severity == S_PANIC;
    return event == R_NOTHING && error ? R_ERROR : event;
}

static work_t *begin_execution(assembly_t *assembly, backend_t *backend, const record_t *record)
{
    finish_execution(assembly, backend);
    work_t *work = backend->current = work_new(assembly);
    if (!work) return NULL;
    int64_t nodeid = assembly->rules.nodeids[record->source];
    int64_t own = nodeid == NOTHING_THERE ? nodeid : nodeid * assembly->rules.gpid_factor + backend->pid;
    bool is_child = record->gpid != NOTHING_THERE;
    work->after_local = false;
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
    one->has_fingerprint = has(&records->statement_fingerprint, record->row);
    one->statement_fingerprint =
        one->has_fingerprint ? ((const uint64_t *)records->statement_fingerprint.values)[record->row] : 0;
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

/* The first cached plan for a shard is logged twice in a row for one execution. */
static void add_local(assembly_t *assembly, work_t *work, const records_t *records, const record_t *record)
{
    int64_t shard = long_at(&records->shard_id, record->row);
    bool repeated = work->after_local && work->last_local == shard;
    work->last_local = shard;
    if (repeated) return;
    local_t local = {record->offset, record->time, shard, 0, (uint32_t)record->source,
                     records->statement_kind[record->row], {0}};
    ADD(assembly, &work->locals, local_t, local);
}

static void add_event(assembly_t *assembly, backend_t *backend, const records_t *records, const record_t *record, byte_t event)
{
    bool opens = event == R_OPENER || event == R_TASK;
    bool after_opener = event != R_LOCAL && backend->opens;
    bool closes = event == R_ERROR || event == R_WHOLE || (event == R_DURATION && after_opener);
    bool never_closed = after_opener && (event == R_OPENER || event == R_WHOLE || event == R_PREPARE);
    /* In a segment that begins in the middle of a statement, the xid tells where the next one begins. */
    bool fragment = !backend->anchored && !backend->opened && record->xid >= 0 && backend->xid >= 0 &&
                    record->xid != backend->xid;
    work_t *work = backend->current;
    if (!work || backend->closes || never_closed || fragment) work = begin_execution(assembly, backend, record);
    if (!work) return;
    work->execution.last_offset = record->offset;
    if (event == R_OPENER || event == R_WHOLE) add_opener(&work->execution, &assembly->rules, records, record);
    if (event <= R_DURATION) add_timed(assembly, work, records, record, event, closes);
    if (event == R_TASK) add_task(assembly, work, records, record);
    if (event == R_LOCAL) add_local(assembly, work, records, record);
    if (event == R_ERROR) {
        work->execution.failed = 1;
        if (records->severity[record->row] != S_ERROR) work->execution.fatal = 1;
    }
    if (closes) {
        work->execution.closed = 1;
        work->execution.byte_offset = record->offset;
        work->execution.end_time = record->time;
        work->execution.closing_xid = record->xid;
    }
    work->after_local = event == R_LOCAL;
    if (event != R_LOCAL) backend->opens = opens;
    backend->closes = closes;
    backend->xid = record->xid;
    backend->opened += opens;
}

/* A piece of a session begins in which no record is missing. */
static void begin_segment(assembly_t *assembly, backend_t *backend, const record_t *record, int64_t line, bool restarted,
                          bool moved)
{
    if (restarted) finish_session(assembly, backend);
    else finish_execution(assembly, backend);
    backend->anchored = restarted && line == 1;
    backend->opens = backend->closes = false;
    backend->opened = 0;
    backend->xid = NOTHING_THERE;
    if (backend->anchored || record->gpid == NOTHING_THERE) return;
    missing_t missing = {record->gpid, restarted || moved ? -1 : backend->place, (int32_t)backend->node, 0};
    ADD(assembly, &assembly->missing, missing_t, missing);
}

/* Whether a record stands behind the others of its backend; numbers that go back begin a later session of the same pid. */
static bool in_order(backend_t *backend, const record_t *record, int64_t line)
{
    int64_t time = record->time;
    if (backend->used && record->place <= backend->place) return false;
    if (line > 0 && backend->line != NOTHING_THERE && line <= backend->line) {
        if (line != 1 || backend->timeless) return false;
        backend->floor = backend->newest;
    }
    if (time == NOTHING_THERE) backend->timeless = true;
    if (backend->floor != NOTHING_THERE && (time == NOTHING_THERE || time <= backend->floor)) return false;
    if (time != NOTHING_THERE && time > backend->newest) backend->newest = time;
    return true;
}

static void see_time(source_times_t *times, int64_t time)
{
    if (time == NOTHING_THERE) return;
    if (times->first_time == NOTHING_THERE || time < times->first_time) times->first_time = time;
    if (times->last_time == NOTHING_THERE || time > times->last_time) times->last_time = time;
}

/* Where a record stands in its session. */
static void place_record(assembly_t *assembly, backend_t *backend, const record_t *record, int64_t line)
{
    int64_t step = line == NOTHING_THERE || backend->line == NOTHING_THERE ? 1 : line - backend->line;
    bool restarted = !backend->used || step <= 0;
    bool moved = !restarted && record->place < backend->place;
    backend->used = true;
    if (restarted || moved || step > 1) begin_segment(assembly, backend, record, line, restarted, moved);
    backend->line = line;
    backend->place = record->place;
}

int32_t pglog_assemble(assembly_t *assembly, const records_t *records)
{
    const rules_t *rules = &assembly->rules;
    for (int64_t number = 0; number < records->rows; number++) {
        record_t record = {.row = records->order ? records->order[number] : number};
        int64_t pid = int_at(&records->pid, record.row);
        if (pid == NOTHING_THERE) continue;
        record.source = records->sources ? records->sources[record.row] : records->source;
        record.offset = ((const int64_t *)records->byte_offset.values)[record.row];
        record.place = record.source * rules->file_room + record.offset;
        record.time = long_at(&records->log_time, record.row);
        record.gpid = long_at(&records->gpid, record.row);
        record.xid = long_at(&records->local_xid, record.row);
        record.word = records->words[record.row];
        see_time(&rules->times[record.source], record.time);
        backend_t *backend = backend_of(assembly, rules->nodes[record.source], pid);
        if (!backend) return OUT_OF_MEMORY;
        int64_t line = long_at(&records->session_line, record.row);
        if (!records->order && !in_order(backend, &record, line)) return NOT_IN_ORDER;
        place_record(assembly, backend, &record, line);
        byte_t event = event_of(rules, records, &record);
        if (event != R_NOTHING) add_event(assembly, backend, records, &record, event);
    }
    return assembly->failed ? OUT_OF_MEMORY : 0;
}

int32_t pglog_assembly_end(assembly_t *assembly)
{
    for (uint64_t slot = 0; slot <= assembly->mask; slot++)
        if (assembly->backends[slot].used) finish_session(assembly, &assembly->backends[slot]);
    return assembly->failed ? OUT_OF_MEMORY : 0;
}

int64_t pglog_assembly_waiting(const assembly_t *assembly) { return assembly->executions.count; }

static array_t taken(list_t *list)
{
    array_t array = {list->items, list->count};
    list->count = 0;
    return array;
}

void pglog_assembled(assembly_t *assembly, assembled_t *assembled)
{
    *assembled = (assembled_t){
        taken(&assembly->executions), taken(&assembly->phases),   taken(&assembly->tasks),
        taken(&assembly->locals),     taken(&assembly->sessions), taken(&assembly->missing),
    };
}
