/* What the fuzzer calls: the compiled scanner on one input, in buffers without a byte to spare.
 *
 * The first byte picks prefix, whether the chunk is fresh and whether something is behind it. Records, strays and
 * blanks must cover every byte; cut in two where a record begins, the chunk must give the same records. The same bytes are
 * read as rows of csvlog and jsonlog, too.
 */
#define CHECK_TEMPLATES
#include "all.c"

#include "programs.h" /* made by fuzz_pglog.py: `prefixes`, PREFIX_COUNT, SAMPLE */

#define REQUIRE(truth) \
    if (!(truth)) __builtin_trap()

static void *room(int64_t size) { return malloc((size_t)(size > 0 ? size : 1)); }

static void open_column(column_t *column, int64_t rows, int64_t width)
{
    column->values = width ? room(rows * width) : calloc((size_t)(rows / 8 + 1), 1);
    column->valid = calloc((size_t)(rows / 8 + 1), 1);
}

static void for_columns(output_t *out, void (*act)(column_t *, int64_t, int64_t), int64_t rows)
{
    column_t *column = &out->byte_offset;
    for (; column <= &out->duration_us; column++) act(column, rows, 8);
    for (; column < &out->severity; column++) act(column, rows, 4);
    for (; column < &out->capped; column++) act(column, rows, 1);
    act(column, rows, 0);
}

static void close_column(column_t *column, int64_t rows, int64_t width)
{
    (void)rows, (void)width;
    free(column->values);
    free(column->valid);
}

static output_t opened(int64_t rows)
{
    output_t out = {0};
    for_columns(&out, open_column, rows);
    for (int column = 0; column < T_COUNT; column++)
        out.distinct_texts[column] = room(rows * (int64_t)sizeof(slice_t));
    out.messages = room(rows * (int64_t)sizeof(slice_t));
    out.strays = room((rows + 1) * (int64_t)sizeof(slice_t));
    out.shards = room((MAX_SHARDS * rows + 1) * (int64_t)sizeof(slice_t));
    return out;
}

static output_t scanned(const chunk_t *chunk, const prefix_t *prefix)
{
    output_t out = opened(pglog_text_facts(chunk->text, chunk->size).lines);
    REQUIRE(pglog_scan(chunk, prefix, &out) == 0);
    int64_t covered = out.blank_bytes + out.record_bytes;
    for (int64_t run = 0; run < out.stray_count; run++) covered += out.strays[run].end - out.strays[run].begin;
    bool tail_astray = chunk->tail && out.rows == 0;
    REQUIRE(covered == chunk->size + (tail_astray ? 0 : chunk->tail));
    return out;
}

static void closed(output_t *out)
{
    for_columns(out, close_column, 0);
    for (int column = 0; column < T_COUNT; column++) free(out->distinct_texts[column]);
    free(out->messages);
    free(out->strays);
    free(out->shards);
}

static bool is_valid(const column_t *column, int64_t row) { return column->valid[row >> 3] >> (row & 7) & 1; }

static void require_same(const output_t *one, int64_t row, const output_t *other, int64_t other_row)
{
    const column_t *left = &one->byte_offset, *right = &other->byte_offset;
    for (; left < &one->severity; left++, right++) {
        bool is_place = left <= &one->byte_length;
        bool is_number = left < &one->message;
        REQUIRE(is_valid(left, row) == is_valid(right, other_row));
        if (!is_number || !(is_place || is_valid(left, row))) continue;
        size_t width = left <= &one->duration_us ? 8 : 4;
        REQUIRE(memcmp((byte_t *)left->values + width * (size_t)row, (byte_t *)right->values + width * (size_t)other_row,
                       width) == 0);
    }
    REQUIRE(((byte_t *)one->kind.values)[row] == ((byte_t *)other->kind.values)[other_row]);
    REQUIRE(is_valid(&one->statement_kind, row) == is_valid(&other->statement_kind, other_row));
    if (!is_valid(&one->statement_kind, row)) return;
    REQUIRE(((byte_t *)one->statement_kind.values)[row] == ((byte_t *)other->statement_kind.values)[other_row]);
}

static void check_cut(const chunk_t *chunk, const prefix_t *prefix, const output_t *whole)
{
    int64_t place = pglog_last_record(chunk->text, chunk->size, chunk->line_cap, prefix);
    if (place <= 0 || chunk->tail) return;
    chunk_t first = *chunk, second = *chunk;
    first.size = place;
    second.text += place;
    second.size -= place;
    second.offset += place;
    second.fresh = 0;
    output_t one = scanned(&first, prefix), two = scanned(&second, prefix);
    REQUIRE(one.rows + two.rows == whole->rows);
    for (int64_t row = 0; row < one.rows; row++) require_same(whole, row, &one, row);
    for (int64_t row = 0; row < two.rows; row++) require_same(whole, one.rows + row, &two, row);
    closed(&one);
    closed(&two);
}

/* The same bytes as rows of csvlog and jsonlog: what is read covers all of them. */
static void check_rows(const byte_t *data, size_t size)
{
    for (int form = W_CSV; form <= W_JSON; form++) {
        byte_t *text = room(2 * (int64_t)size);
        memcpy(text, data, size);
        chunk_t chunk = {text, (int64_t)size, 1000, 0, 300, 50, 0, 0, NULL};
        int64_t most = pglog_text_facts(text, (int64_t)size).lines + 1;
        output_t out = opened(most);
        int32_t answer = pglog_scan_rows(&chunk, form, &prefixes[0], text, most, &out);
        REQUIRE(answer == 0 || answer == IRREGULAR || answer == MORE_ROOM);
        REQUIRE(answer != 0 || out.record_bytes == (int64_t)size);
        REQUIRE(out.rows <= most);
        closed(&out);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 2) return 0;
    const prefix_t *prefix = &prefixes[(data[0] >> 2) % PREFIX_COUNT];
    /* Bytes that no log holds stand for whole valid heads of lines, which chance would hardly write. */
    bool syslog = prefix->count > 0 && prefix->elements->kind == E_SYSLOG;
    const char *heads[] = {"", syslog ? SYSLOG_SAMPLE : SAMPLE, syslog ? SYSLOG_FURTHER : "\2", syslog ? SYSLOG_OTHER : "\3"};
    size_t size = 0;
    for (size_t index = 1; index < length; index++) size += data[index] - 1 < 3u ? strlen(heads[data[index]]) : 1;
    byte_t *text = room(2 * (int64_t)size), *end = text;
    for (size_t index = 1; index < length; index++) {
        size_t sample = data[index] - 1 < 3u ? strlen(heads[data[index]]) : 0;
        if (sample)
            memcpy(end, heads[data[index]], sample), end += sample;
        else
            *end++ = data[index];
    }
    bool zeros = size > 0 && memchr(text, 0, size) != NULL;
    byte_t *spare = syslog ? text + size : NULL;
    chunk_t chunk = {text, (int64_t)size, 1000, data[0] & 2 ? 77 : 0, 300, 50, data[0] & 1, zeros, spare};
    output_t out = scanned(&chunk, prefix);
    check_cut(&chunk, prefix, &out);
    closed(&out);
    free(text);
    check_rows(data + 1, length - 1);
    return 0;
}
