// The ACL runtime by itself: one process, no communicator.
#include <pthread.h>

#include "acl/acl_prof.h"
#include "check.h"

static void open_device(int id)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(id));
}

static void initialising(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int32_t a, b, c, id;
    uint32_t n;
    aclrtRunMode mode;
    WANT(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    OK(aclInit(NULL));
    WANT(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    OK(aclrtGetVersion(&a, &b, &c));
    CHECK(a == 1 && b == 13 && c == 0);
    OK(aclrtGetDeviceCount(&n));
    CHECK(n == 8);
    OK(aclrtGetRunMode(&mode));
    CHECK(mode == ACL_HOST);
    CHECK(strcmp(aclrtGetSocName(), "Ascend910B3") == 0);
    WANT(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    SAYS("EE1001");
    WANT(aclrtSetDevice(8), ACL_ERROR_RT_INVALID_DEVICEID);
    WANT(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    OK(aclrtSetDevice(3));
    OK(aclrtSetDevice(3));
    OK(aclrtGetDevice(&id));
    CHECK(id == 3);
    OK(aclrtResetDevice(3)); // counted
    OK(aclrtGetDevice(&id));
    OK(aclrtResetDevice(3));
    WANT(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetDevice(3));
    OK(aclrtSetDevice(3));
    OK(aclrtResetDeviceForce(3));
    WANT(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclFinalize());
}

static aclrtStream shared;
static aclrtContext shared_context;

static void *foreign(void *arg)
{
    (void)arg;
    aclrtStream own;
    void *p;
    int32_t id;
    WANT(aclrtCreateStream(&own), ACL_ERROR_RT_CONTEXT_NULL);
    WANT(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    WANT(aclrtSynchronizeStream(shared), ACL_ERROR_RT_CONTEXT_NULL);
    OK(aclrtSetDevice(1));
    WANT(aclrtSynchronizeStream(shared), ACL_ERROR_RT_STREAM_CONTEXT);
    SAYS("EE1010");
    OK(aclrtSetCurrentContext(shared_context)); // and with it the device
    OK(aclrtGetDevice(&id));
    CHECK(id == 0);
    OK(aclrtSynchronizeStream(shared));
    CHECK(aclGetRecentErrMsg() == NULL);
    return NULL;
}

static void contexts(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    pthread_t t;
    aclrtContext second, current;
    open_device(0);
    OK(aclrtCreateStream(&shared));
    OK(aclrtGetCurrentContext(&shared_context));
    WANT(aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM); // a message of this thread
    CHECK(pthread_create(&t, NULL, foreign, NULL) == 0 && pthread_join(t, NULL) == 0);
    SAYS("aclrtMalloc");
    OK(aclrtCreateContext(&second, 0)); // becomes current
    OK(aclrtGetCurrentContext(&current));
    CHECK(current == second);
    WANT(aclrtSynchronizeStream(shared), ACL_ERROR_RT_STREAM_CONTEXT);
    OK(aclrtDestroyContext(second));
    WANT(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
    WANT(aclrtSetCurrentContext(second), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtSetCurrentContext(shared_context));
    OK(aclrtDestroyStream(shared));
}

static void events(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    aclrtStream s, other;
    aclrtEvent e, gate, plain;
    aclrtEventStatus old;
    aclrtEventRecordedStatus status;
    aclrtStreamStatus busy;
    float ms;
    open_device(0);
    OK(aclrtCreateStream(&s));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&e));
    OK(aclrtCreateEvent(&gate));
    OK(aclrtCreateEventWithFlag(&plain, ACL_EVENT_SYNC));
    OK(aclrtQueryEventStatus(e, &status));
    CHECK(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    WANT(aclrtSynchronizeEvent(e), ACL_ERROR_RT_PARAM_INVALID); // never recorded
    OK(aclrtStreamWaitEvent(s, gate));                          // nor this one: the stream waits for its record
    OK(aclrtRecordEvent(e, s));
    OK(aclrtQueryEvent(e, &old));
    CHECK(old == ACL_EVENT_STATUS_NOT_READY);
    OK(aclrtStreamQuery(s, &busy));
    CHECK(busy == ACL_STREAM_STATUS_NOT_READY);
    WANT(aclrtSynchronizeEventWithTimeout(e, 30), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    WANT(aclrtSynchronizeStreamWithTimeout(s, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    WANT(aclrtSynchronizeStreamWithTimeout(s, 0), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtSynchronizeEvent(e));
    OK(aclrtQueryEventStatus(e, &status));
    CHECK(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtQueryEvent(e, &old));
    CHECK(old == ACL_EVENT_STATUS_COMPLETE);
    OK(aclrtEventElapsedTime(&ms, gate, e));
    CHECK(ms >= 0 && ms < 10000);
    OK(aclrtRecordEvent(plain, s));
    OK(aclrtSynchronizeDeviceWithTimeout(10000));
    WANT(aclrtEventElapsedTime(&ms, plain, e), ACL_ERROR_RT_PARAM_INVALID); // has no time
    OK(aclrtResetEvent(e, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtQueryEventStatus(e, &status));
    CHECK(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyStream(s));
    OK(aclrtDestroyStream(other));
}

static pid_t waits; // the thread that waits for a stream

static void *waiter(void *arg)
{
    static int rc;
    OK(aclrtSetDevice(0));
    about_to_wait(&waits);
    rc = aclrtSynchronizeStream(arg);
    return &rc;
}

// Aborting frees the threads that wait for the stream, and not the streams that wait for its events.
static void aborting(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    aclrtStream s, other;
    aclrtEvent never, after;
    pthread_t t;
    void *rc;
    open_device(0);
    OK(aclrtCreateStream(&s));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&never));
    OK(aclrtCreateEvent(&after));
    OK(aclrtStreamWaitEvent(s, never));
    OK(aclrtRecordEvent(after, s));
    OK(aclrtStreamWaitEvent(other, after));
    CHECK(pthread_create(&t, NULL, waiter, s) == 0);
    until_it_waits(&waits);
    OK(aclrtStreamAbort(s));
    CHECK(pthread_join(t, &rc) == 0 && *(int *)rc == ACL_ERROR_RT_STREAM_ABORT);
    OK(aclrtSynchronizeStream(s));
    WANT(aclrtSynchronizeStreamWithTimeout(other, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    waits = 0;
    CHECK(pthread_create(&t, NULL, waiter, other) == 0);
    until_it_waits(&waits);
    OK(aclrtDeviceTaskAbort(0, 1000));
    CHECK(pthread_join(t, &rc) == 0 && *(int *)rc == ACL_ERROR_RT_DEVICE_TASK_ABORT);
    OK(aclrtStreamWaitEvent(s, never));
    OK(aclrtDestroyStreamForce(s));
    OK(aclrtDestroyStream(other));
}

static void limits(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    static aclrtStream s[1984];
    aclrtStream more;
    open_device(0);
    for (int i = 0; i < 1984; i++) OK(aclrtCreateStream(&s[i]));
    WANT(aclrtCreateStream(&more), ACL_ERROR_RT_NO_STREAM_RESOURCE);
    for (int i = 0; i < 1984; i++) OK(aclrtDestroyStream(s[i]));
    OK(aclrtCreateStream(&more));
}

static int called;
static void callback(void *arg) { called += *(int *)arg; }

static void *reporter(void *arg)
{
    int *stop = arg;
    while (__atomic_load_n(stop, __ATOMIC_SEQ_CST) == 0) {
        aclError rc = aclrtProcessReport(20);
        CHECK(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_WAIT_TIMEOUT);
    }
    return NULL;
}

static void callbacks(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    aclrtStream s;
    pthread_t t;
    int stop = 0, one = 1;
    open_device(0);
    OK(aclrtCreateStream(&s));
    WANT(aclrtLaunchCallback(callback, &one, ACL_CALLBACK_BLOCK, s), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(pthread_create(&t, NULL, reporter, &stop) == 0);
    OK(aclrtSubscribeReport((uint64_t)t, s));
    for (int i = 0; i < 5; i++) OK(aclrtLaunchCallback(callback, &one, ACL_CALLBACK_BLOCK, s));
    OK(aclrtSynchronizeStream(s));
    CHECK(called == 5);
    OK(aclrtUnSubscribeReport((uint64_t)t, s));
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(t, NULL) == 0);
}

static void profiler(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    uint32_t id = 0;
    open_device(0);
    OK(aclprofInit("/nowhere", 8));
    aclprofConfig *c = aclprofCreateConfig(&id, 1, ACL_AICORE_NONE, NULL, ACL_PROF_HCCL_TRACE);
    CHECK(c != NULL);
    OK(aclprofStart(c));
    OK(aclprofStop(c));
    OK(aclprofDestroyConfig(c));
    OK(aclprofFinalize());
}

static void injected(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    void *p;
    open_device(0);
    p = device(64);
    WANT(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_DEVICE_OOM); // the second call, by HCCL_SIM_FAIL
    p = device(64);
    HcclRootInfo info;
    WANT(HcclGetRootInfo(&info), HCCL_E_TCP_CONNECT); // every call
    WANT(HcclGetRootInfo(&info), HCCL_E_TCP_CONNECT);
}

// With HCCL_SIM_NOOP operators return at once, whatever they are given.
static void noop(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    OK(aclInit(NULL));
    OK(HcclSend(NULL, 8, HCCL_DATA_TYPE_INT8, 1, NULL, NULL));
    OK(HcclAllReduce(NULL, NULL, 8, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, NULL, NULL));
    OK(aclrtMemcpyAsync(NULL, 8, NULL, 8, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    OK(aclrtRecordEvent(NULL, NULL));
}

static void visible(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    uint32_t n;
    OK(aclInit(NULL));
    OK(aclrtGetDeviceCount(&n));
    CHECK(n == 2);
    WANT(aclrtSetDevice(5), ACL_ERROR_RT_INVALID_DEVICEID); // ids are logical
    OK(aclrtSetDevice(1));
}

static const struct scenario all[] = {
    {"initialising", initialising},
    {"contexts", contexts},
    {"events", events},
    {"aborting", aborting},
    {"limits", limits},
    {"callbacks", callbacks},
    {"profiler", profiler},
    {"injected", injected},
    {"visible", visible},
    {"noop", noop},
};

PLAY(all)
