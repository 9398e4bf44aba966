/* Columns read from the prefix of a record. */
#include "scan.h"

#define US_PER_MS 1000
#define US_PER_S (1000 * US_PER_MS)

/* A clock reading as microseconds since 1970; false if it is no valid time. */
static bool second_clock(const byte_t *stamp, int64_t *clock)
{
    static const byte_t longest[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year = digits(stamp, 0, 4), month = digits(stamp, 5, 7), day = digits(stamp, 8, 10);
    int64_t hour = digits(stamp, 11, 13), minute = digits(stamp, 14, 16), second = digits(stamp, 17, 19);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return false;
    if (day < 1 || day > longest[month - 1] + (month == 2 && leap)) return false;
    /* Days since 1970, computed with years that begin in March, so that the leap day is the last. */
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

/* Set application and gpid: `citus_internal gpid=20000030999` has both. */
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

/* The end of the host in `10.0.0.1(45678)`. */
static place_t host_end(const byte_t *line, span_t span)
{
    if (span.end - span.begin < 3 || line[span.end - 1] != ')') return span.end;
    place_t place = span.end - 1;
    while (place > span.begin && is_digit(line[place - 1])) place--;
    return place < span.end - 1 && place > span.begin && line[place - 1] == '(' ? place - 1 : span.end;
}

INTERNAL void begin_record(scan_t *scan, place_t line_begin, int64_t row)
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
