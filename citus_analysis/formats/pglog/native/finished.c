/* Complete executions and sessions: the decision which of them count, and their output. */
#include "assembly.h"

/* Name the closing phase execute, the last one before it bind, others parse; names in records take precedence. */
static void put_phases(assembly_t *assembly, const work_t *work, uint32_t number)
{
    const timed_t *timed = work->timed.items;
    for (int64_t place = 0; place < work->timed.count; place++) {
        phase_t phase = timed[place].phase;
        bool last = place + 1 == work->timed.count || timed[place + 1].phase.closes;
        bool parse = timed[place].event == R_PREPARE ? timed[place].parses : !last;
        phase.name = phase.closes ? 2 : parse ? 0 : 1;
        phase.execution = number;
        ADD(assembly, &assembly->phases, phase_t, phase);
    }
}

/* Whether another record tells more of a local execution: the one that names the shard, or the one after the statement
 * line of an execution that was logged during bind. */
static bool logged_again(const work_t *work, const local_t *local)
{
    int64_t opener = work->execution.opener_offset;
    bool nameless = local->shard_id == NOTHING_THERE, early = opener != NOTHING_THERE && local->byte_offset < opener;
    const local_t *all = work->locals.items;
    for (int64_t place = 0; place < work->locals.count; place++) {
        if (nameless && all[place].shard_id != NOTHING_THERE) return true;
        if (early && all[place].byte_offset >= opener && all[place].shard_id == local->shard_id) return true;
    }
    return false;
}

/* A plan for the own node's shard shows a local execution of a statement on data where nothing else does. */
static void add_planned(assembly_t *assembly, work_t *work)
{
    const execution_t *one = &work->execution;
    bool on_data = one->statement_kind <= Q_COPY;
    if (work->planned.byte_offset == NOTHING_THERE || work->locals.count || work->tasks.count) return;
    if (on_data && one->closed && !one->failed) ADD(assembly, &work->locals, local_t, work->planned);
}

/* A task is paired by facts about its execution, which is laid aside until then. */
static void tell_execution(sent_task_t *task, const execution_t *one)
{
    task->gpid = one->gpid;
    task->statement_offset = one->closed ? one->byte_offset : one->last_offset;
    task->statement_seq = one->session_seq;
    task->statement_source = one->source;
    task->session = one->session;
    task->pid = one->pid;
    task->failed = one->failed;
    task->is_child = one->is_child;
    task->anchored = one->anchored;
    task->values_hash = one->values_hash;
}

static void put_out(assembly_t *assembly, work_t *work)
{
    if (!work) return;
    uint32_t number = (uint32_t)assembly->execution_count++;
    put_phases(assembly, work, number);
    add_planned(assembly, work);
    for (int64_t place = 0; place < work->tasks.count; place++) {
        sent_task_t task = ((sent_task_t *)work->tasks.items)[place];
        task.execution = number;
        tell_execution(&task, &work->execution);
        ADD(assembly, &assembly->tasks, sent_task_t, task);
    }
    for (int64_t place = 0; place < work->locals.count; place++) {
        local_t local = ((local_t *)work->locals.items)[place];
        if (logged_again(work, &local)) continue;
        local.execution = number;
        if (local.statement_kind == NO_CODE) local.statement_kind = work->execution.statement_kind;
        work->execution.has_locals = 1;
        ADD(assembly, &assembly->locals, local_t, local);
    }
    ADD(assembly, &assembly->executions, execution_t, work->execution);
    work_done(assembly, work);
}

/* Hold an execution that counts until the next one of its session shows whether they share a transaction. */
static void keep(assembly_t *assembly, backend_t *backend, work_t *work)
{
    execution_t *one = &work->execution;
    one->session_seq = backend->kept++;
    if (backend->session.executions++ == 0) backend->session.anchored = one->anchored;
    if (one->start_time != NOTHING_THERE &&
        (backend->session.begins == NOTHING_THERE || one->start_time < backend->session.begins))
        backend->session.begins = one->start_time;
    if (one->is_child && one->opened && one->shard_id != NOTHING_THERE && !backend->on_shard_seen) {
        backend->on_shard_seen = true;
        one->first_on_shard = one->anchored;
    }
    work_t *before = backend->held;
    if (before && one->local_xid > 0 && before->execution.local_xid == one->local_xid)
        before->execution.in_transaction = one->in_transaction = 1;
    put_out(assembly, before);
    backend->held = work;
}

static bool counts_surely(const work_t *work)
{
    const execution_t *one = &work->execution;
    bool logged = work->timed_before && !one->fatal;
    return one->opened || one->has_tasks || (one->failed && (logged || one->phases > 0 || one->has_fingerprint));
}

/* Keep undecided executions that count: an error without a statement does if its session logs statements. */
static void decide(assembly_t *assembly, backend_t *backend, bool sampled)
{
    work_t **works = backend->undecided.items;
    for (int64_t number = 0; number < backend->undecided.count; number++) {
        const execution_t *one = &works[number]->execution;
        if (counts_surely(works[number]) || (sampled && one->failed && !one->fatal)) keep(assembly, backend, works[number]);
        else work_done(assembly, works[number]);
    }
    backend->undecided.count = 0;
}

INTERNAL void finish_execution(assembly_t *assembly, backend_t *backend, bool torn)
{
    work_t *work = backend->current;
    if (!work) return;
    backend->current = NULL;
    backend->described = NULL;
    backend->failing = NULL;
    if (work->bound && only_prepared(work) && !torn) {
        keep_bound(backend, work);
        close_at_bind(&work->execution, &work->bind);
    }
    const execution_t *one = &work->execution;
    if (one->opened && !backend->sampled) {
        backend->sampled = true;
        decide(assembly, backend, true);
    }
    bool counts = counts_surely(work), fails = one->failed && !one->fatal;
    if (!counts && !fails) {
        backend->strays += work->timed.count;
        work_done(assembly, work);
    } else if (backend->sampled) keep(assembly, backend, work);
    else ADD(assembly, &backend->undecided, work_t *, work);
}

INTERNAL void finish_session(assembly_t *assembly, backend_t *backend)
{
    finish_execution(assembly, backend, false);
    decide(assembly, backend, backend->sampled);
    put_out(assembly, backend->held);
    backend->held = NULL;
    if (backend->session.executions && backend->pid != NO_PROCESS) ADD(assembly, &assembly->sessions, session_t, backend->session);
    backend->session = (session_t){.node = (int32_t)backend->node, .begins = NOTHING_THERE};
    backend->session.session = (uint32_t)++assembly->session_count;
    backend->sampled = backend->on_shard_seen = false;
    backend->logs_all = false;
    backend->kept = backend->strays = backend->connections.count = backend->names.count = 0;
}
