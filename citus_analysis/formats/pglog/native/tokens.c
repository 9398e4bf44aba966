/* See tokens.h. */
#include "tokens.h"

/* The place after the quote that closes a text begun before `begin`; doubled and escaped quotes do not close it. */
INTERNAL place_t quote_end(const byte_t *text, place_t begin, place_t limit, byte_t quote, bool escapes)
{
    place_t place = begin;
    while (place < limit) {
        if (escapes) {
            while (place < limit && text[place] != quote && text[place] != '\\') place++;
            if (place < limit && text[place] == '\\') {
                place += 2;
                continue;
            }
        } else {
            place = find(text, place, limit, quote);
        }
        if (place >= limit) break;
        if (place + 1 < limit && text[place + 1] == quote)
            place += 2;
        else
            return place + 1;
    }
    return limit;
}

/* The place after `$tag$` at `begin`. */
static place_t dollar_tag_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t place = begin + 1;
    if (place < limit && (is_letter(text[place]) || text[place] == '_'))
        while (place < limit && (is_letter(text[place]) || is_digit(text[place]) || text[place] == '_')) place++;
    return place < limit && text[place] == '$' ? place + 1 : ABSENT;
}

/* The place after a parameter (`$1`) or a dollar-quoted string. */
static place_t dollar_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t end = digits_end(text, begin + 1, limit, limit);
    if (end > begin + 1) return end;
    place_t place = dollar_tag_end(text, begin, limit);
    if (place == ABSENT) return ABSENT;
    for (place = find(text, place, limit, '$'); place < limit; place = find(text, place + 1, limit, '$')) {
        end = dollar_tag_end(text, place, limit);
        if (end != ABSENT) return end;
    }
    return limit;
}

static place_t underscored_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t place = begin;
    while (place < limit && (is_digit(text[place]) || text[place] == '_')) place++;
    return place;
}

/* The place after a number. */
static place_t number_end(const byte_t *text, place_t begin, place_t limit)
{
    byte_t byte = text[begin], following = begin + 1 < limit ? text[begin + 1] : 0;
    byte_t letter = following | 32;
    place_t place;
    if (byte == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
        place = begin + 2;
        while (place < limit && (is_digit(text[place]) || text[place] == '_' || (byte_t)((text[place] | 32) - 'a') < 6))
            place++;
        if (place > begin + 2) return place;
    }
    if (is_digit(byte)) {
        place = underscored_end(text, begin, limit);
        if (place < limit && text[place] == '.') place = underscored_end(text, place + 1, limit);
    } else if (byte == '.' && is_digit(following)) {
        place = underscored_end(text, begin + 1, limit);
    } else {
        return ABSENT;
    }
    if (place < limit && (text[place] | 32) == 'e') {
        place_t sign = place + 1;
        if (sign < limit && (text[sign] == '+' || text[sign] == '-')) sign++;
        place_t end = digits_end(text, sign, limit, limit);
        if (end > sign) return end;
    }
    return place;
}

/* The place after a constant or parameter. */
static inline place_t constant_end(const byte_t *text, place_t begin, place_t limit)
{
    byte_t byte = text[begin];
    if (byte == '\'') return quote_end(text, begin + 1, limit, '\'', false);
    if (byte == '$') return dollar_end(text, begin, limit);
    if (is_letter(byte)) {
        if (begin + 1 >= limit || text[begin + 1] != '\'') return ABSENT;
        byte_t letter = byte | 32;
        if (letter == 'e') return quote_end(text, begin + 2, limit, '\'', true);
        if (letter == 'b' || letter == 'x' || letter == 'n') return quote_end(text, begin + 2, limit, '\'', false);
        return ABSENT;
    }
    return byte == '.' || is_digit(byte) ? number_end(text, begin, limit) : ABSENT;
}

/* The place after a constant or a question mark in its place. */
INTERNAL place_t value_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t end = constant_end(text, begin, limit);
    return end == ABSENT && text[begin] == '?' ? begin + 1 : end;
}

/* The place after white space and comments. */
INTERNAL place_t blanks_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t place = begin;
    while (place < limit) {
        byte_t byte = text[place], following = place + 1 < limit ? text[place + 1] : 0;
        if (is_space(byte)) {
            place++;
        } else if (byte == '-' && following == '-') {
            place = find(text, place, limit, '\n');
        } else if (byte == '/' && following == '*') {
            place += 2;
            while (place < limit && !(text[place] == '*' && place + 1 < limit && text[place + 1] == '/')) place++;
            place = place + 2 < limit ? place + 2 : limit;
        } else {
            break;
        }
    }
    return place;
}

/* The beginning of a shard's number at the end of a name, or ABSENT. */
INTERNAL place_t shard_begin(const byte_t *text, place_t begin, place_t end)
{
    place_t place = end;
    while (place > begin && is_digit(text[place - 1])) place--;
    bool fits = end - place >= 6 && end - place <= 18;
    return fits && place - 1 > begin && text[place - 1] == '_' ? place : ABSENT;
}

/* Whether the double quote before `end` closes the name that opens at `begin`; false for the half of a doubled quote. */
INTERNAL bool closes(const byte_t *text, place_t begin, place_t end)
{
    for (place_t place = begin + 1; place < end; place++) {
        if (text[place] != '"') continue;
        if (place + 1 < end && text[place + 1] == '"')
            place++;
        else
            return place + 1 == end;
    }
    return false;
}
