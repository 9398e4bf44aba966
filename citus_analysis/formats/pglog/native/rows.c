/* See rows.h. */
#include "rows.h"

#include "row.h"

int32_t pglog_scan_rows(const chunk_t *chunk, int32_t form, const prefix_t *prefix, byte_t *text, int64_t most,
                        output_t *output)
{
    scan_t *scan = scan_new(text, prefix, output);
    if (!scan) return OUT_OF_MEMORY;
    reader_t reader = {scan, chunk, text, chunk->size, most};
    int32_t answer = 0;
    place_t place = 0;
    while (place < chunk->size && answer == 0 && !scan->failed) {
        place_t begin = place;
        answer = form == W_JSON ? read_json(&reader, begin, &place) : read_csv(&reader, begin, form == W_LOOSE_CSV, &place);
    }
    int32_t freed = scan_free(scan);
    return freed ? freed : answer;
}
