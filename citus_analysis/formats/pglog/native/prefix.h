/* Does a record begin here, and what does its prefix say.
 *
 * A prefix is a row of elements, interpreted; `_program.py` makes them of a log_line_prefix. What matches is what the
 * regular expression of the same prefix matches: text elements are lazy, the part behind %q is optional and tried
 * first. Most lines match without a second thought (`match_straight`); the others are matched with backtracking, in
 * which a place that failed once is not tried again, so that a line costs at most elements x length. The prefix of the
 * study is most logs', so it has a function of its own (`match_study`), which costs half of the interpreter.
 */
#ifndef PGLOG_PREFIX_H
#define PGLOG_PREFIX_H

#include "bytes.h"

/* As in _program.py. */
enum element_kind { LITERAL, TEXT, STAMP, DIGITS, VXID, SESSION, STATE, EPOCH };
enum field {
    F_NONE, F_CLOCK, F_EPOCH, F_PID, F_HEX_PID, F_VXID, F_LINE,
    F_APP, F_USER, F_DATABASE, F_HOST, F_REMOTE, F_STATE, FIELD_COUNT
};
/* Severity words, in the order of `schema.SEVERITIES`. */
enum severity {
    S_DEBUG, S_INFO, S_NOTICE, S_WARNING, S_LOG, S_ERROR, S_FATAL, S_PANIC,
    S_DETAIL, S_HINT, S_QUERY, S_CONTEXT, S_STATEMENT, S_LOCATION, S_BACKTRACE
};

#define MAX_ELEMENTS 64
#define HEAD_LIMIT 1000

typedef struct {
    int32_t kind, field, padding, first, second, third;
} element_t;

typedef struct {
    const element_t *elements;
    const byte_t *literals;
    const byte_t *severities; /* rows of `severity_width`: length of a word, then its bytes */
    int32_t count, optional_from, severity_count, severity_width;
    int32_t study; /* the prefix of the study, whose function reads it */
} prefix_t;

typedef struct {
    int32_t begin, end; /* offsets within the line; begin is -1 where the field is absent */
    int64_t number;     /* that digits make */
} span_t;

typedef struct {
    span_t fields[FIELD_COUNT];
    int64_t local_xid; /* the number behind the slash of a VXID, whose own number is the one before it */
    int32_t text;      /* offset within the line behind severity, colon and spaces */
    int32_t severity;  /* -1: no record begins here */
} head_t;

#define SECOND_WIDTH 19 /* `2026-11-20 21:03:47` */

/* What one line leaves for the next: room, and the last second that a stamp showed, for many lines show the same. */
typedef struct {
    byte_t second[SECOND_WIDTH]; /* always in the form of one */
    byte_t first_severity[26];   /* number of the first severity word with that letter */
    bool failed[MAX_ELEMENTS][HEAD_LIMIT + 2];
    int32_t spent[MAX_ELEMENTS];
} memo_t;

/* Where a zone (`CET`, `+02`, `-0330`, `+05:30`) ends. */
static place_t zone_end(const byte_t *line, place_t begin, place_t limit)
{
    place_t place = begin;
    while (place < limit && place - begin < 10 && is_letter(line[place])) place++;
    if (place > begin) return place;
    if (begin >= limit || (line[begin] != '+' && line[begin] != '-')) return ABSENT;
    place = digits_end(line, begin + 1, limit, 2);
    if (place != begin + 3) return ABSENT;
    place_t colon = place < limit && line[place] == ':';
    place_t longer = digits_end(line, place + colon, limit, 2);
    return longer == place + colon + 2 ? longer : place;
}

static const char second_form[] = "0000-00-00 00:00:00";

static void init_memo(memo_t *memo, const prefix_t *prefix)
{
    memcpy(memo->second, second_form, SECOND_WIDTH);
    memset(memo->first_severity, prefix->severity_count, sizeof memo->first_severity);
    for (int32_t number = prefix->severity_count - 1; number >= 0; number--)
        memo->first_severity[prefix->severities[number * prefix->severity_width + 1] - 'A'] = (byte_t)number;
}

static bool is_second(const byte_t *line)
{
    for (place_t index = 0; index < SECOND_WIDTH; index++)
        if (second_form[index] == '0' ? !is_digit(line[index]) : line[index] != (byte_t)second_form[index]) return false;
    return true;
}

/* Where `2026-11-20 21:03:47.877 UTC` ends. */
static place_t stamp_end(const byte_t *line, place_t begin, place_t limit, bool with_ms, memo_t *memo)
{
    place_t width = with_ms ? SECOND_WIDTH + 4 : SECOND_WIDTH;
    if (begin + width + 2 > limit) return ABSENT;
    const byte_t *stamp = line + begin;
    if (!same_bytes(stamp, memo->second, SECOND_WIDTH)) {
        if (!is_second(stamp)) return ABSENT;
        memcpy(memo->second, stamp, SECOND_WIDTH);
    }
    if (with_ms && (stamp[19] != '.' || !is_digit(stamp[20]) || !is_digit(stamp[21]) || !is_digit(stamp[22]))) return ABSENT;
    if (stamp[width] != ' ') return ABSENT;
    return zone_end(line, begin + width + 1, limit);
}

/* Where `3/4` ends, and its numbers; `begin` where none stands, for it may be empty. */
static inline place_t read_vxid(const byte_t *line, place_t begin, place_t limit, int64_t *backend, int64_t *local_xid)
{
    bool negative = begin < limit && line[begin] == '-';
    place_t place = begin + negative, slash = read_digits(line, place, limit, 9, backend);
    if (negative) *backend = -*backend;
    if (slash == place || slash >= limit || line[slash] != '/') return begin;
    place_t end = read_digits(line, slash + 1, limit, 18, local_xid);
    return end > slash + 1 ? end : begin;
}

static place_t hex_end(const byte_t *line, place_t begin, place_t limit, place_t most)
{
    place_t place = begin;
    while (place < limit && place - begin < most && (is_digit(line[place]) || (byte_t)(line[place] - 'a') < 6)) place++;
    return place;
}

/* Where an element other than text ends that begins at `begin`. */
static inline place_t element_end(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t limit,
                                  memo_t *memo, head_t *head, int64_t *number)
{
    const element_t *element = &prefix->elements[index];
    place_t place = begin, end, point;
    switch (element->kind) {
    case LITERAL: {
        place_t length = element->second - element->first;
        if (begin + length > limit) return ABSENT;
        const byte_t *literal = prefix->literals + element->first;
        for (place_t offset = 0; offset < length; offset++)
            if (line[begin + offset] != literal[offset]) return ABSENT;
        return begin + length;
    }
    case STAMP:
        return stamp_end(line, begin, limit, element->first != 0, memo);
    case DIGITS:
        if (element->third && begin < limit && line[begin] == '-') place++;
        end = read_digits(line, place, limit, element->second, number);
        return end - place >= element->first ? end : ABSENT;
    case VXID:
        return read_vxid(line, begin, limit, number, &head->local_xid);
    case EPOCH:
        point = digits_end(line, begin, limit, 12);
        if (point == begin || point >= limit || line[point] != '.') return ABSENT;
        end = digits_end(line, point + 1, limit, 3);
        return end == point + 4 ? end : ABSENT;
    case SESSION:
        point = hex_end(line, begin, limit, 16);
        if (point == begin || point >= limit || line[point] != '.') return ABSENT;
        end = hex_end(line, point + 1, limit, 7);
        return end > point + 1 ? end : ABSENT;
    case STATE:
        while (place < limit && place - begin < 5 && (is_digit(line[place]) || (byte_t)(line[place] - 'A') < 26)) place++;
        return place == begin + 5 ? place : ABSENT;
    default:
        return ABSENT;
    }
}

/* Which severity word stands at `begin`, or -1. */
static int32_t severity_at(const prefix_t *prefix, const byte_t *line, place_t begin, place_t limit, const memo_t *memo)
{
    byte_t letter = (byte_t)(line[begin] - 'A');
    if (letter >= 26) return -1;
    int32_t number = memo->first_severity[letter];
    const byte_t *word = prefix->severities + number * prefix->severity_width;
    for (; number < prefix->severity_count; number++, word += prefix->severity_width) {
        if (begin + word[0] > limit || line[begin] != word[1]) continue;
        place_t index = 1;
        while (index < word[0] && line[begin + index] == word[1 + index]) index++;
        if (index == word[0]) return number;
    }
    return -1;
}

static int32_t severity_length(const prefix_t *prefix, int32_t severity)
{
    return prefix->severities[severity * prefix->severity_width];
}

/* Whether a word stands at `place` of `line`, of which `limit` bytes count. */
#define STANDS(word) (BEGINS(line, place, limit, word) != ABSENT)

static inline bool is_severity(head_t *head, enum severity severity, place_t text)
{
    head->severity = severity;
    head->text = (int32_t)text;
    return true;
}

/* Where the text begins behind a severity at `place`: sets severity and text of the head. */
static bool match_severity(const prefix_t *prefix, const byte_t *line, place_t place, place_t limit, const memo_t *memo,
                           head_t *head)
{
    /* What nearly all records of a benchmark are. */
    if (STANDS("LOG:  ")) return is_severity(head, S_LOG, place + 6);
    if (STANDS("DETAIL:  ")) return is_severity(head, S_DETAIL, place + 9);
    if (STANDS("DEBUG:  ")) return is_severity(head, S_DEBUG, place + 8);
    int32_t severity = place < limit ? severity_at(prefix, line, place, limit, memo) : -1;
    if (severity < 0) return false;
    place += severity_length(prefix, severity);
    if (place < limit && (byte_t)(line[place] - '1') < 5) place++;
    if (place + 1 >= limit || line[place] != ':' || line[place + 1] != ' ') return false;
    place += 2;
    return is_severity(head, (enum severity)severity, place < limit && line[place] == ' ' ? place + 1 : place);
}

static inline void set_field(head_t *head, const element_t *element, place_t begin, place_t end, int64_t number)
{
    head->fields[element->field] = (span_t){(int32_t)begin, (int32_t)end, number};
}

/* Once for many lines: what a prefix has is set anew by each line that matches. */
static inline void init_head(head_t *head)
{
    for (int field = 0; field < FIELD_COUNT; field++) head->fields[field].begin = -1;
    head->severity = -1;
}

enum answer { NO, UNSURE, YES };
enum study { OTHER, STUDY, STUDY_OLDER };

/* Every text up to the first place where the literal behind it stands. If the rest fits, that is the match that the
 * regular expression finds first. */
static enum answer match_straight(const prefix_t *prefix, const byte_t *line, place_t limit, memo_t *memo, head_t *head)
{
    place_t place = 0;
    enum answer otherwise = NO; /* until there was a choice */
    int64_t number = 0;
    for (int32_t index = 0; index < prefix->count; index++) {
        const element_t *element = &prefix->elements[index];
        if (element->padding) return UNSURE;
        if (element->kind == TEXT || index == prefix->optional_from) otherwise = UNSURE;
        place_t end;
        if (element->kind == TEXT) {
            if (index + 1 == prefix->count || index + 1 == prefix->optional_from) return UNSURE;
            const element_t *next = &prefix->elements[index + 1];
            if (next->kind != LITERAL) return UNSURE;
            place_t length = next->second - next->first;
            const byte_t *literal = prefix->literals + next->first;
            end = find(line, place, limit, literal[0]);
            while (end + length <= limit && !same_bytes(line + end, literal, (size_t)length))
                end = find(line, end + 1, limit, literal[0]);
            if (end + length > limit) return UNSURE;
        } else {
            end = element_end(prefix, index, line, place, limit, memo, head, &number);
            if (end == ABSENT) return otherwise;
        }
        set_field(head, element, place, end, number);
        place = end;
    }
    return match_severity(prefix, line, place, limit, memo, head) ? YES : otherwise;
}

/* The same for `%m [%p] [%v] : [%l-1] %q[app=%a] `, and as older extracts have it, `%m [%p][%v] : ...`. */
static enum answer match_study(const prefix_t *prefix, const byte_t *line, place_t limit, memo_t *memo, head_t *head)
{
    span_t *fields = head->fields;
    place_t place = stamp_end(line, 0, limit, true, memo), begin;
    if (place == ABSENT || !STANDS(" [")) return NO;
    fields[F_CLOCK] = (span_t){0, (int32_t)place, 0};
    begin = place += 2;
    place = read_digits(line, place, limit, 9, &fields[F_PID].number);
    if (place == begin || !STANDS("]")) return NO;
    fields[F_PID].begin = (int32_t)begin;
    fields[F_PID].end = (int32_t)place++;
    if (prefix->study == STUDY && !STANDS(" ")) return NO;
    place += prefix->study == STUDY;
    if (!STANDS("[")) return NO;
    begin = ++place;
    place = read_vxid(line, place, limit, &fields[F_VXID].number, &head->local_xid);
    fields[F_VXID].begin = (int32_t)begin;
    fields[F_VXID].end = (int32_t)place;
    if (!STANDS("] : [")) return NO;
    begin = place += 5;
    place = read_digits(line, place, limit, 18, &fields[F_LINE].number);
    if (place == begin || !STANDS("-1] ")) return NO;
    fields[F_LINE].begin = (int32_t)begin;
    fields[F_LINE].end = (int32_t)place;
    place += 4;
    fields[F_APP].begin = -1;
    if (!STANDS("[app=")) return match_severity(prefix, line, place, limit, memo, head) ? YES : NO;
    begin = place += 5;
    place = find(line, place, limit, ']');
    while (place < limit && !STANDS("] ")) place = find(line, place + 1, limit, ']');
    fields[F_APP] = (span_t){(int32_t)begin, (int32_t)place, 0};
    return place < limit && match_severity(prefix, line, place + 2, limit, memo, head) ? YES : UNSURE;
}

/* Behind the spaces that pad an element, but for those that the next literal begins with. */
static place_t skip_padding(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t limit)
{
    place_t place = begin;
    while (place < limit && line[place] == ' ') place++;
    if (index + 1 < prefix->count && prefix->elements[index + 1].kind == LITERAL) {
        const element_t *next = &prefix->elements[index + 1];
        for (int32_t wanted = next->first; wanted < next->second && prefix->literals[wanted] == ' ' && place > begin; wanted++)
            place--;
    }
    return place;
}

typedef struct {
    int32_t element; /* -1: whether the optional part is there */
    place_t begin, end;
} choice_t;

static bool match_backtracking(const prefix_t *prefix, const byte_t *line, place_t limit, memo_t *memo, head_t *head)
{
    choice_t choices[MAX_ELEMENTS + 2];
    int32_t depth = 0, index = 0, count = prefix->count;
    place_t place = 0;
    bool absent = false;
    int64_t number = 0;
    for (int32_t element = 0; element < count; element++) {
        if (prefix->elements[element].kind == TEXT) memset(memo->failed[element], 0, (size_t)limit + 2);
        memo->spent[element] = INT32_MAX;
    }
    for (;;) {
        if (place >= 0 && !absent && index == prefix->optional_from && index < count)
            choices[depth++] = (choice_t){-1, place, place};
        if (place >= 0 && (absent || index == count)) {
            if (match_severity(prefix, line, place, limit, memo, head)) {
                if (absent)
                    for (int32_t element = prefix->optional_from; element < count; element++)
                        head->fields[prefix->elements[element].field].begin = -1;
                return true;
            }
            place = ABSENT;
        }
        if (place >= 0) {
            const element_t *element = &prefix->elements[index];
            if (element->padding > 0)
                while (place < limit && line[place] == ' ') place++;
            place_t end;
            if (element->kind == TEXT && place >= memo->spent[index]) {
                end = ABSENT;
            } else if (element->kind == TEXT) {
                choices[depth++] = (choice_t){index, place, place};
                set_field(head, element, place, place, 0);
                end = place;
            } else {
                end = element_end(prefix, index, line, place, limit, memo, head, &number);
                set_field(head, element, place, end, number);
            }
            if (end >= 0 && element->padding < 0) end = skip_padding(prefix, index, line, end, limit);
            place = end;
            index++;
            continue;
        }
        /* Back to the last choice: a text one byte longer, or the optional part left out. */
        for (;;) {
            if (depth == 0) return false;
            choice_t *choice = &choices[depth - 1];
            if (choice->element == -1) {
                depth--;
                absent = true;
                place = choice->begin;
                break;
            }
            absent = false;
            int32_t chosen = choice->element, following = chosen + 1;
            const element_t *element = &prefix->elements[chosen];
            place_t end = choice->end;
            memo->failed[chosen][end++] = true;
            bool literal = following < count && following != prefix->optional_from &&
                           prefix->elements[following].kind == LITERAL && element->padding >= 0;
            if (literal) {
                byte_t first = prefix->literals[prefix->elements[following].first];
                while (end <= limit && (end == limit || line[end] != first)) end++;
            }
            while (end <= limit && memo->failed[chosen][end]) end++;
            if (end > limit) {
                /* No end behind this beginning will do, so no later beginning will either. */
                memo->spent[chosen] = (int32_t)choice->begin;
                depth--;
                continue;
            }
            choice->end = end;
            set_field(head, element, choice->begin, end, 0);
            place = element->padding < 0 ? skip_padding(prefix, chosen, line, end, limit) : end;
            index = following;
            break;
        }
    }
}

/* Match the beginning of a line of `length` bytes, its line end not counted. */
static inline bool match_head(const prefix_t *prefix, const byte_t *line, place_t length, memo_t *memo, head_t *head)
{
    place_t limit = length < HEAD_LIMIT ? length : HEAD_LIMIT;
    enum answer answer = (prefix->study ? match_study : match_straight)(prefix, line, limit, memo, head);
    return answer == UNSURE ? match_backtracking(prefix, line, limit, memo, head) : answer == YES;
}

#endif
