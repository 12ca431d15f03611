// The rules of send and recv, one scenario each, between two ranks.
#include "check.h"

#define U8 HCCL_DATA_TYPE_UINT8

static void arguments(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    char host[64] = {0};
    void *dev = device(64);
    uint32_t peer = 1 - r.rank;
    OK(HcclSend(NULL, 0, U8, peer, r.comm, r.stream)); // count 0: success, nothing happens
    OK(HcclRecv(dev, 0, U8, peer, r.comm, r.stream));
    WANT(HcclSend(NULL, 8, U8, peer, r.comm, r.stream), HCCL_E_PTR);
    SAYS("EI0003");
    WANT(HcclSend(dev, 8, U8, peer, NULL, r.stream), HCCL_E_PTR);
    WANT(HcclSend(dev, 8, U8, peer, r.comm, NULL), HCCL_E_PTR);
    WANT(HcclSend(dev, 0x800000000ULL, U8, peer, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclSend(dev, 8, HCCL_DATA_TYPE_FP8E4M3, peer, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    WANT(HcclSend(dev, 8, U8, 2, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclSend(dev, 8, U8, r.rank, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    WANT(HcclSend(host, 8, U8, peer, r.comm, r.stream), HCCL_E_PARA);
    SAYS("host memory");
    WANT(HcclRecv(host, 8, U8, peer, r.comm, r.stream), HCCL_E_PARA);
    CHECK(aclGetRecentErrMsg() != NULL);
    CHECK(aclGetRecentErrMsg() == NULL); // told once
    warm(&r, dev);                       // none of it harmed the pair
    part(&r);
}

static void questions(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    uint32_t n = 99;
    char name[HCCL_COMM_NAME_MAX_LENGTH];
    HcclComm found = NULL;
    HcclResult async = HCCL_E_INTERNAL;
    OK(HcclGetRankId(r.comm, &n));
    CHECK(n == r.rank);
    OK(HcclGetRankSize(r.comm, &n));
    CHECK(n == 2);
    OK(HcclGetCommName(r.comm, name));
    CHECK(strstr(name, "%lo_") != NULL); // <hostip%if>_<port>_<device>_<time>
    OK(HcclCommGetHandleWithName(name, &found));
    CHECK(found == r.comm);
    OK(HcclGetCommAsyncError(r.comm, &async));
    CHECK(async == HCCL_SUCCESS);
    union HcclConfigValue v = {2};
    OK(HcclSetConfig(HCCL_DETERMINISTIC, v));
    v.value = 0;
    OK(HcclGetConfig(HCCL_DETERMINISTIC, &v));
    CHECK(v.value == 2);
    CHECK(strcmp(HcclGetErrorString(HCCL_E_REMOTE), "error cqe") == 0);
    CHECK(strcmp(HcclGetErrorString((HcclResult)77), "unknown error") == 0);
    OK(HcclCommSuspend(r.comm));
    WANT(HcclBarrier(r.comm, r.stream), HCCL_E_SUSPENDING);
    OK(HcclCommResume(r.comm));
    OK(HcclBarrier(r.comm, r.stream));
    OK(aclrtSynchronizeStream(r.stream));
    HcclComm gone = r.comm;
    OK(HcclCommDestroy(NULL));
    part(&r);
    WANT(HcclGetRankId(gone, &n), HCCL_E_PARA);
    WANT(HcclCommDestroy(gone), HCCL_E_PARA);
}

// A send ends when its receive has run, even for one byte.
static void rendezvous(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    warm(&r, dev);
    if (r.rank == 0) {
        OK(HcclSend(dev, 1, U8, 1, r.comm, r.stream));
        WANT(aclrtSynchronizeStreamWithTimeout(r.stream, 100), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        say(&r, "go");
        OK(aclrtSynchronizeStreamWithTimeout(r.stream, 10000));
    } else {
        hear(&r, "go");
        OK(HcclRecv(dev, 1, U8, 0, r.comm, r.stream));
        OK(aclrtSynchronizeStream(r.stream));
    }
    part(&r);
}

// Many messages without a wait arrive in the order they were sent.
static void order(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    enum { N = 100 };
    char *dev = device(64 * N);
    uint32_t got[16 * N];
    for (int i = 0; i < 16 * N; i++) got[i] = r.rank == 0 ? (uint32_t)i : 0;
    put(dev, got, sizeof(got));
    for (int i = 0; i < N; i++) {
        if (r.rank == 0) OK(HcclSend(dev + 64 * i, 16, HCCL_DATA_TYPE_UINT32, 1, r.comm, r.stream));
        else OK(HcclRecv(dev + 64 * i, 16, HCCL_DATA_TYPE_UINT32, 0, r.comm, r.stream));
    }
    OK(aclrtSynchronizeStream(r.stream));
    get(got, dev, sizeof(got));
    for (int i = 0; i < 16 * N; i++) CHECK(got[i] == (uint32_t)i);
    part(&r);
}

// The first operator of a direction holds the host until the peer is in its own; the next does not.
static void first_blocks(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    size_t before, after, total;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    double began = seconds();
    if (r.rank == 0) {
        say(&r, "sending");
        OK(HcclSend(dev, 8, U8, 1, r.comm, r.stream));
    }
    if (r.rank == 1) {
        hear(&r, "sending");
        nap(300);
        OK(HcclRecv(dev, 8, U8, 0, r.comm, r.stream));
    }
    CHECK(seconds() - began > 0.25);
    OK(aclrtSynchronizeStream(r.stream));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before - after == 3 << 20); // 2 x 1 MB + 1 MB, only now
    if (r.rank == 0) {
        began = seconds();
        OK(HcclSend(dev, 8, U8, 1, r.comm, r.stream)); // the peer is not there yet
        say(&r, "sent");
    } else {
        hear(&r, "sent");
        OK(HcclRecv(dev, 8, U8, 0, r.comm, r.stream));
    }
    OK(aclrtSynchronizeStream(r.stream));
    OK(HcclCommDestroy(r.comm));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(before == after);
}

// Run with HCCL_SIM_SECOND_MS=10: the peer never calls.
static void first_times_out(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    if (r.rank == 0) {
        WANT(HcclSend(device(64), 8, U8, 1, r.comm, r.stream), HCCL_E_TIMEOUT);
        SAYS("EI0006");
        say(&r, "done");
    }
    hear(&r, "done");
    part(&r);
}

static void both_send_first(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    WANT(HcclSend(device(64), 8, U8, 1 - r.rank, r.comm, r.stream), HCCL_E_TIMEOUT);
    SAYS("EI0006");
    part(&r);
}

static void first_count_differs(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    if (r.rank == 0) WANT(HcclSend(dev, 8, U8, 1, r.comm, r.stream), HCCL_E_INTERNAL);
    else WANT(HcclRecv(dev, 9, U8, 0, r.comm, r.stream), HCCL_E_INTERNAL);
    SAYS("EI0005");
    part(&r);
}

static void first_type_differs(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    if (r.rank == 0) WANT(HcclSend(dev, 8, U8, 1, r.comm, r.stream), HCCL_E_INTERNAL);
    else WANT(HcclRecv(dev, 8, HCCL_DATA_TYPE_INT8, 0, r.comm, r.stream), HCCL_E_INTERNAL);
    SAYS("EI0005");
    part(&r);
}

// Rank 1 says it runs another CANN.
static void versions_differ(int argc, char **argv)
{
    if (atoi(argv[1]) == 1) CHECK(setenv("HCCL_SIM_CANN", "8.5", 1) == 0);
    struct rank r = join(argc, argv);
    void *dev = device(64);
    if (r.rank == 0) WANT(HcclSend(dev, 8, U8, 1, r.comm, r.stream), HCCL_E_INTERNAL);
    else WANT(HcclRecv(dev, 8, U8, 0, r.comm, r.stream), HCCL_E_INTERNAL);
    SAYS("EI0008");
    part(&r);
}

static void buffers_differ(int argc, char **argv)
{
    CHECK(argc >= 4);
    struct rank r = {(uint32_t)atoi(argv[1]), 2, argv[3], NULL, NULL};
    HcclRootInfo info;
    HcclCommConfig config;
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int)r.rank));
    OK(aclrtCreateStream(&r.stream));
    share_root(r.file, r.rank, &info);
    HcclCommConfigInit(&config);
    config.hcclBufferSize = 1 + r.rank;
    OK(HcclCommInitRootInfoConfig(2, &info, r.rank, &config, &r.comm)); // nobody compares yet
    void *dev = device(64);
    if (r.rank == 0) WANT(HcclSend(dev, 8, U8, 1, r.comm, r.stream), HCCL_E_INTERNAL);
    else WANT(HcclRecv(dev, 8, U8, 0, r.comm, r.stream), HCCL_E_INTERNAL);
    SAYS("buffer");
    part(&r);
}

// Three ranks in one order: the links of each pair are its own.
static void three_ranks(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    int32_t v = 5;
    void *dev = device(64);
    put(dev, &v, sizeof(v));
    for (uint32_t hop = 0; hop < 3; hop++) { // 0 -> 1 -> 2 -> 0
        uint32_t to = (hop + 1) % 3;
        if (r.rank == hop) OK(HcclSend(dev, 1, HCCL_DATA_TYPE_INT32, to, r.comm, r.stream));
        if (r.rank == to) OK(HcclRecv(dev, 1, HCCL_DATA_TYPE_INT32, hop, r.comm, r.stream));
    }
    OK(aclrtSynchronizeStream(r.stream));
    get(&v, dev, sizeof(v));
    CHECK(v == 5);
    part(&r);
}

// Later counts are not compared: both wait until the exec time-out, and the pair is of no use any more.
static void later_count_differs(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    warm(&r, dev);
    double began = seconds();
    if (r.rank == 0) OK(HcclSend(dev, 8, U8, 1, r.comm, r.stream));
    else OK(HcclRecv(dev, 9, U8, 0, r.comm, r.stream));
    WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_TIMEOUT);
    SAYS("EI0002");
    CHECK(seconds() - began > 0.9); // 100 s
    OK(HcclCommDestroy(r.comm));
}

static void bandwidth(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    size_t n = 8 << 20;
    void *dev = device(n);
    warm(&r, dev);
    double began = seconds();
    if (r.rank == 0) OK(HcclSend(dev, n, U8, 1, r.comm, r.stream));
    else OK(HcclRecv(dev, n, U8, 0, r.comm, r.stream));
    OK(aclrtSynchronizeStream(r.stream));
    CHECK(seconds() - began >= 0.25); // 8 MiB at 32 MiB/s
    part(&r);
}

static const struct scenario all[] = {
    {"arguments", arguments},
    {"questions", questions},
    {"rendezvous", rendezvous},
    {"order", order},
    {"first blocks", first_blocks},
    {"first times out", first_times_out},
    {"both send first", both_send_first},
    {"first count differs", first_count_differs},
    {"first type differs", first_type_differs},
    {"versions differ", versions_differ},
    {"buffers differ", buffers_differ},
    {"three ranks", three_ranks},
    {"later count differs", later_count_differs},
    {"bandwidth", bandwidth},
};

PLAY(all)
