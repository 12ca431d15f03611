// Groups: calls between HcclGroupStart and HcclGroupEnd are kept and run together at the end, each device's on a thread
// of its own, so that one thread can drive several devices. A group holds one class of call.
#include "coll.h"

#include <stdlib.h>
#include <string.h>

enum class { CLASS_NONE, CLASS_MAKE, CLASS_COLLECTIVE, CLASS_P2P };

struct entry {
    struct entry *next;
    struct context *ctx;
    enum class class;
    bool done;
    HcclComm comm;
    aclrtStream stream;
    const char *function;
    union {
        struct make_call make;
        struct coll_call coll;
        HcclSendRecvItem item;
    } u;
};

static _Thread_local int depth;
static _Thread_local struct entry *first, **last;

bool group_open(void) { return depth > 0; }

static HcclResult add(enum class class, struct entry **out)
{
    struct context *ctx;
    if (context_need(&ctx) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    if (first != NULL && first->class != class)
        return hccl_fail(HCCL_E_PARA,
                         "EI0003: a group holds one class of call: management, collectives or point to point");
    struct entry *e = calloc(1, sizeof(*e));
    if (e == NULL) return hccl_fail(HCCL_E_MEMORY, "out of host memory");
    e->ctx = ctx;
    e->class = class;
    if (first == NULL) last = &first;
    *last = e;
    last = &e->next;
    *out = e;
    return HCCL_SUCCESS;
}

HcclResult group_add_p2p(const HcclSendRecvItem *item, HcclComm comm, aclrtStream stream)
{
    struct entry *e;
    HcclResult rc = add(CLASS_P2P, &e);
    if (rc != HCCL_SUCCESS) return rc;
    e->comm = comm;
    e->stream = stream;
    e->u.item = *item;
    return HCCL_SUCCESS;
}

HcclResult group_add_coll(const char *function, const struct coll_call *a, HcclComm comm, aclrtStream stream)
{
    struct entry *e;
    HcclResult rc = add(CLASS_COLLECTIVE, &e);
    if (rc != HCCL_SUCCESS) return rc;
    e->function = function;
    e->comm = comm;
    e->stream = stream;
    e->u.coll = *a;
    return HCCL_SUCCESS;
}

HcclResult group_add_make(const struct make_call *m)
{
    struct entry *e;
    HcclResult rc = add(CLASS_MAKE, &e);
    if (rc == HCCL_SUCCESS) e->u.make = *m;
    return rc;
}

// All sends and receives of one communicator and stream are one batch.
static HcclResult run_p2p(struct entry *from)
{
    HcclSendRecvItem items[2 * MAX_RANKS];
    uint32_t n = 0;
    for (struct entry *e = from; e != NULL; e = e->next) {
        if (e->done || e->ctx != from->ctx || e->comm != from->comm || e->stream != from->stream) continue;
        if (n == 2 * MAX_RANKS) return hccl_fail(HCCL_E_PARA, "EI0003: too many calls in a group");
        e->done = true;
        items[n++] = e->u.item;
    }
    return batch_issue("HcclGroupEnd", items, n, from->comm, from->stream);
}

struct lane { // the calls of one device
    pthread_t thread;
    struct entry *entries;
    int device;
    HcclResult rc;
    char message[ERRMSG_BYTES];
};

static void *run_lane(void *arg)
{
    struct lane *l = arg;
    for (struct entry *e = l->entries; e != NULL && l->rc == HCCL_SUCCESS; e = e->next) {
        if (e->ctx->device != l->device || e->done) continue;
        context_use(e->ctx);
        if (e->class == CLASS_MAKE) l->rc = make_by_root(&e->u.make);
        if (e->class == CLASS_COLLECTIVE) l->rc = coll_run_call(e->function, &e->u.coll, e->comm, e->stream);
        if (e->class == CLASS_P2P) l->rc = run_p2p(e);
    }
    errmsg_take(l->message, sizeof(l->message));
    return NULL;
}

static HcclResult run_all(struct entry *entries)
{
    struct lane lanes[MAX_DEVICES];
    int n = 0, started = 0;
    HcclResult rc = HCCL_SUCCESS;
    for (struct entry *e = entries; e != NULL; e = e->next) {
        int k = 0;
        while (k < n && lanes[k].device != e->ctx->device) k++;
        if (k == n) lanes[n++] = (struct lane){.entries = entries, .device = e->ctx->device};
    }
    struct context *before = context_current();
    for (; started + 1 < n; started++)
        if (pthread_create(&lanes[started].thread, NULL, run_lane, &lanes[started]) != 0) break;
    for (int i = started; i < n; i++) run_lane(&lanes[i]); // the last device's on this thread: often it is the only one
    for (int i = 0; i < started; i++) pthread_join(lanes[i].thread, NULL);
    context_use(before);
    for (int i = 0; i < n && rc == HCCL_SUCCESS; i++) {
        rc = lanes[i].rc;
        if (rc != HCCL_SUCCESS) errmsg_put(lanes[i].message);
    }
    return rc;
}

static HcclResult supported(const char *function)
{
    if (sim_env()->chip->has_group) return HCCL_SUCCESS;
    return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: not supported on %s", function, sim_env()->chip->name);
}

HcclResult HcclGroupStart(void)
{
    HCCL_ENTER();
    HcclResult rc = supported(__func__);
    if (rc == HCCL_SUCCESS) depth++;
    return rc;
}

HcclResult HcclGroupEnd(void)
{
    HCCL_ENTER();
    if (depth == 0) return hccl_fail(HCCL_E_PARA, "EI0003: HcclGroupEnd without HcclGroupStart");
    if (--depth > 0) return HCCL_SUCCESS;
    struct entry *entries = first;
    first = NULL;
    HcclResult rc = run_all(entries);
    while (entries != NULL) {
        struct entry *next = entries->next;
        free(entries);
        entries = next;
    }
    return rc;
}

HcclResult HcclGroupStatusGet(bool *isGroupEnabled)
{
    HCCL_ENTER();
    if (isGroupEnabled == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGroupStatusGet: NULL argument");
    *isGroupEnabled = depth > 0;
    return HCCL_SUCCESS;
}
