// Communicators: their life from creation to destruction.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct comm *comms; // all living ones of the process, under sim_lock

HcclResult creation_begin(struct device **d)
{
    struct context *c;
    if (context_need(&c) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    const struct hccl_env *e = hccl_env();
    if (e->bad[0] != 0) return hccl_fail(HCCL_E_PARA, "EI0001: %s", e->bad);
    *d = device_at(c->device);
    if (npu_own(*d) != ACL_SUCCESS)
        return hccl_fail(HCCL_E_UNAVAIL, "EI0020: port[16666] fail: another process uses NPU %d of server %s",
                         (*d)->phys, sim_env()->host);
    if (atomic_fetch_add(&(*d)->creating, 1) != 0) {
        atomic_fetch_sub(&(*d)->creating, 1);
        return hccl_fail(HCCL_E_INTERNAL,
                         "hccl_sim: two communicators are being created at once on device %d; create them serially",
                         (*d)->id);
    }
    pause_ns(sim_env()->create_ns);
    return HCCL_SUCCESS;
}

void creation_end(struct device *d) { atomic_fetch_sub(&d->creating, 1); }

static uint64_t hash(const char *s)
{
    uint64_t h = 1469598103934665603ULL;
    for (; *s != 0; s++) h = (h ^ (unsigned char)*s) * 1099511628211ULL;
    return h;
}

void comm_door(const char *id, uint32_t rank, char *name, size_t n)
{
    snprintf(name, n, "hccl_sim/%016llx/%u", (unsigned long long)hash(id), rank);
}

struct comm *comm_new(const char *id, const struct comm_options *opt, uint32_t rank, uint32_t size,
                      const struct member *members, HcclResult *why)
{
    char door[64];
    struct comm *c = calloc(1, sizeof(*c));
    struct member *table = calloc(size, sizeof(*table));
    *why = HCCL_SUCCESS;
    if (c == NULL || table == NULL) {
        *why = hccl_fail(HCCL_E_MEMORY, "out of host memory");
        free(c);
        free(table);
        return NULL;
    }
    memcpy(table, members, size * sizeof(*table));
    snprintf(c->id, sizeof(c->id), "%s", id);
    c->opt = *opt;
    c->rank = rank;
    c->size = size;
    c->members = table;
    c->ctx = context_current();
    c->dev = device_at(c->ctx->device);
    c->refs = 1;
    c->last_stream = -1;
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->cond, NULL);
    c->dead = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    comm_door(id, rank, door, sizeof(door));
    c->listener = abstract_socket(door, true);
    if (c->dead < 0 || c->listener < 0) {
        *why = hccl_fail(HCCL_E_SYSCALL, "communicator %s: rank %u cannot open its socket (is the rank taken?)",
                         c->opt.name, rank);
        comm_unref(c);
        return NULL;
    }
    return c;
}

void comm_unref(struct comm *c)
{
    pthread_mutex_lock(&c->mu);
    bool last = --c->refs == 0;
    pthread_mutex_unlock(&c->mu);
    if (!last) return;
    if (c->dead >= 0) close(c->dead);
    if (c->listener >= 0) close(c->listener);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->cond);
    free(c->members);
    free(c);
}

static bool name_taken(const char *name, const struct device *d)
{
    for (struct comm *c = comms; c != NULL; c = c->next)
        if (c->dev == d && strcmp(c->opt.name, name) == 0) return true;
    return false;
}

HcclResult comm_name_free(const char *name, const struct device *d)
{
    pthread_mutex_lock(&sim_lock);
    bool taken = name_taken(name, d);
    pthread_mutex_unlock(&sim_lock);
    return taken ? hccl_fail(HCCL_E_PARA, "EI0003: communicator name %s is in use on device %d", name, d->id)
                 : HCCL_SUCCESS;
}

struct comm *comm_named(const char *name)
{
    pthread_mutex_lock(&sim_lock);
    struct comm *c = comms;
    while (c != NULL && strcmp(c->opt.name, name) != 0) c = c->next;
    pthread_mutex_unlock(&sim_lock);
    return c;
}

HcclResult comm_publish(struct comm *c, HcclComm *out)
{
    pthread_mutex_lock(&sim_lock);
    bool taken = name_taken(c->opt.name, c->dev);
    if (!taken) {
        c->next = comms;
        comms = c;
    }
    pthread_mutex_unlock(&sim_lock);
    if (taken) {
        HcclResult rc =
            hccl_fail(HCCL_E_PARA, "EI0003: communicator name %s is in use on device %d", c->opt.name, c->dev->id);
        comm_unref(c);
        return rc;
    }
    sim_log(LOG_EVENT, "communicator %s made: rank %u of %u on device %d, buffer %llu MB", c->opt.name, c->rank,
            c->size, c->dev->id, (unsigned long long)(c->opt.buffer >> 20));
    *out = c;
    return HCCL_SUCCESS;
}

HcclResult comm_find(HcclComm handle, struct comm **out)
{
    if (handle == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: communicator is NULL");
    pthread_mutex_lock(&sim_lock);
    struct comm *c = comms;
    while (c != NULL && c != handle) c = c->next;
    if (c != NULL) {
        pthread_mutex_lock(&c->mu);
        c->refs++;
        pthread_mutex_unlock(&c->mu);
    }
    pthread_mutex_unlock(&sim_lock);
    *out = c;
    return c != NULL ? HCCL_SUCCESS
                     : hccl_fail(HCCL_E_PARA, "EI0003: %p is not a communicator, or it was destroyed", handle);
}

HcclResult comm_enter(HcclComm handle, struct comm **out)
{
    HcclResult rc = comm_find(handle, out);
    if (rc != HCCL_SUCCESS) return rc;
    struct comm *c = *out;
    pthread_mutex_lock(&c->mu);
    bool dying = c->dying, suspended = c->suspended;
    if (!dying && !suspended) c->inside++;
    pthread_mutex_unlock(&c->mu);
    if (!dying && !suspended) return HCCL_SUCCESS;
    comm_unref(c);
    return dying ? hccl_fail(HCCL_E_PARA, "EI0003: the communicator is being destroyed")
                 : hccl_fail(HCCL_E_SUSPENDING, "the communicator is suspended");
}

void comm_leave(struct comm *c)
{
    pthread_mutex_lock(&c->mu);
    c->inside--;
    pthread_cond_broadcast(&c->cond);
    pthread_mutex_unlock(&c->mu);
    comm_unref(c);
}

bool comm_building(struct comm *c, bool on)
{
    pthread_mutex_lock(&c->mu);
    c->building = on;
    bool alive = !c->dying;
    pthread_mutex_unlock(&c->mu);
    return alive;
}

int64_t comm_exec_deadline(struct comm *c)
{
    return c->opt.exec_timeout == 0 ? 0 : now_ns() + sim_seconds(c->opt.exec_timeout);
}

static void take_out(struct comm *c)
{
    for (struct comm **at = &comms; *at != NULL; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            return;
        }
}

// Whoever waits inside is freed; streams are not waited for: what they still run fails with EI0012.
static void comm_end(struct comm *c)
{
    uint64_t one = 1;
    if (write(c->dead, &one, sizeof(one)) < 0) sim_log(LOG_ERROR, "communicator %s cannot wake its calls", c->opt.name);
    pthread_mutex_lock(&c->mu);
    while (c->inside > 0 || c->executing > 0) pthread_cond_wait(&c->cond, &c->mu);
    pthread_mutex_unlock(&c->mu);
    links_close(c);
    comm_memory_free(c);
    close(c->listener);
    c->listener = -1;
    sim_log(LOG_EVENT, "communicator %s destroyed", c->opt.name);
    comm_unref(c);
}

// Whether a communicator may go; the caller holds c->mu. Operators still on a stream are the caller's mistake.
static HcclResult may_end(const struct comm *c, int *operators)
{
    *operators = c->queued + c->executing;
    if (c->inside > 0 && !c->building) return HCCL_E_AGAIN;
    return *operators > 0 && sim_env()->stricter ? HCCL_E_INTERNAL : HCCL_SUCCESS;
}

HcclResult HcclCommDestroy(HcclComm comm)
{
    HCCL_ENTER();
    if (comm == NULL) return HCCL_SUCCESS;
    int operators = 0;
    HcclResult rc = HCCL_E_PARA;
    pthread_mutex_lock(&sim_lock);
    struct comm *c = comms;
    while (c != NULL && c != comm) c = c->next;
    if (c != NULL) {
        pthread_mutex_lock(&c->mu);
        rc = may_end(c, &operators);
        if (rc == HCCL_SUCCESS) c->dying = true;
        pthread_mutex_unlock(&c->mu);
        if (rc == HCCL_SUCCESS) take_out(c);
    }
    pthread_mutex_unlock(&sim_lock);
    if (c == NULL) return hccl_fail(rc, "EI0003: %p is not a communicator, or it was destroyed", comm);
    if (rc == HCCL_E_AGAIN) return hccl_fail(rc, "communicator %s: a call is inside it", c->opt.name);
    if (operators > 0)
        sim_log(LOG_ERROR,
                "EI0012: communicator %s is destroyed while %d of its operators are on a stream; wait or abort first",
                c->opt.name, operators);
    if (rc != HCCL_SUCCESS)
        return hccl_fail(rc, "hccl_sim: communicator %s: operators on a stream use it (HCCL_SIM_STRICT=2)",
                         c->opt.name);
    comm_end(c);
    return HCCL_SUCCESS;
}
