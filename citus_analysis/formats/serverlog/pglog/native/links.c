/* Detail lines and the records that they belong to. */
#include <stdlib.h>

#include "scanner.h"

/* A detail line is linked to the last record of its process if the numbers of the lines between have no gap. */
typedef struct {
    int64_t pid, record_line, steps, target;
    bool used;
} process_t;

struct links {
    process_t *processes;
    uint64_t mask, used;
};

links_t *pglog_links_new(void)
{
    links_t *links = malloc(sizeof *links);
    if (!links) return NULL;
    *links = (links_t){calloc(1024, sizeof *links->processes), 1023, 0};
    if (!links->processes) {
        free(links);
        return NULL;
    }
    return links;
}

void pglog_links_free(links_t *links)
{
    if (links) free(links->processes);
    free(links);
}

static process_t *process_slot(process_t *processes, uint64_t mask, int64_t pid)
{
    uint64_t slot = mix((uint64_t)pid) & mask;
    while (processes[slot].used && processes[slot].pid != pid) slot = (slot + 1) & mask;
    return &processes[slot];
}

static process_t *process_of(links_t *links, int64_t pid)
{
    process_t *process = process_slot(links->processes, links->mask, pid);
    if (process->used) return process;
    if (2 * (links->used + 1) > links->mask) {
        uint64_t mask = 2 * links->mask + 1;
        process_t *larger = calloc(mask + 1, sizeof *larger);
        if (!larger) return NULL;
        for (uint64_t old = 0; old <= links->mask; old++)
            if (links->processes[old].used) *process_slot(larger, mask, links->processes[old].pid) = links->processes[old];
        free(links->processes);
        links->processes = larger;
        links->mask = mask;
        process = process_slot(larger, mask, pid);
    }
    *process = (process_t){pid, -1, 0, -1, true};
    links->used++;
    return process;
}

static inline bool is_there(const byte_t *valid, int64_t row) { return !valid || (valid[row >> 3] >> (row & 7) & 1); }

int32_t pglog_link(links_t *links, int64_t rows, const link_columns_t *by, int64_t *targets, byte_t *valid)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t pid = by->pids && is_there(by->pids_valid, row) ? by->pids[row] : -1;
        int64_t line = by->lines && is_there(by->lines_valid, row) ? by->lines[row] : -1;
        process_t *process = process_of(links, pid);
        if (!process) return OUT_OF_MEMORY;
        if (by->severities[row] < S_DETAIL) {
            *process = (process_t){pid, line, 0, by->offsets[row], true};
            continue;
        }
        process->steps++;
        if (process->target < 0 || (line >= 0 && line - process->record_line != process->steps)) continue;
        targets[row] = process->target;
        valid[row >> 3] |= (byte_t)(1 << (row & 7));
    }
    return 0;
}
