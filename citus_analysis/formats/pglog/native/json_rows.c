/* Objects of jsonlog. */
#include "row.h"

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

/* The code of a key, compared with `guess` first: all objects have their keys in the same order. */
static enum key key_of(const byte_t *text, slice_t word, int guess)
{
    for (int step = 0; step < J_OTHER; step++) {
        int key = (guess + step) % J_OTHER;
        if ((size_t)(word.end - word.begin) == keys[key].length &&
            memcmp(text + word.begin, keys[key].word, keys[key].length) == 0)
            return (enum key)key;
    }
    return J_OTHER;
}

/* The first place of a quote, a backslash or a control character. */
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

/* Write the character of `\u` and four digits to `spare`; false for surrogates and zero. */
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
static bool unescaped(reader_t *reader, place_t *at, place_t place, place_t limit, slice_t *string)
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

static bool json_string(reader_t *reader, place_t *at, place_t limit, slice_t *string)
{
    const byte_t *text = reader->text;
    if (*at >= limit || text[*at] != '"') return false;
    place_t place = special(text, *at + 1, limit);
    if (place >= limit || text[place] < 32) return false;
    if (text[place] == '\\') return unescaped(reader, at, place, limit, string);
    *string = (slice_t){*at + 1, place};
    *at = place + 1;
    return true;
}

static inline place_t after_spaces(const byte_t *text, place_t place, place_t limit)
{
    while (place < limit && (text[place] == ' ' || text[place] == '\t')) place++;
    return place;
}

/* The kinds of values in logs. */
enum value { A_STRING, A_NUMBER, A_NULL, A_FLAG, NO_VALUE };

static enum value json_value(reader_t *reader, place_t *at, place_t limit, slice_t *value)
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
    *value = (slice_t){begin, end};
    *at = end;
    return found;
}

/* Read the values of the object at `begin`, by key; absent ones begin at ABSENT. */
static bool json_members(reader_t *reader, place_t begin, place_t limit, slice_t values[J_OTHER])
{
    const byte_t *text = reader->text;
    place_t at = begin;
    uint32_t seen = 0;
    int guess = 0;
    for (int key = 0; key < J_OTHER; key++) values[key] = nothing;
    if (at >= limit || text[at] != '{') return false;
    do {
        slice_t word, value;
        at = after_spaces(text, at + 1, limit);
        place_t spare = reader->spare;
        if (!json_string(reader, &at, limit, &word) || reader->spare != spare) return false;
        at = after_spaces(text, at, limit);
        if (at >= limit || text[at] != ':') return false;
        at = after_spaces(text, at + 1, limit);
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
        at = after_spaces(text, at, limit);
    } while (at < limit && text[at] == ',');
    return at < limit && text[at] == '}' && after_spaces(text, at + 1, limit) == limit;
}

INTERNAL int32_t read_json(reader_t *reader, place_t begin, place_t *end)
{
    slice_t values[J_OTHER];
    log_record_t record = none;
    const byte_t *text = reader->text;
    place_t limit = find(text, begin, reader->chunk->size, '\n');
    *end = limit + (limit < reader->chunk->size);
    if (!json_members(reader, begin, limit, values) || !is_stamp(reader, values[J_TIME])) return IRREGULAR;
    if (!read_number(text, values[J_PID], 9, &record.pid) || !read_number(text, values[J_LINE], 18, &record.line)) return IRREGULAR;
    if (values[J_SAID].begin == ABSENT || !read_severity(reader, values[J_SEVERITY], &record.severity)) return IRREGULAR;
    if (!read_transaction(reader, values[J_VXID], &record)) return IRREGULAR;
    record.stamp = values[J_TIME];
    record.user = values[J_USER];
    record.database = values[J_DATABASE];
    record.host = values[J_HOST];
    record.application = values[J_APPLICATION];
    if (is_filled(values[J_STATE])) record.state = values[J_STATE];
    record.said = values[J_SAID];
    for (int detail = 0; detail < DETAILS; detail++) record.details[detail] = values[J_DETAIL + detail];
    return put_record(reader, &record, begin, *end);
}
