// aclrtLaunchCallback: a host function in a stream, run by a thread that subscribed to it and asks for reports.
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct subscription {
    uint64_t thread; // pthread_self of who processes, as CANN wants
    int stream;
    struct subscription *next;
};

struct report {
    struct task t;
    aclrtCallback fn;
    void *user;
    bool block, taken, done, orphan;
    uint64_t thread;
    struct report *next; // while it waits for its thread
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct subscription *subscriptions;
static struct report *reports;

static void wait_a_little(int64_t until)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); // short steps: the clock may be set meanwhile
    int64_t left = until - now_ns();
    int64_t ns = t.tv_nsec + (left > 20000000 ? 20000000 : left > 0 ? left : 0);
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&changed, &lock, &t);
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    ACL_ENTER();
    struct stream *s;
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct subscription *x = malloc(sizeof(*x));
    if (x == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    pthread_mutex_lock(&lock);
    *x = (struct subscription){threadId, s->id, subscriptions};
    subscriptions = x;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    ACL_ENTER();
    struct stream *s;
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct subscription *gone = NULL;
    pthread_mutex_lock(&lock);
    for (struct subscription **at = &subscriptions; *at != NULL && gone == NULL;) {
        if ((*at)->thread == threadId && (*at)->stream == s->id) {
            gone = *at;
            *at = gone->next;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&lock);
    free(gone);
    return gone != NULL ? ACL_SUCCESS
                        : acl_fail(ACL_ERROR_RT_PARAM_INVALID, "the thread has not subscribed to stream %d", s->id);
}

static void take_out(struct report *r)
{
    for (struct report **at = &reports; *at != NULL; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            return;
        }
}

// The stream's side: hands the function over, and waits for its end when it blocks the stream.
static aclError report_run(struct task *t, struct stream *s)
{
    struct report *r = (struct report *)t;
    pthread_mutex_lock(&lock);
    struct report **end = &reports;
    while (*end != NULL) end = &(*end)->next;
    *end = r;
    pthread_cond_broadcast(&changed);
    while (r->block && !r->done && !(atomic_load(&s->stopping) && !r->taken)) wait_a_little(now_ns() + 1000000000);
    bool ran = !r->block || r->done;
    if (!ran) take_out(r);
    pthread_mutex_unlock(&lock);
    return ran ? ACL_SUCCESS : TASK_STOPPED;
}

// A function that does not block outlives its task: the later of the two frees it.
static void report_release(struct task *t)
{
    struct report *r = (struct report *)t;
    pthread_mutex_lock(&lock);
    bool queued = false;
    for (struct report *x = reports; x != NULL; x = x->next) queued = queued || x == r;
    bool mine = !queued && (!r->taken || r->done);
    r->orphan = !mine;
    pthread_mutex_unlock(&lock);
    if (mine) free(r);
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream)
{
    ACL_ENTER();
    struct stream *s;
    if (fn == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtLaunchCallback: NULL function");
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct report *r = calloc(1, sizeof(*r));
    if (r == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    pthread_mutex_lock(&lock);
    struct subscription *x = subscriptions;
    while (x != NULL && x->stream != s->id) x = x->next;
    if (x != NULL) r->thread = x->thread;
    pthread_mutex_unlock(&lock);
    if (x == NULL) {
        free(r);
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID,
                        "aclrtLaunchCallback: no thread has subscribed to stream %d (aclrtSubscribeReport)", s->id);
    }
    r->t = (struct task){.run = report_run, .release = report_release};
    r->fn = fn;
    r->user = userData;
    r->block = blockType == ACL_CALLBACK_BLOCK;
    stream_push(s, &r->t);
    return ACL_SUCCESS;
}

static struct report *next_for(uint64_t thread)
{
    struct report *r = reports;
    while (r != NULL && r->thread != thread) r = r->next;
    if (r == NULL) return NULL;
    take_out(r);
    r->taken = true;
    return r;
}

aclError aclrtProcessReport(int32_t timeout)
{
    ACL_ENTER();
    uint64_t me = (uint64_t)pthread_self();
    int64_t until = timeout < 0 ? INT64_MAX : now_ns() + timeout * 1000000LL;
    struct report *r;
    pthread_mutex_lock(&lock);
    while ((r = next_for(me)) == NULL && now_ns() < until) wait_a_little(until);
    pthread_mutex_unlock(&lock);
    if (r == NULL) return ACL_ERROR_RT_WAIT_TIMEOUT;
    r->fn(r->user);
    pthread_mutex_lock(&lock);
    r->done = true;
    bool mine = r->orphan;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (mine) free(r);
    return ACL_SUCCESS;
}
