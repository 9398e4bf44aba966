/* Columns read from the text of a record. */
#include "body.h"
#include "scan.h"
#include "tokens.h"

/* The kind of a LOG record, by its first words. */
static enum kind kind_by_beginning(const byte_t *text, place_t begin, place_t end)
{
#define STARTS(word) (BEGINS(text, begin, end, word) != ABSENT)
    if (STARTS("checkpoint ") || STARTS("checkpoints ") || STARTS("restartpoint ")) return K_CHECKPOINT;
    if (STARTS("automatic ")) return K_AUTOVACUUM;
    if (STARTS("temporary file: ")) return K_TEMP_FILE;
    if (STARTS("connection received: ") || STARTS("connection authenticated: ") || STARTS("connection authorized: ") ||
        STARTS("connection ready: ") || STARTS("replication connection authorized: ") || STARTS("disconnection: "))
        return K_CONNECTION;
    return K_OTHER;
}

/* Messages of a server that is in danger or refuses its service: how they begin, and what their first line contains. */
static const struct {
    enum kind kind;
    const char *begins, *holds;
} severe[] = {
    {K_WRAPAROUND, "database ", " must be vacuumed within "},
    {K_WRAPAROUND, "database is not accepting commands", ""},
    {K_WRAPAROUND, "oldest xmin is far in the past", ""},
    {K_WRAPAROUND, "oldest multixact is far in the past", ""},
    {K_CRASH, "server process (PID ", ""},
    {K_CRASH, "terminating any other active server processes", ""},
    {K_CRASH, "all server processes terminated; reinitializing", ""},
    {K_CRASH, "database system was not properly shut down", ""},
    {K_CRASH, "database system was interrupted", ""},
    {K_CRASH, "terminating connection because of crash of another server process", ""},
    {K_CRASH, "the database system is in recovery mode", ""},
    {K_OUT_OF_MEMORY, "out of memory", ""},
    {K_OUT_OF_MEMORY, "out of shared memory", ""},
    {K_OUT_OF_MEMORY, "could not fork new process for connection: Cannot allocate memory", ""},
    {K_ARCHIVE_FAILED, "archive command failed with exit code", ""},
    {K_ARCHIVE_FAILED, "archive command was terminated by", ""},
    {K_ARCHIVE_FAILED, "archiving write-ahead log file ", " failed too many times"},
    {K_CHECKSUM, "page verification failed", ""},
    {K_CHECKSUM, "invalid page in block", ""},
    {K_DEADLOCK, "deadlock detected", ""},
    {K_DEADLOCK, "canceling the transaction since it was involved in a distributed deadlock", ""},
    {K_STATEMENT_TIMEOUT, "canceling statement due to statement timeout", ""},
    {K_TOO_MANY_CONNECTIONS, "sorry, too many clients already", ""},
    {K_TOO_MANY_CONNECTIONS, "remaining connection slots are reserved", ""},
    {K_TOO_MANY_CONNECTIONS, "too many connections for ", ""},
    {K_DISK_FULL, "could not ", ": No space left on device"},
};

/* The kind of such a message; K_OTHER of others. */
static enum kind severe_kind(const byte_t *text, place_t begin, place_t end)
{
    if (begin >= end) return K_OTHER;
    for (size_t number = 0; number < sizeof severe / sizeof *severe; number++) {
        if (text[begin] != (byte_t)*severe[number].begins) continue;
        if (begins(text, begin, end, severe[number].begins, strlen(severe[number].begins)) == ABSENT) continue;
        size_t length = strlen(severe[number].holds);
        if (!length) return severe[number].kind;
        for (place_t place = begin; place < end && text[place] != '\n'; place++)
            if (text[place] == (byte_t)*severe[number].holds &&
                begins(text, place, end, severe[number].holds, length) != ABSENT)
                return severe[number].kind;
    }
    return K_OTHER;
}

static void set_worker(scan_t *scan, int64_t row, const task_t *task)
{
    set_32(&scan->out->worker_port, row, task->port);
    set_text(scan, T_WORKER_HOST, row, task->host, task->host_end);
}

/* Read a LOG or DEBUG record: duration, statement, task, lock wait. Returns the beginning of its statement, or ABSENT. */
static place_t read_report(scan_t *scan, int64_t row, place_t begin, place_t end, bool log, enum kind *kind)
{
    const byte_t *text = scan->text;
    output_t *out = scan->out;
    place_t at = begin;
    int64_t reported;
    bool timed = false, bare = false;
    place_t clock = BEGINS(text, begin, end, "duration: ");
    if (clock != ABSENT) {
        place_t last = milliseconds_end(text, clock, end, &reported);
        if (last != ABSENT) {
            timed = log;
            if (log) set_duration(&out->duration_us, row, reported);
            at = last + 1 < end && text[last] == ' ' && text[last + 1] == ' ' ? last + 2 : end;
            place_t rest = last;
            while (rest < end && is_space(text[rest])) rest++;
            bare = rest == end;
        }
    }
    verb_t verb = at > begin ? timed_verb_at(text, at, end) : verb_at(text, at, end);
    if (!log && verb.verb == V_NONE) verb = bound_at(text, begin, end);
    if (verb.name != ABSENT) set_text(scan, T_STATEMENT_NAME, row, verb.name, verb.name_end);
    if (verb.verb != V_NONE) {
        static const byte_t phases[] = {P_STATEMENT, P_PARSE, P_BIND, P_EXECUTE, P_FETCH, P_FASTPATH};
        set_8(&out->phase, row, phases[verb.verb]);
    }
    task_t task;
    int64_t waited;
    if (timed && BEGINS(text, at, end, "plan:") != ABSENT)
        *kind = K_PLAN;
    else if (timed)
        *kind = verb.verb == V_PARSE ? K_PARSE : verb.verb == V_BIND ? K_BIND : bare || verb.verb != V_NONE ? K_DURATION : K_OTHER;
    else if (verb.verb != V_NONE) {
        static const byte_t kinds[] = {K_STATEMENT, K_PARSE, K_BIND, K_EXECUTE, K_EXECUTE, K_STATEMENT};
        *kind = kinds[verb.verb];
    } else if (!log && task_at(text, begin, end, &task)) {
        set_64(&out->placement_id, row, task.placement);
        set_64(&out->shard_id, row, task.shard);
        set_64(&out->task_us, row, task.task_us);
        set_worker(scan, row, &task);
        *kind = K_TASK;
    } else if (!log && connection_at(text, begin, end, &task)) {
        set_duration(&out->duration_us, row, task.task_us);
        set_worker(scan, row, &task);
        *kind = K_CONNECT;
    } else if (!log && is_local_execution(text, begin, end)) {
        set_8(&out->phase, row, P_EXECUTE);
        *kind = K_LOCAL;
    } else if (!log && is_local_plan(text, begin, end)) {
        *kind = K_LOCAL;
    } else if (log && (waited = lock_us(text, begin, end)) >= 0) {
        set_duration(&out->duration_us, row, waited);
        *kind = K_LOCK_WAIT;
    } else if (log) {
        *kind = kind_by_beginning(text, begin, end);
        if (*kind == K_OTHER) *kind = severe_kind(text, begin, end);
    }
    return verb.statement;
}

#define HEX_LENGTH (32 + 1 + 16 + 1 + 2) /* of a trace, a span and flags */

static bool is_hex(const byte_t *text, place_t begin, place_t end)
{
    for (; begin < end; begin++)
        if (!is_digit(text[begin]) && (byte_t)(text[begin] - 'a') >= 6) return false;
    return true;
}

/* The beginning of a trace context in a comment, or ABSENT. */
static place_t context_in(const byte_t *text, place_t begin, place_t end)
{
    for (place_t at = find(text, begin, end, 't'); at < end; at = find(text, at + 1, end, 't')) {
        place_t id = BEGINS(text, at, end, "traceparent='00-"), said = id - 3;
        if (id == ABSENT || id + HEX_LENGTH >= end || text[id + HEX_LENGTH] != '\'') continue;
        if (text[id + 32] == '-' && text[id + 49] == '-' && is_hex(text, id, id + 32) && is_hex(text, id + 33, id + 49) &&
            is_hex(text, id + 50, id + 52))
            return said;
    }
    return ABSENT;
}

/* Take the comment with the application's trace context away from the end or the beginning of a statement, where every
 * statement would have another text. Returns the beginning of the context, or ABSENT. */
static place_t take_context(const byte_t *text, place_t *begin, place_t *end)
{
    place_t last = *end, first = *begin, context;
    while (last > first && (is_space(text[last - 1]) || text[last - 1] == ';')) last--;
    if (last - first >= 4 && text[last - 1] == '/' && text[last - 2] == '*') {
        place_t opens = last - 4;
        while (opens >= first && !(text[opens] == '/' && text[opens + 1] == '*')) opens--;
        if (opens >= first && (context = context_in(text, opens + 2, last - 2)) != ABSENT) {
            *end = opens;
            return context;
        }
    }
    while (first < *end && is_space(text[first])) first++;
    place_t inside = BEGINS(text, first, *end, "/*");
    if (inside == ABSENT) return ABSENT;
    place_t closes = find(text, inside, *end, '*');
    while (closes + 1 < *end && text[closes + 1] != '/') closes = find(text, closes + 1, *end, '*');
    if (closes + 1 >= *end || (context = context_in(text, inside, closes)) == ABSENT) return ABSENT;
    *begin = closes + 2;
    return context;
}

/* Set the columns that are read from a text. */
INTERNAL void read_text(scan_t *scan, int64_t row, enum severity severity, place_t begin, place_t end)
{
    const byte_t *text = scan->text;
    output_t *out = scan->out;
    place_t statement = ABSENT;
    enum kind kind = K_OTHER;
    if (severity < S_DETAIL) {
        place_t state = state_end(text, begin, end, scan->prefix && scan->prefix->verbose);
        if (state != ABSENT) {
            set_text(scan, T_SQLSTATE, row, begin, state);
            begin = state + 2;
        }
        begin = after_file(text, begin, end);
    }
    if (severity == S_LOG || severity == S_DEBUG) {
        statement = read_report(scan, row, begin, end, severity == S_LOG, &kind);
    } else if (severity >= S_DETAIL) {
        bool parameters = severity == S_DETAIL && (BEGINS(text, begin, end, "parameters: ") != ABSENT ||
                                                   BEGINS(text, begin, end, "Parameters: ") != ABSENT);
        kind = parameters ? K_PARAMETERS : K_DETAIL;
        uint32_t values = parameters ? parameter_values(text, begin, end) : 0;
        if (values) set_32(&out->values_hash, row, values);
        if (severity == S_STATEMENT || severity == S_QUERY) statement = begin;
    } else if (severity == S_WARNING || severity >= S_ERROR) {
        kind = severe_kind(text, begin, end);
        if (kind == K_OTHER) kind = K_ERROR;
    } else if ((statement = BEGINS(text, begin, end, "executing the command locally: ")) != ABSENT) {
        set_8(&out->phase, row, P_EXECUTE);
        kind = K_LOCAL;
    }
    put_8(&out->kind, row, kind);
    if (statement != ABSENT) {
        shards_t shards = {0};
        uint32_t values = 0;
        place_t last = end, context = take_context(text, &statement, &last);
        if (context != ABSENT) set_text(scan, T_TRACE_CONTEXT, row, context, context + 3 + HEX_LENGTH);
        const template_t *fitting = template_of(scan, statement, last, &shards, &values);
        set_8(&out->statement_kind, row, fitting->kind);
        set_64(&out->statement_fingerprint, row, (int64_t)fitting->fingerprint);
        if (values && fitting->kind <= Q_COPY) set_32(&out->values_hash, row, values);
        if (shards.count) set_64(&out->shard_id, row, shards.numbers[0]);
        for (int32_t place = 1; place < shards.count; place++)
            out->shards[out->shard_count++] = (slice_t){row, shards.numbers[place]};
    }
    if (kind > K_TASK && severity != S_STATEMENT && severity != S_QUERY) {
        set_32(&out->message, row, out->message_count);
        out->messages[out->message_count++] = (slice_t){begin, end};
    }
}
