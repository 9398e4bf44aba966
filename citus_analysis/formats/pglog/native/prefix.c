/* See prefix.h. */
#include "prefix.h"

/* The end of a zone (`CET`, `+02`, `-0330`, `+05:30`). */
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

INTERNAL void init_memo(memo_t *memo, const prefix_t *prefix)
{
    memcpy(memo->second, second_form, SECOND_WIDTH);
    memset(memo->first_severity, prefix->severity_count, sizeof memo->first_severity);
    for (int32_t number = prefix->severity_count - 1; number >= 0; number--)
        memo->first_severity[prefix->severities[number * prefix->severity_width + 1] - 'A'] = (byte_t)number;
    int32_t texts = 0;
    memo->ambiguous = false;
    for (int32_t index = 0; index < prefix->count; index++) {
        if (prefix->elements[index].kind != E_TEXT) continue;
        bool literal = index + 1 < prefix->count && index + 1 != prefix->optional_from && prefix->elements[index + 1].kind == E_LITERAL;
        memo->ambiguous |= texts++ > 0 || !literal;
    }
}

static bool is_second(const byte_t *line)
{
    for (place_t index = 0; index < SECOND_WIDTH; index++)
        if (second_form[index] == '0' ? !is_digit(line[index]) : line[index] != (byte_t)second_form[index]) return false;
    return true;
}

/* The end of `2026-11-20 21:03:47.877 UTC`. */
INTERNAL place_t stamp_end(const byte_t *line, place_t begin, place_t limit, bool with_ms, memo_t *memo)
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

/* The end of `3/4`, and its numbers; `begin` without numbers, for it may be empty. */
INTERNAL place_t read_vxid(const byte_t *line, place_t begin, place_t limit, int64_t *backend, int64_t *local_xid)
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

/* The place after one or more bytes other than `last` and `other`, and a `last`; ABSENT if the text differs. */
static place_t word_then(const byte_t *line, place_t begin, place_t limit, byte_t last, byte_t other)
{
    place_t place = begin;
    while (place < limit && line[place] != last && line[place] != other) place++;
    return place > begin && place < limit && line[place] == last ? place + 1 : ABSENT;
}

/* The place after digits, whose value is written to `number`; ABSENT if there are none. */
static place_t number_end_at(const byte_t *line, place_t begin, place_t limit, place_t most, int64_t *number)
{
    place_t end = begin == ABSENT ? ABSENT : read_digits(line, begin, limit, most, number);
    return end == begin ? ABSENT : end;
}

/* The place after a text at `begin` of the given form; ABSENT if the text differs. */
INLINE place_t form_end(const byte_t *line, place_t begin, place_t limit, const char *form, place_t width)
{
    if (begin + width > limit) return ABSENT;
    for (place_t index = 0; index < width; index++) {
        byte_t byte = line[begin + index], wanted = (byte_t)form[index];
        bool fits = wanted == 'A' ? (byte_t)(byte - 'A') < 26 : wanted == 'a' ? (byte_t)(byte - 'a') < 26
                  : wanted == '0' ? is_digit(byte) : wanted == '_' ? is_digit(byte) || byte == ' ' : byte == wanted;
        if (!fits) return ABSENT;
    }
    return begin + width;
}
#define FORM_END(line, begin, limit, form) form_end(line, begin, limit, form, sizeof(form) - 1)

/* The end of `Nov 20 21:03:47 ` or, in RFC 3339's form, `2026-11-20T21:03:47.877123+01:00 `. */
static place_t syslog_stamp_end(const byte_t *line, place_t begin, place_t limit)
{
    place_t place = FORM_END(line, begin, limit, "Aaa _0 00:00:00 ");
    if (place != ABSENT) return place;
    if ((place = FORM_END(line, begin, limit, "0000-00-00T00:00:00")) == ABSENT || place >= limit) return ABSENT;
    if (line[place] == '.') {
        place_t end = digits_end(line, place + 1, limit, 6);
        if (end == place + 1 || end >= limit) return ABSENT;
        place = end;
    }
    if (line[place] == 'Z') return BEGINS(line, place, limit, "Z ");
    return line[place] == '-' ? FORM_END(line, place, limit, "-00:00 ") : FORM_END(line, place, limit, "+00:00 ");
}

/* The end of `<134>` or (RFC 5424) `<134>1 `, or 0. */
static place_t priority_end(const byte_t *line, place_t limit)
{
    if (limit == 0 || line[0] != '<') return 0;
    place_t place = digits_end(line, 1, limit, 3), end;
    if (place == 1 || place >= limit || line[place] != '>') return 0;
    return (end = BEGINS(line, place + 1, limit, "1 ")) != ABSENT ? end : place + 1;
}

/* The end of ` [3-1] `; sets the span of the number of the record. Without sequence numbers, it is ` [1] `. */
static place_t numbers_end(const byte_t *line, place_t place, place_t limit, place_t most, span_t *record)
{
    place_t begin = BEGINS(line, place, limit, " ["), end;
    if (begin == ABSENT || (place = number_end_at(line, begin, limit, most, &record->number)) == ABSENT) return ABSENT;
    record->begin = ABSENT;
    end = place;
    if (place < limit && line[place] == '-') {
        record->begin = (int32_t)begin;
        record->end = (int32_t)place;
        end = digits_end(line, place + 1, limit, limit);
        if (end == place + 1) return ABSENT;
    }
    return BEGINS(line, end, limit, "] ");
}

/* The end of what follows the process: `]:` or (RFC 5424) an identifier and structured data, and the numbers. */
static place_t after_process(const byte_t *line, place_t place, place_t limit, place_t most, span_t *record)
{
    place_t end = BEGINS(line, place, limit, "]:");
    if (end != ABSENT) return numbers_end(line, end, limit, most, record);
    if (place >= limit || line[place] != ' ') return ABSENT;
    if ((place = word_then(line, place + 1, limit, ' ', ' ')) == ABSENT || place >= limit) return ABSENT;
    if (line[place] == '-') return numbers_end(line, place + 1, limit, most, record);
    if (line[place] != '[') return ABSENT;
    for (place_t stop = find(line, place + 1, limit, ']'); stop < limit; stop = find(line, stop + 1, limit, ']'))
        if ((end = numbers_end(line, stop + 1, limit, most, record)) != ABSENT) return end;
    return ABSENT;
}

/* The end of `Nov 20 21:03:47 host postgres[7]: [3-1] `, which has the process and the record's number; without sequence
 * numbers only the number of the piece, `[1] `. */
INTERNAL place_t syslog_end(const byte_t *line, place_t limit, head_t *head)
{
    place_t place = syslog_stamp_end(line, priority_end(line, limit), limit);
    if (place == ABSENT) return ABSENT;
    if ((place = word_then(line, place, limit, ' ', ' ')) == ABSENT) return ABSENT;
    place_t begin = place;
    while (place < limit && line[place] != '[' && line[place] != ' ') place++;
    if (place == begin || place >= limit) return ABSENT;
    begin = place + 1;
    span_t process = {(int32_t)begin, 0, 0}, record = {0, 0, 0};
    if ((place = number_end_at(line, begin, limit, head ? 9 : limit, &process.number)) == ABSENT) return ABSENT;
    process.end = (int32_t)place;
    if ((place = after_process(line, place, limit, head ? 18 : limit, &record)) == ABSENT) return ABSENT;
    if (head) {
        head->fields[F_PID] = process;
        head->fields[F_LINE] = record;
    }
    return place;
}

/* Whether an element is a literal that is at a place. */
static bool follows(const prefix_t *prefix, int32_t index, const byte_t *line, place_t place, place_t limit)
{
    if (index == prefix->count || index == prefix->optional_from || prefix->elements[index].kind != E_LITERAL) return false;
    const element_t *next = &prefix->elements[index];
    place_t length = next->second - next->first;
    return place + length <= limit && same_bytes(line + place, prefix->literals + next->first, (size_t)length);
}

/* The end of a stamp whose zone is followed by letters without a separator: those of a severity, or of a literal. */
static place_t shorter_zone(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t end, place_t limit,
                            const memo_t *memo)
{
    if (index + 1 == prefix->count || index + 1 == prefix->optional_from) {
        if (end < limit && line[end] != ':' && !is_digit(line[end]) && !is_letter(line[end])) return end;
        for (place_t place = end; place > begin; place--)
            if (severity_at(prefix, line, place, limit, memo) >= 0) return place;
        return end;
    }
    const element_t *next = &prefix->elements[index + 1];
    if (next->kind != E_LITERAL || !is_letter(prefix->literals[next->first])) return end;
    place_t length = next->second - next->first;
    for (place_t place = end; place > begin; place--)
        if (place + length <= limit && same_bytes(line + place, prefix->literals + next->first, (size_t)length)) return place;
    return end;
}

static inline bool is_of_address(byte_t byte)
{
    return is_digit(byte) || (byte_t)((byte | 32) - 'a') < 6 || byte == ':' || byte == '.';
}

/* The end of an address, perhaps with a port, of `[local]`, or of nothing. */
static place_t address_end(const byte_t *line, place_t begin, place_t limit)
{
    place_t place = BEGINS(line, begin, limit, "[local]");
    if (place != ABSENT) return place;
    bool separated = false;
    for (place = begin; place < limit && is_of_address(line[place]); place++) separated |= line[place] == ':' || line[place] == '.';
    if (!separated) return begin;
    if (place < limit && line[place] == '(') {
        place_t end = digits_end(line, place + 1, limit, limit);
        if (end > place + 1 && end < limit && line[end] == ')') return end + 1;
    }
    return place;
}

/* The end of an element at `begin` other than a text. */
INLINE place_t element_end(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t limit,
                                  memo_t *memo, head_t *head, int64_t *number)
{
    const element_t *element = &prefix->elements[index];
    place_t place = begin, end, point;
    switch (element->kind) {
    case E_LITERAL: {
        place_t length = element->second - element->first;
        if (begin + length > limit) return ABSENT;
        return same_bytes(line + begin, prefix->literals + element->first, (size_t)length) ? begin + length : ABSENT;
    }
    case E_STAMP: {
        place_t zone = begin + SECOND_WIDTH + (element->first ? 5 : 1);
        end = stamp_end(line, begin, limit, element->first != 0, memo);
        if (end == ABSENT) return end;
        if (is_letter(line[zone])) return shorter_zone(prefix, index, line, zone + 1, end, limit, memo);
        /* What looks like the minutes of an offset may be the next field. */
        return !follows(prefix, index + 1, line, end, limit) && follows(prefix, index + 1, line, zone + 3, limit) ? zone + 3 : end;
    }
    case E_DIGITS:
        if (element->third && begin < limit && line[begin] == '-') place++;
        end = read_digits(line, place, limit, element->second, number);
        return end - place >= element->first ? end : ABSENT;
    case E_VXID:
        return read_vxid(line, begin, limit, number, &head->local_xid);
    case E_EPOCH:
        point = digits_end(line, begin, limit, 12);
        if (point == begin || point >= limit || line[point] != '.') return ABSENT;
        end = digits_end(line, point + 1, limit, 3);
        return end == point + 4 ? end : ABSENT;
    case E_SESSION:
        point = hex_end(line, begin, limit, 16);
        if (point == begin || point >= limit || line[point] != '.') return ABSENT;
        end = hex_end(line, point + 1, limit, 7);
        return end > point + 1 ? end : ABSENT;
    case E_STATE:
        while (place < limit && place - begin < 5 && (is_digit(line[place]) || (byte_t)(line[place] - 'A') < 26)) place++;
        return place == begin + 5 ? place : ABSENT;
    case E_HOST:
        return address_end(line, begin, limit);
    case E_SYSLOG:
        return begin == 0 ? syslog_end(line, limit, head) : ABSENT;
    default:
        return ABSENT;
    }
}

INTERNAL int32_t severity_at(const prefix_t *prefix, const byte_t *line, place_t begin, place_t limit, const memo_t *memo)
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

INTERNAL int32_t severity_length(const prefix_t *prefix, int32_t severity)
{
    return prefix->severities[severity * prefix->severity_width];
}

/* Whether a word is at `place` within the first `limit` bytes of `line`. */
#define STANDS(word) (BEGINS(line, place, limit, word) != ABSENT)

static inline bool is_severity(head_t *head, enum severity severity, place_t text)
{
    head->severity = severity;
    head->text = (int32_t)text;
    return true;
}

/* Whether a severity is at `place`; sets severity and text of the head. */
static bool match_severity(const prefix_t *prefix, const byte_t *line, place_t place, place_t limit, const memo_t *memo,
                           head_t *head)
{
    /* Nearly all records of a benchmark have one of these. */
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

enum answer { NO, UNSURE, YES };

/* The end of a text element: the first place of the literal that follows; ABSENT if no literal follows. */
static place_t text_end(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t limit)
{
    if (index + 1 == prefix->count || index + 1 == prefix->optional_from) return ABSENT;
    const element_t *next = &prefix->elements[index + 1];
    if (next->kind != E_LITERAL) return ABSENT;
    place_t length = next->second - next->first;
    const byte_t *literal = prefix->literals + next->first;
    place_t end = find(line, begin, limit, literal[0]);
    while (end + length <= limit && !same_bytes(line + end, literal, (size_t)length))
        end = find(line, end + 1, limit, literal[0]);
    return end + length > limit ? ABSENT : end;
}

/* The end of the next of the words of a text that is at `begin`, and its place among them; ABSENT if there is none. */
static place_t word_end(const prefix_t *prefix, int32_t index, int32_t *word, const byte_t *line, place_t begin, place_t limit)
{
    const element_t *element = &prefix->elements[index];
    while (*word < element->second) {
        const byte_t *said = prefix->literals + *word;
        *word += 1 + said[0];
        if (begin + said[0] <= limit && same_bytes(line + begin, said + 1, said[0])) return begin + said[0];
    }
    return ABSENT;
}

/* The end of a text: of a word that it may be, or else the first place of the literal that follows. */
static place_t word_or_text_end(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t limit)
{
    int32_t word = prefix->elements[index].first;
    for (place_t end; (end = word_end(prefix, index, &word, line, begin, limit)) != ABSENT;)
        if (follows(prefix, index + 1, line, end, limit)) return end;
    return text_end(prefix, index, line, begin, limit);
}

static void clear_optional(const prefix_t *prefix, head_t *head)
{
    for (int32_t index = prefix->optional_from; index < prefix->count; index++)
        head->fields[prefix->elements[index].field].begin = -1;
}

/* Match each text up to the first place of the literal that follows. If the rest matches, this is the first match of the
 * regular expression; if not, and the prefix has texts, another end of a text may match. */
static enum answer match_straight(const prefix_t *prefix, const byte_t *line, place_t limit, memo_t *memo, head_t *head,
                                  place_t *severity)
{
    place_t place = 0, optional = ABSENT;
    bool chosen = false;
    int64_t number = 0;
    for (int32_t index = 0; index < prefix->count; index++) {
        const element_t *element = &prefix->elements[index];
        if (element->padding) return UNSURE;
        if (index == prefix->optional_from) optional = place;
        place_t end;
        if (element->kind == E_TEXT) {
            chosen = true;
            end = word_or_text_end(prefix, index, line, place, limit);
        } else {
            end = element_end(prefix, index, line, place, limit, memo, head, &number);
        }
        if (end == ABSENT) {
            place = ABSENT;
            break;
        }
        set_field(head, element, place, end, number);
        memo->begins[index] = place;
        memo->ends[index] = end;
        place = end;
    }
    *severity = place;
    memo->matched = prefix->count;
    if (place != ABSENT && match_severity(prefix, line, place, limit, memo, head)) return YES;
    if (chosen) return UNSURE;
    if (optional == ABSENT) return NO;
    clear_optional(prefix, head);
    *severity = optional;
    memo->matched = prefix->optional_from;
    return match_severity(prefix, line, optional, limit, memo, head) ? YES : NO;
}

/* The place after the spaces that pad an element, without the spaces that begin the next literal. */
static place_t skip_padding(const prefix_t *prefix, int32_t index, const byte_t *line, place_t begin, place_t limit)
{
    place_t place = begin;
    while (place < limit && line[place] == ' ') place++;
    if (index + 1 < prefix->count && prefix->elements[index + 1].kind == E_LITERAL) {
        const element_t *next = &prefix->elements[index + 1];
        for (int32_t wanted = next->first; wanted < next->second && prefix->literals[wanted] == ' ' && place > begin; wanted++)
            place--;
    }
    return place;
}

typedef struct {
    int32_t element; /* -1: the choice whether the optional part is present */
    int32_t word;    /* the next word that a text may be; after the last one, any text */
    place_t begin, end;
} choice_t;

/* A text that is padded with spaces neither begins nor ends with one, and has no two of them side by side. */
static bool ends_in_space(const element_t *element, const byte_t *line, place_t begin, place_t end)
{
    return element->padding && end > begin && line[end - 1] == ' ';
}

static bool holds_spaces(const element_t *element, const byte_t *line, place_t begin, place_t end)
{
    if (!element->padding || end == begin) return false;
    if (line[begin] == ' ') return true;
    for (place_t place = begin + 1; place < end; place++)
        if (line[place] == ' ' && line[place - 1] == ' ') return true;
    return false;
}

static bool match_backtracking(const prefix_t *prefix, const byte_t *line, place_t limit, memo_t *memo, head_t *head,
                               place_t *severity)
{
    choice_t choices[MAX_ELEMENTS + 2];
    int32_t depth = 0, index = 0, count = prefix->count;
    place_t place = 0;
    bool absent = false;
    int64_t number = 0;
    for (int32_t element = 0; element < count; element++) {
        if (prefix->elements[element].kind == E_TEXT) memset(memo->failed[element], 0, (size_t)limit + 2);
        memo->spent[element] = INT32_MAX;
    }
    for (;;) {
        if (place >= 0 && !absent && index == prefix->optional_from && index < count)
            choices[depth++] = (choice_t){-1, 0, place, place};
        if (place >= 0 && (absent || index == count)) {
            if (match_severity(prefix, line, place, limit, memo, head)) {
                if (absent) clear_optional(prefix, head);
                memo->matched = absent ? prefix->optional_from : count;
                *severity = place;
                return true;
            }
            place = ABSENT;
        }
        if (place >= 0) {
            const element_t *element = &prefix->elements[index];
            if (element->padding > 0)
                while (place < limit && line[place] == ' ') place++;
            place_t end;
            if (element->kind == E_TEXT && place >= memo->spent[index]) {
                end = ABSENT;
            } else if (element->kind == E_TEXT) {
                int32_t word = element->first;
                end = word_end(prefix, index, &word, line, place, limit);
                if (end == ABSENT) {
                    word = INT32_MAX;
                    end = place;
                }
                choices[depth++] = (choice_t){index, word, place, end};
                set_field(head, element, place, end, 0);
            } else {
                end = element_end(prefix, index, line, place, limit, memo, head, &number);
                set_field(head, element, place, end, number);
            }
            if (end >= 0 && element->padding < 0) end = skip_padding(prefix, index, line, end, limit);
            place = end;
            index++;
            continue;
        }
        /* Back to the last choice: make the text one byte longer, or omit the optional part. */
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
            memo->failed[chosen][end] = true;
            if (choice->word == INT32_MAX) {
                end++;
            } else if ((end = word_end(prefix, chosen, &choice->word, line, choice->begin, limit)) == ABSENT) {
                choice->word = INT32_MAX;
                end = choice->begin;
            } else if (memo->failed[chosen][end]) {
                continue;
            }
            bool literal = following < count && following != prefix->optional_from &&
                           prefix->elements[following].kind == E_LITERAL && element->padding >= 0;
            if (literal && choice->word == INT32_MAX) {
                byte_t first = prefix->literals[prefix->elements[following].first];
                while (end <= limit && (end == limit || line[end] != first)) end++;
            }
            while (end <= limit && (memo->failed[chosen][end] || ends_in_space(element, line, choice->begin, end))) end++;
            if (end > limit || holds_spaces(element, line, choice->begin, end)) {
                /* No end matches with this beginning, so none matches with a later one. */
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

/* Whether the elements from `index` on match up to `end` exactly, each text as long as possible. The optional part is
 * absent where it is absent with texts that are as short as possible: processes without it have no texts before it. */
static bool match_latest(const prefix_t *prefix, int32_t index, const byte_t *line, place_t place, place_t end, memo_t *memo)
{
    head_t *head = &memo->latest;
    if (index == memo->matched) return place == end;
    if (memo->failed[index][place]) return false;
    const element_t *element = &prefix->elements[index];
    place_t begin = place;
    int64_t number = 0;
    if (element->padding > 0)
        while (begin < end && line[begin] == ' ') begin++;
    if (element->kind != E_TEXT) {
        place_t stop = element_end(prefix, index, line, begin, end, memo, head, &number);
        set_field(head, element, begin, stop, number);
        if (stop != ABSENT && element->padding < 0) stop = skip_padding(prefix, index, line, stop, end);
        if (stop != ABSENT && match_latest(prefix, index + 1, line, stop, end, memo)) return true;
    } else {
        int32_t word = element->first;
        place_t stop;
        bool literal = index + 1 < prefix->count && index + 1 != prefix->optional_from && !element->padding &&
                       prefix->elements[index + 1].kind == E_LITERAL;
        while ((stop = word_end(prefix, index, &word, line, begin, end)) != ABSENT) {
            if (!match_latest(prefix, index + 1, line, stop, end, memo)) continue;
            set_field(head, element, begin, stop, 0);
            return true;
        }
        for (stop = end; stop >= begin; stop--) {
            if (literal && !follows(prefix, index + 1, line, stop, end)) continue;
            if (ends_in_space(element, line, begin, stop) || holds_spaces(element, line, begin, stop)) continue;
            place_t next = element->padding < 0 ? skip_padding(prefix, index, line, stop, end) : stop;
            if (!match_latest(prefix, index + 1, line, next, end, memo)) continue;
            set_field(head, element, begin, stop, 0);
            return true;
        }
    }
    memo->failed[index][place] = true;
    return false;
}

/* Whether the ends of all texts are the only ones: what follows a text is not in the next one. */
static bool is_plain(const prefix_t *prefix, const byte_t *line, place_t end, const memo_t *memo)
{
    for (int32_t index = memo->matched - 1; index >= 0; index--) {
        if (prefix->elements[index].kind != E_TEXT) continue;
        const element_t *next = &prefix->elements[index + 1];
        place_t length = next->second - next->first, last = end - length;
        for (place_t place = memo->ends[index] + 1; place <= last; place++)
            if (same_bytes(line + place, prefix->literals + next->first, (size_t)length)) return false;
        end = memo->ends[index];
    }
    return true;
}

static inline bool same_span(const byte_t *line, const span_t *one, const span_t *other)
{
    if (one->begin < 0 || other->begin < 0) return one->begin < 0 && other->begin < 0;
    int32_t length = one->end - one->begin;
    return length == other->end - other->begin && memcmp(line + one->begin, line + other->begin, (size_t)length) == 0;
}

static inline bool is_text_field(int32_t field)
{
    return field == F_APP || field == F_USER || field == F_DATABASE || field == F_HOST || field == F_REMOTE;
}

/* Drop the values that are others if texts end as late as possible, and the texts between such values. */
static void drop_ambiguous(const prefix_t *prefix, const byte_t *line, place_t end, memo_t *memo, head_t *head)
{
    for (int32_t index = 0; index < prefix->count; index++) memset(memo->failed[index], 0, (size_t)end + 2);
    for (int field = 0; field < F_COUNT; field++) memo->latest.fields[field].begin = -1;
    if (!match_latest(prefix, 0, line, 0, end, memo)) return;
    int32_t first = prefix->count, last = -1;
    for (int32_t index = 0; index < prefix->count; index++) {
        int32_t field = prefix->elements[index].field;
        if (field == F_NONE || same_span(line, &head->fields[field], &memo->latest.fields[field])) continue;
        if (is_text_field(field)) {
            first = index < first ? index : first;
            last = index;
        } else {
            head->fields[field].begin = -1;
        }
    }
    for (int32_t index = first; index <= last; index++)
        if (is_text_field(prefix->elements[index].field)) head->fields[prefix->elements[index].field].begin = -1;
}

INTERNAL bool match_head(const prefix_t *prefix, const byte_t *line, place_t length, memo_t *memo, head_t *head)
{
    place_t limit = length < HEAD_LIMIT ? length : HEAD_LIMIT, place = ABSENT;
    enum answer answer = match_straight(prefix, line, limit, memo, head, &place);
    bool straight = answer == YES;
    if (answer == NO || (answer == UNSURE && !match_backtracking(prefix, line, limit, memo, head, &place))) return false;
    if (memo->ambiguous && !(straight && is_plain(prefix, line, place, memo))) drop_ambiguous(prefix, line, place, memo, head);
    return true;
}
