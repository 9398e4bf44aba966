/* Rows of csvlog. */
#include "row.h"

/* Columns of csvlog in order; the kind of backend, its leader and the query's number may follow. */
enum {
    C_TIME, C_USER, C_DATABASE, C_PID, C_HOST, C_SESSION, C_LINE, C_TAG, C_START, C_VXID, C_XID, C_SEVERITY,
    C_STATE, C_SAID, C_DETAIL, C_HINT, C_QUERY, C_QUERY_PLACE, C_CONTEXT, C_STATEMENT, C_PLACE, C_LOCATION, C_APPLICATION,
    C_KNOWN, C_MOST = C_KNOWN + 3
};

/* The text between quotes, with doubled quotes replaced by single ones. */
static slice_t without_doubled(reader_t *reader, place_t begin, place_t end)
{
    byte_t *text = reader->text;
    place_t written = reader->spare;
    for (place_t place = begin; place < end; place++) {
        text[reader->spare++] = text[place];
        place += text[place] == '"';
    }
    return (slice_t){written, reader->spare};
}

/* The field of csvlog at `*at`, which is moved to its end; false if there is none. */
static inline bool csv_field(reader_t *reader, place_t *at, place_t limit, slice_t *field)
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
        *field = doubled ? without_doubled(reader, *at + 1, place) : (slice_t){*at + 1, place};
        *at = place + 1;
        return true;
    }
    while (place < limit && text[place] != ',' && text[place] != '"' && text[place] != '\n' && text[place] != '\r') place++;
    *field = (slice_t){*at, place};
    *at = place;
    return place == limit || text[place] != '"';
}

/* Read the fields of the row at `begin` and the end of the row. Returns the number of fields, 0 if this is not a row. */
static int csv_fields(reader_t *reader, place_t begin, place_t limit, slice_t fields[C_MOST], place_t *end)
{
    const byte_t *text = reader->text;
    place_t at = begin;
    int count = 0;
    for (;;) {
        if (count == C_MOST || !csv_field(reader, &at, limit, &fields[count])) return 0;
        count++;
        /* The reader in Python accepts heads only within this many bytes of the first line. */
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

/* Whether a further line of a row begins like a row: the reader in Python would take it for one. */
static bool holds_opener(const byte_t *text, place_t begin, place_t end)
{
    for (place_t place = find(text, begin, end, '\n') + 1; place < end; place = find(text, place, end, '\n') + 1) {
        place_t first = place + (text[place] == '"');
        if (digits_end(text, first, end, 4) == first + 4) return true;
    }
    return false;
}

static bool is_quoted(const reader_t *reader, slice_t field)
{
    return field.begin > 0 && reader->text[field.begin - 1] == '"';
}

/* `10.0.0.1:5432` without the port. */
static slice_t without_port(const byte_t *text, slice_t host)
{
    place_t place = host.end;
    while (place > host.begin && is_digit(text[place - 1])) place--;
    if (is_filled(host) && place < host.end && place > host.begin && text[place - 1] == ':') host.end = place - 1;
    return host;
}

/* Read the parts of a row's head. */
static bool csv_head(reader_t *reader, const slice_t *fields, log_record_t *record)
{
    const byte_t *text = reader->text;
    static const byte_t plain[] = {C_PID, C_SESSION, C_LINE, C_XID};
    for (size_t index = 0; index < sizeof plain; index++)
        if (is_quoted(reader, fields[plain[index]])) return false;
    slice_t session = fields[C_SESSION], xid = fields[C_XID];
    for (place_t place = session.begin; place < session.end; place++)
        if (!is_digit(text[place]) && text[place] != '.' && (byte_t)(text[place] - 'a') >= 6) return false;
    if (digits_end(text, xid.begin, xid.end, xid.end - xid.begin) != xid.end) return false;
    record->stamp = fields[C_TIME];
    record->user = fields[C_USER];
    record->database = fields[C_DATABASE];
    record->host = without_port(text, fields[C_HOST]);
    return is_stamp(reader, record->stamp) && read_number(text, fields[C_PID], 9, &record->pid) && is_filled(fields[C_LINE]) &&
           read_number(text, fields[C_LINE], 18, &record->line) && read_transaction(reader, fields[C_VXID], record) &&
           read_severity(reader, fields[C_SEVERITY], &record->severity);
}

INTERNAL int32_t read_csv(reader_t *reader, place_t begin, bool loose, place_t *end)
{
    const byte_t *text = reader->text;
    slice_t fields[C_MOST];
    log_record_t record = none;
    int count = csv_fields(reader, begin, reader->chunk->size, fields, end);
    /* The application is followed by the kind of backend since PostgreSQL 13, and by leader and query since 14. */
    if (count < C_KNOWN || (count == C_KNOWN + 2 && !loose)) return IRREGULAR;
    if (*end - begin > reader->chunk->line_cap) return IRREGULAR;
    if (!csv_head(reader, fields, &record) || holds_opener(text, begin, *end)) return IRREGULAR;
    place_t head_end = fields[C_SEVERITY].end;
    if (find(text, begin, head_end, '\n') < head_end || find(text, begin, head_end, '\r') < head_end) return IRREGULAR;
    static const byte_t details[DETAILS] = {C_DETAIL, C_HINT, C_QUERY, C_CONTEXT, C_STATEMENT};
    for (int detail = 0; detail < DETAILS; detail++) record.details[detail] = fields[details[detail]];
    record.state = fields[C_STATE];
    record.said = fields[C_SAID];
    record.application = fields[C_APPLICATION];
    return put_record(reader, &record, begin, *end);
}
