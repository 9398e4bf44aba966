/* See statement.h. */
#include "statement.h"

#define FNV_OFFSET 0xCBF29CE484222325ULL
#define FNV_PRIME 0x100000001B3ULL
#define SEPARATOR 31

static inline uint64_t fnv(uint64_t value, byte_t byte) { return (value ^ byte) * FNV_PRIME; }

/* Lower case, ASCII only; the separator counts as a space. */
static inline byte_t lower(byte_t byte)
{
    return byte == SEPARATOR ? ' ' : (byte_t)(byte - 'A') < 26 ? byte | 32 : byte;
}
static inline bool begins_name(byte_t byte) { return is_letter(byte) || byte == '_' || byte >= 128; }
static inline bool is_in_name(byte_t byte) { return begins_name(byte) || is_digit(byte) || byte == '$'; }
static inline bool is_space(byte_t byte) { return byte <= 32 || byte == 127; }

/* Behind the quote that closes what began before `begin`; doubled quotes (and escaped ones) do not close. */
static place_t quote_end(const byte_t *text, place_t begin, place_t limit, byte_t quote, bool escapes)
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

/* Behind `$tag$` at `begin`. */
static place_t dollar_tag_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t place = begin + 1;
    if (place < limit && (is_letter(text[place]) || text[place] == '_'))
        while (place < limit && (is_letter(text[place]) || is_digit(text[place]) || text[place] == '_')) place++;
    return place < limit && text[place] == '$' ? place + 1 : ABSENT;
}

/* Behind a parameter (`$1`) or a dollar-quoted string. */
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

/* Behind a number. */
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

/* Behind a constant or parameter. */
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

/* A constant, or the question mark that stands for one. */
static inline place_t value_end(const byte_t *text, place_t begin, place_t limit)
{
    place_t end = constant_end(text, begin, limit);
    return end == ABSENT && text[begin] == '?' ? begin + 1 : end;
}

/* Behind white space and comments. */
static place_t blanks_end(const byte_t *text, place_t begin, place_t limit)
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

/* Where the digits of a shard's number begin at the end of a name. */
static inline place_t shard_begin(const byte_t *text, place_t begin, place_t end)
{
    place_t place = end;
    while (place > begin && is_digit(text[place - 1])) place--;
    bool fits = end - place >= 6 && end - place <= 18;
    return fits && place - 1 > begin && text[place - 1] == '_' ? place : ABSENT;
}

/* Whether the double quote before `end` closes the name that opens at `begin`, or is half of a doubled one. */
static bool closes(const byte_t *text, place_t begin, place_t end)
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

#define MAIN_VERBS 7 /* the first ones: what a WITH clause belongs to */
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

/* A token, as it stands in the text. */
typedef struct {
    const byte_t *begin;
    place_t length;
} token_t;

static bool is_word(token_t token, const char *word)
{
    for (place_t place = 0; place < token.length; place++)
        if (!word[place] || lower(token.begin[place]) != (byte_t)word[place]) return false;
    return !word[token.length];
}

/* What the tokens of a statement tell of its kind. */
typedef struct {
    enum statement_kind kind;
    token_t verb;
    int32_t behind; /* how many tokens stood behind the verb; -1: none is found yet */
    int32_t depth;  /* open brackets behind WITH */
    bool with;
} verb_reader_t;

#define TOLD_BY 3 /* as many tokens behind the verb */

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
    reader->behind = 0;
}

/* The first tokens behind the verb: `COMMIT PREPARED`, `PREPARE TRANSACTION`, `ROLLBACK ... TO`. */
static void read_behind(verb_reader_t *reader, token_t token)
{
    bool first = ++reader->behind == 1, rolls_back = is_word(reader->verb, "rollback");
    if (reader->kind == Q_PREPARE) return;
    if (first && (rolls_back || is_word(reader->verb, "commit")) && is_word(token, "prepared"))
        reader->kind = Q_PREPARE;
    else if (first && is_word(reader->verb, "prepare") && is_word(token, "transaction"))
        reader->kind = Q_PREPARE;
    else if (rolls_back && is_word(token, "to"))
        reader->kind = Q_UTILITY;
}

static inline void read_verb(verb_reader_t *reader, const byte_t *text, place_t begin, place_t end)
{
    if (reader->behind >= TOLD_BY) return;
    token_t token = {text + begin, end - begin};
    if (reader->behind < 0)
        find_verb(reader, token);
    else
        read_behind(reader, token);
}

enum token_kind { NOTHING, CONSTANT, CLOSING, WORD, OPERATOR };

typedef struct {
    uint64_t value;
    enum token_kind last; /* the last token as it stood */
    byte_t sign;          /* held until it is known whether a constant follows; 0: none */
    bool constant;        /* the last token that was let through is a constant */
    bool comma;           /* held until it is known whether a constant follows */
    int32_t semicolons;   /* held until something follows */
} hasher_t;

static inline void put(hasher_t *hasher, byte_t byte) { hasher->value = fnv(fnv(hasher->value, byte), SEPARATOR); }

/* Make room for the next token, given by its byte (0 for a word): stages two and three. */
static void emit(hasher_t *hasher, byte_t token)
{
    if (hasher->comma) {
        hasher->comma = false;
        if (token == '?') return;
        put(hasher, ',');
        hasher->constant = false;
    }
    if (token == ',' && hasher->constant) {
        hasher->comma = true;
        return;
    }
    if (token == ';') {
        hasher->semicolons++;
        hasher->constant = false;
        return;
    }
    for (; hasher->semicolons; hasher->semicolons--) put(hasher, ';');
    hasher->constant = token == '?';
    if (token) put(hasher, token);
}

static inline void release_sign(hasher_t *hasher)
{
    byte_t sign = hasher->sign;
    hasher->sign = 0;
    if (sign) emit(hasher, sign);
}

static inline void hash_name(hasher_t *hasher, const byte_t *text, place_t begin, place_t end)
{
    uint64_t value = hasher->value;
    for (place_t place = begin; place < end; place++) value = fnv(value, lower(text[place]));
    hasher->value = value;
}

static void add_shard(shards_t *shards, int64_t number)
{
    for (int32_t place = 0; place < shards->count; place++)
        if (shards->numbers[place] == number) return;
    if (shards->count < MAX_SHARDS) shards->numbers[shards->count++] = number;
}

static inline void add_gap(template_t *template, place_t begin, place_t end, byte_t first, bool is_shard)
{
    if (template->gap_count < 0) return;
    if (template->gap_count == MAX_GAPS)
        template->gap_count = -1;
    else
        template->gaps[template->gap_count++] = (gap_t){begin, end, first, is_shard};
}

INTERNAL void read_statement(const byte_t *text, place_t begin, place_t limit, template_t *template)
{
    hasher_t hasher = {.value = FNV_OFFSET};
    verb_reader_t verb = {.kind = Q_OTHER, .behind = -1};
    bool after_dot = false;
    place_t from = begin; /* of the stretch that the next gap ends */
    place_t place = blanks_end(text, begin, limit);
    template->shards.count = 0;
    template->gap_count = 0;
    while (place < limit) {
        byte_t byte = text[place];
        place_t end = value_end(text, place, limit);
        if (end != ABSENT) {
            hasher.sign = 0;
            emit(&hasher, '?');
            hasher.last = CONSTANT;
            after_dot = false;
            add_gap(template, from, place, byte, false);
            from = end;
        } else if (byte == '"' || begins_name(byte)) {
            place_t name_end;
            if (byte == '"') {
                end = quote_end(text, place + 1, limit, '"', false);
                name_end = end > place + 1 && closes(text, place, end) ? end - 1 : end;
            } else {
                end = place + 1;
                while (end < limit && is_in_name(text[end])) end++;
                name_end = end;
            }
            release_sign(&hasher);
            if (hasher.comma || hasher.semicolons) emit(&hasher, 0);
            hasher.constant = false;
            place_t number = shard_begin(text, place, name_end);
            if (number != ABSENT) {
                hash_name(&hasher, text, place, number);
                hasher.value = fnv(hasher.value, '?');
                if (after_dot) add_shard(&template->shards, digits(text, number, name_end));
                add_gap(template, from, number, 0, after_dot);
                from = name_end;
            } else {
                hash_name(&hasher, text, place, name_end);
            }
            hasher.value = fnv(hasher.value, SEPARATOR);
            hasher.last = WORD;
            after_dot = false;
        } else {
            end = place + 1;
            release_sign(&hasher);
            if ((byte == '+' || byte == '-') && (hasher.last == NOTHING || hasher.last == OPERATOR))
                hasher.sign = byte;
            else
                emit(&hasher, byte);
            hasher.last = byte == ')' || byte == ']' ? CLOSING : OPERATOR;
            after_dot = byte == '.';
        }
        read_verb(&verb, text, place, end);
        place = end < limit ? blanks_end(text, end, limit) : end;
    }
    release_sign(&hasher);
    if (hasher.comma) put(&hasher, ',');
    template->fingerprint = hasher.value;
    template->kind = verb.kind;
    add_gap(template, from, limit, 0, false);
}

INTERNAL bool fits_template(const template_t *template, const byte_t *text, place_t begin, place_t limit, shards_t *shards)
{
    const gap_t *gap = template->gaps, *last = gap + template->gap_count - 1;
    place_t place = begin;
    shards->count = 0;
    for (;; gap++) {
        place_t length = gap->end - gap->begin;
        if (place + length > limit || !same_bytes(text + place, text + gap->begin, (size_t)length)) return false;
        place += length;
        if (gap == last) return place == limit;
        if (place >= limit) return false;
        if (gap->first == 0) {
            place_t end = digits_end(text, place, limit, limit);
            if (end - place < 6 || end - place > 18) return false;
            if (gap->is_shard) add_shard(shards, digits(text, place, end));
            place = end;
        } else {
            byte_t byte = text[place];
            if (byte != gap->first && !(is_digit(byte) && is_digit(gap->first))) return false;
            place = value_end(text, place, limit);
            if (place == ABSENT) return false;
        }
    }
}
