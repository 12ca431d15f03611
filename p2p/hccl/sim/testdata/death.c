// A peer that dies. Rank 1 kills itself, by HCCL_SIM_DIE; rank 0 says what it saw.
#include "check.h"

#define U8 HCCL_DATA_TYPE_UINT8

static void in_creation(int argc, char **argv)
{
    (void)argc;
    struct rank r = {(uint32_t)atoi(argv[1]), 3, argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int)r.rank));
    share_root(r.file, r.rank, &info);
    // The dead one had come: the root counts it; the third never comes.
    WANT(HcclCommInitRootInfo(3, &info, r.rank, &r.comm), HCCL_E_INTERNAL);
    SAYS("EI0015");
}

static void in_meeting(int argc, char **argv)
{
    (void)argc;
    struct rank r = {(uint32_t)atoi(argv[1]), 2, argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int)r.rank));
    share_root(r.file, r.rank, &info);
    WANT(HcclCommInitRootInfo(2, &info, r.rank, &r.comm), HCCL_E_INTERNAL);
    SAYS("missing ranks: 1");
}

static void in_first(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    if (r.rank == 1) HcclRecv(device(64), 8, U8, 0, r.comm, r.stream); // does not return
    double began = seconds();
    WANT(HcclSend(device(64), 8, U8, 1, r.comm, r.stream), HCCL_E_TIMEOUT);
    SAYS("EI0006");
    CHECK(seconds() - began > 1.1); // 120 s and more, not sooner
    OK(HcclCommDestroy(r.comm));
}

// argv[5]: the code; argv[6]: how many ms it takes at least.
static void in_later(int argc, char **argv)
{
    CHECK(argc == 7);
    struct rank r = join(argc, argv);
    void *dev = device(64);
    warm(&r, dev);
    double began = seconds();
    if (r.rank == 1) OK(HcclSend(dev, 8, U8, 0, r.comm, r.stream)); // its third operator
    else OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream));
    WANT(aclrtSynchronizeStream(r.stream), atoi(argv[5]));
    SAYS("EI0002");
    CHECK((seconds() - began) * 1000 >= atoi(argv[6]));
    HcclResult e;
    OK(HcclGetCommAsyncError(r.comm, &e));
    CHECK(e == HCCL_SUCCESS);
    OK(HcclCommDestroy(r.comm));
}

// With RDMA the retries run out (about 30 s) long before the stream's wait does.
static void rdma(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    HcclResult e = HCCL_SUCCESS;
    warm(&r, dev);
    double began = seconds();
    if (r.rank == 1) OK(HcclSend(dev, 8, U8, 0, r.comm, r.stream));
    else OK(HcclRecv(dev, 8, U8, 1, r.comm, r.stream));
    while (e == HCCL_SUCCESS && seconds() - began < 100) {
        OK(HcclGetCommAsyncError(r.comm, &e));
        nap(5);
    }
    CHECK(e == HCCL_E_REMOTE);
    CHECK(seconds() - began > 0.25);
    WANT(aclrtSynchronizeStreamWithTimeout(r.stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT); // still hangs
    OK(aclrtStreamAbort(r.stream));
    OK(HcclCommDestroy(r.comm));
}

static void collective(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    OK(HcclAllReduce(dev, dev, 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm, r.stream));
    OK(aclrtSynchronizeStream(r.stream));
    OK(HcclAllReduce(dev, dev, 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm, r.stream));
    WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_FFTS_PLUS_TIMEOUT); // all survivors
    OK(HcclCommDestroy(r.comm));
}

static void task_fails(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    if (r.rank == 0) OK(HcclSend(dev, 8, U8, 1, r.comm, r.stream));
    else OK(HcclRecv(dev, 8, U8, 0, r.comm, r.stream));
    WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
    part(&r);
}

static const struct scenario all[] = {
    {"meet", in_meeting}, {"create", in_creation},    {"first", in_first},        {"later", in_later},
    {"rdma", rdma},       {"collective", collective}, {"task fails", task_fails},
};

PLAY(all)
