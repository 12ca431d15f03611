// The environment of a run. Every variable the simulator adds to HCCL's own:
//
//   HCCL_SIM_CHIP        910A, 910B (default), A3 or 310P
//   HCCL_SIM_CANN        8.1 (default), 8.5 or 9.0: config capability and struct size
//   HCCL_SIM_DEVICES     number of devices (default: of the chip)
//   HCCL_SIM_HBM         memory of a device: bytes, or with K, M, G (default 32G, virtual)
//   HCCL_SIM_HOST        name of the simulated server (default: this host); when given, an NPU
//                        belongs to one process of that server (EI0020)
//   HCCL_SIM_SECOND_MS   how long a second of HCCL's own time-outs lasts (default 1000)
//   HCCL_SIM_LINK        hccs (default) or rdma: what a dead peer looks like
//   HCCL_SIM_LATENCY_US, HCCL_SIM_BANDWIDTH (bytes/s, suffixes as above): every piece of a transfer
//   HCCL_SIM_CREATE_MS   extra time in every communicator creation
//   HCCL_SIM_ISSUE_MS    extra time inside every operator call
//   HCCL_SIM_DIE         phase[@rank][:n]: SIGKILL itself in meet (before the root knows of it), in create (once the
//                        root does), in first (link building) or in later (when the n-th operator runs; default 1)
//   HCCL_SIM_DEATH       silent (default: as HCCL) or fast: running operators fail when a peer dies
//   HCCL_SIM_FAIL        function:n:code,...: the n-th call (* every) returns the code
//   HCCL_SIM_TASK_FAIL   n:code: the n-th operator that runs fails with this aclError
//   HCCL_SIM_STRICT      1: a second thread that issues operators is an error even when alone; 2: so is destroying a
//                        communicator whose operators are still on a stream
//   HCCL_SIM_NOOP        1: operators, copies and events do nothing, to measure a binding
//   HCCL_SIM_QUIET       1: no banner
//
// ASCEND_RT_VISIBLE_DEVICES and ASCEND_GLOBAL_LOG_LEVEL (0 debug .. 3 error, 4 none) work as in CANN; logs go to
// stderr.
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define T(t) (1U << HCCL_DATA_TYPE_##t)
#define TYPES_P2P                                                                                                  \
    (T(INT8) | T(INT16) | T(INT32) | T(INT64) | T(UINT8) | T(UINT16) | T(UINT32) | T(UINT64) | T(FP16) | T(FP32) | \
     T(FP64))
#define TYPES_A3 (T(INT8) | T(INT16) | T(INT32) | T(FP16) | T(FP32) | T(BFP16)) // in its default mode, AI_CPU
#define TYPES_A2 (T(INT8) | T(INT16) | T(INT32) | T(INT64) | T(FP16) | T(FP32) | T(BFP16))

static const struct chip chips[] = {
    {"910A", "Ascend910A", 8, TYPES_P2P, T(INT8) | T(INT32) | T(INT64) | T(FP16) | T(FP32), 0, true, false, false,
     false, true, 2048, 65535, ACL_ERROR_RT_TASK_TIMEOUT, ACL_ERROR_RT_SYS_DMA},
    {"910B", "Ascend910B3", 8, TYPES_P2P | T(BFP16), TYPES_A2, T(INT16) | T(BFP16), true, true, true, false, false,
     1984, 65536, ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, ACL_ERROR_RT_FFTS_PLUS_EXCEPTION},
    {"A3", "Ascend910_9382", 16, TYPES_P2P | T(BFP16), TYPES_A3, TYPES_A3, true, true, true, true, false, 1984, 65536,
     ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, ACL_ERROR_RT_FFTS_PLUS_EXCEPTION},
    {"310P", "Ascend310P3", 4, TYPES_P2P, T(INT8) | T(INT16) | T(INT32) | T(FP16) | T(FP32), 0, false, false, false,
     false, true, 1024, 65536, ACL_ERROR_RT_TASK_TIMEOUT, ACL_ERROR_RT_SYS_DMA},
};

struct fault {
    char function[48];
    uint64_t nth; // 0: every call
    int code;
    _Atomic uint64_t calls;
};

static struct sim_env env;
static struct fault faults[16];
static int nfaults;
static _Atomic uint64_t tasks_run;

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void pause_ns(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    while (ns > 0 && nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static void reject(const char *name, const char *value)
{
    fprintf(stderr, "[hccl_sim] %s=%s is not understood and is ignored\n", name, value);
}

static int64_t number(const char *name, int64_t otherwise)
{
    const char *v = getenv(name);
    if (v == NULL || *v == 0) return otherwise;
    char *end;
    int64_t n = strtoll(v, &end, 10);
    if (*end != 0 || n < 0) {
        reject(name, v);
        return otherwise;
    }
    return n;
}

static double bytes(const char *name, double otherwise)
{
    const char *v = getenv(name);
    if (v == NULL || *v == 0) return otherwise;
    char *end;
    double n = strtod(v, &end);
    switch (*end) {
    case 'K':
        n *= 1024;
        end++;
        break;
    case 'M':
        n *= 1024 * 1024;
        end++;
        break;
    case 'G':
        n *= 1024.0 * 1024 * 1024;
        end++;
        break;
    default: break;
    }
    if (*end != 0 || n <= 0) {
        reject(name, v);
        return otherwise;
    }
    return n;
}

static void read_chip(void)
{
    const char *v = getenv("HCCL_SIM_CHIP");
    env.chip = &chips[1];
    for (size_t i = 0; v != NULL && i < sizeof(chips) / sizeof(chips[0]); i++)
        if (strcasecmp(chips[i].name, v) == 0) env.chip = &chips[i];
    if (v != NULL && strcasecmp(env.chip->name, v) != 0) reject("HCCL_SIM_CHIP", v);

    const char *cann = getenv("HCCL_SIM_CANN");
    env.cann = 81;
    if (cann != NULL && strcmp(cann, "8.5") == 0) env.cann = 85;
    else if (cann != NULL && strcmp(cann, "9.0") == 0) env.cann = 90;
    else if (cann != NULL && strcmp(cann, "8.1") != 0) reject("HCCL_SIM_CANN", cann);

    uint32_t have = (uint32_t)number("HCCL_SIM_DEVICES", env.chip->devices);
    if (have > MAX_DEVICES) have = MAX_DEVICES;
    env.devices = have;
    for (uint32_t i = 0; i < have; i++) env.visible[i] = (int)i;
    const char *visible = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (visible == NULL) return;
    env.devices = 0;
    for (const char *p = visible; *p != 0 && env.devices < have;) {
        char *end;
        long id = strtol(p, &end, 10);
        if (end == p || id < 0 || id >= (long)have) break; // CANN too ignores what follows a bad id
        env.visible[env.devices++] = (int)id;
        p = *end == ',' ? end + 1 : end;
    }
}

static void read_die(void)
{
    char v[64];
    const char *given = getenv("HCCL_SIM_DIE");
    env.die_rank = -1;
    env.die_op = 1;
    if (given == NULL || *given == 0) return;
    snprintf(v, sizeof(v), "%s", given);
    char *n = strchr(v, ':');
    if (n != NULL) {
        *n++ = 0;
        env.die_op = strtoull(n, NULL, 10);
    }
    char *rank = strchr(v, '@');
    if (rank != NULL) {
        *rank++ = 0;
        env.die_rank = atoi(rank);
    }
    if (strcmp(v, "meet") == 0) env.die = PHASE_MEET;
    else if (strcmp(v, "create") == 0) env.die = PHASE_CREATE;
    else if (strcmp(v, "first") == 0) env.die = PHASE_FIRST;
    else if (strcmp(v, "later") == 0) env.die = PHASE_LATER;
    else reject("HCCL_SIM_DIE", given);
}

static void read_faults(void)
{
    const char *v = getenv("HCCL_SIM_FAIL");
    for (const char *p = v; p != NULL && *p != 0 && nfaults < 16;) {
        struct fault *f = &faults[nfaults];
        char nth[24];
        int used = 0;
        if (sscanf(p, "%47[A-Za-z0-9]:%23[0-9*]:%d%n", f->function, nth, &f->code, &used) != 3) {
            reject("HCCL_SIM_FAIL", p);
            break;
        }
        f->nth = nth[0] == '*' ? 0 : strtoull(nth, NULL, 10);
        nfaults++;
        p += used;
        if (*p == ',') p++;
    }
    v = getenv("HCCL_SIM_TASK_FAIL");
    if (v == NULL) return;
    unsigned long long op;
    if (sscanf(v, "%llu:%d", &op, &env.task_fail_code) == 2) env.task_fail_op = op;
    else reject("HCCL_SIM_TASK_FAIL", v);
}

static bool is(const char *name, const char *value)
{
    const char *v = getenv(name);
    return v != NULL && strcmp(v, value) == 0;
}

static void read_env(void)
{
    read_chip();
    read_die();
    read_faults();
    env.hbm = (size_t)bytes("HCCL_SIM_HBM", 32.0 * 1024 * 1024 * 1024) & ~(size_t)4095;
    const char *host = getenv("HCCL_SIM_HOST");
    env.host_named = host != NULL && *host != 0;
    if (env.host_named) snprintf(env.host, sizeof(env.host), "%s", host);
    else gethostname(env.host, sizeof(env.host) - 1);
    env.second_ns = number("HCCL_SIM_SECOND_MS", 1000) * 1000000;
    env.latency_ns = number("HCCL_SIM_LATENCY_US", 0) * 1000;
    env.create_ns = number("HCCL_SIM_CREATE_MS", 0) * 1000000;
    env.issue_ns = number("HCCL_SIM_ISSUE_MS", 0) * 1000000;
    env.bytes_per_ns = bytes("HCCL_SIM_BANDWIDTH", 0) / 1e9;
    env.rdma = is("HCCL_SIM_LINK", "rdma");
    env.fast_death = is("HCCL_SIM_DEATH", "fast");
    env.noop = is("HCCL_SIM_NOOP", "1");
    env.stricter = is("HCCL_SIM_STRICT", "2");
    env.strict = env.stricter || is("HCCL_SIM_STRICT", "1");
    env.log_events = is("ASCEND_GLOBAL_EVENT_ENABLE", "1");
    env.log_level = (int)number("ASCEND_GLOBAL_LOG_LEVEL", LOG_ERROR);
}

const struct sim_env *sim_env(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_env);
    return &env;
}

int cann_capability(void) { return sim_env()->cann == 81 ? 5 : sim_env()->cann == 85 ? 11 : 12; }

size_t cann_config_size(void)
{
    return sim_env()->cann == 81 ? 300 : sim_env()->cann == 85 ? 2104 : sizeof(HcclCommConfig);
}

uint32_t cann_config_version(void) { return sim_env()->cann == 81 ? 5 : sim_env()->cann == 85 ? 8 : 10; }

int64_t sim_seconds(double s) { return (int64_t)(s * (double)sim_env()->second_ns); }

bool fault_hit(const char *function, int *code)
{
    sim_env();
    for (int i = 0; i < nfaults; i++) {
        if (strcmp(faults[i].function, function) != 0) continue;
        uint64_t call = atomic_fetch_add(&faults[i].calls, 1) + 1;
        if (faults[i].nth != 0 && faults[i].nth != call) continue;
        *code = faults[i].code;
        return true;
    }
    return false;
}

void fault_die(enum phase phase, uint32_t rank)
{
    if (env.die != phase || (env.die_rank >= 0 && (uint32_t)env.die_rank != rank)) return;
    if (phase == PHASE_LATER && atomic_load(&tasks_run) != env.die_op) return;
    raise(SIGKILL);
}

bool fault_task(aclError *code)
{
    uint64_t n = atomic_fetch_add(&tasks_run, 1) + 1;
    if (env.task_fail_op == 0 || n != env.task_fail_op) return false;
    *code = env.task_fail_code;
    return true;
}
