// Memory of the device and of the host, and copies: one process, no communicator.
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static void open_device(int id)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(id));
}

static size_t available(void)
{
    size_t free, total;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    CHECK(total == (size_t)64 << 20);
    return free;
}

// Run with HCCL_SIM_HBM=64M.
static void memory(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    void *a, *b, *c;
    open_device(0);
    size_t all = available();
    CHECK(all == (size_t)64 << 20);
    WANT(aclrtMalloc(&a, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    a = device(1);
    CHECK((uintptr_t)a % 64 == 0 && all - available() == 64);
    b = device(100); // rounded to 128, and 32 more
    CHECK(all - available() == 64 + 192);
    WANT(aclrtMalloc(&c, (size_t)64 << 20, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    SAYS("are free");
    c = device((size_t)60 << 20);
    OK(aclrtFree(a));
    OK(aclrtFree(c));
    OK(aclrtFree(b));
    WANT(aclrtFree(b), ACL_ERROR_RT_PARAM_INVALID);
    WANT(aclrtFree(&all), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(available() == all);
    c = device(((size_t)64 << 20) - 64); // the free pieces are one again
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    CHECK(available() == all);
}

// The host cannot touch device memory.
static void host_access(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    open_device(0);
    volatile char *dev = device(64);
    pid_t child = fork();
    if (child == 0) {
        dev[0] = 1;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) || (WIFEXITED(status) && WEXITSTATUS(status) != 0));
}

static void copies(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    enum { N = 4096 };
    static unsigned char from[N], to[N];
    unsigned char *pinned;
    aclrtStream s;
    aclrtPtrAttributes at;
    void *registered;
    open_device(2);
    OK(aclrtCreateStream(&s));
    unsigned char *a = device(N), *b = device(N);
    for (int i = 0; i < N; i++) from[i] = (unsigned char)(i * 7);
    put(a, from, N);
    OK(aclrtMemcpy(b, N, a, N, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtMemcpy(to, N, b, N, ACL_MEMCPY_DEFAULT));
    CHECK(memcmp(from, to, N) == 0);
    WANT(aclrtMemcpy(a, N, from, N, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    WANT(aclrtMemcpy(a, N, b, N, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    WANT(aclrtMemcpy(a, N - 1, from, N, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    WANT(aclrtMemcpy(a, 2 * N, from, N + 1, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_FFTS_PLUS_EXCEPTION);
    WANT(aclrtMemset(from, N, 0, N), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtMemset(a, N, 0xee, N));
    OK(aclrtMemcpyAsync(to, N, a, N, ACL_MEMCPY_DEVICE_TO_HOST, s)); // pageable: done when it returns
    CHECK(to[0] == 0xee && to[N - 1] == 0xee);
    OK(aclrtMallocHost((void **)&pinned, N));
    OK(aclrtMemsetAsync(a, N, 0x11, N, s));
    OK(aclrtMemcpyAsync(pinned, N, a, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
    OK(aclrtSynchronizeStream(s));
    CHECK(pinned[N - 1] == 0x11);
    OK(aclrtPointerGetAttributes(a, &at));
    CHECK(at.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && at.location.id == 2);
    OK(aclrtPointerGetAttributes(pinned, &at));
    CHECK(at.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    OK(aclrtHostRegister(to, N, ACL_HOST_REGISTER_MAPPED, &registered));
    OK(aclrtMemcpyAsync(to, N, b, N, ACL_MEMCPY_DEVICE_TO_HOST, NULL)); // the default stream
    OK(aclrtSynchronizeStream(NULL));
    CHECK(memcmp(from, to, N) == 0);
    OK(aclrtHostUnregister(to));
    WANT(aclrtHostUnregister(to), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(pinned));
    WANT(aclrtFreeHost(pinned), ACL_ERROR_RT_PARAM_INVALID);
}

static void virtual_memory(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    aclrtPhysicalMemProp prop = {ACL_MEM_HANDLE_TYPE_NONE,
                                 ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 ACL_HBM_MEM_HUGE,
                                 {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 0};
    aclrtDrvMemHandle handle;
    size_t g, before, after, total;
    void *p;
    char in[16] = "through the map", out[16];
    open_device(0);
    OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &g));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    OK(aclrtReserveMemAddress(&p, 2 * g, 0, NULL, 0));
    OK(aclrtMallocPhysical(&handle, 2 * g, &prop, 0));
    OK(aclrtMapMem(p, 2 * g, 0, handle, 0));
    WANT(aclrtReleaseMemAddress(p), ACL_ERROR_RT_PARAM_INVALID);
    WANT(aclrtFreePhysical(handle), ACL_ERROR_RT_PARAM_INVALID);
    char *at = (char *)p + 2 * g - sizeof(in);
    put(at, in, sizeof(in));
    get(out, at, sizeof(out));
    CHECK(memcmp(in, out, sizeof(in)) == 0);
    OK(aclrtUnmapMem(p));
    OK(aclrtFreePhysical(handle));
    OK(aclrtReleaseMemAddress(p));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before == after);
}

static const struct scenario all[] = {
    {"memory", memory},
    {"host access", host_access},
    {"copies", copies},
    {"virtual memory", virtual_memory},
};

PLAY(all)
