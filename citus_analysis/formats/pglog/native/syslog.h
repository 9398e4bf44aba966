/* Messages that PostgreSQL passes to syslog in pieces (`syslog_split_messages`). Each piece is a line; lines of other
 * processes may be between the pieces. A line that continues a message has its process and its number.
 *
 * The text of a message is joined in memory after the chunk and read from there; the bytes counted for a record remain
 * the same.
 */
#ifndef PGLOG_SYSLOG_H
#define PGLOG_SYSLOG_H

#include "scan.h"

/* The state of the messages of a chunk; NULL if out of memory. */
INTERNAL messages_t *messages_new(const chunk_t *chunk);
INTERNAL void messages_free(messages_t *messages);

/* Begin the message of the record with `scan->head`, whose first text is from `begin` to `end`. */
INTERNAL void open_message(scan_t *scan, int64_t row, place_t begin, place_t end);

/* Add a line to the message that it continues. */
INTERNAL void continue_message(scan_t *scan, place_t begin, place_t end);

/* Cut a message at a place; further lines are not added to it. */
INTERNAL void cut_message(scan_t *scan, int64_t row, place_t end);

/* Set the columns that are read from the texts of all messages. */
INTERNAL void read_messages(scan_t *scan, int64_t rows);

/* The last record, some bytes before the end, after which no line continues a message from before it; ABSENT if there is
 * none, or OUT_OF_MEMORY. */
INTERNAL place_t last_between_messages(lines_t *lines, const byte_t *text, place_t size);

#endif
