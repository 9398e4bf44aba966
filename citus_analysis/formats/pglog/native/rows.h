/* Rows of csvlog and objects of jsonlog, which have a field for each column.
 *
 * This reader accepts only rows in the form that servers write. If any row differs (cut, damaged, written by another
 * program), the reader in Python (`pgcsvlog.py`, `pgjsonlog.py`), which defines the meaning of such rows, reads the whole
 * chunk.
 */
#ifndef PGLOG_ROWS_H
#define PGLOG_ROWS_H

#include "scanner.h"

/* Fill `output`, which has room for `most` rows, with the records of a chunk and their details, each of which is a row.
 *
 * The chunk is followed by memory of the same size, where texts with doubled quotes or escaped characters are written
 * without them. `form` is a value of `enum row_form`; only the severities of `prefix` are used. Returns 0, OUT_OF_MEMORY,
 * IRREGULAR if a server does not write some row in this form, or MORE_ROOM if there are more than `most` rows. */
EXPORTED int32_t pglog_scan_rows(const chunk_t *chunk, int32_t form, const prefix_t *prefix, byte_t *text, int64_t most,
                                 output_t *output);

#endif
