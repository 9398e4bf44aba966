/* Fingerprint, kind, shards and values of a statement, as `regular_expressions.py` defines them.
 *
 * Tokens pass three stages: signs of constants, commas between constants, semicolons at the end. Each stage holds back
 * at most one kind of token until the next token is known.
 *
 * A benchmark sends the same few statements with different constants. The first statement of a kind therefore leaves a
 * template: the slices of text between its constants and shard numbers. A statement with the same slices, and a
 * constant or a shard number in every gap, has the same tokens: a token depends on the text before it only through the
 * kind of the token before, which the slices determine.
 */

#ifndef PGLOG_STATEMENT_H
#define PGLOG_STATEMENT_H

#include "bytes.h"

/* The shards that a statement names, each once, in order. */
typedef struct {
    int32_t count;
    int64_t numbers[MAX_SHARDS];
} shards_t;

#define MAX_GAPS 48

typedef struct {
    place_t begin, end; /* the text before the gap */
    byte_t first;       /* first byte of the gap's constant; 0 for the number of a shard */
    bool is_shard;      /* whether the number is a shard of the statement */
    bool negative;      /* whether a minus stands directly before the constant and belongs to it */
    bool counts;        /* whether the constant is a value, and not a length in the name of a type */
} gap_t;

typedef struct {
    uint64_t fingerprint;
    shards_t shards;
    uint32_t values; /* sum of the hashes of the constants */
    enum statement_kind kind;
    int32_t gap_count; /* the last gap is the statement's end; -1: too many for a template */
    gap_t gaps[MAX_GAPS + 1];
} template_t;

/* Fingerprint, kind, shards and values of a statement, and its template. */
INTERNAL void read_statement(const byte_t *text, place_t begin, place_t limit, template_t *template);

/* Whether a statement fits a template; then `shards` are its shards and `values` the sum of its constants' hashes. */
INTERNAL bool fits_template(const template_t *template, const byte_t *text, place_t begin, place_t limit,
                            shards_t *shards, uint32_t *values);

/* The sum of the hashes of the values in a list of parameters: `$1 = 'user7', $2 = NULL`. */
INTERNAL uint32_t parameter_values(const byte_t *text, place_t begin, place_t limit);

#endif
