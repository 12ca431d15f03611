// Pinned host memory, and copies between host and device.
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct pinned {
    char *base;
    size_t size;
    bool ours; // of aclrtMallocHost
    struct pinned *next;
};

static pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned *pinned;

static bool is_pinned(const void *ptr, size_t n)
{
    const char *p = ptr;
    pthread_mutex_lock(&pinned_lock);
    struct pinned *x = pinned;
    while (x != NULL && (p < x->base || p >= x->base + x->size || n > x->size - (size_t)(p - x->base))) x = x->next;
    pthread_mutex_unlock(&pinned_lock);
    return x != NULL;
}

static aclError pin(void *base, size_t size, bool ours)
{
    struct pinned *x = malloc(sizeof(*x));
    if (x == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    *x = (struct pinned){base, size, ours, NULL};
    pthread_mutex_lock(&pinned_lock);
    x->next = pinned;
    pinned = x;
    pthread_mutex_unlock(&pinned_lock);
    return ACL_SUCCESS;
}

static size_t unpin(void *base, bool ours)
{
    size_t size = 0;
    pthread_mutex_lock(&pinned_lock);
    for (struct pinned **at = &pinned; *at != NULL; at = &(*at)->next) {
        struct pinned *x = *at;
        if (x->base != base || x->ours != ours) continue;
        size = x->size;
        *at = x->next;
        free(x);
        break;
    }
    pthread_mutex_unlock(&pinned_lock);
    return size;
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    ACL_ENTER();
    struct context *c;
    if (hostPtr == NULL || size == 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocHost: %s", hostPtr == NULL ? "NULL argument" : "size 0");
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return acl_fail(ACL_ERROR_BAD_ALLOC, "aclrtMallocHost: no %zu bytes of host memory", size);
    rc = pin(p, size, true);
    if (rc != ACL_SUCCESS) munmap(p, size);
    else *hostPtr = p;
    return rc;
}

aclError aclrtFreeHost(void *hostPtr)
{
    ACL_ENTER();
    size_t size = unpin(hostPtr, true);
    if (size == 0) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost: %p is not of aclrtMallocHost", hostPtr);
    munmap(hostPtr, size);
    return ACL_SUCCESS;
}

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)
{
    ACL_ENTER();
    struct context *c;
    if (ptr == NULL || size == 0 || devPtr == NULL || type != ACL_HOST_REGISTER_MAPPED)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtHostRegister: bad argument");
    if (mem_device(ptr) >= 0) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtHostRegister: %p is device memory", ptr);
    aclError rc = context_need(&c);
    if (rc == ACL_SUCCESS) rc = pin(ptr, size, false);
    if (rc == ACL_SUCCESS) *devPtr = ptr;
    return rc;
}

aclError aclrtHostUnregister(void *ptr)
{
    ACL_ENTER();
    if (unpin(ptr, false) != 0) return ACL_SUCCESS;
    return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtHostUnregister: %p is not registered", ptr);
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    ACL_ENTER();
    struct context *c;
    if (ptr == NULL || attributes == NULL)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtPointerGetAttributes: NULL argument");
    aclError rc = context_need(&c);
    if (rc != ACL_SUCCESS) return rc;
    int device = mem_device(ptr);
    memset(attributes, 0, sizeof(*attributes));
    attributes->location.type = device < 0 ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
    attributes->location.id = device < 0 ? 0 : (uint32_t)device;
    attributes->pageSize = 4096;
    return ACL_SUCCESS;
}

static bool kind_fits(aclrtMemcpyKind kind, bool dst_device, bool src_device)
{
    switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST: return !dst_device && !src_device;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: return dst_device && !src_device;
    case ACL_MEMCPY_DEVICE_TO_HOST: return !dst_device && src_device;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: return dst_device && src_device;
    case ACL_MEMCPY_DEFAULT: return true;
    }
    return false;
}

static aclError copy_check(void *dst, size_t room, const void *src, size_t n, aclrtMemcpyKind kind)
{
    if (dst == NULL || src == NULL || n == 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpy: NULL pointer or count 0");
    if (n > room)
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003: aclrtMemcpy: count %zu is more than destMax %zu", n, room);
    if (!kind_fits(kind, mem_device(dst) >= 0, mem_device(src) >= 0))
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003: aclrtMemcpy: kind %d, but %p is %s and %p is %s memory",
                        kind, src, mem_device(src) >= 0 ? "device" : "host", dst,
                        mem_device(dst) >= 0 ? "device" : "host");
    return ACL_SUCCESS;
}

// A copy whose device side is no longer (wholly) allocated is what the DMA engine reports.
static aclError copy_now(void *dst, const void *src, size_t n)
{
    int to = mem_device(dst), from = mem_device(src);
    if ((to >= 0 && !mem_live(to, dst, n)) || (from >= 0 && !mem_live(from, src, n)))
        return acl_fail(sim_env()->chip->dma_fault, "EE9999: copy of %zu bytes from %p to %p leaves the allocation", n,
                        src, dst);
    memmove(to >= 0 ? mem_shadow(dst) : dst, from >= 0 ? mem_shadow(src) : src, n);
    return ACL_SUCCESS;
}

static aclError set_now(void *dst, int value, size_t n)
{
    int d = mem_device(dst);
    if (!mem_live(d, dst, n))
        return acl_fail(sim_env()->chip->dma_fault, "EE9999: memset of %zu bytes at %p leaves the allocation", n, dst);
    memset(mem_shadow(dst), value, n);
    return ACL_SUCCESS;
}

struct copy {
    struct task t;
    void *dst;
    const void *src; // NULL: memset
    int value;
    size_t n;
};

static aclError copy_run(struct task *t, struct stream *s)
{
    (void)s;
    struct copy *c = (struct copy *)t;
    return c->src != NULL ? copy_now(c->dst, c->src, c->n) : set_now(c->dst, c->value, c->n);
}

static void copy_release(struct task *t) { free(t); }

static aclError copy_push(aclrtStream stream, struct copy from, bool wait)
{
    struct stream *s;
    aclError rc = stream_need(stream, &s);
    if (rc != ACL_SUCCESS) return rc;
    struct copy *c = malloc(sizeof(*c));
    if (c == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    *c = from;
    c->t = (struct task){.run = copy_run, .release = copy_release};
    uint64_t seq = stream_push(s, &c->t);
    return wait ? stream_wait(s, seq, -1) : ACL_SUCCESS;
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    ACL_ENTER();
    struct context *c;
    aclError rc = copy_check(dst, destMax, src, count, kind);
    if (rc == ACL_SUCCESS) rc = context_need(&c);
    return rc == ACL_SUCCESS ? copy_now(dst, src, count) : rc;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    ACL_ENTER();
    if (sim_env()->noop) return ACL_SUCCESS;
    aclError rc = copy_check(dst, destMax, src, count, kind);
    if (rc != ACL_SUCCESS) return rc;
    bool pageable = (mem_device(dst) < 0 && !is_pinned(dst, count)) || (mem_device(src) < 0 && !is_pinned(src, count));
    return copy_push(stream, (struct copy){.dst = dst, .src = src, .n = count}, pageable);
}

static aclError set_check(void *p, size_t room, size_t n)
{
    if (p == NULL || n > room)
        return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003: aclrtMemset: count %zu, maxCount %zu", n, room);
    if (mem_device(p) < 0) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003: aclrtMemset: %p is host memory", p);
    return ACL_SUCCESS;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    ACL_ENTER();
    struct context *c;
    aclError rc = set_check(devPtr, maxCount, count);
    if (rc == ACL_SUCCESS) rc = context_need(&c);
    return rc == ACL_SUCCESS ? set_now(devPtr, value, count) : rc;
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    ACL_ENTER();
    if (sim_env()->noop) return ACL_SUCCESS;
    aclError rc = set_check(devPtr, maxCount, count);
    if (rc != ACL_SUCCESS) return rc;
    return copy_push(stream, (struct copy){.dst = devPtr, .value = value, .n = count}, false);
}
