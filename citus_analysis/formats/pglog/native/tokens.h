/* Tokens of SQL: the end of a token that begins at a place. */
#ifndef PGLOG_TOKENS_H
#define PGLOG_TOKENS_H

#include "bytes.h"

#define SEPARATOR 31 /* between tokens in the hashed text */

/* Lower case, ASCII only; the separator counts as a space. */
static inline byte_t lower(byte_t byte)
{
    return byte == SEPARATOR ? ' ' : (byte_t)(byte - 'A') < 26 ? byte | 32 : byte;
}
static inline bool begins_name(byte_t byte) { return is_letter(byte) || byte == '_' || byte >= 128; }
static inline bool is_in_name(byte_t byte) { return begins_name(byte) || is_digit(byte) || byte == '$'; }
static inline bool is_space(byte_t byte) { return byte <= 32 || byte == 127; }

/* The place after the quote that closes a text begun before `begin`; doubled and escaped quotes do not close it. */
INTERNAL place_t quote_end(const byte_t *text, place_t begin, place_t limit, byte_t quote, bool escapes);

/* The place after a constant or a question mark in its place. */
INTERNAL place_t value_end(const byte_t *text, place_t begin, place_t limit);

/* The place after white space and comments. */
INTERNAL place_t blanks_end(const byte_t *text, place_t begin, place_t limit);

/* The beginning of a shard's number at the end of a name, or ABSENT. */
INTERNAL place_t shard_begin(const byte_t *text, place_t begin, place_t end);

/* Whether the double quote before `end` closes the name that opens at `begin`; false for the half of a doubled quote. */
INTERNAL bool closes(const byte_t *text, place_t begin, place_t end);

#endif
