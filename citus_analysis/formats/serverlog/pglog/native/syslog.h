/* Messages that PostgreSQL hands to syslog in pieces (`syslog_split_messages`): one line each, between which lines of other
 * processes may stand. A line that continues a message has its process and its number.
 *
 * What a message says is put together after the chunk and read from there; what bytes a record has is not changed by it.
 */
#ifndef PGLOG_SYSLOG_H
#define PGLOG_SYSLOG_H

#include "scan.h"

/* What is known of the messages of a chunk; NULL where memory is out. */
INTERNAL messages_t *messages_new(const chunk_t *chunk);
INTERNAL void messages_free(messages_t *messages);

/* The record that `scan->head` begins, whose text is from `begin` to `end`. */
INTERNAL void open_message(scan_t *scan, int64_t row, place_t begin, place_t end);

/* A line that continues a message. */
INTERNAL void continue_message(scan_t *scan, place_t begin, place_t end);

/* Leave out what a message has after a place, and what follows it. */
INTERNAL void cut_message(scan_t *scan, int64_t row, place_t end);

/* Columns that the texts of all messages tell. */
INTERNAL void read_messages(scan_t *scan, int64_t rows);

/* The last record, some bytes before the end, after which nothing continues a message before it; ABSENT where there is
 * no record, OUT_OF_MEMORY. */
INTERNAL place_t last_between_messages(lines_t *lines, const byte_t *text, place_t size);

#endif
