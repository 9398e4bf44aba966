/* See row.h. */
#include "row.h"

/* The severities of details in the order of their rows. */
static const byte_t detail_severities[DETAILS] = {S_DETAIL, S_HINT, S_QUERY, S_CONTEXT, S_STATEMENT};

static inline void set_filled(scan_t *scan, enum text_column column, int64_t row, slice_t slice)
{
    if (is_filled(slice)) set_text(scan, column, row, slice.begin, slice.end);
}

/* Write a row for the record from `begin` to `end` or for one of its details. */
static int32_t put_row(reader_t *reader, const log_record_t *record, int32_t severity, slice_t said, place_t begin, place_t end)
{
    scan_t *scan = reader->scan;
    output_t *out = scan->out;
    int64_t row = out->rows;
    if (row == reader->most) return MORE_ROOM;
    out->rows++;
    ((int64_t *)out->byte_offset.values)[row] = reader->chunk->offset + begin;
    ((int64_t *)out->byte_length.values)[row] = end - begin;
    put_8(&out->severity, row, severity);
    span_t stamp = {0, (int32_t)(record->stamp.end - record->stamp.begin), 0};
    set_clock(scan, reader->text + record->stamp.begin, stamp, row);
    if (record->pid >= 0) set_32(&out->pid, row, record->pid);
    if (record->line >= 0) set_64(&out->session_line, row, record->line);
    if (record->local_xid >= 0) {
        set_32(&out->backend_id, row, record->backend);
        set_64(&out->local_xid, row, record->local_xid);
    }
    if (is_filled(record->application)) {
        span_t application = {0, (int32_t)(record->application.end - record->application.begin), 0};
        set_application(scan, reader->text + record->application.begin, application, row);
    }
    set_filled(scan, T_USER, row, record->user);
    set_filled(scan, T_DATABASE, row, record->database);
    set_filled(scan, T_CLIENT_HOST, row, record->host);
    if (record->state.begin != ABSENT) set_text(scan, T_SQLSTATE, row, record->state.begin, record->state.end);
    read_text(scan, row, (enum severity)severity, said.begin, said.end);
    return 0;
}

INTERNAL int32_t put_record(reader_t *reader, const log_record_t *record, place_t begin, place_t end)
{
    int32_t answer = put_row(reader, record, record->severity, record->said, begin, end);
    reader->scan->out->record_bytes += end - begin;
    for (int detail = 0; detail < DETAILS && answer == 0; detail++)
        if (is_filled(record->details[detail]))
            answer = put_row(reader, record, detail_severities[detail], record->details[detail], begin, end);
    return answer;
}

INTERNAL bool read_severity(reader_t *reader, slice_t text, int32_t *severity)
{
    lines_t *lines = &reader->scan->lines;
    if (!is_filled(text) || (byte_t)(reader->text[text.begin] - 'A') >= 26) return false;
    *severity = severity_at(lines->prefix, reader->text, text.begin, text.end, &lines->memo);
    if (*severity < 0 || *severity >= S_DETAIL) return false;
    place_t end = text.begin + severity_length(lines->prefix, *severity);
    if (end + 1 == text.end) end += (byte_t)(reader->text[end] - '1') < 5;
    return end == text.end;
}

INTERNAL bool is_stamp(reader_t *reader, slice_t text)
{
    return is_filled(text) &&
           stamp_end(reader->text, text.begin, text.end, true, &reader->scan->lines.memo) == text.end;
}

INTERNAL bool read_transaction(reader_t *reader, slice_t text, log_record_t *record)
{
    if (!is_filled(text)) return true;
    return read_vxid(reader->text, text.begin, text.end, &record->backend, &record->local_xid) == text.end;
}

INTERNAL bool read_number(const byte_t *text, slice_t field, place_t most, int64_t *number)
{
    int64_t found;
    if (!is_filled(field)) return true;
    if (read_digits(text, field.begin, field.end, most, &found) != field.end) return false;
    *number = found;
    return true;
}
