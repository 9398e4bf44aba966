/* One pass over records that gives the statements of all sessions. */
#include "assembly.h"

static byte_t event_of(const rules_t *rules, const records_t *records, const record_t *record)
{
    byte_t event = (has(&records->duration_us, record->row) ? rules->timed : rules->untimed)[record->word];
    bool inside = event == R_LOCAL || event == R_PLANNED || event == R_CONNECT;
    if (inside && record->gpid != NOTHING_THERE) return R_NOTHING;
    if (event == R_OPENER && rules->distributed && rules->statements[record->word] && record->gpid == NOTHING_THERE &&
        has(&records->shard_id, record->row))
        return R_LOCAL;
    byte_t severity = records->severity[record->row];
    bool error = severity == S_ERROR || severity == S_FATAL || severity == S_PANIC;
    return event == R_NOTHING && error ? R_ERROR : event;
}

/* Begin a segment: a piece of a session in which no record is missing. */
static void begin_segment(assembly_t *assembly, backend_t *backend, const record_t *record, int64_t line, bool restarted,
                          bool moved)
{
    if (restarted) finish_session(assembly, backend);
    else finish_execution(assembly, backend, true);
    backend->anchored = restarted && line == 1;
    backend->opens = backend->closes = false;
    backend->opened = 0;
    backend->xid = NOTHING_THERE;
    if (backend->anchored || record->gpid == NOTHING_THERE) return;
    missing_t missing = {record->gpid, restarted || moved ? -1 : backend->place, (int32_t)backend->node, 0};
    ADD(assembly, &assembly->missing, missing_t, missing);
}

/* Whether a record follows all others of its backend; the number 1 after higher ones begins a later session. */
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

/* Whether a record is a detail from the same row of csvlog or jsonlog as the record before, with its number. */
static bool in_same_row(const backend_t *backend, const records_t *records, const record_t *record, int64_t line)
{
    byte_t severity = records->severity[record->row];
    return line != NOTHING_THERE && line == backend->line && severity >= S_DETAIL && severity != NO_CODE;
}

/* Add the values of parameters to those of the statement that the record before names. */
static void add_parameters(backend_t *backend, const records_t *records, const record_t *record)
{
    int64_t values = int_at(&records->values_hash, record->row);
    if (!backend->described || records->severity[record->row] != S_DETAIL || values == NOTHING_THERE) return;
    backend->described->values_hash = (int32_t)((uint32_t)backend->described->values_hash + (uint32_t)values);
    backend->described = NULL;
}

static void see_time(source_times_t *times, int64_t time)
{
    if (time == NOTHING_THERE) return;
    if (times->first_time == NOTHING_THERE || time < times->first_time) times->first_time = time;
    if (times->last_time == NOTHING_THERE || time > times->last_time) times->last_time = time;
}

/* Set the place of the backend's last record; begin a segment where records are missing before it. */
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

/* Add a record of an unknown session: if it is whole by itself, it is a statement of its own. */
static bool add_alone(assembly_t *assembly, const records_t *records, record_t *record)
{
    const rules_t *rules = &assembly->rules;
    byte_t event = event_of(rules, records, record);
    bool binds = event == R_PREPARE && !rules->parses[record->word] && has(&records->statement_fingerprint, record->row);
    if (event != R_WHOLE && event != R_OPENER && !binds) return true;
    backend_t *backend = backend_of(assembly, rules->nodes[record->source], NO_PROCESS);
    if (!backend) return false;
    backend->used = backend->closes = true;
    backend->opens = false;
    record->xid = NOTHING_THERE; /* sessions have equal numbers */
    add_event(assembly, backend, records, record, event);
    return true;
}

int32_t pglog_assemble(assembly_t *assembly, const records_t *records)
{
    const rules_t *rules = &assembly->rules;
    for (int64_t number = 0; number < records->rows; number++) {
        record_t record = {.row = records->order ? records->order[number] : number};
        int64_t pid = int_at(&records->pid, record.row);
        record.source = records->sources ? records->sources[record.row] : records->source;
        record.offset = ((const int64_t *)records->byte_offset.values)[record.row];
        record.place = record.source * rules->file_room + record.offset;
        record.time = long_at(&records->log_time, record.row);
        record.gpid = long_at(&records->gpid, record.row);
        record.xid = long_at(&records->local_xid, record.row);
        record.word = records->words[record.row];
        see_time(&rules->times[record.source], record.time);
        if (pid == NOTHING_THERE) {
            if (!add_alone(assembly, records, &record)) return OUT_OF_MEMORY;
            continue;
        }
        backend_t *backend = backend_of(assembly, rules->nodes[record.source], pid);
        if (!backend) return OUT_OF_MEMORY;
        int64_t line = long_at(&records->session_line, record.row);
        if (in_same_row(backend, records, &record, line)) {
            add_parameters(backend, records, &record);
            name_failed(assembly, backend, records, &record);
            continue;
        }
        if (!records->order && !in_order(backend, &record, line)) return NOT_IN_ORDER;
        place_record(assembly, backend, &record, line);
        byte_t event = event_of(rules, records, &record);
        if (event == R_NOTHING) {
            add_parameters(backend, records, &record);
            name_failed(assembly, backend, records, &record);
            if (records->severity[record.row] < S_DETAIL) backend->failing = NULL;
        } else {
            add_event(assembly, backend, records, &record, event);
        }
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
