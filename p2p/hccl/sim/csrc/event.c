// Events. One lock and one condition serve all of them: an abort must be able to wake whoever waits.
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define EVENT_MAGIC 0x65766e74U

struct event {
    uint32_t magic;
    int device, refs;
    bool timed;
    uint64_t recorded, done; // number of the last record issued, and of the last one that ran
    int64_t at;              // when that was
    struct clock clock;      // what the last record comes after; under sim_lock
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static uint32_t op_wait_timeout; // s, 0: for ever

static void changed_init(void)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &a);
}

static void event_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, changed_init);
    pthread_mutex_lock(&lock);
}

static void event_unlock(void) { pthread_mutex_unlock(&lock); }

void event_wake_all(void)
{
    event_lock();
    pthread_cond_broadcast(&changed);
    event_unlock();
}

static bool wait_changed(int64_t until)
{
    if (until < 0) {
        pthread_cond_wait(&changed, &lock);
        return true;
    }
    struct timespec t = {until / 1000000000, until % 1000000000};
    return pthread_cond_timedwait(&changed, &lock, &t) != ETIMEDOUT;
}

static void event_unref(struct event *e)
{
    event_lock();
    bool last = --e->refs == 0;
    event_unlock();
    if (!last) return;
    e->magic = 0;
    clock_free(&e->clock);
    free(e);
}

static aclError event_make(aclrtEvent *event, bool timed)
{
    struct context *c;
    if (event == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateEvent: NULL argument");
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    struct device *d = device_at(c->device);
    pthread_mutex_lock(&sim_lock);
    bool full = (uint32_t)d->events >= sim_env()->chip->max_events;
    if (!full) d->events++;
    pthread_mutex_unlock(&sim_lock);
    if (full)
        return acl_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "EE1005: device %d has all its %u events in use", d->id,
                        sim_env()->chip->max_events);
    struct event *e = calloc(1, sizeof(*e));
    if (e == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    *e = (struct event){.magic = EVENT_MAGIC, .device = d->id, .refs = 1, .timed = timed};
    *event = e;
    return ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent *event)
{
    ACL_ENTER();
    return event_make(event, true);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    ACL_ENTER();
    return event_make(event, (flag & ACL_EVENT_TIME_LINE) != 0);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    ACL_ENTER();
    return event_make(event, (flag & ACL_EVENT_TIME_LINE) != 0);
}

static aclError event_need(aclrtEvent handle, struct event **e)
{
    *e = handle;
    if (handle == NULL || (*e)->magic != EVENT_MAGIC)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "%p is not an event", handle);
    struct context *c;
    return context_need(&c);
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    ACL_ENTER();
    struct event *e;
    aclError rc = event_need(event, &e);
    if (rc != ACL_SUCCESS) return rc;
    pthread_mutex_lock(&sim_lock);
    device_at(e->device)->events--;
    pthread_mutex_unlock(&sim_lock);
    event_unref(e);
    return ACL_SUCCESS;
}

struct event_task {
    struct task t;
    struct event *e;
    uint64_t version;
};

static void event_release(struct task *t)
{
    event_unref(((struct event_task *)t)->e);
    free(t);
}

static struct event_task *task_new(struct event *e, aclError (*run)(struct task *, struct stream *))
{
    struct event_task *t = calloc(1, sizeof(*t));
    if (t == NULL) return NULL;
    t->t.run = run;
    t->t.release = event_release;
    t->e = e;
    event_lock();
    e->refs++;
    event_unlock();
    return t;
}

static aclError record_run(struct task *t, struct stream *s)
{
    struct event_task *r = (struct event_task *)t;
    (void)s;
    event_lock();
    if (r->version > r->e->done) {
        r->e->done = r->version;
        r->e->at = now_ns();
    }
    pthread_cond_broadcast(&changed);
    event_unlock();
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    ACL_ENTER();
    if (sim_env()->noop) return ACL_SUCCESS;
    struct stream *s;
    struct event *e;
    aclError rc = event_need(event, &e);
    if (rc == ACL_SUCCESS) rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct event_task *t = task_new(e, record_run);
    if (t == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    event_lock();
    t->version = ++e->recorded;
    event_unlock();
    pthread_mutex_lock(&sim_lock); // before the push: whoever sees the event done reads the clock
    e->clock.n = 0;
    clock_join(&e->clock, &s->before);
    pthread_mutex_lock(&s->mu);
    uint64_t issued = s->issued;
    pthread_mutex_unlock(&s->mu);
    clock_raise(&e->clock, s->id, issued);
    pthread_mutex_unlock(&sim_lock);
    stream_push(s, &t->t);
    return ACL_SUCCESS;
}

static aclError reset_run(struct task *t, struct stream *s)
{
    struct event_task *r = (struct event_task *)t;
    (void)s;
    event_lock();
    if (r->e->recorded == r->version) r->e->recorded = r->e->done = 0;
    event_unlock();
    return ACL_SUCCESS;
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    ACL_ENTER();
    struct stream *s;
    struct event *e;
    aclError rc = event_need(event, &e);
    if (rc == ACL_SUCCESS) rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct event_task *t = task_new(e, reset_run);
    if (t == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    event_lock();
    t->version = e->recorded;
    event_unlock();
    stream_push(s, &t->t);
    return ACL_SUCCESS;
}

static aclError await_run(struct task *t, struct stream *s)
{
    struct event_task *w = (struct event_task *)t;
    event_lock();
    int64_t until = op_wait_timeout == 0 ? -1 : now_ns() + sim_seconds(op_wait_timeout);
    bool in_time = true;
    while (w->e->done < w->version && !atomic_load(&s->stopping) && in_time) in_time = wait_changed(until);
    bool done = w->e->done >= w->version;
    event_unlock();
    if (done) return ACL_SUCCESS;
    if (in_time) return TASK_STOPPED;
    return acl_fail(ACL_ERROR_RT_WAIT_TIMEOUT, "EE9999: stream %d waited %u s for an event", s->id, op_wait_timeout);
}

// An event never recorded is waited for all the same: whoever waits before recording finds out.
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    ACL_ENTER();
    if (sim_env()->noop) return ACL_SUCCESS;
    struct stream *s;
    struct event *e;
    aclError rc = event_need(event, &e);
    if (rc == ACL_SUCCESS) rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct event_task *t = task_new(e, await_run);
    if (t == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    event_lock();
    t->version = e->recorded == 0 ? 1 : e->recorded;
    event_unlock();
    pthread_mutex_lock(&sim_lock);
    clock_join(&s->before, &e->clock);
    pthread_mutex_unlock(&sim_lock);
    stream_push(s, &t->t);
    return ACL_SUCCESS;
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    ACL_ENTER();
    event_lock();
    op_wait_timeout = timeout;
    event_unlock();
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    ACL_ENTER();
    (void)timeout; // of compute kernels, and the simulator has none
    return ACL_SUCCESS;
}

// The host has seen that the event is done, so it knows what came before it.
static void host_saw(struct event *e)
{
    pthread_mutex_lock(&sim_lock);
    for (int i = 0; i < e->clock.n; i++) stream_saw(e->clock.ticks[i].stream, e->clock.ticks[i].seq);
    pthread_mutex_unlock(&sim_lock);
}

static aclError query(aclrtEvent event, bool *done)
{
    struct event *e;
    aclError rc = event_need(event, &e);
    if (rc != ACL_SUCCESS) return rc;
    event_lock();
    *done = e->recorded > 0 && e->done == e->recorded;
    event_unlock();
    if (*done) host_saw(e);
    return ACL_SUCCESS;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    ACL_ENTER();
    bool done = false;
    if (status == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtQueryEvent: NULL argument");
    aclError rc = query(event, &done);
    if (rc == ACL_SUCCESS) *status = done ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return rc;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    ACL_ENTER();
    bool done = false;
    if (status == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtQueryEventStatus: NULL argument");
    aclError rc = query(event, &done);
    if (rc == ACL_SUCCESS) *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return rc;
}

static aclError synchronize(aclrtEvent event, int32_t timeout)
{
    struct event *e;
    aclError rc = event_need(event, &e);
    if (rc != ACL_SUCCESS) return rc;
    int64_t until = timeout < 0 ? -1 : now_ns() + timeout * 1000000LL;
    event_lock();
    uint64_t version = e->recorded;
    bool in_time = true;
    while (e->done < version && in_time) in_time = wait_changed(until);
    bool done = e->done >= version;
    event_unlock();
    if (version == 0) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003: the event was never recorded");
    if (!done) return ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
    host_saw(e);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    ACL_ENTER();
    return synchronize(event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    ACL_ENTER();
    if (timeout < -1) return acl_fail(ACL_ERROR_INVALID_PARAM, "timeout %d: want -1 or more", timeout);
    return synchronize(event, timeout);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    ACL_ENTER();
    struct event *a, *b;
    if (ms == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtEventElapsedTime: NULL argument");
    aclError rc = event_need(startEvent, &a);
    if (rc == ACL_SUCCESS) rc = event_need(endEvent, &b);
    if (rc != ACL_SUCCESS) return rc;
    event_lock();
    bool ok = a->timed && b->timed && a->done > 0 && b->done > 0;
    int64_t ns = b->at - a->at;
    event_unlock();
    if (!ok)
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID,
                        "EE1003: both events must be recorded and made with ACL_EVENT_TIME_LINE");
    *ms = (float)((double)ns / 1e6);
    return ACL_SUCCESS;
}
