// Streams: a queue of tasks and one thread that runs them in order.
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define STREAM_MAGIC 0x73747265U

static struct stream *streams; // all living ones, under sim_lock
static int next_id;

struct stream *stream_by_id(int id)
{
    struct stream *s = streams;
    while (s != NULL && s->id != id) s = s->next;
    return s;
}

void stream_saw(int id, uint64_t seq)
{
    struct stream *s = stream_by_id(id);
    if (s != NULL && s->synced < seq) s->synced = seq;
}

// Drops what is queued; the caller holds s->mu.
static struct task *take_all(struct stream *s)
{
    struct task *all = s->head;
    s->head = s->tail = NULL;
    return all;
}

static void release_all(struct task *t)
{
    while (t != NULL) {
        struct task *next = t->next;
        t->release(t);
        t = next;
    }
}

// Stores how a task ended; says which queued tasks must go because of it.
static struct task *note_end(struct stream *s, struct task *t, aclError rc)
{
    struct task *dropped = NULL;
    if (rc != ACL_SUCCESS && rc != TASK_STOPPED) {
        if (s->error == ACL_SUCCESS) {
            s->error = rc;
            errmsg_take(s->message, sizeof(s->message));
        }
        if (s->stop_on_failure) {
            s->failed = true;
            dropped = take_all(s);
            s->completed = s->issued;
        }
    }
    if (s->completed < t->seq) s->completed = t->seq;
    s->running = NULL;
    pthread_cond_broadcast(&s->cond);
    return dropped;
}

static void *stream_work(void *arg)
{
    struct stream *s = arg;
    pthread_mutex_lock(&s->mu);
    for (;;) {
        while (s->head == NULL && !s->quit) pthread_cond_wait(&s->cond, &s->mu);
        if (s->head == NULL) break;
        struct task *t = s->head;
        s->head = t->next;
        if (s->head == NULL) s->tail = NULL;
        s->running = t;
        pthread_mutex_unlock(&s->mu);
        aclError rc = t->run(t, s);
        pthread_mutex_lock(&s->mu);
        struct task *dropped = note_end(s, t, rc);
        pthread_mutex_unlock(&s->mu);
        t->release(t);
        release_all(dropped);
        pthread_mutex_lock(&s->mu);
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}

static void cond_monotonic(pthread_cond_t *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

static void stream_free(struct stream *s)
{
    if (s->wake >= 0) close(s->wake);
    clock_free(&s->before);
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->cond);
    s->magic = 0;
    free(s);
}

static struct stream *stream_new(struct context *c)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL) return NULL;
    s->magic = STREAM_MAGIC;
    s->ctx = c;
    s->stop_on_failure = c->stop_on_failure;
    pthread_mutex_init(&s->mu, NULL);
    cond_monotonic(&s->cond);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0 || pthread_create(&s->thread, NULL, stream_work, s) != 0) {
        stream_free(s);
        return NULL;
    }
    return s;
}

static aclError stream_make(struct context *c, struct stream **out)
{
    struct device *d = device_at(c->device);
    pthread_mutex_lock(&sim_lock);
    bool full = (uint32_t)d->streams >= sim_env()->chip->max_streams;
    if (!full) d->streams++;
    pthread_mutex_unlock(&sim_lock);
    if (full)
        return acl_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "EE1005: device %d has all its %u streams in use", d->id,
                        sim_env()->chip->max_streams);
    struct stream *s = stream_new(c);
    pthread_mutex_lock(&sim_lock);
    if (s == NULL) {
        d->streams--;
    } else {
        s->id = next_id++;
        s->next = streams;
        streams = s;
    }
    pthread_mutex_unlock(&sim_lock);
    if (s == NULL)
        return acl_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "EE1005: the host cannot start a thread for a stream");
    *out = s;
    return ACL_SUCCESS;
}

static aclError default_stream(struct context *c, struct stream **s)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    aclError rc = ACL_SUCCESS;
    pthread_mutex_lock(&making);
    if (c->deflt == NULL) {
        struct stream *made;
        rc = stream_make(c, &made);
        if (rc == ACL_SUCCESS) c->deflt = made;
    }
    *s = c->deflt;
    pthread_mutex_unlock(&making);
    return rc;
}

aclError stream_need(aclrtStream handle, struct stream **s)
{
    struct context *c;
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    if (handle == NULL) return default_stream(c, s);
    *s = handle;
    if ((*s)->magic != STREAM_MAGIC) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a stream", handle);
    if ((*s)->ctx != c)
        return acl_fail(ACL_ERROR_RT_STREAM_CONTEXT,
                        "EE1010: stream %d does not belong to the current context of thread %llu", (*s)->id,
                        (unsigned long long)thread_id());
    return ACL_SUCCESS;
}

uint64_t stream_push(struct stream *s, struct task *t)
{
    struct task *dropped = NULL;
    t->next = NULL;
    pthread_mutex_lock(&s->mu);
    uint64_t seq = t->seq = ++s->issued;
    if (s->failed) {
        dropped = t;
        s->completed = s->issued;
    } else {
        if (s->tail != NULL) s->tail->next = t;
        else s->head = t;
        s->tail = t;
        pthread_cond_broadcast(&s->cond);
    }
    pthread_mutex_unlock(&s->mu);
    release_all(dropped);
    return seq;
}

static bool timed_wait(struct stream *s, int64_t until)
{
    if (until < 0) {
        pthread_cond_wait(&s->cond, &s->mu);
        return true;
    }
    struct timespec t = {until / 1000000000, until % 1000000000};
    return pthread_cond_timedwait(&s->cond, &s->mu, &t) != ETIMEDOUT;
}

aclError stream_wait(struct stream *s, uint64_t seq, int64_t timeout_ns)
{
    int64_t until = timeout_ns < 0 ? -1 : now_ns() + timeout_ns;
    char message[ERRMSG_BYTES] = "";
    pthread_mutex_lock(&s->mu);
    if (seq > s->issued) seq = s->issued;
    uint64_t aborts = s->aborts;
    bool in_time = true;
    while (s->completed < seq && s->aborts == aborts && in_time) in_time = timed_wait(s, until);
    aclError rc = ACL_SUCCESS;
    bool done = s->completed >= seq;
    if (s->aborts != aborts) {
        rc = s->abort_code;
    } else if (!done) {
        rc = ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    } else if (s->error != ACL_SUCCESS) {
        rc = s->error;
        memcpy(message, s->message, sizeof(message));
        if (!s->stop_on_failure) s->error = ACL_SUCCESS; // told once; later tasks went on
    }
    pthread_mutex_unlock(&s->mu);
    pthread_mutex_lock(&sim_lock);
    if (done) stream_saw(s->id, seq);
    pthread_mutex_unlock(&sim_lock);
    if (message[0] != 0) errmsg_put(message);
    return rc;
}

static void stream_abort(struct stream *s, aclError code)
{
    pthread_mutex_lock(&s->mu);
    struct task *dropped = take_all(s);
    atomic_store(&s->stopping, true);
    uint64_t one = 1;
    if (write(s->wake, &one, sizeof(one)) < 0) sim_log(LOG_ERROR, "waking stream %d failed", s->id);
    s->abort_code = code;
    s->aborts++;
    pthread_cond_broadcast(&s->cond);
    event_wake_all();
    while (s->running != NULL) pthread_cond_wait(&s->cond, &s->mu);
    s->completed = s->issued;
    if (read(s->wake, &one, sizeof(one)) < 0) sim_log(LOG_ERROR, "stream %d had not been woken", s->id);
    atomic_store(&s->stopping, false);
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->mu);
    release_all(dropped);
}

// Takes a stream out of the list, lets its thread end and frees it.
static void stream_end(struct stream *s)
{
    pthread_mutex_lock(&sim_lock);
    for (struct stream **at = &streams; *at != NULL; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    device_at(s->ctx->device)->streams--;
    pthread_mutex_unlock(&sim_lock);
    pthread_mutex_lock(&s->mu);
    s->quit = true;
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->mu);
    pthread_join(s->thread, NULL);
    stream_free(s);
}

// One stream of those that fit, with sim_lock released.
static struct stream *any_stream(struct context *c)
{
    pthread_mutex_lock(&sim_lock);
    struct stream *s = streams;
    while (s != NULL && s->ctx != c) s = s->next;
    pthread_mutex_unlock(&sim_lock);
    return s;
}

void streams_drop(struct context *c)
{
    struct stream *s;
    while ((s = any_stream(c)) != NULL) {
        stream_abort(s, ACL_ERROR_RT_STREAM_ABORT);
        stream_end(s);
    }
    c->deflt = NULL;
}

// The first stream of a device after an id, with sim_lock released.
struct stream *stream_after(int id, int device)
{
    struct stream *found = NULL;
    pthread_mutex_lock(&sim_lock);
    for (struct stream *s = streams; s != NULL; s = s->next)
        if (s->ctx->device == device && s->id > id && (found == NULL || s->id < found->id)) found = s;
    pthread_mutex_unlock(&sim_lock);
    return found;
}

void streams_abort(int device, aclError code)
{
    for (struct stream *s = stream_after(-1, device); s != NULL; s = stream_after(s->id, device)) stream_abort(s, code);
}

void streams_stop_on_failure(struct context *c)
{
    pthread_mutex_lock(&sim_lock);
    c->stop_on_failure = true;
    for (struct stream *s = streams; s != NULL; s = s->next) {
        if (s->ctx != c) continue;
        pthread_mutex_lock(&s->mu);
        s->stop_on_failure = true;
        pthread_mutex_unlock(&s->mu);
    }
    pthread_mutex_unlock(&sim_lock);
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    return aclrtCreateStreamWithConfig(stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    ACL_ENTER();
    struct context *c;
    struct stream *s = NULL;
    (void)priority;
    (void)flag;
    if (stream == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateStream: NULL argument");
    aclError rc = context_need(&c);
    if (rc == ACL_SUCCESS) rc = stream_make(c, &s);
    if (rc == ACL_SUCCESS) *stream = s;
    return rc;
}

static aclError destroy(aclrtStream stream, bool force)
{
    struct stream *s;
    if (stream == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtDestroyStream: NULL stream");
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    if (force) stream_abort(s, ACL_ERROR_RT_STREAM_ABORT);
    else stream_wait(s, UINT64_MAX, -1);
    stream_end(s);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    ACL_ENTER();
    return destroy(stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    ACL_ENTER();
    return destroy(stream, true);
}

aclError aclrtStreamAbort(aclrtStream stream)
{
    ACL_ENTER();
    struct stream *s;
    if (!sim_env()->chip->has_abort)
        return acl_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtStreamAbort: not on %s", sim_env()->chip->name);
    aclError rc = stream_need(stream, &s);
    if (rc == ACL_SUCCESS) stream_abort(s, ACL_ERROR_RT_STREAM_ABORT);
    return rc;
}
