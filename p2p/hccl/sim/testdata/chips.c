// What differs between the chips.
#include "check.h"

static void soc(int argc, char **argv)
{
    CHECK(argc == 7);
    uint32_t n;
    OK(aclInit(NULL));
    OK(aclrtGetDeviceCount(&n));
    CHECK(strcmp(aclrtGetSocName(), argv[5]) == 0 && n == (uint32_t)atoi(argv[6]));
}

static void p2p_310(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    HcclSendRecvItem item = {HCCL_SEND, dev, 1, HCCL_DATA_TYPE_INT8, 1 - r.rank};
    HcclCommConfig c;
    HcclComm small;
    uint32_t ids[] = {0, 1};
    HcclCommConfigInit(&c);
    WANT(HcclSend(dev, 1, HCCL_DATA_TYPE_INT8, 1 - r.rank, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    WANT(HcclRecv(dev, 1, HCCL_DATA_TYPE_INT8, 1 - r.rank, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    WANT(HcclBatchSendRecv(&item, 1, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    WANT(HcclBarrier(r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    WANT(HcclGroupStart(), HCCL_E_NOT_SUPPORT);
    WANT(HcclCreateSubCommConfig(&r.comm, 2, ids, 1, r.rank, &c, &small), HCCL_E_NOT_SUPPORT);
    OK(aclrtMemset(dev, 64, 1, 64));
    OK(HcclAllReduce(dev, dev, 8, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, r.comm, r.stream));
    OK(aclrtSynchronizeStream(r.stream));
    part(&r);
}

static void no_abort_910a(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    void *dev = device(64);
    WANT(aclrtStreamAbort(r.stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    WANT(aclrtDeviceTaskAbort(0, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    WANT(HcclCommSuspend(r.comm), HCCL_E_NOT_SUPPORT);
    WANT(HcclSend(dev, 1, HCCL_DATA_TYPE_BFP16, 1 - r.rank, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    warm(&r, dev);
    if (r.rank == 0) {
        OK(HcclRecv(dev, 8, HCCL_DATA_TYPE_UINT8, 1, r.comm, r.stream));
        WANT(aclrtSynchronizeStream(r.stream), ACL_ERROR_RT_TASK_TIMEOUT);
        SAYS("EI0002: notify wait timed out after 136 s"); // of 200 s: a multiple of 68
        say(&r, "done");
    }
    hear(&r, "done");
}

// argv[5] and argv[6]: the devices of a pair; argv[7]: what creating it gives.
static void pair(int argc, char **argv)
{
    CHECK(argc == 8);
    struct rank r = {(uint32_t)atoi(argv[1]), 2, argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(atoi(argv[5 + r.rank])));
    share_root(r.file, r.rank, &info);
    WANT(HcclCommInitRootInfo(2, &info, r.rank, &r.comm), atoi(argv[7]));
    if (atoi(argv[7]) != 0) SAYS("910A");
}

// Two servers, told apart by HCCL_SIM_HOST: a device of each is a legal pair, whatever the rings.
static void cluster(int argc, char **argv)
{
    CHECK(argc >= 4);
    uint32_t rank = (uint32_t)atoi(argv[1]);
    char host[600];
    snprintf(host, sizeof(host), "%u-%ld", rank, (long)getppid());
    CHECK(setenv("HCCL_SIM_HOST", host, 1) == 0);
    struct rank r = {rank, 2, argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(rank == 0 ? 3 : 4));
    OK(aclrtCreateStream(&r.stream));
    share_root(r.file, r.rank, &info);
    OK(HcclCommInitRootInfo(2, &info, r.rank, &r.comm));
    warm(&r, device(64));
    OK(HcclCommDestroy(r.comm));
}

static void three_of_910a(int argc, char **argv)
{
    (void)argc;
    struct rank r = {(uint32_t)atoi(argv[1]), 3, argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int)r.rank));
    share_root(r.file, r.rank, &info);
    WANT(HcclCommInitRootInfo(3, &info, r.rank, &r.comm), HCCL_E_PARA);
    SAYS("1, 2, 4 or 8");
}

// A3 has no prod and no int64 in its mode, and has what others refuse. argv[5]: 1 on A3.
static void a3(int argc, char **argv)
{
    CHECK(argc == 6);
    bool is = atoi(argv[5]) != 0;
    struct rank r = join(argc, argv);
    void *dev = device(4096), *handle;
    HcclCommSymWindow w, found;
    size_t offset;
    uint32_t other = 1 - r.rank;
    bool backup = true;
    WANT(HcclCommSetMemoryRange(r.comm, dev, 4096, 0, 0), is ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT);
    WANT(HcclCommActivateCommMemory(r.comm, dev, 4096, 0, dev, 0), is ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT);
    WANT(HcclCommDeactivateCommMemory(r.comm, dev), is ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT);
    WANT(HcclCommUnsetMemoryRange(r.comm, dev), is ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT);
    WANT(HcclCommWorkingDevNicSet(r.comm, &other, &backup, 1), is ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT);
    WANT(HcclCommSymWinRegister(r.comm, dev, 4096, &w, 1), is ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT);
    if (is) {
        OK(HcclCommSymWinGet(r.comm, (char *)dev + 100, 100, &found, &offset));
        CHECK(found == w && offset == 100);
        OK(HcclCommSymWinDeregister(w));
        WANT(HcclCommSymWinGet(r.comm, dev, 100, &found, &offset), HCCL_E_NOT_FOUND);
        WANT(HcclAllReduce(dev, dev, 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_PROD, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
        WANT(HcclAllReduce(dev, dev, 1, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, r.comm, r.stream), HCCL_E_NOT_SUPPORT);
    }
    HcclCommStatus status;
    WANT(HcclCommGetStatus("x", &status), HCCL_E_NOT_SUPPORT); // of the 950
    OK(HcclCommRegister(r.comm, dev, 4096, &handle, 0));
    OK(HcclCommExchangeMem(r.comm, handle, &other, 1));
    WANT(HcclSend(dev, 1, HCCL_DATA_TYPE_INT8, other, r.comm, r.stream), HCCL_E_NOT_SUPPORT); // no CCL buffer any more
    OK(HcclCommDeregister(r.comm, handle));
    part(&r);
}

static const struct scenario all[] = {
    {"soc", soc}, {"310P", p2p_310},    {"910A", no_abort_910a}, {"pair", pair}, {"three", three_of_910a},
    {"A3", a3},   {"cluster", cluster},
};

PLAY(all)
