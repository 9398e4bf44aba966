/* The kind of a statement, by its first tokens. */
#ifndef PGLOG_VERB_H
#define PGLOG_VERB_H

#include "bytes.h"

/* A token, as in the text. */
typedef struct {
    const byte_t *begin;
    place_t length;
} token_t;

/* The kind of a statement, as far as its tokens were read. */
typedef struct {
    enum statement_kind kind;
    token_t verb;
    int32_t behind; /* tokens seen after the verb; -1: no verb yet */
    int32_t depth;  /* open brackets after WITH */
    bool with;
} verb_reader_t;

/* Take the next token of a statement into account. A reader begins as {.kind = Q_OTHER, .behind = -1}. */
INTERNAL void read_verb(verb_reader_t *reader, const byte_t *text, place_t begin, place_t end);

#endif
