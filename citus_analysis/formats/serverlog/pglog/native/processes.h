/* What is remembered of each process of a log. */
#ifndef PGLOG_PROCESSES_H
#define PGLOG_PROCESSES_H

#include "bytes.h"

/* The last record of a process: the number of its line, where it is, and how many details were seen since. */
typedef struct {
    int64_t pid, line, steps, target; /* -1 each where there is none */
    bool used;
} process_t;

/* A hash table by process. */
typedef struct {
    process_t *slots;
    uint64_t mask, used;
} processes_t;

/* False where memory is out. */
INTERNAL bool processes_init(processes_t *processes);

/* The process, which is made where it is new; NULL where memory is out. */
INTERNAL process_t *process_of(processes_t *processes, int64_t pid);

#endif
