// What all operators share: who may call, when, from which thread, on which stream.
#include "sim.h"

#include <stdlib.h>

size_t dtype_size(HcclDataType t)
{
    switch (t) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0: return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16: return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32: return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64: return 8;
    case HCCL_DATA_TYPE_INT128: return 16;
    case HCCL_DATA_TYPE_RESERVED: return 0;
    }
    return 0;
}

const char *command_name(uint32_t command)
{
    static const char *const names[] = {
        "",          "BROADCAST",   "ALLREDUCE",        "REDUCE",          "SEND",
        "RECEIVE",   "ALLGATHER",   "REDUCE_SCATTER",   "ALLTOALLV",       "ALLTOALLVC",
        "ALLTOALL",  "GATHER",      "SCATTER",          "BATCH_SEND_RECV", "BATCH_PUT",
        "BATCH_GET", "ALLGATHER_V", "REDUCE_SCATTER_V", "BATCH_WRITE",
    };
    return command < sizeof(names) / sizeof(names[0]) ? names[command] : "BARRIER";
}

// Operators of one device are issued serially; in strict mode by one thread for ever.
static HcclResult issue_begin(const char *function, struct device *d)
{
    if (atomic_fetch_add(&d->issuing, 1) != 0) {
        atomic_fetch_sub(&d->issuing, 1);
        return hccl_fail(HCCL_E_INTERNAL,
                         "hccl_sim: %s: another thread is inside an operator of device %d; issue them serially",
                         function, d->id);
    }
    uint64_t nobody = 0, me = thread_id();
    if (!atomic_compare_exchange_strong(&d->issuer, &nobody, me) && nobody != me && sim_env()->strict) {
        atomic_fetch_sub(&d->issuing, 1);
        return hccl_fail(
            HCCL_E_INTERNAL,
            "hccl_sim: %s: thread %llu issues on device %d, which thread %llu issued on before (HCCL_SIM_STRICT)",
            function, (unsigned long long)me, d->id, (unsigned long long)nobody);
    }
    return HCCL_SUCCESS;
}

HcclResult op_begin(const char *function, HcclComm comm, aclrtStream stream, struct op_call *call)
{
    if (comm == NULL || stream == NULL)
        return hccl_fail(HCCL_E_PTR, "EI0003: %s: %s is NULL", function, comm == NULL ? "comm" : "stream");
    if (stream_need(stream, &call->s) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    HcclResult rc = comm_enter(comm, &call->c);
    if (rc != HCCL_SUCCESS) return rc;
    struct comm *c = call->c;
    if (c->ctx != call->s->ctx)
        rc = hccl_fail(HCCL_E_RUNTIME, "EE1010: %s: the communicator was made in another context than the stream's",
                       function);
    if (rc == HCCL_SUCCESS) rc = issue_begin(function, c->dev);
    if (rc != HCCL_SUCCESS) {
        comm_leave(c);
        return rc;
    }
    pause_ns(sim_env()->issue_ns);
    if (hccl_env()->entry_log)
        sim_log(LOG_EVENT, "Entry-%s: communicator %s rank %u stream %d", function, c->opt.name, c->rank, call->s->id);
    return HCCL_SUCCESS;
}

HcclResult op_end(struct op_call *call, HcclResult rc)
{
    atomic_fetch_sub(&call->c->dev->issuing, 1);
    comm_leave(call->c);
    return rc;
}

HcclResult op_buffer(struct op_call *call, const char *what, const void *buf, uint64_t bytes)
{
    if (buf == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s is NULL", what);
    if (mem_device(buf) < 0)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s %p (%llu bytes) is host memory; HCCL moves device memory only", what,
                         buf, (unsigned long long)bytes);
    if (mem_device(buf) != call->c->dev->id)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s %p is memory of device %d, the communicator is on device %d", what,
                         buf, mem_device(buf), call->c->dev->id);
    return HCCL_SUCCESS;
}

// Two operators of one communicator on two streams need an event, or the host, between them: they share notifies
// and buffers. The check is by order of issue, not by luck of timing. The caller holds sim_lock.
static bool ordered(const struct comm *c, const struct stream *s)
{
    if (c->last_stream < 0 || c->last_stream == s->id) return true;
    struct stream *last = stream_by_id(c->last_stream);
    return last == NULL || last->synced >= c->last_seq || clock_at(&s->before, c->last_stream) >= c->last_seq;
}

static aclError op_run(struct task *t, struct stream *s)
{
    struct op_task *o = (struct op_task *)t;
    struct comm *c = o->c;
    aclError rc;
    pthread_mutex_lock(&c->mu);
    bool dying = c->dying;
    o->started = true;
    c->queued--;
    if (!dying) c->executing++;
    pthread_mutex_unlock(&c->mu);
    if (dying)
        return acl_fail(sim_env()->chip->dma_fault,
                        "EI0012: SDMA fault: communicator %s was destroyed before its stream finished", c->opt.name);
    if (fault_task(&rc)) {
        rc = acl_fail(rc, "%s: fault: an operator of communicator %s fails",
                      rc == sim_env()->chip->task_timeout ? "EI0002" : "EI0012", c->opt.name);
    } else {
        fault_die(PHASE_LATER, c->rank);
        rc = o->body(o, c, s);
    }
    pthread_mutex_lock(&c->mu);
    c->executing--;
    pthread_cond_broadcast(&c->cond);
    pthread_mutex_unlock(&c->mu);
    return rc;
}

static void op_release(struct task *t)
{
    struct op_task *o = (struct op_task *)t;
    pthread_mutex_lock(&o->c->mu);
    if (!o->started) o->c->queued--;
    pthread_mutex_unlock(&o->c->mu);
    comm_unref(o->c);
    free(o);
}

HcclResult op_push(struct op_call *call, struct op_task *o)
{
    struct comm *c = call->c;
    o->t = (struct task){.run = op_run, .release = op_release};
    o->c = c;
    pthread_mutex_lock(&c->mu);
    c->refs++; // of the task
    c->queued++;
    pthread_mutex_unlock(&c->mu);
    pthread_mutex_lock(&sim_lock);
    bool ok = ordered(c, call->s);
    int last = c->last_stream;
    pthread_mutex_unlock(&sim_lock);
    if (!ok) {
        atomic_store(&c->async_error, HCCL_E_INTERNAL);
        sim_log(LOG_ERROR,
                "hccl_sim: communicator %s: operators on streams %d and %d without an event between them corrupt each "
                "other",
                c->opt.name, last, call->s->id);
    }
    uint64_t seq = stream_push(call->s, &o->t);
    pthread_mutex_lock(&sim_lock);
    c->last_stream = call->s->id;
    c->last_seq = seq;
    pthread_mutex_unlock(&sim_lock);
    return HCCL_SUCCESS;
}
