// Questions and waits on streams, callbacks, and what the host knows of their order.
#include "sim.h"

#include <stdlib.h>

// An entry of a stream that ended says nothing any more: the host has waited for it.
static void clock_prune(struct clock *c)
{
    int kept = 0;
    for (int i = 0; i < c->n; i++)
        if (stream_by_id(c->ticks[i].stream) != NULL) c->ticks[kept++] = c->ticks[i];
    c->n = kept;
}

void clock_raise(struct clock *c, int stream, uint64_t seq)
{
    for (int i = 0; i < c->n; i++) {
        if (c->ticks[i].stream != stream) continue;
        if (c->ticks[i].seq < seq) c->ticks[i].seq = seq;
        return;
    }
    if (c->n == c->room) clock_prune(c);
    if (c->n == c->room) {
        int room = c->room == 0 ? 4 : 2 * c->room;
        struct tick *more = realloc(c->ticks, (size_t)room * sizeof(*more));
        if (more == NULL) return;
        c->ticks = more;
        c->room = room;
    }
    c->ticks[c->n++] = (struct tick){stream, seq};
}

void clock_join(struct clock *c, const struct clock *other)
{
    for (int i = 0; i < other->n; i++) clock_raise(c, other->ticks[i].stream, other->ticks[i].seq);
}

uint64_t clock_at(const struct clock *c, int stream)
{
    for (int i = 0; i < c->n; i++)
        if (c->ticks[i].stream == stream) return c->ticks[i].seq;
    return 0;
}

void clock_free(struct clock *c)
{
    free(c->ticks);
    *c = (struct clock){0};
}

static aclError wait_ms(aclrtStream stream, int32_t timeout)
{
    struct stream *s;
    if (timeout < -1) return acl_fail(ACL_ERROR_INVALID_PARAM, "timeout %d: want -1 or more", timeout);
    aclError rc = stream_need(stream, &s);
    return rc == ACL_SUCCESS ? stream_wait(s, UINT64_MAX, timeout < 0 ? -1 : timeout * 1000000LL) : rc;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    ACL_ENTER();
    return wait_ms(stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    ACL_ENTER();
    return wait_ms(stream, timeout);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    ACL_ENTER();
    struct stream *s;
    if (status == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtStreamQuery: NULL argument");
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    pthread_mutex_lock(&s->mu);
    uint64_t seq = s->completed;
    bool done = seq >= s->issued;
    rc = s->error;
    pthread_mutex_unlock(&s->mu);
    pthread_mutex_lock(&sim_lock);
    if (done) stream_saw(s->id, seq);
    pthread_mutex_unlock(&sim_lock);
    *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return rc;
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId)
{
    ACL_ENTER();
    struct stream *s;
    if (streamId == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtStreamGetId: NULL argument");
    aclError rc = stream_need(stream, &s);
    if (rc == ACL_SUCCESS) *streamId = s->id;
    return rc;
}

// The mode is set once, and spreads to every stream of the context.
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    ACL_ENTER();
    struct stream *s;
    if (mode > ACL_STOP_ON_FAILURE)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamFailureMode: mode %llu", (unsigned long long)mode);
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    pthread_mutex_lock(&s->mu);
    bool stops = s->stop_on_failure;
    pthread_mutex_unlock(&s->mu);
    if (stops)
        return mode == ACL_STOP_ON_FAILURE
                   ? ACL_SUCCESS
                   : acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamFailureMode: the mode is set once");
    if (mode == ACL_STOP_ON_FAILURE) streams_stop_on_failure(s->ctx);
    return ACL_SUCCESS;
}

static aclError device_wait(int32_t timeout)
{
    struct context *c;
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    int64_t until = timeout < 0 ? -1 : now_ns() + timeout * 1000000LL;
    for (struct stream *s = stream_after(-1, c->device); s != NULL; s = stream_after(s->id, c->device)) {
        int64_t left = until < 0 ? -1 : until - now_ns();
        rc = stream_wait(s, UINT64_MAX, until >= 0 && left < 0 ? 0 : left);
        if (rc != ACL_SUCCESS) return rc;
    }
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void)
{
    ACL_ENTER();
    return device_wait(-1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    ACL_ENTER();
    return device_wait(timeout);
}
