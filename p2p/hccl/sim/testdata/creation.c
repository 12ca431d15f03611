// Making and ending communicators.
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "check.h"

static struct rank begin(char **argv)
{
    struct rank r = {(uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]), argv[3], NULL, NULL};
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int)r.rank));
    OK(aclrtCreateStream(&r.stream));
    return r;
}

static void config(int argc, char **argv)
{
    (void)argc;
    struct rank r = begin(argv);
    HcclRootInfo info;
    HcclCommConfig c;
    HcclCommConfigInfo head;
    char name[HCCL_COMM_NAME_MAX_LENGTH];
    share_root(r.file, r.rank, &info);
    HcclCommConfigInit(&c);
    memcpy(&head, &c, sizeof(head));
    head.magicWord = 1;
    memcpy(&c, &head, sizeof(head));
    WANT(HcclCommInitRootInfoConfig(1, &info, 0, &c, &r.comm), HCCL_E_PARA);
    SAYS("magic");
    head.magicWord = HCCL_COMM_CONFIG_MAGIC_WORD;
    memcpy(&c, &head, sizeof(head));
    c.hcclBufferSize = 0;
    WANT(HcclCommInitRootInfoConfig(1, &info, 0, &c, &r.comm), HCCL_E_PARA);
    c.hcclBufferSize = 7;
    strcpy(c.hcclCommName, "pair");
    head.configSize = 160; // version 1 knows no name, whatever the size
    head.version = 1;
    memcpy(&c, &head, sizeof(head));
    OK(HcclCommInitRootInfoConfig(1, &info, 0, &c, &r.comm));
    OK(HcclGetCommName(r.comm, name));
    CHECK(strcmp(name, "pair") != 0);
    HcclComm second, third;
    head.version = 2;
    memcpy(&c, &head, sizeof(head));
    OK(HcclGetRootInfo(&info));
    OK(HcclCommInitRootInfoConfig(1, &info, 0, &c, &second));
    OK(HcclGetCommName(second, name));
    CHECK(strcmp(name, "pair") == 0);
    OK(HcclGetRootInfo(&info));
    WANT(HcclCommInitRootInfoConfig(1, &info, 0, &c, &third), HCCL_E_PARA); // the name is taken
    SAYS("pair");
    OK(HcclCommDestroy(second));
    OK(HcclCommInitRootInfoConfig(1, &info, 0, &c, &third)); // and free again
    OK(HcclCommDestroy(third));
    OK(HcclCommDestroy(r.comm));
}

// argv[5] is the capability of the version.
static void capability(int argc, char **argv)
{
    (void)argc;
    OK(aclInit(NULL));
    CHECK(HcclGetCommConfigCapability() == (uint32_t)atoi(argv[5]));
}

static void bad_environment(int argc, char **argv)
{
    (void)argc;
    struct rank r = begin(argv);
    HcclRootInfo info;
    WANT(HcclCommInitAll(1, (int32_t[]){0}, &r.comm), HCCL_E_PARA);
    SAYS("EI0001");
    WANT(HcclGetRootInfo(&info), HCCL_E_PARA);
    SAYS(argv[5]);
}

// Run with HCCL_SIM_SECOND_MS=30: rank 1 of 3 never comes.
static void missing_rank(int argc, char **argv)
{
    (void)argc;
    struct rank r = begin(argv);
    HcclRootInfo info;
    double began = seconds();
    share_root(r.file, r.rank, &info);
    WANT(HcclCommInitRootInfo(3, &info, r.rank * 2, &r.comm), HCCL_E_INTERNAL);
    SAYS("missing ranks: 1");
    CHECK(r.rank > 0 || seconds() - began > 3.5); // 120 s from when the root began to listen
}

// The root is gone before its guest comes.
static void root_gone(int argc, char **argv)
{
    (void)argc;
    struct rank r = begin(argv);
    HcclRootInfo info;
    share_root(r.file, r.rank, &info);
    if (r.rank == 0) return;
    nap(200);
    WANT(HcclCommInitRootInfo(2, &info, 1, &r.comm), HCCL_E_TIMEOUT);
    SAYS("EI0015");
}

static int occupy(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    return bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0 ? fd : -1;
}

static int occupy_soon(int port) // its last owner may just be leaving it
{
    int fd = -1;
    for (int i = 0; fd < 0 && i < 12000; i++) {
        fd = occupy(port);
        if (fd < 0) nap(5);
    }
    CHECK(fd >= 0);
    return fd;
}

// argv[5] is HCCL_IF_BASE_PORT; the port is that plus the device.
static void ports(int argc, char **argv)
{
    (void)argc;
    int port = atoi(argv[5]) + 2;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(2));
    HcclRootInfo info;
    HcclComm comm;
    int fd = occupy_soon(port);
    WANT(HcclGetRootInfo(&info), HCCL_E_TCP_CONNECT);
    SAYS("EI0019");
    close(fd);
    OK(HcclGetRootInfo(&info));
    CHECK(occupy(port) < 0);                          // taken until all have met
    WANT(HcclGetRootInfo(&info), HCCL_E_TCP_CONNECT); // by the same rule
    aclGetRecentErrMsg();
    memset(&info, 0, sizeof(info));
    WANT(HcclCommInitRootInfo(1, &info, 0, &comm), HCCL_E_PARA);
}

static void ports_are_freed(int argc, char **argv)
{
    (void)argc;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(2));
    for (int i = 0; i < 100; i++) { // more than there are ports
        HcclRootInfo info;
        HcclComm comm;
        OK(HcclGetRootInfo(&info));
        OK(HcclCommInitRootInfo(1, &info, 0, &comm));
        OK(HcclCommDestroy(comm));
    }
    occupy_soon(atoi(argv[5]) + 2);
}

// Two ports are given (HCCL_HOST_SOCKET_PORT_RANGE), so two roots can wait and no third.
static void port_range(int argc, char **argv)
{
    (void)argc;
    struct rank r = begin(argv);
    HcclRootInfo first, second, third;
    OK(HcclGetRootInfo(&first));
    OK(HcclGetRootInfo(&second));
    WANT(HcclGetRootInfo(&third), HCCL_E_UNAVAIL);
    SAYS("EI0019");
    OK(HcclCommInitRootInfo(1, &first, 0, &r.comm));
    HcclResult rc = HCCL_E_UNAVAIL;
    for (int i = 0; rc != HCCL_SUCCESS && i < 12000; i++) { // the root's thread is just closing it
        rc = HcclGetRootInfo(&third);
        nap(5);
    }
    CHECK(rc == HCCL_SUCCESS);
    OK(HcclCommDestroy(r.comm));
}

// A rank table with random damage is read to an error or to a table; seeded, so that a failure comes again.
static void damaged_tables(int argc, char **argv)
{
    CHECK(argc == 6);
    struct rank r = begin(argv);
    char text[4096], path[512];
    FILE *f = fopen(argv[5], "rb");
    CHECK(f != NULL);
    size_t n = fread(text, 1, sizeof(text), f);
    fclose(f);
    snprintf(path, sizeof(path), "%s.table", r.file);
    unsigned seed = 1;
    for (int i = 0; i < 3000; i++) {
        char bad[sizeof(text)];
        memcpy(bad, text, n);
        size_t cut = rand_r(&seed) % 4 == 0 ? (size_t)rand_r(&seed) % n : n;
        for (int k = rand_r(&seed) % 8; k > 0 && cut > 0; k--)
            bad[(size_t)rand_r(&seed) % cut] = "{}[]\",:\\ 09x"[rand_r(&seed) % 13];
        f = fopen(path, "wb");
        CHECK(f != NULL && fwrite(bad, 1, cut, f) == cut && fclose(f) == 0);
        CHECK(HcclCommInitClusterInfo(path, 7, &r.comm) != HCCL_SUCCESS); // no table here has a rank 7
    }
}

struct creation {
    HcclRootInfo *info;
    pid_t thread;
    HcclResult rc;
};

static void *create(void *arg)
{
    struct creation *c = arg;
    HcclComm comm;
    OK(aclrtSetDevice(0));
    about_to_wait(&c->thread);
    c->rc = HcclCommInitRootInfo(1, c->info, 0, &comm);
    return NULL;
}

// Run with HCCL_SIM_CREATE_MS, so that the first is still at it.
static void two_at_once(int argc, char **argv)
{
    (void)argc;
    struct rank r = begin(argv);
    HcclRootInfo a, b;
    pthread_t t;
    OK(HcclGetRootInfo(&a));
    OK(HcclGetRootInfo(&b));
    struct creation c = {&a, 0, HCCL_E_RESERVED};
    CHECK(pthread_create(&t, NULL, create, &c) == 0);
    until_it_waits(&c.thread);
    WANT(HcclCommInitRootInfo(1, &b, 0, &r.comm), HCCL_E_INTERNAL);
    SAYS("serially");
    CHECK(pthread_join(t, NULL) == 0 && c.rc == HCCL_SUCCESS);
}

// A device of 40 MB holds one communicator of 16 MB (33 MB) and not two. argv[5]: the code of the version.
static void budget(int argc, char **argv)
{
    struct rank r = begin(argv);
    struct rank pairs[2];
    void *dev = device(64);
    CHECK(argc == 6);
    for (int i = 0; i < 2; i++) {
        char file[512];
        HcclRootInfo info;
        HcclCommConfig c;
        snprintf(file, sizeof(file), "%s%d", r.file, i);
        share_root(file, r.rank, &info);
        HcclCommConfigInit(&c);
        c.hcclBufferSize = 16;
        pairs[i] = r;
        OK(HcclCommInitRootInfoConfig(2, &info, r.rank, &c, &pairs[i].comm)); // costs nothing yet
    }
    warm(&pairs[0], dev);
    WANT(HcclSend(dev, 8, HCCL_DATA_TYPE_UINT8, 1 - r.rank, pairs[1].comm, r.stream), atoi(argv[5]));
    SAYS("EI0007");
    OK(HcclCommDestroy(pairs[0].comm));
    warm(&pairs[1], dev);
    OK(HcclCommDestroy(pairs[1].comm));
}

// Two processes of one server (HCCL_SIM_HOST) on one NPU.
static void npu_taken(int argc, char **argv)
{
    (void)argc;
    struct rank r = {(uint32_t)atoi(argv[1]), 2, argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(5));
    OK(HcclGetRootInfo(&info));
    if (r.rank == 0) {
        OK(HcclCommInitRootInfo(1, &info, 0, &r.comm));
        say(&r, "mine");
        hear(&r, "refused");
    } else {
        hear(&r, "mine");
        WANT(HcclCommInitRootInfo(1, &info, 0, &r.comm), HCCL_E_UNAVAIL);
        SAYS("EI0020");
        say(&r, "refused");
    }
}

// Two ranks of one communicator on one device.
static void same_device(int argc, char **argv)
{
    (void)argc;
    uint32_t rank = (uint32_t)atoi(argv[1]);
    HcclRootInfo info;
    HcclComm comm;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(5));
    share_root(argv[3], rank, &info);
    WANT(HcclCommInitRootInfo(2, &info, rank, &comm), HCCL_E_INTERNAL);
    SAYS("EI0009");
}

static void sum(struct rank *r, HcclComm comm, int want)
{
    int32_t one = 1;
    void *dev = device(64);
    put(dev, &one, sizeof(one));
    OK(HcclAllReduce(dev, dev, 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, r->stream));
    OK(aclrtSynchronizeStream(r->stream));
    get(&one, dev, sizeof(one));
    CHECK(one == want);
}

// Ranks 2 and 0 of three make a smaller one.
static void sub(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    uint32_t ids[] = {2, 0}, n;
    HcclCommConfig c;
    HcclComm small, smaller;
    char name[HCCL_COMM_NAME_MAX_LENGTH];
    HcclCommConfigInit(&c);
    if (r.rank == 1) {
        OK(HcclCreateSubCommConfig(&r.comm, 0, NULL, 0xFFFFFFFFU, 0, &c, &small));
        CHECK(small == NULL);
        hear(&r, "done");
        part(&r);
        return;
    }
    uint32_t at = r.rank == 2 ? 0 : 1;
    WANT(HcclCreateSubCommConfig(&r.comm, 2, ids, 9, 1 - at, &c, &small), HCCL_E_PARA);
    OK(HcclCreateSubCommConfig(&r.comm, 2, ids, 9, at, &c, &small));
    OK(HcclGetRankId(small, &n));
    CHECK(n == at);
    OK(HcclGetCommName(small, name));
    CHECK(strstr(name, "_sub_9") != NULL);
    WANT(HcclCreateSubCommConfig(&small, 2, ids, 10, at, &c, &smaller), HCCL_E_NOT_SUPPORT);
    sum(&r, small, 2);
    OK(HcclCommDestroy(small));
    say(&r, "done");
    part(&r);
}

static void rank_table(int argc, char **argv)
{
    CHECK(argc == 6);
    struct rank r = begin(argv);
    HcclCommConfig c;
    HcclComm again;
    uint32_t n;
    HcclCommConfigInit(&c);
    c.hcclBufferSize = 1;
    WANT(HcclCommInitClusterInfo("/no/such/file", r.rank, &r.comm), HCCL_E_OPEN_FILE_FAILURE);
    SAYS("EI0004");
    WANT(HcclCommInitClusterInfo(argv[5], 1 - r.rank, &r.comm), HCCL_E_PARA); // of another device
    SAYS("EI0014");
    OK(HcclCommInitClusterInfoConfig(argv[5], r.rank, &c, &r.comm));
    WANT(HcclCommInitClusterInfo(argv[5], r.rank, &again), HCCL_E_PARA);
    OK(HcclGetRankSize(r.comm, &n));
    CHECK(n == 2);
    sum(&r, r.comm, 2);
    part(&r);
}

static void bad_rank_table(int argc, char **argv)
{
    CHECK(argc == 7);
    struct rank r = begin(argv);
    WANT(HcclCommInitClusterInfo(argv[5], 0, &r.comm), HCCL_E_PARA);
    SAYS(argv[6]);
}

static const struct scenario all[] = {
    {"config", config},
    {"capability", capability},
    {"bad environment", bad_environment},
    {"missing rank", missing_rank},
    {"root gone", root_gone},
    {"ports", ports},
    {"ports are freed", ports_are_freed},
    {"port range", port_range},
    {"damaged tables", damaged_tables},
    {"two at once", two_at_once},
    {"budget", budget},
    {"npu taken", npu_taken},
    {"same device", same_device},
    {"sub", sub},
    {"rank table", rank_table},
    {"bad rank table", bad_rank_table},
};

PLAY(all)
