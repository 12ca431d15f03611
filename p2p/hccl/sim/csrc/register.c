// Memory registration and what exists on some chips only. None of it speeds up send and recv; a program that asks gets
// the answer its chip would give.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct window {
    struct comm *owner; // for comparison only
    char *base;
    uint64_t size;
    enum { RANGE, ACTIVE, SYMMETRIC, USER } kind;
    struct window *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct window *windows;

static HcclResult not_here(const char *function)
{
    return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: not supported on %s with CANN %d.%d", function,
                     sim_env()->chip->name, sim_env()->cann / 10, sim_env()->cann % 10);
}

// Adds a window over device memory of the communicator.
static HcclResult add(const char *function, HcclComm comm, void *base, uint64_t size, int kind, struct window **out)
{
    struct comm *c;
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    struct window *w = base != NULL && size > 0 ? calloc(1, sizeof(*w)) : NULL;
    if (w != NULL) {
        *w = (struct window){.owner = c, .base = base, .size = size, .kind = kind};
        pthread_mutex_lock(&lock);
        w->next = windows;
        windows = w;
        pthread_mutex_unlock(&lock);
    }
    if (kind == USER && w != NULL) {
        pthread_mutex_lock(&c->mu);
        c->user_memory = true;
        pthread_mutex_unlock(&c->mu);
    }
    comm_unref(c);
    if (out != NULL) *out = w;
    return w != NULL
               ? HCCL_SUCCESS
               : hccl_fail(HCCL_E_PARA, "EI0003: %s: address %p, size %llu", function, base, (unsigned long long)size);
}

static HcclResult drop(const char *function, const void *owner, const void *base, const void *handle, int kind)
{
    struct window *gone = NULL;
    pthread_mutex_lock(&lock);
    for (struct window **at = &windows; *at != NULL && gone == NULL;) {
        struct window *w = *at;
        bool it = w->kind == (unsigned)kind && (handle != NULL ? w == handle : w->base == base) &&
                  (owner == NULL || w->owner == owner);
        if (it) {
            gone = w;
            *at = w->next;
        } else {
            at = &w->next;
        }
    }
    pthread_mutex_unlock(&lock);
    free(gone);
    return gone != NULL ? HCCL_SUCCESS : hccl_fail(HCCL_E_NOT_FOUND, "EI0003: %s: not registered", function);
}

HcclResult HcclCommSetMemoryRange(HcclComm comm, void *baseVirPtr, size_t size, size_t alignment, uint64_t flags)
{
    HCCL_ENTER();
    if (!sim_env()->chip->has_window) return not_here(__func__);
    if (alignment != 0 || flags != 0) return hccl_fail(HCCL_E_PARA, "EI0003: %s: alignment and flags are 0", __func__);
    return add(__func__, comm, baseVirPtr, size, RANGE, NULL);
}

HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr)
{
    HCCL_ENTER();
    if (!sim_env()->chip->has_window) return not_here(__func__);
    return drop(__func__, comm, baseVirPtr, NULL, RANGE);
}

HcclResult HcclCommActivateCommMemory(HcclComm comm, void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                      uint64_t flags)
{
    HCCL_ENTER();
    if (!sim_env()->chip->has_window) return not_here(__func__);
    if (handle == NULL || offset != 0 || flags != 0)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: a handle, offset 0 and flags 0", __func__);
    return add(__func__, comm, virPtr, size, ACTIVE, NULL);
}

HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr)
{
    HCCL_ENTER();
    if (!sim_env()->chip->has_window) return not_here(__func__);
    return drop(__func__, comm, virPtr, NULL, ACTIVE);
}

static bool has_symmetric(void) { return sim_env()->chip->has_window && sim_env()->cann >= 90; }

HcclResult HcclCommSymWinRegister(HcclComm comm, void *addr, uint64_t size, HcclCommSymWindow *winHandle, uint32_t flag)
{
    HCCL_ENTER();
    if (!has_symmetric()) return not_here(__func__);
    if (winHandle == NULL || flag > 1) return hccl_fail(HCCL_E_PARA, "EI0003: %s: bad argument", __func__);
    struct window *w;
    HcclResult rc = add(__func__, comm, addr, size, SYMMETRIC, &w);
    if (rc == HCCL_SUCCESS) *winHandle = w;
    return rc;
}

HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle)
{
    HCCL_ENTER();
    if (!has_symmetric()) return not_here(__func__);
    if (winHandle == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    return drop(__func__, NULL, NULL, winHandle, SYMMETRIC);
}

HcclResult HcclCommSymWinGet(HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle, size_t *offset)
{
    HCCL_ENTER();
    if (!has_symmetric()) return not_here(__func__);
    if (winHandle == NULL || offset == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    char *p = ptr;
    pthread_mutex_lock(&lock);
    struct window *w = windows;
    while (w != NULL && (w->kind != SYMMETRIC || w->owner != comm || p < w->base || p + size > w->base + w->size))
        w = w->next;
    if (w != NULL) {
        *winHandle = w;
        *offset = (size_t)(p - w->base);
    }
    pthread_mutex_unlock(&lock);
    return w != NULL ? HCCL_SUCCESS : hccl_fail(HCCL_E_NOT_FOUND, "EI0003: %s: %p is in no window", __func__, ptr);
}

HcclResult HcclCommRegister(HcclComm comm, void *addr, uint64_t size, void **handle, uint32_t flag)
{
    HCCL_ENTER();
    (void)flag;
    if (handle == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    struct window *w;
    HcclResult rc = add(__func__, comm, addr, size, USER, &w);
    if (rc == HCCL_SUCCESS) *handle = w;
    return rc;
}

HcclResult HcclCommDeregister(HcclComm comm, void *handle)
{
    HCCL_ENTER();
    return handle != NULL ? drop(__func__, comm, NULL, handle, USER)
                          : hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
}

HcclResult HcclCommExchangeMem(HcclComm comm, void *windowHandle, uint32_t *peerRanks, uint32_t peerRankNum)
{
    HCCL_ENTER();
    struct comm *c;
    if (windowHandle == NULL || peerRanks == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    for (uint32_t i = 0; i < peerRankNum && rc == HCCL_SUCCESS; i++)
        if (peerRanks[i] >= c->size)
            rc = hccl_fail(HCCL_E_PARA, "EI0003: %s: rank %u of %u", __func__, peerRanks[i], c->size);
    comm_unref(c);
    return rc;
}

HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks)
{
    HCCL_ENTER();
    struct comm *c;
    if (!sim_env()->chip->has_window || sim_env()->cann < 85) return not_here(__func__);
    if (ranks == NULL || useBackup == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    for (uint32_t i = 0; i < nRanks && rc == HCCL_SUCCESS; i++)
        if (ranks[i] >= c->size) rc = hccl_fail(HCCL_E_PARA, "EI0003: %s: rank %u of %u", __func__, ranks[i], c->size);
    comm_unref(c);
    return rc;
}

// Of the 950 only, which the simulator does not show.
HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status)
{
    HCCL_ENTER();
    (void)commId;
    (void)status;
    return not_here(__func__);
}

HcclResult HcclCommRegCommStateCallback(const char *regName, HcclCommStateCallback cb, void *args)
{
    HCCL_ENTER();
    (void)regName;
    (void)cb;
    (void)args;
    return not_here(__func__);
}

HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info)
{
    HCCL_ENTER();
    (void)comm;
    (void)cfgType;
    (void)infoLen;
    (void)info;
    return not_here(__func__);
}
