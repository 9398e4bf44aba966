/* The work of a log's backends: the statement that each record belongs to, found while the records pass.
 *
 * Records are given in the order in which each backend wrote them; backends may alternate as they like. What a record is
 * to its session (`enum record_event`), and where a statement begins and ends, is said in `spans/read/records.py`.
 */
#ifndef PGLOG_SESSIONS_H
#define PGLOG_SESSIONS_H

#include "scanner.h"

/* Of integers that are not there. */
#define NOTHING_THERE INT64_MIN

/* Number of a code that is not there. */
#define NO_CODE 255

typedef struct assembly assembly_t;

/* The arrays that `rules` refers to must stay. NULL where memory is out. */
EXPORTED assembly_t *pglog_assembly_new(const rules_t *rules);
EXPORTED void pglog_assembly_free(assembly_t *assembly);

/* Take in records: 0, OUT_OF_MEMORY, or NOT_IN_ORDER where they must be sorted by session first. */
EXPORTED int32_t pglog_assemble(assembly_t *assembly, const records_t *records);

/* No more records come: open executions end here. 0 or OUT_OF_MEMORY. */
EXPORTED int32_t pglog_assembly_end(assembly_t *assembly);

/* The number of executions assembled since they were last asked for. */
EXPORTED int64_t pglog_assembly_waiting(const assembly_t *assembly);

/* The executions assembled since the last call; valid until the next call of any function. */
EXPORTED void pglog_assembled(assembly_t *assembly, assembled_t *assembled);

#endif
