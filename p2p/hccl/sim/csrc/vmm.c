// Virtual memory of the device: reserved addresses to which physical memory is mapped.
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

#define GRANULE ((size_t)2 << 20)

struct range {
    char *base;
    size_t size, mapped;
    struct physical *at; // what is mapped at its beginning, NULL: nothing
    size_t offset;       // of the mapping in the physical memory
    struct range *next;
};

struct physical {
    void *ptr; // in the arena of its device
    size_t size;
    int maps;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;
static atomic_int mapped; // so that nobody pays for what is rarely used

const void *vmm_resolve(const void *ptr)
{
    const char *p = ptr;
    if (atomic_load(&mapped) == 0) return ptr;
    pthread_mutex_lock(&lock);
    for (struct range *r = ranges; r != NULL; r = r->next)
        if (r->at != NULL && p >= r->base && p < r->base + r->mapped) {
            p = (const char *)r->at->ptr + r->offset + (p - r->base);
            break;
        }
    pthread_mutex_unlock(&lock);
    return p;
}

// Finds a reserved range by its base; the caller holds the lock.
static struct range *range_of(const void *base)
{
    struct range *r = ranges;
    while (r != NULL && r->base != base) r = r->next;
    return r;
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                          size_t *granularity)
{
    ACL_ENTER();
    if (prop == NULL || granularity == NULL || option > ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMemGetAllocationGranularity: bad argument");
    *granularity = GRANULE;
    return ACL_SUCCESS;
}

aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags)
{
    ACL_ENTER();
    (void)expectPtr;
    (void)flags;
    if (virPtr == NULL || size == 0 || alignment != 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtReserveMemAddress: bad argument (alignment is 0)");
    struct range *r = calloc(1, sizeof(*r));
    void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r == NULL || base == MAP_FAILED) {
        free(r);
        if (base != MAP_FAILED) munmap(base, size);
        return acl_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtReserveMemAddress: no addresses for %zu bytes", size);
    }
    r->base = base;
    r->size = size;
    pthread_mutex_lock(&lock);
    r->next = ranges;
    ranges = r;
    pthread_mutex_unlock(&lock);
    *virPtr = base;
    return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void *virPtr)
{
    ACL_ENTER();
    struct range *gone = NULL;
    pthread_mutex_lock(&lock);
    for (struct range **at = &ranges; *at != NULL; at = &(*at)->next)
        if ((*at)->base == virPtr && (*at)->at == NULL) {
            gone = *at;
            *at = gone->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (gone == NULL)
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: %p is not reserved, or is mapped", virPtr);
    munmap(gone->base, gone->size);
    free(gone);
    return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    ACL_ENTER();
    struct context *c;
    (void)flags;
    if (handle == NULL || prop == NULL || size == 0 || size % GRANULE != 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocPhysical: bad argument (size is a multiple of %zu)",
                        GRANULE);
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    struct device *d = device_at((int)prop->location.id);
    if (d == NULL || prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocPhysical: device %u", prop->location.id);
    struct physical *p = calloc(1, sizeof(*p));
    if (p == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    p->size = size;
    rc = arena_alloc(d, size, 0, &p->ptr);
    if (rc == ACL_SUCCESS) *handle = p;
    else free(p);
    return rc;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    ACL_ENTER();
    struct physical *p = handle;
    if (p == NULL || p->maps > 0)
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreePhysical: NULL, or still mapped");
    aclError rc = arena_free(p->ptr);
    free(p);
    return rc;
}

aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    ACL_ENTER();
    struct physical *p = handle;
    (void)flags;
    pthread_mutex_lock(&lock);
    struct range *r = range_of(virPtr);
    bool ok = r != NULL && r->at == NULL && p != NULL && size > 0 && size <= r->size && offset <= p->size &&
              size <= p->size - offset;
    if (ok) {
        r->at = p;
        r->offset = offset;
        r->mapped = size;
        p->maps++;
        atomic_fetch_add(&mapped, 1);
    }
    pthread_mutex_unlock(&lock);
    return ok ? ACL_SUCCESS
              : acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: %p is not a free reserved range of %zu bytes",
                         virPtr, size);
}

aclError aclrtUnmapMem(void *virPtr)
{
    ACL_ENTER();
    pthread_mutex_lock(&lock);
    struct range *r = range_of(virPtr);
    bool ok = r != NULL && r->at != NULL;
    if (ok) {
        r->at->maps--;
        r->at = NULL;
        atomic_fetch_sub(&mapped, 1);
    }
    pthread_mutex_unlock(&lock);
    return ok ? ACL_SUCCESS : acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtUnmapMem: %p is not mapped", virPtr);
}
