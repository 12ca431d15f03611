// Device memory. An arena is a range of addresses the host cannot touch, as on an NPU, over a file of memory that
// the simulator itself, and the peers it hands the descriptor to, read and write. It goes with the process.
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct block {
    size_t off, size; // size as allocated, of use
    size_t asked;
    bool free;
    struct block *prev, *next;
};

struct arena {
    pthread_mutex_t mu;
    char *base;   // what the program sees: not readable
    char *shadow; // what we use
    size_t size, used;
    int fd;
    struct block *blocks; // in order of address, neighbours never both free
};

static _Atomic(struct arena *) arenas[MAX_DEVICES]; // never freed: a pointer stays a device pointer

static struct arena *arena_make(void)
{
    struct arena *a = calloc(1, sizeof(*a));
    struct block *all = calloc(1, sizeof(*all));
    if (a == NULL || all == NULL) goto fail;
    a->size = sim_env()->hbm;
    a->fd = memfd_create("hccl_sim_hbm", MFD_CLOEXEC);
    if (a->fd < 0 || ftruncate(a->fd, (off_t)a->size) != 0) goto fail;
    a->base = mmap(NULL, a->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    a->shadow = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a->fd, 0);
    if (a->base == MAP_FAILED || a->shadow == MAP_FAILED) goto fail;
    madvise(a->shadow, a->size, MADV_DONTDUMP);
    pthread_mutex_init(&a->mu, NULL);
    all->size = a->size;
    all->free = true;
    a->blocks = all;
    return a;
fail:
    free(a);
    free(all);
    return NULL;
}

static struct arena *arena_of(struct device *d)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    struct arena *a = atomic_load(&arenas[d->id]);
    if (a != NULL) return a;
    pthread_mutex_lock(&making);
    a = atomic_load(&arenas[d->id]);
    if (a == NULL) {
        a = arena_make();
        atomic_store(&arenas[d->id], a);
    }
    pthread_mutex_unlock(&making);
    return a;
}

// Of a pointer that vmm_resolve has seen: mapped addresses are those of what is mapped there.
static bool inside(const struct arena *a, const void *ptr)
{
    return a != NULL && (const char *)ptr >= a->base && (const char *)ptr < a->base + a->size;
}

static struct arena *arena_with(const void *ptr, int *device)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        struct arena *a = atomic_load(&arenas[i]);
        if (!inside(a, ptr)) continue;
        *device = i;
        return a;
    }
    *device = -1;
    return NULL;
}

int mem_device(const void *ptr)
{
    int device;
    arena_with(vmm_resolve(ptr), &device);
    return device;
}

size_t mem_offset(const void *ptr)
{
    int device;
    ptr = vmm_resolve(ptr);
    struct arena *a = arena_with(ptr, &device);
    return a == NULL ? 0 : (size_t)((const char *)ptr - a->base);
}

void *mem_shadow(const void *ptr)
{
    int device;
    ptr = vmm_resolve(ptr);
    struct arena *a = arena_with(ptr, &device);
    return a == NULL ? NULL : a->shadow + ((const char *)ptr - a->base);
}

int arena_fd(struct device *d)
{
    struct arena *a = arena_of(d);
    return a == NULL ? -1 : a->fd;
}

size_t arena_used(struct device *d)
{
    struct arena *a = arena_of(d);
    if (a == NULL) return 0;
    pthread_mutex_lock(&a->mu);
    size_t n = a->used;
    pthread_mutex_unlock(&a->mu);
    return n;
}

// Cuts the front of a free block; the caller holds the lock.
static bool carve(struct block *b, size_t need)
{
    if (b->size > need) {
        struct block *rest = calloc(1, sizeof(*rest));
        if (rest == NULL) return false;
        *rest = (struct block){.off = b->off + need, .size = b->size - need, .free = true, .prev = b, .next = b->next};
        if (rest->next != NULL) rest->next->prev = rest;
        b->next = rest;
        b->size = need;
    }
    b->free = false;
    return true;
}

aclError arena_alloc(struct device *d, size_t size, size_t extra, void **ptr)
{
    struct arena *a = arena_of(d);
    if (a == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "the host has no memory for the device's");
    size_t need = ((size + 31) & ~(size_t)31) + extra;
    need = (need + 63) & ~(size_t)63;
    if (size > a->size || need > a->size) need = SIZE_MAX;
    pthread_mutex_lock(&a->mu);
    struct block *b = a->blocks;
    while (b != NULL && (!b->free || b->size < need)) b = b->next;
    bool ok = b != NULL && carve(b, need);
    if (ok) {
        b->asked = size;
        a->used += need;
        *ptr = a->base + b->off;
    }
    size_t left = a->size - a->used;
    pthread_mutex_unlock(&a->mu);
    if (ok) return ACL_SUCCESS;
    return acl_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "EL0004: device %d: allocating %zu bytes failed, %zu of %zu are free", d->id, size, left, a->size);
}

// Gives the pages of a freed block back to the host.
static void punch(struct arena *a, const struct block *b)
{
    size_t from = (b->off + 4095) & ~(size_t)4095, to = (b->off + b->size) & ~(size_t)4095;
    if (to > from && to - from >= 65536)
        fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
}

// Joins a free block with the free one after it.
static void merge(struct block *b)
{
    struct block *n = b->next;
    if (n == NULL || !n->free || !b->free) return;
    b->size += n->size;
    b->next = n->next;
    if (n->next != NULL) n->next->prev = b;
    free(n);
}

aclError arena_free(void *ptr)
{
    int d;
    struct arena *a = arena_with(ptr, &d);
    if (a == NULL) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not device memory", ptr);
    size_t off = (size_t)((char *)ptr - a->base);
    pthread_mutex_lock(&a->mu);
    struct block *b = a->blocks;
    while (b != NULL && (b->off != off || b->free)) b = b->next;
    if (b != NULL) {
        a->used -= b->size;
        b->free = true;
        punch(a, b);
        merge(b);
        if (b->prev != NULL) merge(b->prev);
    }
    pthread_mutex_unlock(&a->mu);
    if (b == NULL) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not an allocation or was freed", ptr);
    return ACL_SUCCESS;
}

void arena_reset(struct device *d)
{
    struct arena *a = atomic_load(&arenas[d->id]);
    if (a == NULL) return;
    pthread_mutex_lock(&a->mu);
    for (struct block *b = a->blocks->next, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    *a->blocks = (struct block){.size = a->size, .free = true};
    a->used = 0;
    punch(a, a->blocks);
    pthread_mutex_unlock(&a->mu);
}

bool mem_live(int device, const void *ptr, size_t n)
{
    struct arena *a = device < 0 ? NULL : atomic_load(&arenas[device]);
    ptr = vmm_resolve(ptr);
    if (!inside(a, ptr)) return false;
    size_t off = (size_t)((const char *)ptr - a->base);
    pthread_mutex_lock(&a->mu);
    struct block *b = a->blocks;
    while (b != NULL && b->off + b->size <= off) b = b->next;
    bool live = b != NULL && !b->free && off - b->off <= b->asked && n <= b->asked - (off - b->off);
    pthread_mutex_unlock(&a->mu);
    return live;
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ACL_ENTER();
    struct context *c;
    if (devPtr == NULL || size == 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMalloc: %s", devPtr == NULL ? "NULL argument" : "size 0");
    if (policy > ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMalloc: policy %d", policy);
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    return arena_alloc(device_at(c->device), size, 32, devPtr);
}

aclError aclrtFree(void *devPtr)
{
    ACL_ENTER();
    struct context *c;
    aclError rc = context_need(&c);
    return rc == ACL_SUCCESS ? arena_free(devPtr) : rc;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    ACL_ENTER();
    struct context *c;
    if (free == NULL || total == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: NULL argument");
    if (attr > ACL_HBM_MEM_P2P_HUGE1G) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: attr %d", attr);
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    bool hbm = attr == ACL_HBM_MEM || attr == ACL_HBM_MEM_HUGE || attr == ACL_HBM_MEM_NORMAL;
    *total = hbm ? sim_env()->hbm : 0;
    *free = hbm ? sim_env()->hbm - arena_used(device_at(c->device)) : 0;
    return ACL_SUCCESS;
}
