/* Bytes, runs of digits, words that stand at a place. */
#ifndef PGLOG_BYTES_H
#define PGLOG_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t byte_t;
typedef int64_t place_t;

#define ABSENT ((place_t)-1)

/* Where a literal ends that stands at `place`, or ABSENT. */
#define BEGINS(text, place, end, word) begins(text, place, end, word, sizeof(word) - 1)

static inline bool is_digit(byte_t byte) { return (byte_t)(byte - '0') < 10; }
static inline bool is_letter(byte_t byte) { return (byte_t)((byte | 32) - 'a') < 26; }
static inline bool is_blank_byte(byte_t byte) { return byte == ' ' || (byte_t)(byte - 9) < 5; }

/* Up to eight bytes as a number. */
static inline uint64_t load(const byte_t *text, place_t length)
{
    uint64_t value = 0;
    memcpy(&value, text, length < 8 ? (size_t)length : 8);
    return value;
}

/* Whether two short texts are the same: eight bytes at a time, the last eight once more. A call of memcmp costs more. */
static inline bool same_bytes(const byte_t *left, const byte_t *right, size_t length)
{
    size_t place = 0;
    for (; place + 8 <= length; place += 8)
        if (load(left + place, 8) != load(right + place, 8)) return false;
    if (length >= 8) return load(left + length - 8, 8) == load(right + length - 8, 8);
    for (; place < length; place++)
        if (left[place] != right[place]) return false;
    return true;
}

static inline place_t begins(const byte_t *text, place_t place, place_t end, const char *word, size_t length)
{
    if (place + (place_t)length > end || !same_bytes(text + place, (const byte_t *)word, length)) return ABSENT;
    return place + (place_t)length;
}

/* Where a byte stands first; `end` where it does not. */
static inline place_t find(const byte_t *text, place_t begin, place_t end, byte_t byte)
{
    if (begin >= end) return end;
    const byte_t *found = memchr(text + begin, byte, (size_t)(end - begin));
    return found ? found - text : end;
}

/* Where a run of at most `most` digits ends, and the number that they make. */
static inline place_t read_digits(const byte_t *text, place_t begin, place_t limit, place_t most, int64_t *number)
{
    place_t last = limit - begin > most ? begin + most : limit;
    place_t place = begin;
    uint64_t value = 0;
    for (; place < last && is_digit(text[place]); place++) value = value * 10 + (uint64_t)(text[place] - '0');
    *number = (int64_t)value;
    return place;
}

static inline place_t digits_end(const byte_t *text, place_t begin, place_t limit, place_t most)
{
    int64_t unused;
    return read_digits(text, begin, limit, most, &unused);
}

static inline int64_t digits(const byte_t *text, place_t begin, place_t end)
{
    uint64_t value = 0;
    for (place_t place = begin; place < end; place++) value = value * 10 + (uint64_t)(text[place] - '0');
    return (int64_t)value;
}

/* At most `limit` bytes that do not end within a UTF-8 character. */
static inline place_t cut(const byte_t *text, place_t begin, place_t length, place_t limit)
{
    if (length <= limit) return length;
    for (int back = 0; back < 3; back++)
        if ((text[begin + limit - back] & 0xC0) != 0x80) return limit - back;
    return limit - 3;
}

#endif
