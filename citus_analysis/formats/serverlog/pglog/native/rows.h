/* Rows of csvlog and objects of jsonlog, which have each column by itself.
 *
 * Only rows as servers write them are read here. Where a row is anything else (cut, damaged, written by another
 * program), the whole chunk is left to the reader in Python (`pgcsvlog.py`, `pgjsonlog.py`), which defines the meaning
 * of such rows.
 */
#ifndef PGLOG_ROWS_H
#define PGLOG_ROWS_H

#include "scanner.h"

/* Fill `output`, which has room for `most` rows, with the records of a chunk and their details, each of which is a row.
 *
 * The chunk is followed by room for as many bytes again: texts in which quotes are doubled or characters escaped are
 * written there. `form` is of `enum row_form`; of `prefix` only the severities are read. 0, OUT_OF_MEMORY, IRREGULAR
 * where some row is not as a server writes it, or MORE_ROOM where there are more rows. */
EXPORTED int32_t pglog_scan_rows(const chunk_t *chunk, int32_t form, const prefix_t *prefix, byte_t *text, int64_t most,
                                 output_t *output);

#endif
