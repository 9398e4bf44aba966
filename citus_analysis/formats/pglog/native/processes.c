/* See processes.h. */
#include "processes.h"

#include <stdlib.h>

INTERNAL bool processes_init(processes_t *processes)
{
    *processes = (processes_t){calloc(1024, sizeof *processes->slots), 1023, 0};
    return processes->slots;
}

static process_t *process_slot(process_t *slots, uint64_t mask, int64_t pid)
{
    uint64_t slot = mix((uint64_t)pid) & mask;
    while (slots[slot].used && slots[slot].pid != pid) slot = (slot + 1) & mask;
    return &slots[slot];
}

INTERNAL process_t *process_of(processes_t *processes, int64_t pid)
{
    process_t *process = process_slot(processes->slots, processes->mask, pid);
    if (process->used) return process;
    if (2 * (processes->used + 1) > processes->mask) {
        uint64_t mask = 2 * processes->mask + 1;
        process_t *larger = calloc(mask + 1, sizeof *larger);
        if (!larger) return NULL;
        for (uint64_t old = 0; old <= processes->mask; old++)
            if (processes->slots[old].used) *process_slot(larger, mask, processes->slots[old].pid) = processes->slots[old];
        free(processes->slots);
        processes->slots = larger;
        processes->mask = mask;
        process = process_slot(larger, mask, pid);
    }
    *process = (process_t){pid, -1, 0, -1, true};
    processes->used++;
    return process;
}
