/* The executions of a log's backends, assembled from their records in one pass.
 *
 * Records are given in the order in which each backend wrote them; records of backends may alternate in any way.
 * `spans/executions.py` defines the meaning of a record to its session (`enum record_event`), and the beginning and end
 * of a statement.
 */
#ifndef PGLOG_SESSIONS_H
#define PGLOG_SESSIONS_H

#include "scanner.h"

/* A missing integer. */
#define NOTHING_THERE INT64_MIN

/* A missing code. */
#define NO_CODE 255

typedef struct assembly assembly_t;

/* The arrays of `rules` must outlive the assembly. NULL if out of memory. */
EXPORTED assembly_t *pglog_assembly_new(const rules_t *rules);
EXPORTED void pglog_assembly_free(assembly_t *assembly);

/* Add records: 0, OUT_OF_MEMORY, or NOT_IN_ORDER if they must be sorted by session first. */
EXPORTED int32_t pglog_assemble(assembly_t *assembly, const records_t *records);

/* Complete all sessions: no more records follow. 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_assembly_end(assembly_t *assembly);

/* The number of executions assembled since the last call of pglog_assembled. */
EXPORTED int64_t pglog_assembly_waiting(const assembly_t *assembly);

/* The executions assembled since the last call; valid until the next call of any function. */
EXPORTED void pglog_assembled(assembly_t *assembly, assembled_t *assembled);

#endif
