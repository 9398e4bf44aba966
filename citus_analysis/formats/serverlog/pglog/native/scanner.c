/* One walk over the bytes of a chunk that fills the columns of its records. */
#include "scanner.h"

#include <stdlib.h>

#include "body.h"
#include "scan.h"

/* The beginning of a chunk, or of the record before, decides which lines are astray or blank. */
enum part { BLANKS, STRAYS, RECORDS };

#define EMPTY (-1)

static bool table_init(table_t *table, uint32_t size)
{
    table->slots = malloc(size * sizeof *table->slots);
    if (!table->slots) return false;
    memset(table->slots, 0xFF, size * sizeof *table->slots);
    table->mask = size - 1;
    table->used = 0;
    return true;
}

/* Of all bytes: names of machines often begin and end alike. */
static inline uint64_t text_hash(const byte_t *text, stretch_t stretch)
{
    place_t place = stretch.begin, end = stretch.end, length = end - place;
    uint64_t hash = (uint64_t)length;
    for (; end - place >= 8; place += 8) hash = mix(hash ^ load(text + place, 8));
    if (place == end) return hash;
    return mix(hash ^ (length > 8 ? load(text + end - 8, 8) : load(text + place, length)));
}

static inline bool same(const byte_t *text, stretch_t one, stretch_t other)
{
    place_t length = one.end - one.begin;
    if (length != other.end - other.begin) return false;
    return same_bytes(text + one.begin, text + other.begin, (size_t)length);
}

/* Twice the room for the texts of a column. */
static bool table_grow(table_t *table, const byte_t *text, const stretch_t *distinct)
{
    table_t larger;
    if (!table_init(&larger, 2 * (table->mask + 1))) return false;
    for (uint32_t old = 0; old <= table->mask; old++) {
        if (table->slots[old] == EMPTY) continue;
        uint32_t slot = (uint32_t)text_hash(text, distinct[table->slots[old]]) & larger.mask;
        while (larger.slots[slot] != EMPTY) slot = (slot + 1) & larger.mask;
        larger.slots[slot] = table->slots[old];
    }
    larger.used = table->used;
    free(table->slots);
    *table = larger;
    return true;
}

/* The number of a short text among the distinct ones of its column in this chunk; the last one is tried first. */
INTERNAL int32_t text_number(scan_t *scan, enum text_column column, stretch_t stretch)
{
    stretch_t *distinct = scan->out->distinct_texts[column];
    table_t *table = &scan->texts[column];
    int32_t number = scan->recent[column];
    if (number >= 0 && same(scan->text, stretch, distinct[number])) return number;
    uint32_t slot = (uint32_t)text_hash(scan->text, stretch) & table->mask;
    for (; (number = table->slots[slot]) != EMPTY; slot = (slot + 1) & table->mask)
        if (same(scan->text, stretch, distinct[number])) return scan->recent[column] = number;
    number = (int32_t)scan->out->text_counts[column]++;
    distinct[number] = stretch;
    table->slots[slot] = number;
    if (2 * ++table->used > table->mask && !table_grow(table, scan->text, distinct)) scan->failed = true;
    return scan->recent[column] = number;
}

/* The template that a statement fits, made where there is none; `shards` are the statement's. */
static const template_t *template_of(scan_t *scan, place_t begin, place_t end, shards_t *shards)
{
    template_t **ways = scan->templates[mix(load(scan->text + begin, end - begin)) & (TEMPLATE_SETS - 1)];
    template_t *found;
    int way = 0;
    for (; way < TEMPLATE_WAYS && ways[way]; way++)
        if (fits_template(ways[way], scan->text, begin, end, shards)) break;
    if (way < TEMPLATE_WAYS && ways[way]) {
        found = ways[way];
#ifdef CHECK_TEMPLATES /* the fuzzer does */
        read_statement(scan->text, begin, end, scan->spare);
        if (scan->spare->fingerprint != found->fingerprint) __builtin_trap();
        if (scan->spare->shards.count != shards->count) __builtin_trap();
        for (int32_t place = 0; place < shards->count; place++)
            if (scan->spare->shards.numbers[place] != shards->numbers[place]) __builtin_trap();
        if (scan->spare->kind != found->kind) __builtin_trap();
#endif
    } else {
        found = scan->spare;
        read_statement(scan->text, begin, end, found);
        *shards = found->shards;
        if (found->gap_count < 0) return found;
        if (way == TEMPLATE_WAYS) way--;
        scan->spare = ways[way] ? ways[way] : malloc(sizeof *found);
        if (!scan->spare) {
            scan->spare = found;
            scan->failed = true;
            return found;
        }
    }
    /* The last one used comes first, the one longest unused is the next to go. */
    memmove(ways + 1, ways, (size_t)way * sizeof *ways);
    ways[0] = found;
    return found;
}

#define US_PER_MS 1000
#define US_PER_S (1000 * US_PER_MS)

/* Microseconds since 1970 as a clock showed them at a second that exists. */
static bool second_clock(const byte_t *stamp, int64_t *clock)
{
    static const byte_t longest[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year = digits(stamp, 0, 4), month = digits(stamp, 5, 7), day = digits(stamp, 8, 10);
    int64_t hour = digits(stamp, 11, 13), minute = digits(stamp, 14, 16), second = digits(stamp, 17, 19);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return false;
    if (day < 1 || day > longest[month - 1] + (month == 2 && leap)) return false;
    /* Days since 1970 with years that begin in March, so that the leap day is the last. */
    int64_t shifted = month <= 2 ? year - 1 : year, era = shifted / 400, of_era = shifted - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t days = era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
    *clock = (((days * 24 + hour) * 60 + minute) * 60 + second) * US_PER_S;
    return true;
}

#define NO_CLOCK INT64_MIN

INTERNAL void set_clock(scan_t *scan, const byte_t *line, span_t span, int64_t row)
{
    const byte_t *stamp = line + span.begin;
    if (!same_bytes(stamp, scan->second, SECOND_WIDTH)) {
        memcpy(scan->second, stamp, sizeof scan->second);
        if (!second_clock(stamp, &scan->second_clock)) scan->second_clock = NO_CLOCK;
    }
    bool with_ms = stamp[19] == '.';
    if (scan->second_clock != NO_CLOCK)
        set_64(&scan->out->clock, row, scan->second_clock + (with_ms ? digits(stamp, 20, 23) * US_PER_MS : 0));
    place_t begin = line - scan->text;
    set_text(scan, T_ZONE, row, begin + span.begin + (with_ms ? 24 : 20), begin + span.end);
}

static int64_t hex_value(const byte_t *line, place_t begin, place_t end)
{
    int64_t value = 0;
    for (place_t place = begin; place < end; place++)
        value = value * 16 + (is_digit(line[place]) ? line[place] - '0' : line[place] - 'a' + 10);
    return value;
}

/* `citus_internal gpid=20000030999`: the name without the gpid. */
INTERNAL void set_application(scan_t *scan, const byte_t *line, span_t span, int64_t row)
{
    static const char word[] = " gpid=";
    place_t end = span.end, number = span.end, length = sizeof word - 1;
    while (number > span.begin && is_digit(line[number - 1])) number--;
    place_t label = number - length;
    if (end > number && end - number <= 18 && label >= span.begin && memcmp(line + label, word, (size_t)length) == 0) {
        set_64(&scan->out->gpid, row, digits(line, number, end));
        end = label;
    }
    place_t begin = line - scan->text;
    if (end > span.begin) set_text(scan, T_APPLICATION, row, begin + span.begin, begin + end);
}

/* `10.0.0.1(45678)` without the port. */
static place_t host_end(const byte_t *line, span_t span)
{
    if (span.end - span.begin < 3 || line[span.end - 1] != ')') return span.end;
    place_t place = span.end - 1;
    while (place > span.begin && is_digit(line[place - 1])) place--;
    return place < span.end - 1 && place > span.begin && line[place - 1] == '(' ? place - 1 : span.end;
}

/* Columns that the prefix tells. */
static void begin_record(scan_t *scan, place_t line_begin, int64_t row)
{
    const byte_t *line = scan->text + line_begin;
    const span_t *fields = scan->head->fields;
    output_t *out = scan->out;
    span_t span;
    put_8(&out->severity, row, scan->head->severity);
    if ((span = fields[F_CLOCK]).begin >= 0) set_clock(scan, line, span, row);
    if ((span = fields[F_EPOCH]).begin >= 0)
        set_64(&out->clock, row,
               digits(line, span.begin, span.end - 4) * US_PER_S + digits(line, span.end - 3, span.end) * US_PER_MS);
    if ((span = fields[F_PID]).begin >= 0) set_32(&out->pid, row, span.number);
    if ((span = fields[F_HEX_PID]).begin >= 0)
        set_32(&out->pid, row, hex_value(line, find(line, span.begin, span.end, '.') + 1, span.end));
    span = fields[F_VXID];
    if (span.begin >= 0 && span.end > span.begin) {
        set_32(&out->backend_id, row, span.number);
        set_64(&out->local_xid, row, scan->head->local_xid);
    }
    if ((span = fields[F_LINE]).begin >= 0) set_64(&out->session_line, row, span.number);
    if ((span = fields[F_APP]).begin >= 0) set_application(scan, line, span, row);
    static const struct { enum field field; enum text_column column; } texts[] = {
        {F_USER, T_USER}, {F_DATABASE, T_DATABASE}, {F_HOST, T_CLIENT_HOST}, {F_REMOTE, T_CLIENT_HOST}, {F_STATE, T_SQLSTATE},
    };
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        span = fields[texts[index].field];
        if (span.begin < 0) continue;
        place_t end = texts[index].field == F_REMOTE ? host_end(line, span) : span.end;
        if (end > span.begin) set_text(scan, texts[index].column, row, line_begin + span.begin, line_begin + end);
    }
}

/* What LOG records are about that begin with these words. */
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

/* LOG and DEBUG records: durations, statements, tasks, lock waits; where a statement's text begins, or ABSENT. */
static place_t read_report(scan_t *scan, int64_t row, place_t begin, place_t end, bool log, enum kind *kind)
{
    const byte_t *text = scan->text;
    output_t *out = scan->out;
    place_t at = begin;
    int64_t reported;
    bool timed = false;
    place_t clock = BEGINS(text, begin, end, "duration: ");
    if (clock != ABSENT) {
        place_t last = milliseconds_end(text, clock, end, &reported);
        if (last != ABSENT) {
            timed = log;
            if (log) set_duration(&out->duration_us, row, reported);
            at = last + 1 < end && text[last] == ' ' && text[last + 1] == ' ' ? last + 2 : end;
        }
    }
    verb_t verb = verb_at(text, at, end);
    if (!log && verb.verb == V_NONE) verb = bound_at(text, begin, end);
    if (verb.name != ABSENT) set_text(scan, T_STATEMENT_NAME, row, verb.name, verb.name_end);
    if (verb.verb != V_NONE) {
        static const byte_t phases[] = {P_STATEMENT, P_PARSE, P_BIND, P_EXECUTE};
        set_8(&out->phase, row, phases[verb.verb]);
    }
    task_t task;
    int64_t waited;
    if (timed && BEGINS(text, at, end, "plan:") != ABSENT)
        *kind = K_PLAN;
    else if (timed)
        *kind = verb.verb == V_PARSE ? K_PARSE : verb.verb == V_BIND ? K_BIND : K_DURATION;
    else if (verb.verb != V_NONE) {
        static const byte_t kinds[] = {K_STATEMENT, K_PARSE, K_BIND, K_EXECUTE};
        *kind = kinds[verb.verb];
    } else if (!log && task_at(text, begin, end, &task)) {
        set_64(&out->placement_id, row, task.placement);
        set_64(&out->shard_id, row, task.shard);
        set_64(&out->task_us, row, task.task_us);
        set_32(&out->worker_port, row, task.port);
        set_text(scan, T_WORKER_HOST, row, task.host, task.host_end);
        *kind = K_TASK;
    } else if (log && (waited = lock_us(text, begin, end)) >= 0) {
        set_duration(&out->duration_us, row, waited);
        *kind = K_LOCK_WAIT;
    } else if (log) {
        *kind = kind_by_beginning(text, begin, end);
    }
    return verb.statement;
}

/* Columns that a text tells. */
INTERNAL void read_text(scan_t *scan, int64_t row, enum severity severity, place_t begin, place_t end)
{
    const byte_t *text = scan->text;
    output_t *out = scan->out;
    place_t statement = ABSENT;
    enum kind kind = K_OTHER;
    if (severity == S_LOG || severity == S_DEBUG) {
        statement = read_report(scan, row, begin, end, severity == S_LOG, &kind);
    } else if (severity >= S_DETAIL) {
        bool parameters = severity == S_DETAIL && (BEGINS(text, begin, end, "parameters: ") != ABSENT ||
                                                   BEGINS(text, begin, end, "Parameters: ") != ABSENT);
        kind = parameters ? K_PARAMETERS : K_DETAIL;
        if (severity == S_STATEMENT || severity == S_QUERY) statement = begin;
    } else if (severity == S_WARNING || severity >= S_ERROR) {
        kind = K_ERROR;
    }
    put_8(&out->kind, row, kind);
    if (statement != ABSENT) {
        shards_t shards;
        const template_t *fitting = template_of(scan, statement, end, &shards);
        set_8(&out->statement_kind, row, fitting->kind);
        set_64(&out->statement_fingerprint, row, (int64_t)fitting->fingerprint);
        if (shards.count) set_64(&out->shard_id, row, shards.numbers[0]);
        for (int32_t place = 1; place < shards.count; place++)
            out->shards[out->shard_count++] = (stretch_t){row, shards.numbers[place]};
    }
    if (kind > K_TASK && severity != S_STATEMENT && severity != S_QUERY) {
        set_32(&out->message, row, out->message_count);
        out->messages[out->message_count++] = (stretch_t){begin, end};
    }
}

/* Place, length and text of a record, once its end is known. */
static void end_record(scan_t *scan, const chunk_t *chunk, int64_t row, place_t begin, place_t text_begin, place_t end,
                       int64_t tail)
{
    const byte_t *text = scan->text;
    output_t *out = scan->out;
    int64_t length = end - begin + tail;
    ((int64_t *)out->byte_offset.values)[row] = chunk->offset + begin;
    ((int64_t *)out->byte_length.values)[row] = length;
    out->record_bytes += length;
    if (length > chunk->line_cap) {
        ((byte_t *)out->capped.values)[row >> 3] |= (byte_t)(1 << (row & 7));
        end = begin + cut(text, begin, end - begin, chunk->excerpt);
    }
    while (end > text_begin && (text[end - 1] == '\n' || text[end - 1] == '\r')) end--;
    read_text(scan, row, (enum severity)scan->head->severity, text_begin, end);
}

static bool is_blank(const byte_t *text, place_t begin, place_t end) { return indent_end(text, begin, end) == end; }

static void walk(scan_t *scan, const chunk_t *chunk)
{
    const byte_t *text = chunk->text;
    place_t size = chunk->size, place = 0, begin = 0, text_begin = 0;
    output_t *out = scan->out;
    enum part part = chunk->fresh ? BLANKS : STRAYS;
    int64_t row = -1, run = -1;
    while (!scan->failed) {
        bool at_end = place >= size, astray = false;
        place_t content_end = place, line_end = place;
        head_t *next = scan->next;
        next->severity = -1;
        if (!at_end) {
            content_end = find(text, place, size, '\n');
            line_end = content_end < size ? content_end + 1 : size;
            /* What stands behind the first line of a record longer than the cap belongs to it. */
            if (chunk->tail == 0 || place == 0) {
                enum role role = role_of(&scan->lines, text + place, line_end - place, next);
                if (part == BLANKS && role != RECORD) {
                    astray = chunk->tail > 0 || !is_blank(text, place, line_end);
                    if (!astray) out->blank_bytes += line_end - place;
                } else if (part == STRAYS && role != RECORD) {
                    astray = run < 0;
                } else {
                    astray = role == STRAY;
                }
            }
        }
        if (at_end || next->severity >= 0 || astray) {
            if (part == RECORDS)
                end_record(scan, chunk, row, begin, text_begin, place, at_end ? chunk->tail : 0);
            else if (part == STRAYS && run >= 0)
                out->strays[run].end = place;
        }
        if (at_end) break;
        if (next->severity >= 0) {
            row++;
            part = RECORDS;
            begin = place;
            text_begin = place + next->text;
            scan->next = scan->head;
            scan->head = next;
            begin_record(scan, place, row);
        } else if (astray) {
            part = STRAYS;
            run++;
            out->strays[run] = (stretch_t){place, size};
        }
        place = line_end;
    }
    out->rows = row + 1;
    out->stray_count = run + 1;
}

int64_t pglog_layout(void) { return LAYOUT_HASH; }

#define STRIDE 192 /* bytes whose line ends one byte can count, so that the compiler can count them side by side */

text_facts_t pglog_text_facts(const byte_t *text, int64_t size)
{
    int64_t lines = size > 0 && text[size - 1] != '\n';
    byte_t high = 0, low = 0xFF;
    for (place_t place = 0; place < size; place += STRIDE) {
        place_t end = size - place < STRIDE ? size : place + STRIDE;
        byte_t ends = 0;
        for (place_t index = place; index < end; index++) {
            ends += text[index] == '\n';
            high |= text[index];
            low = text[index] < low ? text[index] : low;
        }
        lines += ends;
    }
    return (text_facts_t){lines, high < 0x80, low == 0};
}

INTERNAL scan_t *scan_new(const byte_t *text, const prefix_t *prefix, output_t *output)
{
    scan_t *scan = calloc(1, sizeof *scan);
    if (!scan) return NULL;
    scan->text = text;
    scan->prefix = prefix;
    scan->out = output;
    if (prefix) init_lines(&scan->lines, prefix);
    init_head(&scan->heads[0]);
    init_head(&scan->heads[1]);
    scan->head = &scan->heads[0];
    scan->next = &scan->heads[1];
    scan->spare = malloc(sizeof *scan->spare);
    scan->failed = !scan->spare;
    for (int column = 0; column < T_COUNT; column++) {
        scan->recent[column] = -1;
        scan->failed |= !table_init(&scan->texts[column], 256);
    }
    return scan;
}

/* 0, or OUT_OF_MEMORY where it did. */
INTERNAL int32_t scan_free(scan_t *scan)
{
    int32_t answer = scan->failed ? OUT_OF_MEMORY : 0;
    for (int set = 0; set < TEMPLATE_SETS; set++)
        for (int way = 0; way < TEMPLATE_WAYS; way++) free(scan->templates[set][way]);
    free(scan->spare);
    for (int column = 0; column < T_COUNT; column++) free(scan->texts[column].slots);
    free(scan);
    return answer;
}

int32_t pglog_scan(const chunk_t *chunk, const prefix_t *prefix, output_t *output)
{
    scan_t *scan = scan_new(chunk->text, prefix, output);
    if (!scan) return OUT_OF_MEMORY;
    scan->lines.line_cap = chunk->line_cap;
    scan->lines.zeros = chunk->zeros;
    if (!scan->failed) walk(scan, chunk);
    return scan_free(scan);
}

int32_t pglog_read_texts(const byte_t *text, int64_t rows, const int64_t *bounds, const byte_t *severities,
                         output_t *output)
{
    scan_t *scan = scan_new(text, NULL, output);
    if (!scan) return OUT_OF_MEMORY;
    for (int64_t row = 0; row < rows && !scan->failed; row++)
        read_text(scan, row, (enum severity)severities[row], bounds[row], bounds[row + 1]);
    output->rows = rows;
    return scan_free(scan);
}

void pglog_gather(const byte_t *text, int64_t count, const stretch_t *places, byte_t *data)
{
    for (int64_t index = 0; index < count; index++) {
        size_t length = (size_t)(places[index].end - places[index].begin);
        memcpy(data, text + places[index].begin, length);
        data += length;
    }
}

int64_t pglog_heads(const byte_t *text, int64_t size, const prefix_t *prefix)
{
    lines_t *lines = lines_new(prefix, size);
    head_t head;
    int64_t heads = 0;
    if (!lines) return OUT_OF_MEMORY;
    init_head(&head);
    for (place_t place = 0, end; place < size; place = end) {
        end = find(text, place, size, '\n');
        end += end < size;
        heads += role_of(lines, text + place, end - place, &head) == RECORD;
    }
    free(lines);
    return heads;
}

int64_t pglog_last_record(const byte_t *text, int64_t size, int64_t line_cap, const prefix_t *prefix)
{
    lines_t *lines = lines_new(prefix, line_cap);
    head_t head;
    enum role role = CONTINUED;
    place_t begin = size;
    if (!lines) return OUT_OF_MEMORY;
    init_head(&head);
    for (place_t end = size; end > 0 && role == CONTINUED; end = begin) {
        begin = end - 1;
        while (begin > 0 && text[begin - 1] != '\n') begin--;
        role = role_of(lines, text + begin, end - begin, &head);
    }
    free(lines);
    return role == RECORD ? begin : ABSENT;
}
