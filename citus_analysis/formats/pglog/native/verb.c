/* See verb.h. */
#include "verb.h"

#include "tokens.h"

#define MAIN_VERBS 7 /* the first verbs of the list, which may follow a WITH clause */
static const struct {
    const char *word;
    enum statement_kind kind;
} verbs[] = {
    {"select", Q_SELECT}, {"insert", Q_INSERT}, {"update", Q_UPDATE}, {"delete", Q_DELETE}, {"merge", Q_MERGE},
    {"values", Q_SELECT}, {"table", Q_SELECT}, {"copy", Q_COPY}, {"begin", Q_BEGIN}, {"start", Q_BEGIN},
    {"commit", Q_COMMIT}, {"end", Q_COMMIT}, {"rollback", Q_ROLLBACK}, {"abort", Q_ROLLBACK}, {"set", Q_SET},
    {"reset", Q_SET}, {"create", Q_DDL}, {"alter", Q_DDL}, {"drop", Q_DDL}, {"truncate", Q_DDL}, {"comment", Q_DDL},
    {"grant", Q_DDL}, {"revoke", Q_DDL}, {"reindex", Q_DDL}, {"analyze", Q_UTILITY}, {"call", Q_UTILITY},
    {"checkpoint", Q_UTILITY}, {"close", Q_UTILITY}, {"cluster", Q_UTILITY}, {"deallocate", Q_UTILITY},
    {"declare", Q_UTILITY}, {"discard", Q_UTILITY}, {"do", Q_UTILITY}, {"execute", Q_UTILITY}, {"explain", Q_UTILITY},
    {"fetch", Q_UTILITY}, {"import", Q_UTILITY}, {"listen", Q_UTILITY}, {"load", Q_UTILITY}, {"lock", Q_UTILITY},
    {"move", Q_UTILITY}, {"notify", Q_UTILITY}, {"prepare", Q_UTILITY}, {"reassign", Q_UTILITY},
    {"refresh", Q_UTILITY}, {"release", Q_UTILITY}, {"savepoint", Q_UTILITY}, {"security", Q_UTILITY},
    {"show", Q_UTILITY}, {"unlisten", Q_UTILITY}, {"vacuum", Q_UTILITY},
};

static bool is_word(token_t token, const char *word)
{
    for (place_t place = 0; place < token.length; place++)
        if (!word[place] || lower(token.begin[place]) != (byte_t)word[place]) return false;
    return !word[token.length];
}

#define WORDS_AFTER_VERB 3 /* number of words that may change the kind */

static void find_verb(verb_reader_t *reader, token_t token)
{
    bool opens = is_word(token, "(");
    size_t count = sizeof verbs / sizeof *verbs, number = 0;
    if (!reader->with && opens) return;
    if (!reader->with && is_word(token, "with")) {
        reader->with = true;
        return;
    }
    if (reader->with) {
        reader->depth += opens - is_word(token, ")");
        if (reader->depth != 0) return;
        count = MAIN_VERBS;
    }
    while (number < count && !is_word(token, verbs[number].word)) number++;
    if (number == count && reader->with) return;
    if (number < count) reader->kind = verbs[number].kind;
    reader->verb = token;
    reader->words_after = 0;
}

/* The first tokens after the verb: `COMMIT PREPARED`, `PREPARE TRANSACTION`, `ROLLBACK ... TO`. */
static void read_word_after(verb_reader_t *reader, token_t token)
{
    bool first = ++reader->words_after == 1, rolls_back = is_word(reader->verb, "rollback");
    if (reader->kind == Q_PREPARE) return;
    if (first && (rolls_back || is_word(reader->verb, "commit")) && is_word(token, "prepared"))
        reader->kind = Q_PREPARE;
    else if (first && is_word(reader->verb, "prepare") && is_word(token, "transaction"))
        reader->kind = Q_PREPARE;
    else if (rolls_back && is_word(token, "to"))
        reader->kind = Q_UTILITY;
}

INTERNAL void read_verb(verb_reader_t *reader, const byte_t *text, place_t begin, place_t end)
{
    if (reader->words_after >= WORDS_AFTER_VERB) return;
    token_t token = {text + begin, end - begin};
    if (reader->words_after < 0)
        find_verb(reader, token);
    else
        read_word_after(reader, token);
}
