// HcclBatchSendRecv and groups.
#include "check.h"

#define I32 HCCL_DATA_TYPE_INT32

static int32_t value(uint32_t from, uint32_t to, int i) { return (int32_t)(from * 1000 + to * 100) + i; }

enum { N = 50 };

// Every rank sends to and receives from all, itself too.
static void all_pairs(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    HcclSendRecvItem items[16];
    int32_t host[N];
    uint32_t n = 0;
    char *out = device(r.size * sizeof(host)), *in = device(r.size * sizeof(host));
    for (uint32_t p = 0; p < r.size; p++) {
        for (int i = 0; i < N; i++) host[i] = value(r.rank, p, i);
        put(out + p * sizeof(host), host, sizeof(host));
    }
    for (uint32_t k = 0; k < r.size; k++) { // receives first, peers in opposite order: any order is right
        uint32_t p = r.size - 1 - k;
        items[n++] = (HcclSendRecvItem){HCCL_RECV, in + p * sizeof(host), N, I32, p};
    }
    for (uint32_t p = 0; p < r.size; p++) items[n++] = (HcclSendRecvItem){HCCL_SEND, out + p * sizeof(host), N, I32, p};
    items[n++] = (HcclSendRecvItem){HCCL_SEND, NULL, N, I32, 0}; // skipped
    for (int again = 0; again < 3; again++) {
        OK(aclrtMemset(in, r.size * sizeof(host), 0, r.size * sizeof(host)));
        OK(HcclBatchSendRecv(items, n, r.comm, r.stream));
        OK(aclrtSynchronizeStream(r.stream));
        for (uint32_t p = 0; p < r.size; p++) {
            get(host, in + p * sizeof(host), sizeof(host));
            for (int i = 0; i < N; i++) CHECK(host[i] == value(p, r.rank, i));
        }
    }
    part(&r);
}

static void refused(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    char host[64] = {0};
    void *dev = device(64);
    HcclSendRecvItem twice[] = {{HCCL_SEND, dev, 1, I32, 1 - r.rank}, {HCCL_SEND, dev, 1, I32, 1 - r.rank}};
    HcclSendRecvItem alone[] = {{HCCL_SEND, dev, 1, I32, r.rank}};
    HcclSendRecvItem uneven[] = {{HCCL_SEND, dev, 1, I32, r.rank}, {HCCL_RECV, dev, 2, I32, r.rank}};
    HcclSendRecvItem odd[] = {{HCCL_SEND_RECV_RESERVED, dev, 1, I32, 1 - r.rank}};
    HcclSendRecvItem far[] = {{HCCL_SEND, dev, 1, I32, 2}};
    HcclSendRecvItem outside[] = {{HCCL_SEND, host, 1, I32, 1 - r.rank}};
    WANT(HcclBatchSendRecv(twice, 2, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclBatchSendRecv(alone, 1, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclBatchSendRecv(uneven, 2, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclBatchSendRecv(odd, 1, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclBatchSendRecv(far, 1, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclBatchSendRecv(outside, 1, r.comm, r.stream), HCCL_E_PARA);
    WANT(HcclBatchSendRecv(NULL, 1, r.comm, r.stream), HCCL_E_PTR);
    OK(HcclBatchSendRecv(twice, 0, r.comm, r.stream));
    part(&r);
}

// Both ranks send first: a deadlock outside a group, none inside.
static void group_p2p(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    bool open;
    int32_t got = (int32_t)r.rank;
    char *dev = device(128);
    put(dev, &got, sizeof(got));
    OK(HcclGroupStart());
    OK(HcclGroupStatusGet(&open));
    CHECK(open);
    OK(HcclSend(dev, 1, I32, 1 - r.rank, r.comm, r.stream));
    OK(HcclRecv(dev + 64, 1, I32, 1 - r.rank, r.comm, r.stream));
    WANT(HcclBarrier(r.comm, r.stream), HCCL_E_PARA); // one class of call
    OK(HcclGroupEnd());
    OK(HcclGroupStatusGet(&open));
    CHECK(!open);
    WANT(HcclGroupEnd(), HCCL_E_PARA);
    OK(aclrtSynchronizeStream(r.stream));
    get(&got, dev + 64, sizeof(got));
    CHECK(got == (int32_t)(1 - r.rank));
    part(&r);
}

// One thread makes and drives the communicators of four devices.
static void group_devices(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    enum { D = 4 };
    HcclRootInfo info;
    HcclComm comms[D];
    aclrtStream streams[D];
    void *dev[D];
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(HcclGetRootInfo(&info));
    OK(HcclGroupStart());
    for (int i = 0; i < D; i++) {
        OK(aclrtSetDevice(i));
        OK(HcclCommInitRootInfo(D, &info, (uint32_t)i, &comms[i]));
    }
    OK(HcclGroupEnd());
    OK(HcclGroupStart());
    for (int i = 0; i < D; i++) {
        int32_t v = i + 1;
        OK(aclrtSetDevice(i));
        OK(aclrtCreateStream(&streams[i]));
        dev[i] = device(64);
        put(dev[i], &v, sizeof(v));
        OK(HcclAllReduce(dev[i], dev[i], 1, I32, HCCL_REDUCE_SUM, comms[i], streams[i]));
    }
    OK(HcclGroupEnd());
    for (int i = 0; i < D; i++) {
        int32_t v;
        OK(aclrtSetDevice(i));
        OK(aclrtSynchronizeStream(streams[i]));
        get(&v, dev[i], sizeof(v));
        CHECK(v == 10);
        OK(HcclCommDestroy(comms[i]));
    }
}

static void init_all(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int32_t ids[] = {3, 1}, same[] = {2, 2};
    HcclComm comms[2];
    uint32_t n;
    OK(aclInit(NULL));
    WANT(HcclCommInitAll(2, same, comms), HCCL_E_INTERNAL);
    OK(HcclCommInitAll(2, ids, comms));
    for (uint32_t i = 0; i < 2; i++) {
        OK(HcclGetRankId(comms[i], &n));
        CHECK(n == i);
        OK(HcclCommDestroy(comms[i]));
    }
}

static const struct scenario all[] = {
    {"all pairs", all_pairs},         {"refused", refused},   {"group p2p", group_p2p},
    {"group devices", group_devices}, {"init all", init_all},
};

PLAY(all)
