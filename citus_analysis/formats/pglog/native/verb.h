/* The kind of a statement, from its first tokens. */
#ifndef PGLOG_VERB_H
#define PGLOG_VERB_H

#include "bytes.h"

/* A token, as in the text. */
typedef struct {
    const byte_t *begin;
    place_t length;
} token_t;

/* The kind of a statement according to the tokens read so far. */
typedef struct {
    enum statement_kind kind;
    token_t verb;
    int32_t words_after; /* tokens seen after the verb; -1: no verb yet */
    int32_t depth;       /* open brackets after WITH */
    bool with;
} verb_reader_t;

/* Read the next token of a statement. A new reader is {.kind = Q_OTHER, .words_after = -1}. */
INTERNAL void read_verb(verb_reader_t *reader, const byte_t *text, place_t begin, place_t end);

#endif
