/* What the fuzzer calls: the fields of one text, in buffers without a byte to spare. The first byte picks the separator. */
#include "fields.c"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(truth) \
    if (!(truth)) __builtin_trap()

static void *room(int64_t size) { return malloc((size_t)(size > 0 ? size : 1)); }

static void require_sound(const byte_t *text, int64_t size, const fields_t *fields, int64_t lines, int64_t count)
{
    REQUIRE(fields->first[lines] == count);
    for (int64_t line = 0; line < lines; line++) REQUIRE(fields->first[line] <= fields->first[line + 1]);
    for (int64_t at = 0; at < count; at++) {
        const int64_t begin = fields->begin[at], length = fields->length[at];
        REQUIRE(begin >= 0 && length >= 0 && begin + length <= size);
        REQUIRE(memchr(text + begin, '\n', (size_t)length) == NULL);
        REQUIRE(fields->kind[at] <= MOMENT_UTC && isfinite(fields->number[at]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 1) return 0;
    const int64_t size = (int64_t)length - 1;
    const byte_t separator = (byte_t)" ;,\t"[data[0] % 4];
    byte_t *text = room(size);
    memcpy(text, data + 1, (size_t)size);
    int64_t lines = size > 0 && text[size - 1] != '\n';
    for (int64_t at = 0; at < size; at++) lines += text[at] == '\n';
    const int64_t most = fields_most(text, size, separator);
    fields_t fields = {room((lines + 1) * 8), room(most * 4), room(most * 4), room(most * 8), room(most)};
    const int64_t count = fields_split(text, size, separator, &fields);
    REQUIRE(count <= most);
    require_sound(text, size, &fields, lines, count);
    free(fields.first), free(fields.begin), free(fields.length), free(fields.number), free(fields.kind), free(text);
    return 0;
}
