/* Detail lines linked to their records. */
#include <stdlib.h>

#include "processes.h"
#include "scanner.h"

/* A detail line is linked to the last record of its process if the numbers of the lines between have no gap. In syslog,
 * a record and its details have the same number. */
struct links {
    processes_t processes;
};

links_t *pglog_links_new(void)
{
    links_t *links = malloc(sizeof *links);
    if (!links || processes_init(&links->processes)) return links;
    free(links);
    return NULL;
}

void pglog_links_free(links_t *links)
{
    if (links) free(links->processes.slots);
    free(links);
}

static inline bool is_there(const byte_t *valid, int64_t row) { return !valid || (valid[row >> 3] >> (row & 7) & 1); }

int32_t pglog_link(links_t *links, int64_t rows, const link_columns_t *by, int64_t *targets, byte_t *valid)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t pid = by->pids && is_there(by->pids_valid, row) ? by->pids[row] : -1;
        int64_t line = by->lines && is_there(by->lines_valid, row) ? by->lines[row] : -1;
        process_t *process = process_of(&links->processes, pid);
        if (!process) return OUT_OF_MEMORY;
        if (by->severities[row] < S_DETAIL) {
            *process = (process_t){pid, line, 0, by->offsets[row], true};
            continue;
        }
        process->steps++;
        bool follows = line < 0 || line == process->line || line - process->line == process->steps;
        if (process->target < 0 || !follows) continue;
        targets[row] = process->target;
        valid[row >> 3] |= (byte_t)(1 << (row & 7));
    }
    return 0;
}
