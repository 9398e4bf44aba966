/* Fields of the lines of a text, and the plain numbers and times among them: the output of all text samplers.
 *
 * A field is a number only if one division gives its correctly rounded value (15 digits at most), which is the double
 * that every correct reader gives. Numbers written in another way stay texts, which Python converts.
 */
#include <stdbool.h>
#include <stdint.h>

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* Changes whenever the functions below do; text_fields.py has the same number. */
#define FIELDS_VERSION 1

enum { TEXT, NUMBER, CLOCK, MOMENT, MOMENT_UTC };
enum { MOST_DIGITS = 15, CLOCK_WIDTH = 8, DATE_WIDTH = 10, MOMENT_WIDTH = 19, ZONED_WIDTH = 23 };

typedef uint8_t byte_t;

typedef struct {
    int64_t *first;  /* number of each line's first field, and at the end the number of fields */
    int32_t *begin;  /* offset of each field in the text */
    int32_t *length; /* length of each field in bytes */
    double *number;  /* value of each field; for times, seconds since midnight or 1970 */
    byte_t *kind;    /* kind of each field */
} fields_t;

static const double POWERS[MOST_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                               1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
/* Days before each month in a year that begins with March, so that the leap day is the last day. */
static const int DAYS_BEFORE[] = {306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275};
static const int DAYS_OF[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

static inline bool is_digit(byte_t byte) { return (byte_t)(byte - '0') < 10; }
/* A blank or the end of a line. */
static inline bool is_gap(byte_t byte) { return byte == ' ' || (byte_t)(byte - '\t') < 5; }

/* The number written in `count` characters; -1 if one of them is not a digit. */
static int digits(const byte_t *text, int count)
{
    int value = 0;
    for (int at = 0; at < count; at++) {
        if (!is_digit(text[at])) return -1;
        value = value * 10 + (text[at] - '0');
    }
    return value;
}

static bool plain_number(const byte_t *text, int32_t length, double *value)
{
    const byte_t *end = text + length;
    const bool negative = length && *text == '-';
    int64_t whole = 0;
    int count = 0, decimals = -1;
    for (text += negative; text < end; text++) {
        if (is_digit(*text)) {
            if (++count > MOST_DIGITS) return false;
            whole = whole * 10 + (*text - '0');
            decimals += decimals >= 0;
        } else if (decimals < 0 && count && (*text == '.' || *text == ',')) {
            decimals = 0;
        } else {
            return false;
        }
    }
    if (!count || !decimals) return false;
    const double found = decimals > 0 ? (double)whole / POWERS[decimals] : (double)whole;
    *value = negative ? -found : found;
    return true;
}

static bool clock_time(const byte_t *text, int most_seconds, double *seconds)
{
    const int hour = digits(text, 2), minute = digits(text + 3, 2), second = digits(text + 6, 2);
    if (text[2] != ':' || text[5] != ':' || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0) return false;
    *seconds = hour * 3600 + minute * 60 + second;
    return second <= most_seconds;
}

static bool moment(const byte_t *text, double *seconds)
{
    const int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    if (year < 1 || month < 1 || month > 12 || day < 1) return false;
    if (text[4] != '-' || text[7] != '-' || text[DATE_WIDTH] != ' ') return false;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > DAYS_OF[month - 1] + (leap && month == 2)) return false;
    if (!clock_time(text + DATE_WIDTH + 1, 59, seconds)) return false;
    const int64_t march = year - (month < 3);
    const int64_t days = march * 365 + march / 4 - march / 100 + march / 400 + DAYS_BEFORE[month - 1] + day - 1;
    *seconds += (double)(days - 719468) * 86400.0;
    return true;
}

static byte_t kind_of(const byte_t *text, int32_t length, double *value)
{
    if (length && !is_digit(*text) && *text != '-') return TEXT;
    if (plain_number(text, length, value)) return NUMBER;
    if (length == CLOCK_WIDTH && clock_time(text, 60, value)) return CLOCK;
    if (length == MOMENT_WIDTH && moment(text, value)) return MOMENT;
    if (length == ZONED_WIDTH && text[19] == ' ' && text[20] == 'U' && text[21] == 'T' && text[22] == 'C')
        return moment(text, value) ? MOMENT_UTC : TEXT;
    return TEXT;
}

static inline void add(fields_t *fields, int64_t *count, const byte_t *text, int64_t begin, int64_t end)
{
    const int64_t at = (*count)++;
    fields->begin[at] = (int32_t)begin;
    fields->length[at] = (int32_t)(end - begin);
    fields->number[at] = 0.0;
    fields->kind[at] = kind_of(text + begin, (int32_t)(end - begin), &fields->number[at]);
    if (fields->kind[at] == TEXT) fields->number[at] = 0.0;
}

EXPORTED int64_t fields_version(void) { return FIELDS_VERSION; }

/* The number of fields of a text, or a few more. */
EXPORTED int64_t fields_most(const byte_t *text, int64_t size, byte_t separator)
{
    int64_t found = 1;
    if (separator == ' ') {
        for (int64_t at = 1; at < size; at++) found += (int)is_gap(text[at - 1]) & (int)!is_gap(text[at]);
    } else {
        for (int64_t at = 0; at < size; at++) found += (text[at] == separator) | (text[at] == '\n');
    }
    return found;
}

/* Add the fields between runs of blanks up to the end of a line; returns the offset of the line end. */
static int64_t split_blanks(const byte_t *text, int64_t at, int64_t size, fields_t *fields, int64_t *count)
{
    while (at < size && text[at] != '\n') {
        const int64_t begin = at;
        while (at < size && !is_gap(text[at])) at++;
        if (at > begin)
            add(fields, count, text, begin, at);
        else
            at++;
    }
    return at;
}

/* Add the fields between separators, without blanks at the end of the line; returns the offset of the line end. */
static int64_t split_separated(const byte_t *text, int64_t at, int64_t size, byte_t separator, fields_t *fields,
                               int64_t *count)
{
    int64_t begin = at, end = at;
    while (at < size && text[at] != '\n') {
        if (!is_gap(text[at++])) end = at;
    }
    if (end == begin) return at;
    for (int64_t place = begin; place < end; place++) {
        if (text[place] != separator) continue;
        add(fields, count, text, begin, place);
        begin = place + 1;
    }
    add(fields, count, text, begin, end);
    return at;
}

/* Fill the columns and return the number of fields. A run of blanks is one separator; others separate one by one. */
EXPORTED int64_t fields_split(const byte_t *text, int64_t size, byte_t separator, fields_t *fields)
{
    int64_t count = 0, line = 0;
    for (int64_t at = 0; at < size; at++) {
        fields->first[line++] = count;
        at = separator == ' ' ? split_blanks(text, at, size, fields, &count)
                              : split_separated(text, at, size, separator, fields, &count);
    }
    fields->first[line] = count;
    return count;
}
