/* The compiled scanner's interface, which `compiled.py` calls. */
#ifndef PGLOG_SCANNER_H
#define PGLOG_SCANNER_H

#include "bytes.h"

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* The LAYOUT_HASH with which the library was compiled. */
EXPORTED int64_t pglog_layout(void);

/* Properties of the bytes of a text. */
EXPORTED text_facts_t pglog_text_facts(const byte_t *text, int64_t size);

/* Fill `output`, which has room for one row per line, with the records of a chunk; 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_scan(const chunk_t *chunk, const prefix_t *prefix, output_t *output);

/* Fill the columns of `output` that are read from texts. Text number i is from bounds[i] to bounds[i + 1]; `severities`
 * are values of `enum severity`. 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_read_texts(const byte_t *text, int64_t rows, const int64_t *bounds, const byte_t *severities,
                                  output_t *output);

/* Copy slices of a text one after the other; `data` has room for all. */
EXPORTED void pglog_gather(const byte_t *text, int64_t count, const slice_t *places, byte_t *data);

/* The number of lines that begin a record, or OUT_OF_MEMORY. */
EXPORTED int64_t pglog_heads(const byte_t *text, int64_t size, const prefix_t *prefix);

/* The beginning of the last record, which may continue after the text (whole lines); -1 if the last opener is not a
 * record. */
EXPORTED int64_t pglog_last_record(const byte_t *text, int64_t size, int64_t line_cap, const prefix_t *prefix);

/* State of each process, from chunk to chunk. */
typedef struct links links_t;
EXPORTED links_t *pglog_links_new(void);
EXPORTED void pglog_links_free(links_t *links);

/* Set the offset of the record for each detail; `valid` (one bit per row) must be zeros. 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_link(links_t *links, int64_t rows, const link_columns_t *by, int64_t *targets, byte_t *valid);

#endif
