/* Bytes, runs of digits, words at a place. */
#ifndef PGLOG_BYTES_H
#define PGLOG_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "layout.h"

typedef int64_t place_t;

#define ABSENT ((place_t)-1)

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* The end of a literal at `place`, or ABSENT if the text does not continue with it. */
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

static inline bool same_four(const byte_t *left, const byte_t *right) { return memcmp(left, right, 4) == 0; }

/* Whether two texts are the same. For short texts, a call of memcmp costs more than the comparison: they are compared
 * eight bytes at a time (or four, or one), and the last eight again. */
static inline bool same_bytes(const byte_t *left, const byte_t *right, size_t length)
{
    if (length > 64) return memcmp(left, right, length) == 0;
    if (length >= 8) {
        for (size_t place = 0; place + 8 <= length; place += 8)
            if (load(left + place, 8) != load(right + place, 8)) return false;
        return load(left + length - 8, 8) == load(right + length - 8, 8);
    }
    if (length >= 4) return same_four(left, right) && same_four(left + length - 4, right + length - 4);
    for (size_t place = 0; place < length; place++)
        if (left[place] != right[place]) return false;
    return true;
}

/* Inlined, so that the compiler knows the length and generates one or two comparisons. */
INLINE place_t begins(const byte_t *text, place_t place, place_t end, const char *word, size_t length)
{
    if (place + (place_t)length > end || memcmp(text + place, word, length) != 0) return ABSENT;
    return place + (place_t)length;
}

/* The first place of a byte; `end` if there is none. */
static inline place_t find(const byte_t *text, place_t begin, place_t end, byte_t byte)
{
    if (begin >= end) return end;
    const byte_t *found = memchr(text + begin, byte, (size_t)(end - begin));
    return found ? found - text : end;
}

/* Functions that other files call. In `all.c`, which includes all files, they are static, so that the compiler can inline
 * them. */
#ifndef INTERNAL
#define INTERNAL
#endif

#define EACH_BYTE(byte) (0x0101010101010101ULL * (byte))

/* The end of a run of at most `most` digits; their value is written to `number`. */
INLINE place_t read_digits(const byte_t *text, place_t begin, place_t limit, place_t most, int64_t *number)
{
    place_t last = limit - begin > most ? begin + most : limit;
    place_t place = begin;
    uint64_t value = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    /* Eight at once: the length of a run is unpredictable, and a mispredicted branch costs more than these operations. */
    if (limit - begin >= 8) {
        uint64_t eight = load(text + begin, 8) ^ EACH_BYTE('0');
        uint64_t others = (eight | (eight + EACH_BYTE(6))) & EACH_BYTE(0xF0);
        place_t count = others ? __builtin_ctzll(others) >> 3 : 8;
        if (count > most) count = most;
        place = begin + count;
        if (count) {
            eight <<= 64 - 8 * count; /* the last digit in the highest byte, zeros below the first */
            eight = (eight * 10 + (eight >> 8)) & 0x00FF00FF00FF00FFULL;
            eight = (eight * 100 + (eight >> 16)) & 0x0000FFFF0000FFFFULL;
            value = (eight * 10000 + (eight >> 32)) & 0xFFFFFFFFULL;
        }
        if (count < 8) last = place;
    }
#endif
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

/* The length cut to at most `limit` bytes, not within a UTF-8 character. */
static inline place_t cut(const byte_t *text, place_t begin, place_t length, place_t limit)
{
    if (length <= limit) return length;
    for (int back = 0; back < 3; back++)
        if ((text[begin + limit - back] & 0xC0) != 0x80) return limit - back;
    return limit - 3;
}

/* Spread the bits of a number over a hash table. */
static inline uint64_t mix(uint64_t value)
{
    value *= 0x9E3779B97F4A7C15ULL;
    return value ^ value >> 29;
}

#endif
