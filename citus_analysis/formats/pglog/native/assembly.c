/* Memory of an assembly: lists that grow, executions that are reused, a table of backends. */
#include "assembly.h"

#include <stdlib.h>

INTERNAL void *list_add(list_t *list, size_t size)
{
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 4;
        void *items = realloc(list->items, (size_t)room * size);
        if (!items) return NULL;
        list->items = items;
        list->room = room;
    }
    return (byte_t *)list->items + (size_t)list->count++ * size;
}

static void work_free(work_t *work)
{
    if (!work) return;
    free(work->timed.items);
    free(work->tasks.items);
    free(work->locals.items);
    free(work);
}

static void works_free(list_t *list)
{
    for (int64_t number = 0; number < list->count; number++) work_free(((work_t **)list->items)[number]);
    free(list->items);
}

INTERNAL work_t *work_new(assembly_t *assembly)
{
    if (assembly->spare.count) return ((work_t **)assembly->spare.items)[--assembly->spare.count];
    work_t *work = calloc(1, sizeof *work);
    if (!work) assembly->failed = true;
    return work;
}

INTERNAL void work_done(assembly_t *assembly, work_t *work)
{
    work->timed.count = work->tasks.count = work->locals.count = 0;
    work_t **place = list_add(&assembly->spare, sizeof *place);
    if (place) *place = work;
    else work_free(work);
}

assembly_t *pglog_assembly_new(const rules_t *rules)
{
    assembly_t *assembly = calloc(1, sizeof *assembly);
    if (!assembly) return NULL;
    assembly->rules = *rules;
    assembly->mask = 1023;
    assembly->backends = calloc(assembly->mask + 1, sizeof *assembly->backends);
    if (assembly->backends) return assembly;
    free(assembly);
    return NULL;
}

void pglog_assembly_free(assembly_t *assembly)
{
    if (!assembly) return;
    for (uint64_t slot = 0; slot <= assembly->mask; slot++) {
        work_free(assembly->backends[slot].current);
        work_free(assembly->backends[slot].held);
        works_free(&assembly->backends[slot].undecided);
        free(assembly->backends[slot].connections.items);
        free(assembly->backends[slot].names.items);
    }
    free(assembly->backends);
    works_free(&assembly->spare);
    list_t *lists[] = {&assembly->executions, &assembly->phases,   &assembly->tasks,
                       &assembly->locals,     &assembly->sessions, &assembly->missing};
    for (size_t number = 0; number < sizeof lists / sizeof *lists; number++) free(lists[number]->items);
    free(assembly);
}

static backend_t *backend_slot(backend_t *backends, uint64_t mask, int64_t node, int64_t pid)
{
    uint64_t slot = mix((uint64_t)pid ^ (uint64_t)node << 40) & mask;
    while (backends[slot].used && (backends[slot].pid != pid || backends[slot].node != node)) slot = (slot + 1) & mask;
    return &backends[slot];
}

INTERNAL backend_t *backend_of(assembly_t *assembly, int64_t node, int64_t pid)
{
    backend_t *backend = backend_slot(assembly->backends, assembly->mask, node, pid);
    if (backend->used) return backend;
    if (2 * (assembly->used + 1) > assembly->mask) {
        uint64_t mask = 2 * assembly->mask + 1;
        backend_t *larger = calloc(mask + 1, sizeof *larger);
        if (!larger) return NULL;
        for (uint64_t old = 0; old <= assembly->mask; old++) {
            backend_t *one = &assembly->backends[old];
            if (one->used) *backend_slot(larger, mask, one->node, one->pid) = *one;
        }
        free(assembly->backends);
        assembly->backends = larger;
        assembly->mask = mask;
        backend = backend_slot(larger, mask, node, pid);
    }
    assembly->used++;
    *backend = (backend_t){.node = node, .pid = pid, .line = NOTHING_THERE, .newest = NOTHING_THERE, .floor = NOTHING_THERE};
    return backend;
}
