/* One pass over the bytes of a chunk that fills the columns of its records. */
#include "scanner.h"

#include <stdlib.h>

#include "scan.h"
#include "syslog.h"

/* The kind of the lines before the current one: it decides whether a line is stray or blank. */
enum part { BLANKS, STRAYS, RECORDS };

/* Set place, length and text of a record, once its end is known. */
static void end_record(scan_t *scan, const chunk_t *chunk, int64_t row, place_t begin, place_t text_begin, place_t end,
                       int64_t tail)
{
    const byte_t *text = scan->text;
    output_t *out = scan->out;
    int64_t length = end - begin + tail;
    bool capped = length > chunk->line_cap;
    ((int64_t *)out->byte_offset.values)[row] = chunk->offset + begin;
    ((int64_t *)out->byte_length.values)[row] = length;
    out->record_bytes += length;
    if (capped) {
        ((byte_t *)out->capped.values)[row >> 3] |= (byte_t)(1 << (row & 7));
        end = begin + cut(text, begin, end - begin, chunk->excerpt);
    }
    if (scan->messages) {
        if (capped) cut_message(scan, row, end);
        return;
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
            /* The lines after the first one of a record longer than the cap belong to it. */
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
            if (scan->messages) open_message(scan, row, text_begin, content_end);
        } else if (astray) {
            part = STRAYS;
            run++;
            out->strays[run] = (slice_t){place, size};
        } else if (scan->messages && part == RECORDS) {
            continue_message(scan, place, content_end);
        }
        place = line_end;
    }
    out->rows = row + 1;
    out->stray_count = run + 1;
}

int64_t pglog_layout(void) { return LAYOUT_HASH; }

#define STRIDE 192 /* a byte suffices to count the line ends of this many, so that the compiler can vectorize */

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

int32_t pglog_scan(const chunk_t *chunk, const prefix_t *prefix, output_t *output)
{
    scan_t *scan = scan_new(chunk->text, prefix, output);
    if (!scan) return OUT_OF_MEMORY;
    scan->lines.line_cap = chunk->line_cap;
    scan->lines.zeros = chunk->zeros;
    if (scan->lines.syslog) scan->messages = messages_new(chunk);
    scan->failed |= scan->lines.syslog && !scan->messages;
    if (!scan->failed) walk(scan, chunk);
    if (scan->messages) read_messages(scan, output->rows);
    messages_free(scan->messages);
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

void pglog_gather(const byte_t *text, int64_t count, const slice_t *places, byte_t *data)
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
    if (role == RECORD && lines->syslog) begin = last_between_messages(lines, text, size);
    free(lines);
    return role == RECORD ? begin : ABSENT;
}
