// Helpers of the test programs. A rank finds its number and the way to the others in its arguments:
//   prog rank size file
// The root writes its root info to the file; the others wait for it.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

#define WANT(call, code)                                                                                      \
    do {                                                                                                      \
        long got_ = (long)(call);                                                                             \
        if (got_ != (long)(code)) {                                                                           \
            const char *m_ = aclGetRecentErrMsg();                                                            \
            fprintf(stderr, "%s:%d: %s = %ld, want %ld: %s\n", __FILE__, __LINE__, #call, got_, (long)(code), \
                    m_ == NULL ? "" : m_);                                                                    \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)
#define OK(call) WANT(call, 0)
#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
            exit(1);                                                           \
        }                                                                      \
    } while (0)
// The last message names the code.
#define SAYS(text)                                                                                               \
    do {                                                                                                         \
        const char *m_ = aclGetRecentErrMsg();                                                                   \
        if (m_ == NULL || strstr(m_, text) == NULL) {                                                            \
            fprintf(stderr, "%s:%d: message %s, want %s\n", __FILE__, __LINE__, m_ == NULL ? "none" : m_, text); \
            exit(1);                                                                                             \
        }                                                                                                        \
    } while (0)

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void nap(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

// A thread that is soon to wait in a call says which it is, when nothing but that call is left to do.
static inline void about_to_wait(pid_t *me) { __atomic_store_n(me, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST); }

// Returns when that thread has slept for some time, however late the machine has let it run.
static inline void until_it_waits(const pid_t *thread)
{
    int asleep = 0;
    for (int i = 0; asleep < 10 && i < 12000; i++) {
        char path[64], text[512] = "";
        pid_t id = __atomic_load_n(thread, __ATOMIC_SEQ_CST);
        snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)id);
        FILE *f = id == 0 ? NULL : fopen(path, "r");
        if (f != NULL) {
            text[fread(text, 1, sizeof(text) - 1, f)] = 0;
            fclose(f);
        }
        const char *state = strrchr(text, ')'); // behind the name of the program
        asleep = state != NULL && strncmp(state, ") S", 3) == 0 ? asleep + 1 : 0;
        nap(10);
    }
    CHECK(asleep > 0);
}

static inline void share_root(const char *file, uint32_t rank, HcclRootInfo *info)
{
    char temporary[512];
    if (rank == 0) {
        OK(HcclGetRootInfo(info));
        snprintf(temporary, sizeof(temporary), "%s.new", file);
        FILE *f = fopen(temporary, "wb");
        CHECK(f != NULL && fwrite(info, sizeof(*info), 1, f) == 1 && fclose(f) == 0);
        CHECK(rename(temporary, file) == 0);
        return;
    }
    FILE *f = NULL;
    for (int i = 0; f == NULL && i < 2000; i++) {
        f = fopen(file, "rb");
        if (f == NULL) nap(5);
    }
    CHECK(f != NULL && fread(info, sizeof(*info), 1, f) == 1);
    fclose(f);
}

struct rank {
    uint32_t rank, size;
    const char *file;
    aclrtStream stream;
    HcclComm comm;
};

// Sets the device (the rank's number), makes a stream and the communicator.
static inline struct rank join(int argc, char **argv)
{
    CHECK(argc >= 4);
    struct rank r = {(uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]), argv[3], NULL, NULL};
    HcclRootInfo info;
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int)r.rank));
    OK(aclrtCreateStream(&r.stream));
    share_root(r.file, r.rank, &info);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    config.hcclBufferSize = 1;
    OK(HcclCommInitRootInfoConfig(r.size, &info, r.rank, &config, &r.comm));
    return r;
}

// One send in each direction, lower rank first: the links of the pair are built.
static inline void warm(struct rank *r, void *dev)
{
    uint32_t peer = 1 - r->rank;
    for (uint32_t from = 0; from < 2; from++) {
        if (from == r->rank) OK(HcclSend(dev, 8, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
        else OK(HcclRecv(dev, 8, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
    }
    OK(aclrtSynchronizeStream(r->stream));
}

static inline void part(struct rank *r)
{
    OK(HcclCommDestroy(r->comm));
    OK(aclrtDestroyStream(r->stream));
    OK(aclrtResetDevice((int)r->rank));
    OK(aclFinalize());
}

// The scenarios of a program; argv[4] names the one to run.
struct scenario {
    const char *name;
    void (*run)(int argc, char **argv);
};

static inline int play(const struct scenario *all, size_t n, int argc, char **argv)
{
    CHECK(argc >= 5);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, argv[4]) == 0) {
            all[i].run(argc, argv);
            return 0;
        }
    fprintf(stderr, "no scenario %s\n", argv[4]);
    return 2;
}
#define PLAY(table) \
    int main(int argc, char **argv) { return play(table, sizeof(table) / sizeof(table[0]), argc, argv); }

// A file beside the root's that ranks meet by: one says, another waits for it.
static inline void say(const struct rank *r, const char *what)
{
    char path[512];
    snprintf(path, sizeof(path), "%s.%s", r->file, what);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fclose(f) == 0);
}

static inline void hear(const struct rank *r, const char *what)
{
    char path[512];
    snprintf(path, sizeof(path), "%s.%s", r->file, what);
    for (int i = 0; i < 6000; i++) {
        if (access(path, F_OK) == 0) return;
        nap(5);
    }
    fprintf(stderr, "rank %u never heard %s\n", r->rank, what);
    exit(1);
}

static inline void *device(size_t n)
{
    void *p = NULL;
    OK(aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static inline void put(void *dst, const void *src, size_t n)
{
    if (n > 0) OK(aclrtMemcpy(dst, n, src, n, ACL_MEMCPY_HOST_TO_DEVICE));
}

static inline void get(void *dst, const void *src, size_t n)
{
    if (n > 0) OK(aclrtMemcpy(dst, n, src, n, ACL_MEMCPY_DEVICE_TO_HOST));
}

#endif
