/* The last record of each process of a log. */
#ifndef PGLOG_PROCESSES_H
#define PGLOG_PROCESSES_H

#include "bytes.h"

/* The last record of a process: line number, number of details since (steps), and place (target). */
typedef struct {
    int64_t pid, line, steps, target; /* -1: none */
    bool used;
} process_t;

/* A hash table by process. */
typedef struct {
    process_t *slots;
    uint64_t mask, used;
} processes_t;

/* False if out of memory. */
INTERNAL bool processes_init(processes_t *processes);

/* The entry of a process, added if it is new; NULL if out of memory. */
INTERNAL process_t *process_of(processes_t *processes, int64_t pid);

#endif
