/* The facts in a record's text, as `regular_expressions.py` defines them. */

#ifndef PGLOG_BODY_H
#define PGLOG_BODY_H

#include "bytes.h"

enum verb { V_NONE = -1, V_STATEMENT, V_PARSE, V_BIND, V_EXECUTE, V_FETCH, V_FASTPATH };

typedef struct {
    enum verb verb;
    place_t name, name_end; /* of the prepared statement */
    place_t statement;      /* beginning of its text */
} verb_t;

typedef struct {
    int64_t placement, shard, task_us, port;
    place_t host, host_end;
} task_t;

/* The place after `12.345 ms`, or ABSENT; its value is written to `microseconds`. */
INTERNAL place_t milliseconds_end(const byte_t *text, place_t begin, place_t end, int64_t *microseconds);

/* The end of the SQLSTATE before a message, `42P01: `; ABSENT if there is none. Unless it is known that all messages have
 * one, only `00000` is read as such, because a message may begin like this. */
INTERNAL place_t state_end(const byte_t *text, place_t begin, place_t end, bool verbose);

/* The place after a file of the server's source, `[postgres.c:1590]  `, which services put before a message. */
INTERNAL place_t after_file(const byte_t *text, place_t begin, place_t end);

/* The protocol's verb at the beginning: `statement: ...`, `execute S_1: ...`. Its statement may begin on the next line. */
INTERNAL verb_t verb_at(const byte_t *text, place_t begin, place_t end);

/* The verb after a duration, between which and the verb there may be facts of some servers: `rows: 17  size: 8 bytes  `. */
INTERNAL verb_t timed_verb_at(const byte_t *text, place_t begin, place_t end);

/* The statement's name in `bind <unnamed> to S_1`. */
INTERNAL verb_t bound_at(const byte_t *text, place_t begin, place_t end);

/* Whether Citus reports a task. */
INTERNAL bool task_at(const byte_t *text, place_t begin, place_t end, task_t *task);

/* A connection to a worker: what it took to make it, and where it leads to. */
INTERNAL bool connection_at(const byte_t *text, place_t begin, place_t end, task_t *task);

/* Whether a text is the local executor's of Citus 13.2 and later, about a plan that it was handed. */
INTERNAL bool is_local_execution(const byte_t *text, place_t begin, place_t end);

/* Whether a text is its planner's, about a plan that was made for a shard on the own node. */
INTERNAL bool is_local_plan(const byte_t *text, place_t begin, place_t end);

/* Microseconds of a wait for a lock; -1 if the record reports no such wait. */
INTERNAL int64_t lock_us(const byte_t *text, place_t begin, place_t end);

#endif
