/* See statement.h. */
#include "statement.h"

#include "tokens.h"
#include "verb.h"

#define FNV_OFFSET 0xCBF29CE484222325ULL
#define FNV_PRIME 0x100000001B3ULL

static inline uint64_t fnv(uint64_t value, byte_t byte) { return (value ^ byte) * FNV_PRIME; }

enum token_kind { NOTHING, CONSTANT, CLOSING, WORD, OPERATOR };

typedef struct {
    uint64_t value;
    enum token_kind last; /* kind of the last token in the text */
    byte_t sign;          /* held back until it is known whether a constant follows; 0: none */
    bool constant;        /* whether the last token passed on is a constant */
    bool comma;           /* held back until it is known whether a constant follows */
    int32_t semicolons;   /* number held back until another token follows */
} hasher_t;

static inline void put(hasher_t *hasher, byte_t byte) { hasher->value = fnv(fnv(hasher->value, byte), SEPARATOR); }

/* Pass the next token, given by its byte (0 for a word), through stages two and three. */
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

/* The hash of a text. Its lowest five bits are 1, so that those of a sum are the number of its texts. */
static uint32_t hash_of(const byte_t *text, place_t begin, place_t end)
{
    uint64_t hash = (uint64_t)(end - begin);
    for (place_t place = begin; place < end; place += 8) hash = mix(hash ^ load(text + place, end - place));
    return ((uint32_t)mix(mix(hash)) & ~31U) + 1;
}

/* The hash of a constant without its quotes; 0 for parameters and for texts between dollars. */
static uint32_t value_of(const byte_t *text, place_t begin, place_t end, bool negative)
{
    byte_t first = text[begin];
    if (first == '$' || first == '?') return 0;
    if (is_digit(first) || first == '.') return hash_of(text, begin - negative, end);
    begin += first == '\'' ? 1 : 2;
    return hash_of(text, begin, end > begin && text[end - 1] == '\'' ? end - 1 : end);
}

INTERNAL uint32_t parameter_values(const byte_t *text, place_t begin, place_t limit)
{
    uint32_t values = 0;
    for (place_t place = find(text, begin, limit, '\''); place < limit;) {
        place_t end = quote_end(text, place + 1, limit, '\'', false);
        values += value_of(text, place, end, false);
        place = find(text, end, limit, '\'');
    }
    return values;
}

/* Where a place is in a cast, `'a'::character varying(255)`: after the first colon, in the type, in its brackets. */
enum cast { NO_CAST, COLON, TYPE, LENGTHS };

/* The state after a token that is no constant, given by its byte; `adjoins`: directly after the token before. */
static inline enum cast cast_after(enum cast cast, byte_t token, bool is_name, bool adjoins)
{
    if (is_name || token == ',' || token == '.') return cast == TYPE || cast == LENGTHS ? cast : NO_CAST;
    if (token == ':') return cast == COLON && adjoins ? TYPE : COLON;
    if (token == '(') return cast == TYPE && adjoins ? LENGTHS : NO_CAST;
    return token == ')' && cast == LENGTHS ? TYPE : NO_CAST;
}

static inline void add_gap(template_t *template, gap_t gap)
{
    if (template->gap_count < 0) return;
    if (template->gap_count == MAX_GAPS) template->gap_count = -1;
    else template->gaps[template->gap_count++] = gap;
}

INTERNAL void read_statement(const byte_t *text, place_t begin, place_t limit, template_t *template)
{
    hasher_t hasher = {.value = FNV_OFFSET};
    verb_reader_t verb = {.kind = Q_OTHER, .words_after = -1};
    enum cast cast = NO_CAST;
    bool after_dot = false;
    place_t last_end = begin;
    place_t from = begin; /* beginning of the text before the next gap */
    place_t place = blanks_end(text, begin, limit);
    template->shards.count = 0;
    template->values = 0;
    template->gap_count = 0;
    while (place < limit) {
        byte_t byte = text[place];
        place_t end = value_end(text, place, limit);
        if (end != ABSENT) {
            bool negative = hasher.sign == '-' && text[place - 1] == '-';
            hasher.sign = 0;
            emit(&hasher, '?');
            hasher.last = CONSTANT;
            after_dot = false;
            if (cast != LENGTHS) template->values += value_of(text, place, end, negative);
            add_gap(template, (gap_t){from, place, byte, false, negative, cast != LENGTHS});
            if (cast != LENGTHS) cast = NO_CAST;
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
                add_gap(template, (gap_t){from, number, 0, after_dot, false, false});
                from = name_end;
            } else {
                hash_name(&hasher, text, place, name_end);
            }
            hasher.value = fnv(hasher.value, SEPARATOR);
            hasher.last = WORD;
            after_dot = false;
            cast = cast_after(cast, byte, true, place == last_end);
        } else {
            end = place + 1;
            release_sign(&hasher);
            if ((byte == '+' || byte == '-') && (hasher.last == NOTHING || hasher.last == OPERATOR))
                hasher.sign = byte;
            else
                emit(&hasher, byte);
            hasher.last = byte == ')' || byte == ']' ? CLOSING : OPERATOR;
            after_dot = byte == '.';
            cast = cast_after(cast, byte, false, place == last_end);
        }
        last_end = end;
        read_verb(&verb, text, place, end);
        place = end < limit ? blanks_end(text, end, limit) : end;
    }
    release_sign(&hasher);
    if (hasher.comma) put(&hasher, ',');
    template->fingerprint = hasher.value;
    template->kind = verb.kind;
    add_gap(template, (gap_t){from, limit, 0, false, false, false});
}

INTERNAL bool fits_template(const template_t *template, const byte_t *text, place_t begin, place_t limit,
                            shards_t *shards, uint32_t *values)
{
    const gap_t *gap = template->gaps, *last = gap + template->gap_count - 1;
    place_t place = begin;
    shards->count = 0;
    *values = 0;
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
            place_t end = value_end(text, place, limit);
            if (end == ABSENT) return false;
            if (gap->counts) *values += value_of(text, place, end, gap->negative);
            place = end;
        }
    }
}
