/* See line.h. */
#include "line.h"

#include <stdlib.h>

static byte_t rare_byte(const prefix_t *prefix)
{
    if (prefix->count > 0 && prefix->elements->kind == E_SYSLOG) return ']';
    for (const char *rare = "]|[@"; *rare; rare++)
        for (int32_t index = 0; index < prefix->optional_from; index++) {
            const element_t *element = &prefix->elements[index];
            if (element->kind == E_LITERAL && find(prefix->literals, element->first, element->second, (byte_t)*rare) < element->second)
                return (byte_t)*rare;
        }
    return ':'; /* after the severity */
}

INTERNAL void init_lines(lines_t *lines, const prefix_t *prefix)
{
    const element_t *first = prefix->elements;
    lines->prefix = prefix;
    lines->syslog = prefix->count > 0 && first->kind == E_SYSLOG;
    lines->timed = lines->syslog || (prefix->count > 0 && prefix->optional_from > 0 && !first->padding &&
                                     (first->kind == E_STAMP || first->kind == E_EPOCH));
    lines->rare = rare_byte(prefix);
    lines->least = (place_t)(lines->syslog                                ? sizeof "Nov 20 21:03:47 h p[1]: [1] LOG: "
                             : prefix->count && first->kind == E_STAMP ? sizeof "2026-11-20 21:03:47 ZLOG: "
                                                                       : sizeof "0.000LOG: ") - 1;
    init_memo(&lines->memo, prefix);
    init_head(&lines->other);
}

INTERNAL lines_t *lines_new(const prefix_t *prefix, int64_t line_cap)
{
    lines_t *lines = malloc(sizeof *lines);
    if (!lines) return NULL;
    init_lines(lines, prefix);
    lines->line_cap = line_cap;
    lines->zeros = true;
    return lines;
}

INTERNAL place_t indent_end(const byte_t *text, place_t begin, place_t end)
{
    while (begin < end && is_blank_byte(text[begin])) begin++;
    return begin;
}

/* Whether a severity ends at a colon. */
static bool follows_severity(const lines_t *lines, const byte_t *line, place_t colon)
{
    place_t stop = (byte_t)(line[colon - 1] - '1') < 5 ? colon - 1 : colon;
    place_t first = stop;
    while (first > 0 && is_letter(line[first - 1])) first--;
    int32_t severity = first < stop ? severity_at(lines->prefix, line, first, stop, &lines->memo) : -1;
    return severity >= 0 && severity_length(lines->prefix, severity) == stop - first;
}

/* Whether a line without this prefix continues no record. PostgreSQL writes a tab before each further line of a record;
 * copies may have spaces instead. A line that begins with spaces and contains a severity is a record with another
 * prefix. */
static bool is_foreign(const lines_t *lines, const byte_t *line, place_t length)
{
    if (length == 0 || line[0] == '\t') return false;
    if (line[0] != ' ' && line[0] != '\r') return true;
    place_t limit = length < HEAD_LIMIT ? length : HEAD_LIMIT;
    for (place_t colon = find(line, 3, limit - 2, ':'); colon < limit - 2; colon = find(line, colon + 1, limit - 2, ':'))
        if (line[colon + 1] == ' ' && line[colon + 2] == ' ' && follows_severity(lines, line, colon)) return true;
    return false;
}

/* Whether a line that begins no record may continue one. */
static bool goes_on(const lines_t *lines, const byte_t *line, place_t length)
{
    if (!lines->syslog) return !is_foreign(lines, line, length);
    return syslog_end(line, length < HEAD_LIMIT ? length : HEAD_LIMIT, NULL) != ABSENT;
}

/* Position in a line that is searched once for literals of SQL, and whether one is open there. */
typedef struct {
    place_t place;
    bool open;
} literals_t;

/* Whether a literal begins directly before a place; places must be given in ascending order. */
static bool opens_literal(literals_t *literals, const byte_t *line, place_t place)
{
    if (line[place - 1] != '\'') return false;
    for (; (literals->place = find(line, literals->place, place, '\'')) < place; literals->place++)
        literals->open = !literals->open;
    return literals->open;
}

/* Whether a byte may be the first of a head that begins with a time. */
static inline bool may_open(const lines_t *lines, byte_t byte)
{
    return is_digit(byte) || (lines->syslog && ((byte_t)(byte - 'A') < 26 || byte == '<'));
}

/* Whether another record begins at or after `from`, because the line end between two lines was lost. A record at the
 * beginning of a literal is part of a statement. */
static bool holds_record(lines_t *lines, const byte_t *line, place_t from, place_t length)
{
    literals_t literals = {0, false};
    place_t tried = from;
    for (place_t colon = find(line, from, length, ':'); colon + 1 < length; colon = find(line, colon + 1, length, ':')) {
        if (line[colon + 1] != ' ' || colon < from + 3) continue;
        place_t last = colon - ((byte_t)(line[colon - 1] - '1') < 5) - 1;
        if ((byte_t)(line[last] - 'A') >= 26) continue;
        place_t place = colon - HEAD_LIMIT > tried ? colon - HEAD_LIMIT : tried;
        for (; place < colon; place++)
            if (may_open(lines, line[place]) && match_head(lines->prefix, line + place, length - place, &lines->memo, &lines->other) &&
                !opens_literal(&literals, line, place))
                return true;
        tried = colon;
    }
    return false;
}

INTERNAL enum role role_of(lines_t *lines, const byte_t *line, place_t size, head_t *head)
{
    bool ended = line[size - 1] == '\n';
    place_t length = size - ended;
    bool begins = match_head(lines->prefix, line, length, &lines->memo, head);
    place_t from = begins ? head->text : indent_end(line, 0, length) + 1;
    bool damaged = (lines->zeros && find(line, 0, length, 0) < length) ||
                   (lines->timed && length - from >= lines->least && find(line, from, length, lines->rare) < length && holds_record(lines, line, from, length));
    if (begins && !damaged) return RECORD;
    head->severity = -1;
    bool broken_off = !ended && size <= lines->line_cap && line[0] != '\t';
    return damaged || broken_off || !goes_on(lines, line, length) ? STRAY : CONTINUED;
}
