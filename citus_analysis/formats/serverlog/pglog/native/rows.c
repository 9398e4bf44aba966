/* See rows.h. */
#include "rows.h"

#include "scan.h"

/* Details in the order of their rows. */
#define DETAILS 5
static const byte_t detail_severities[DETAILS] = {S_DETAIL, S_HINT, S_QUERY, S_CONTEXT, S_STATEMENT};

/* Columns of csvlog in their order; the kind of backend, its leader and the query's number may follow. */
enum {
    C_TIME, C_USER, C_DATABASE, C_PID, C_HOST, C_SESSION, C_LINE, C_TAG, C_START, C_VXID, C_XID, C_SEVERITY,
    C_STATE, C_SAID, C_DETAIL, C_HINT, C_QUERY, C_QUERY_PLACE, C_CONTEXT, C_STATEMENT, C_PLACE, C_LOCATION, C_APPLICATION,
    C_KNOWN, C_MOST = C_KNOWN + 3
};

static const stretch_t nothing = {ABSENT, ABSENT};

/* What a row tells. Texts that are absent begin at ABSENT. */
typedef struct {
    stretch_t stamp, user, database, host, application, state, said, details[DETAILS];
    int64_t pid, line, backend, local_xid; /* process and line -1, the transaction 0/-1 where absent */
    int32_t severity;
} told_t;

typedef struct {
    scan_t *scan;
    const chunk_t *chunk;
    byte_t *text;
    place_t spare; /* where the next text without its escapes is written */
    int64_t most;
} reader_t;

static inline bool is_filled(stretch_t stretch) { return stretch.end > stretch.begin; }

static inline void set_filled(scan_t *scan, enum text_column column, int64_t row, stretch_t stretch)
{
    if (is_filled(stretch)) set_text(scan, column, row, stretch.begin, stretch.end);
}

/* A row of the record that stands from `begin` to `end`: the record itself, or one of its details. */
static int32_t put_row(reader_t *reader, const told_t *told, int32_t severity, stretch_t said, place_t begin, place_t end)
{
    scan_t *scan = reader->scan;
    output_t *out = scan->out;
    int64_t row = out->rows;
    if (row == reader->most) return MORE_ROOM;
    out->rows++;
    ((int64_t *)out->byte_offset.values)[row] = reader->chunk->offset + begin;
    ((int64_t *)out->byte_length.values)[row] = end - begin;
    put_8(&out->severity, row, severity);
    span_t stamp = {0, (int32_t)(told->stamp.end - told->stamp.begin), 0};
    set_clock(scan, reader->text + told->stamp.begin, stamp, row);
    if (told->pid >= 0) set_32(&out->pid, row, told->pid);
    if (told->line >= 0) set_64(&out->session_line, row, told->line);
    if (told->local_xid >= 0) {
        set_32(&out->backend_id, row, told->backend);
        set_64(&out->local_xid, row, told->local_xid);
    }
    if (is_filled(told->application)) {
        span_t application = {0, (int32_t)(told->application.end - told->application.begin), 0};
        set_application(scan, reader->text + told->application.begin, application, row);
    }
    set_filled(scan, T_USER, row, told->user);
    set_filled(scan, T_DATABASE, row, told->database);
    set_filled(scan, T_CLIENT_HOST, row, told->host);
    if (told->state.begin != ABSENT) set_text(scan, T_SQLSTATE, row, told->state.begin, told->state.end);
    read_text(scan, row, (enum severity)severity, said.begin, said.end);
    return 0;
}

static int32_t put_record(reader_t *reader, const told_t *told, place_t begin, place_t end)
{
    int32_t answer = put_row(reader, told, told->severity, told->said, begin, end);
    reader->scan->out->record_bytes += end - begin;
    for (int detail = 0; detail < DETAILS && answer == 0; detail++)
        if (is_filled(told->details[detail]))
            answer = put_row(reader, told, detail_severities[detail], told->details[detail], begin, end);
    return answer;
}

/* Whether a text is the severity of a record: a word that may end in the level of a debug message. */
static bool read_severity(reader_t *reader, stretch_t text, int32_t *severity)
{
    lines_t *lines = &reader->scan->lines;
    if (!is_filled(text) || (byte_t)(reader->text[text.begin] - 'A') >= 26) return false;
    *severity = severity_at(lines->prefix, reader->text, text.begin, text.end, &lines->memo);
    if (*severity < 0 || *severity >= S_DETAIL) return false;
    place_t end = text.begin + severity_length(lines->prefix, *severity);
    if (end + 1 == text.end) end += (byte_t)(reader->text[end] - '1') < 5;
    return end == text.end;
}

static bool is_stamp(reader_t *reader, stretch_t text)
{
    return is_filled(text) &&
           stamp_end(reader->text, text.begin, text.end, true, &reader->scan->lines.memo) == text.end;
}

/* A virtual transaction, or nothing. */
static bool read_transaction(reader_t *reader, stretch_t text, told_t *told)
{
    if (!is_filled(text)) return true;
    return read_vxid(reader->text, text.begin, text.end, &told->backend, &told->local_xid) == text.end;
}

/* At most `most` digits, of which there may be none; the number stays as it is then. */
static bool read_number(const byte_t *text, stretch_t field, place_t most, int64_t *number)
{
    int64_t found;
    if (!is_filled(field)) return true;
    if (read_digits(text, field.begin, field.end, most, &found) != field.end) return false;
    *number = found;
    return true;
}

/* The text between quotes, with each doubled one as one. */
static stretch_t without_doubled(reader_t *reader, place_t begin, place_t end)
{
    byte_t *text = reader->text;
    place_t written = reader->spare;
    for (place_t place = begin; place < end; place++) {
        text[reader->spare++] = text[place];
        place += text[place] == '"';
    }
    return (stretch_t){written, reader->spare};
}

/* A field of csvlog at `*at`, which goes behind it; false where none stands. */
static inline bool csv_field(reader_t *reader, place_t *at, place_t limit, stretch_t *field)
{
    const byte_t *text = reader->text;
    place_t place = *at;
    if (place < limit && text[place] == '"') {
        bool doubled = false;
        for (place++;; place += 2, doubled = true) {
            place = find(text, place, limit, '"');
            if (place == limit) return false;
            if (place + 1 >= limit || text[place + 1] != '"') break;
        }
        *field = doubled ? without_doubled(reader, *at + 1, place) : (stretch_t){*at + 1, place};
        *at = place + 1;
        return true;
    }
    while (place < limit && text[place] != ',' && text[place] != '"' && text[place] != '\n' && text[place] != '\r') place++;
    *field = (stretch_t){*at, place};
    *at = place;
    return place == limit || text[place] != '"';
}

/* The fields of a row that begins at `begin`, and where the row ends; how many they are, or 0 where it is no row. */
static int csv_fields(reader_t *reader, place_t begin, place_t limit, stretch_t fields[C_MOST], place_t *end)
{
    const byte_t *text = reader->text;
    place_t at = begin;
    int count = 0;
    for (;;) {
        if (count == C_MOST || !csv_field(reader, &at, limit, &fields[count])) return 0;
        count++;
        /* Heads stand in the first line and are not longer than a reader of lines looks. */
        if (count == C_STATE && at - begin > HEAD_LIMIT - 8) return 0;
        if (at == limit || text[at] != ',') break;
        at++;
    }
    if (at < limit && text[at] == '\r') at++;
    if (at < limit && text[at] != '\n') return 0;
    if (at == limit && text[at - 1] == '\r') return 0;
    *end = at + (at < limit);
    return count;
}

/* Whether a further line of a row begins like a row: a reader of lines takes it for one. */
static bool holds_opener(const byte_t *text, place_t begin, place_t end)
{
    for (place_t place = find(text, begin, end, '\n') + 1; place < end; place = find(text, place, end, '\n') + 1) {
        place_t first = place + (text[place] == '"');
        if (digits_end(text, first, end, 4) == first + 4) return true;
    }
    return false;
}

static bool is_quoted(const reader_t *reader, stretch_t field)
{
    return field.begin > 0 && reader->text[field.begin - 1] == '"';
}

/* `10.0.0.1:5432` without the port. */
static stretch_t without_port(const byte_t *text, stretch_t host)
{
    place_t place = host.end;
    while (place > host.begin && is_digit(text[place - 1])) place--;
    if (is_filled(host) && place < host.end && place > host.begin && text[place - 1] == ':') host.end = place - 1;
    return host;
}

/* What the head of a row tells, whose fields end before the first line does. */
static bool csv_head(reader_t *reader, const stretch_t *fields, told_t *told)
{
    const byte_t *text = reader->text;
    static const byte_t plain[] = {C_PID, C_SESSION, C_LINE, C_XID};
    for (size_t index = 0; index < sizeof plain; index++)
        if (is_quoted(reader, fields[plain[index]])) return false;
    stretch_t session = fields[C_SESSION], xid = fields[C_XID];
    for (place_t place = session.begin; place < session.end; place++)
        if (!is_digit(text[place]) && text[place] != '.' && (byte_t)(text[place] - 'a') >= 6) return false;
    if (digits_end(text, xid.begin, xid.end, xid.end - xid.begin) != xid.end) return false;
    told->stamp = fields[C_TIME];
    told->user = fields[C_USER];
    told->database = fields[C_DATABASE];
    told->host = without_port(text, fields[C_HOST]);
    return is_stamp(reader, told->stamp) && read_number(text, fields[C_PID], 9, &told->pid) && is_filled(fields[C_LINE]) &&
           read_number(text, fields[C_LINE], 18, &told->line) && read_transaction(reader, fields[C_VXID], told) &&
           read_severity(reader, fields[C_SEVERITY], &told->severity);
}

static const told_t none = {
    {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT},
    {{ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}, {ABSENT, ABSENT}}, -1, -1, 0, -1, -1,
};

/* The row of csvlog at `begin`. */
static int32_t read_csv(reader_t *reader, place_t begin, bool loose, place_t *end)
{
    const byte_t *text = reader->text;
    stretch_t fields[C_MOST];
    told_t told = none;
    int count = csv_fields(reader, begin, reader->chunk->size, fields, end);
    /* The application is followed by the kind of backend since PostgreSQL 13, and by leader and query since 14. */
    if (count < C_KNOWN || (count == C_KNOWN + 2 && !loose)) return IRREGULAR;
    if (*end - begin > reader->chunk->line_cap) return IRREGULAR;
    if (!csv_head(reader, fields, &told) || holds_opener(text, begin, *end)) return IRREGULAR;
    place_t head_end = fields[C_SEVERITY].end;
    if (find(text, begin, head_end, '\n') < head_end || find(text, begin, head_end, '\r') < head_end) return IRREGULAR;
    static const byte_t details[DETAILS] = {C_DETAIL, C_HINT, C_QUERY, C_CONTEXT, C_STATEMENT};
    for (int detail = 0; detail < DETAILS; detail++) told.details[detail] = fields[details[detail]];
    told.state = fields[C_STATE];
    told.said = fields[C_SAID];
    told.application = fields[C_APPLICATION];
    return put_record(reader, &told, begin, *end);
}

/* Keys of jsonlog that are read. */
enum key {
    J_TIME, J_USER, J_DATABASE, J_PID, J_HOST, J_LINE, J_VXID, J_APPLICATION, J_STATE, J_SEVERITY, J_SAID,
    J_DETAIL, J_HINT, J_QUERY, J_CONTEXT, J_STATEMENT, J_WRAPPED, J_OTHER
};

#define KEY(word) {word, sizeof(word) - 1}
static const struct { const char *word; size_t length; } keys[J_OTHER] = {
    KEY("timestamp"), KEY("user"), KEY("dbname"), KEY("pid"), KEY("remote_host"), KEY("line_num"), KEY("vxid"),
    KEY("application_name"), KEY("state_code"), KEY("error_severity"), KEY("message"), KEY("detail"), KEY("hint"),
    KEY("internal_query"), KEY("context"), KEY("statement"), KEY("textPayload"),
};

/* The key, looked for first at `guess`: objects have theirs in the same order. */
static enum key key_of(const byte_t *text, stretch_t word, int guess)
{
    for (int step = 0; step < J_OTHER; step++) {
        int key = (guess + step) % J_OTHER;
        if ((size_t)(word.end - word.begin) == keys[key].length &&
            memcmp(text + word.begin, keys[key].word, keys[key].length) == 0)
            return (enum key)key;
    }
    return J_OTHER;
}

/* Where a quote, a backslash or a control character stands first. */
static inline place_t special(const byte_t *text, place_t begin, place_t limit)
{
    place_t place = begin;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; place + 8 <= limit; place += 8) {
        uint64_t eight = load(text + place, 8), quotes = eight ^ EACH_BYTE('"'), slashes = eight ^ EACH_BYTE('\\');
        uint64_t found = ((eight - EACH_BYTE(32)) & ~eight) | ((quotes - EACH_BYTE(1)) & ~quotes) |
                         ((slashes - EACH_BYTE(1)) & ~slashes);
        found &= EACH_BYTE(128);
        if (found) return place + (__builtin_ctzll(found) >> 3);
    }
#endif
    while (place < limit && text[place] >= 32 && text[place] != '"' && text[place] != '\\') place++;
    return place;
}

/* The character that `\u` and four digits stand for, written to `spare`; not one of a pair, and not zero. */
static bool put_escaped(reader_t *reader, place_t digits, place_t limit)
{
    uint32_t code = 0;
    if (digits + 4 > limit) return false;
    for (int digit = 0; digit < 4; digit++) {
        byte_t byte = reader->text[digits + digit], letter = (byte_t)((byte | 32) - 'a');
        if (!is_digit(byte) && letter >= 6) return false;
        code = code * 16 + (uint32_t)(is_digit(byte) ? byte - '0' : letter + 10);
    }
    if (code == 0 || (code >= 0xD800 && code < 0xE000)) return false;
    byte_t *into = reader->text + reader->spare;
    int further = code < 0x80 ? 0 : code < 0x800 ? 1 : 2;
    static const byte_t first[] = {0, 0xC0, 0xE0};
    *into++ = (byte_t)(first[further] | code >> 6 * further);
    for (int rest = further - 1; rest >= 0; rest--) *into++ = (byte_t)(0x80 | (code >> 6 * rest & 0x3F));
    reader->spare = into - reader->text;
    return true;
}

/* The string at `*at`, whose escapes begin at `place`. */
static bool unescaped(reader_t *reader, place_t *at, place_t place, place_t limit, stretch_t *string)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    byte_t *text = reader->text;
    place_t from = *at + 1;
    string->begin = reader->spare;
    for (;; place = special(text, from, limit)) {
        memcpy(text + reader->spare, text + from, (size_t)(place - from));
        reader->spare += place - from;
        if (place >= limit || text[place] < 32) return false;
        if (text[place] == '"') break;
        if (place + 1 >= limit) return false;
        const char *found = strchr(escapes, text[place + 1]);
        if (text[place + 1] == 'u') {
            if (!put_escaped(reader, place + 2, limit)) return false;
        } else if (text[place + 1] && found) {
            text[reader->spare++] = (byte_t)meant[found - escapes];
        } else {
            return false;
        }
        from = place + (text[place + 1] == 'u' ? 6 : 2);
    }
    string->end = reader->spare;
    *at = place + 1;
    return true;
}

static bool json_string(reader_t *reader, place_t *at, place_t limit, stretch_t *string)
{
    const byte_t *text = reader->text;
    if (*at >= limit || text[*at] != '"') return false;
    place_t place = special(text, *at + 1, limit);
    if (place >= limit || text[place] < 32) return false;
    if (text[place] == '\\') return unescaped(reader, at, place, limit, string);
    *string = (stretch_t){*at + 1, place};
    *at = place + 1;
    return true;
}

static inline place_t behind_spaces(const byte_t *text, place_t place, place_t limit)
{
    while (place < limit && (text[place] == ' ' || text[place] == '\t')) place++;
    return place;
}

/* What a value is, as far as values of logs go. */
enum value { A_STRING, A_NUMBER, A_NULL, A_FLAG, NO_VALUE };

static enum value json_value(reader_t *reader, place_t *at, place_t limit, stretch_t *value)
{
    const byte_t *text = reader->text;
    place_t begin = *at, end;
    if (begin < limit && text[begin] == '"') return json_string(reader, at, limit, value) ? A_STRING : NO_VALUE;
    enum value found = A_NUMBER;
    if ((end = BEGINS(text, begin, limit, "null")) != ABSENT) found = A_NULL;
    else if ((end = BEGINS(text, begin, limit, "true")) != ABSENT || (end = BEGINS(text, begin, limit, "false")) != ABSENT)
        found = A_FLAG;
    else {
        place_t first = begin + (begin < limit && text[begin] == '-');
        end = digits_end(text, first, limit, 18);
        if (end == first || (text[first] == '0' && end > first + 1)) return NO_VALUE;
    }
    *value = (stretch_t){begin, end};
    *at = end;
    return found;
}

/* Keys and values of the object at `begin`; those that are absent begin at ABSENT. */
static bool json_members(reader_t *reader, place_t begin, place_t limit, stretch_t values[J_OTHER])
{
    const byte_t *text = reader->text;
    place_t at = begin;
    uint32_t seen = 0;
    int guess = 0;
    for (int key = 0; key < J_OTHER; key++) values[key] = nothing;
    if (at >= limit || text[at] != '{') return false;
    do {
        stretch_t word, value;
        at = behind_spaces(text, at + 1, limit);
        place_t spare = reader->spare;
        if (!json_string(reader, &at, limit, &word) || reader->spare != spare) return false;
        at = behind_spaces(text, at, limit);
        if (at >= limit || text[at] != ':') return false;
        at = behind_spaces(text, at + 1, limit);
        enum value kind = json_value(reader, &at, limit, &value);
        enum key key = key_of(text, word, guess);
        if (kind == NO_VALUE || key == J_WRAPPED) return false;
        if (key != J_OTHER) {
            bool number = key == J_PID || key == J_LINE;
            if (seen & 1u << key || (kind != A_NULL && kind != (number ? A_NUMBER : A_STRING))) return false;
            seen |= 1u << key;
            guess = key + 1;
            if (kind != A_NULL) values[key] = value;
        }
        at = behind_spaces(text, at, limit);
    } while (at < limit && text[at] == ',');
    return at < limit && text[at] == '}' && behind_spaces(text, at + 1, limit) == limit;
}

/* The object of jsonlog in the line at `begin`. */
static int32_t read_json(reader_t *reader, place_t begin, place_t *end)
{
    stretch_t values[J_OTHER];
    told_t told = none;
    const byte_t *text = reader->text;
    place_t limit = find(text, begin, reader->chunk->size, '\n');
    *end = limit + (limit < reader->chunk->size);
    if (!json_members(reader, begin, limit, values) || !is_stamp(reader, values[J_TIME])) return IRREGULAR;
    if (!read_number(text, values[J_PID], 9, &told.pid) || !read_number(text, values[J_LINE], 18, &told.line)) return IRREGULAR;
    if (values[J_SAID].begin == ABSENT || !read_severity(reader, values[J_SEVERITY], &told.severity)) return IRREGULAR;
    if (!read_transaction(reader, values[J_VXID], &told)) return IRREGULAR;
    told.stamp = values[J_TIME];
    told.user = values[J_USER];
    told.database = values[J_DATABASE];
    told.host = values[J_HOST];
    told.application = values[J_APPLICATION];
    if (is_filled(values[J_STATE])) told.state = values[J_STATE];
    told.said = values[J_SAID];
    for (int detail = 0; detail < DETAILS; detail++) told.details[detail] = values[J_DETAIL + detail];
    return put_record(reader, &told, begin, *end);
}

int32_t pglog_scan_rows(const chunk_t *chunk, int32_t form, const prefix_t *prefix, byte_t *text, int64_t most,
                        output_t *output)
{
    scan_t *scan = scan_new(text, prefix, output);
    if (!scan) return OUT_OF_MEMORY;
    reader_t reader = {scan, chunk, text, chunk->size, most};
    int32_t answer = 0;
    place_t place = 0;
    while (place < chunk->size && answer == 0 && !scan->failed) {
        place_t begin = place;
        answer = form == W_JSON ? read_json(&reader, begin, &place) : read_csv(&reader, begin, form == W_LOOSE_CSV, &place);
    }
    int32_t freed = scan_free(scan);
    return freed ? freed : answer;
}
