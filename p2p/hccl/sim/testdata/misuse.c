// The rules of send and recv that a program breaks at its peril: threads, streams, lives of communicators and buffers.
#include <pthread.h>

#include "check.h"

#define U8 HCCL_DATA_TYPE_UINT8

static void *issue_elsewhere(void *arg)
{
    struct rank *r = arg;
    OK(aclrtSetDevice((int)r->rank));
    static char said[8];
    HcclResult rc = HcclBarrier(r->comm, r->stream);
    snprintf(said, sizeof(said), "%d", rc);
    return said;
}

struct racer {
    struct rank *r;
    void *dev;
    pthread_barrier_t *start;
    HcclResult rc;
    char message[256];
};

// A send to a rank that does not exist: refused in the end, but an operator call all the same.
static void *race(void *arg)
{
    struct racer *x = arg;
    OK(aclrtSetDevice((int)x->r->rank));
    pthread_barrier_wait(x->start);
    x->rc = HcclSend(x->dev, 8, U8, 9, x->r->comm, x->r->stream);
    snprintf(x->message, sizeof(x->message), "%s", aclGetRecentErrMsg());
    return NULL;
}

// Two threads inside operators of one device at once: HCCL_SIM_ISSUE_MS makes each stay, so that they meet.
static void two_threads_at_once(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    pthread_barrier_t start;
    pthread_t t;
    int caught = 0;
    void *dev = device(64);
    CHECK(pthread_barrier_init(&start, NULL, 2) == 0);
    for (int i = 0; caught == 0 && i < 20; i++) {
        struct racer a = {.r = &r, .dev = dev, .start = &start}, b = a;
        CHECK(pthread_create(&t, NULL, race, &a) == 0);
        race(&b);
        CHECK(pthread_join(t, NULL) == 0);
        caught = (a.rc == HCCL_E_INTERNAL) + (b.rc == HCCL_E_INTERNAL);
        CHECK(caught < 2);
        if (caught == 1) CHECK(strstr(a.rc == HCCL_E_INTERNAL ? a.message : b.message, "another thread") != NULL);
    }
    CHECK(caught == 1);
    warm(&r, dev); // no harm is done
    OK(aclrtFree(dev));
    OK(HcclCommDestroy(r.comm));
}

// One after the other; only HCCL_SIM_STRICT minds. argv[5] is the result of the second thread.
static void second_thread(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    pthread_t t;
    void *said;
    OK(HcclBarrier(r.comm, r.stream));
    CHECK(pthread_create(&t, NULL, issue_elsewhere, &r) == 0);
    CHECK(pthread_join(t, &said) == 0);
    CHECK(atoi(said) == atoi(argv[5]));
    OK(aclrtSynchronizeStream(r.stream));
    OK(HcclCommDestroy(r.comm));
}

static HcclResult async_error(struct rank *r)
{
    HcclResult e;
    OK(HcclGetCommAsyncError(r->comm, &e));
    return e;
}

static void both(struct rank *r, void *dev, aclrtStream s)
{
    if (r->rank == 0) OK(HcclSend(dev, 8, U8, 1, r->comm, s));
    else OK(HcclRecv(dev, 8, U8, 0, r->comm, s));
}

// Two streams of one communicator are fine with an event, or the host, between them, and corrupt each other without.
static void two_streams(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    aclrtStream other;
    aclrtEvent e;
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEvent(&e));
    warm(&r, dev);
    both(&r, dev, r.stream);
    OK(aclrtRecordEvent(e, r.stream));
    OK(aclrtStreamWaitEvent(other, e));
    both(&r, dev, other);
    CHECK(async_error(&r) == HCCL_SUCCESS);
    OK(aclrtSynchronizeStream(other));
    both(&r, dev, r.stream);
    CHECK(async_error(&r) == HCCL_SUCCESS);
    OK(aclrtRecordEvent(e, r.stream));
    OK(aclrtSynchronizeEvent(e)); // by the host
    both(&r, dev, other);
    CHECK(async_error(&r) == HCCL_SUCCESS);
    both(&r, dev, r.stream);
    CHECK(async_error(&r) == HCCL_E_INTERNAL);
    OK(aclrtSynchronizeStream(r.stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtDestroyEvent(e));
    OK(aclrtFree(dev));
    part(&r);
}

static pid_t calling; // the main thread, which is about to call

static void *destroy_soon(void *arg)
{
    struct rank *r = arg;
    static int rc;
    until_it_waits(&calling);
    rc = HcclCommDestroy(r->comm); // needs no device of its own
    return &rc;
}

// Destroying a communicator frees the call that builds a link in it.
static void destroy_frees_builder(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    pthread_t t;
    void *rc;
    if (r.rank == 0) {
        CHECK(pthread_create(&t, NULL, destroy_soon, &r) == 0);
        void *dev = device(64);
        double began = seconds();
        about_to_wait(&calling);
        WANT(HcclSend(dev, 8, U8, 1, r.comm, r.stream), HCCL_E_INTERNAL);
        SAYS("external request");
        CHECK(seconds() - began < 100);
        CHECK(pthread_join(t, &rc) == 0 && *(int *)rc == HCCL_SUCCESS);
        say(&r, "done");
    }
    hear(&r, "done");
}

// While a call is inside (HCCL_SIM_ISSUE_MS) and builds nothing, destroying says: again.
static void destroy_in_use(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    pthread_t t;
    void *rc;
    void *dev = device(64);
    warm(&r, dev);
    if (r.rank == 0) {
        CHECK(pthread_create(&t, NULL, destroy_soon, &r) == 0);
        about_to_wait(&calling);
        OK(HcclSend(dev, 8, U8, 1, r.comm, r.stream));
        CHECK(pthread_join(t, &rc) == 0 && *(int *)rc == HCCL_E_AGAIN);
    } else {
        OK(HcclRecv(dev, 8, U8, 0, r.comm, r.stream));
    }
    OK(aclrtSynchronizeStream(r.stream));
    part(&r);
}

// What a stream still runs when its communicator is destroyed is a DMA fault.
static void destroy_under_stream(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    warm(&r, dev);
    if (r.rank == 0) {
        OK(HcclSend(dev, 8, U8, 1, r.comm, r.stream));
        WANT(aclrtSynchronizeStreamWithTimeout(r.stream, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        OK(HcclCommDestroy(r.comm));
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_EXCEPTION);
        SAYS("EI0012");
        say(&r, "done");
    }
    hear(&r, "done");
}

// HCCL_SIM_STRICT=2: a communicator does not go while a stream uses it.
static void destroy_under_stream_strict(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    warm(&r, dev);
    if (r.rank == 0) {
        OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream));
        OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream)); // queued behind
        WANT(HcclCommDestroy(r.comm), HCCL_E_INTERNAL);
        SAYS("operators on a stream");
        OK(aclrtStreamAbort(r.stream));
        say(&r, "done");
    }
    hear(&r, "done");
    OK(HcclCommDestroy(r.comm));
}

static void freed_buffer(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64), *other = device(4096);
    warm(&r, dev);
    if (r.rank == 0) {
        OK(aclrtFree(other));
        OK(HcclSend(other, 8, U8, 1, r.comm, r.stream));
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_EXCEPTION);
        SAYS("EI0012");
        OK(HcclSend(dev, 65, U8, 1, r.comm, r.stream)); // longer than its allocation
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_EXCEPTION);
    }
    part(&r);
}

static void abort_stream(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    warm(&r, dev);
    if (r.rank == 0) {
        OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream));
        WANT(aclrtSynchronizeStreamWithTimeout(r.stream, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        OK(aclrtStreamAbort(r.stream));
        OK(HcclCommDestroy(r.comm));
        OK(aclrtSynchronizeStream(r.stream)); // the stream itself lives on
        OK(aclrtDestroyStreamForce(r.stream));
        say(&r, "done");
    }
    hear(&r, "done");
}

// Without a wait between them, operators of a dead or absent peer do not stop what is queued behind them.
static void failure_mode(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64), *host;
    OK(aclrtMallocHost(&host, 64));
    memset(host, 1, 64);
    OK(aclrtMemset(dev, 64, 7, 64));
    warm(&r, dev);
    if (r.rank == 0) {
        OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream));
        OK(aclrtMemcpyAsync(host, 64, dev, 64, ACL_MEMCPY_DEVICE_TO_HOST, r.stream));
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_TIMEOUT);
        CHECK(((char *)host)[63] == 7); // the copy ran all the same
        OK(aclrtSetStreamFailureMode(r.stream, ACL_STOP_ON_FAILURE));
        memset(host, 1, 64);
        OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream));
        OK(aclrtMemcpyAsync(host, 64, dev, 64, ACL_MEMCPY_DEVICE_TO_HOST, r.stream));
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_TIMEOUT);
        CHECK(((char *)host)[63] == 1);
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_TIMEOUT); // for good
        say(&r, "done");
    }
    hear(&r, "done");
}

static void shared_buffer(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    aclrtStream other;
    HcclComm comms[2];
    size_t before, after, total;
    OK(aclrtCreateStream(&other));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    for (int i = 0; i < 2; i++) {
        char file[512];
        HcclRootInfo info;
        HcclCommConfig config;
        snprintf(file, sizeof(file), "%s%d", r.file, i);
        share_root(file, r.rank, &info);
        HcclCommConfigInit(&config);
        config.hcclBufferSize = 4;
        strcpy(config.hcclBufferName, "one for all");
        OK(HcclCommInitRootInfoConfig(2, &info, r.rank, &config, &comms[i]));
        struct rank x = {r.rank, 2, r.file, r.stream, comms[i]};
        warm(&x, dev);
    }
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before - after == 9 << 20);
    WANT(HcclSend(dev, 8, U8, 1 - r.rank, comms[1], other), HCCL_E_PARA);
    OK(HcclCommDestroy(comms[0]));
    OK(HcclCommDestroy(comms[1]));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before == after);
    part(&r);
}

static const struct scenario all[] = {
    {"two threads at once", two_threads_at_once},
    {"second thread", second_thread},
    {"second thread, strict", second_thread},
    {"two streams", two_streams},
    {"destroy frees builder", destroy_frees_builder},
    {"destroy in use", destroy_in_use},
    {"destroy under stream", destroy_under_stream},
    {"destroy under stream, strict", destroy_under_stream_strict},
    {"freed buffer", freed_buffer},
    {"abort", abort_stream},
    {"failure mode", failure_mode},
    {"shared buffer", shared_buffer},
};

PLAY(all)
