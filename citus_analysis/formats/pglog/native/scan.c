/* State of a scan: the distinct texts of a chunk, and the templates of its statements. */
#include "scan.h"

#include <stdlib.h>

#define EMPTY (-1)

static bool table_init(table_t *table, uint32_t size)
{
    table->slots = malloc(size * sizeof *table->slots);
    if (!table->slots) return false;
    memset(table->slots, 0xFF, size * sizeof *table->slots);
    table->mask = size - 1;
    table->used = 0;
    return true;
}

/* A hash of all bytes, because names of machines often begin and end alike. */
static inline uint64_t text_hash(const byte_t *text, slice_t slice)
{
    place_t place = slice.begin, end = slice.end, length = end - place;
    uint64_t hash = (uint64_t)length;
    for (; end - place >= 8; place += 8) hash = mix(hash ^ load(text + place, 8));
    if (place == end) return hash;
    return mix(hash ^ (length > 8 ? load(text + end - 8, 8) : load(text + place, length)));
}

static inline bool same(const byte_t *text, slice_t one, slice_t other)
{
    place_t length = one.end - one.begin;
    if (length != other.end - other.begin) return false;
    return same_bytes(text + one.begin, text + other.begin, (size_t)length);
}

/* Double the size of the table of a column. */
static bool table_grow(table_t *table, const byte_t *text, const slice_t *distinct)
{
    table_t larger;
    if (!table_init(&larger, 2 * (table->mask + 1))) return false;
    for (uint32_t old = 0; old <= table->mask; old++) {
        if (table->slots[old] == EMPTY) continue;
        uint32_t slot = (uint32_t)text_hash(text, distinct[table->slots[old]]) & larger.mask;
        while (larger.slots[slot] != EMPTY) slot = (slot + 1) & larger.mask;
        larger.slots[slot] = table->slots[old];
    }
    larger.used = table->used;
    free(table->slots);
    *table = larger;
    return true;
}

/* The number of a short text among the distinct ones of its column in this chunk; the last one is tried first. */
INTERNAL int32_t text_number(scan_t *scan, enum text_column column, slice_t slice)
{
    slice_t *distinct = scan->out->distinct_texts[column];
    table_t *table = &scan->texts[column];
    int32_t number = scan->recent[column];
    if (number >= 0 && same(scan->text, slice, distinct[number])) return number;
    uint32_t slot = (uint32_t)text_hash(scan->text, slice) & table->mask;
    for (; (number = table->slots[slot]) != EMPTY; slot = (slot + 1) & table->mask)
        if (same(scan->text, slice, distinct[number])) return scan->recent[column] = number;
    number = (int32_t)scan->out->text_counts[column]++;
    distinct[number] = slice;
    table->slots[slot] = number;
    if (2 * ++table->used > table->mask && !table_grow(table, scan->text, distinct)) scan->failed = true;
    return scan->recent[column] = number;
}

/* The template that fits a statement, made if there is none; sets `shards` and `values` to the statement's. */
INTERNAL const template_t *template_of(scan_t *scan, place_t begin, place_t end, shards_t *shards, uint32_t *values)
{
    template_t **ways = scan->templates[mix(load(scan->text + begin, end - begin)) & (TEMPLATE_SETS - 1)];
    template_t *found;
    int way = 0;
    for (; way < TEMPLATE_WAYS && ways[way]; way++)
        if (fits_template(ways[way], scan->text, begin, end, shards, values)) break;
    if (way < TEMPLATE_WAYS && ways[way]) {
        found = ways[way];
#ifdef CHECK_TEMPLATES /* defined by the fuzzer */
        read_statement(scan->text, begin, end, scan->spare);
        if (scan->spare->fingerprint != found->fingerprint) __builtin_trap();
        if (scan->spare->shards.count != shards->count) __builtin_trap();
        for (int32_t place = 0; place < shards->count; place++)
            if (scan->spare->shards.numbers[place] != shards->numbers[place]) __builtin_trap();
        if (scan->spare->kind != found->kind) __builtin_trap();
        if (scan->spare->values != *values) __builtin_trap();
#endif
    } else {
        found = scan->spare;
        read_statement(scan->text, begin, end, found);
        *shards = found->shards;
        *values = found->values;
        if (found->gap_count < 0) return found;
        if (way == TEMPLATE_WAYS) way--;
        scan->spare = ways[way] ? ways[way] : malloc(sizeof *found);
        if (!scan->spare) {
            scan->spare = found;
            scan->failed = true;
            return found;
        }
    }
    /* The templates are ordered by last use; the one unused for longest is replaced next. */
    memmove(ways + 1, ways, (size_t)way * sizeof *ways);
    ways[0] = found;
    return found;
}

INTERNAL scan_t *scan_new(const byte_t *text, const prefix_t *prefix, output_t *output)
{
    scan_t *scan = calloc(1, sizeof *scan);
    if (!scan) return NULL;
    scan->text = text;
    scan->prefix = prefix;
    scan->out = output;
    if (prefix) init_lines(&scan->lines, prefix);
    init_head(&scan->heads[0]);
    init_head(&scan->heads[1]);
    scan->head = &scan->heads[0];
    scan->next = &scan->heads[1];
    scan->spare = malloc(sizeof *scan->spare);
    scan->failed = !scan->spare;
    for (int column = 0; column < T_COUNT; column++) {
        scan->recent[column] = -1;
        scan->failed |= !table_init(&scan->texts[column], 256);
    }
    return scan;
}

/* 0, or OUT_OF_MEMORY if the scan ran out of memory. */
INTERNAL int32_t scan_free(scan_t *scan)
{
    int32_t answer = scan->failed ? OUT_OF_MEMORY : 0;
    for (int set = 0; set < TEMPLATE_SETS; set++)
        for (int way = 0; way < TEMPLATE_WAYS; way++) free(scan->templates[set][way]);
    free(scan->spare);
    for (int column = 0; column < T_COUNT; column++) free(scan->texts[column].slots);
    free(scan);
    return answer;
}
