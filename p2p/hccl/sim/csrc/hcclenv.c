// HCCL's own variables, with the ranges HCCL enforces. They are read when the first communicator is made.
#include "sim.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static struct hccl_env env;

static void bad(const char *name, const char *value, const char *want)
{
    if (env.bad[0] == 0) snprintf(env.bad, sizeof(env.bad), "%s=%.40s is not valid: want %s", name, value, want);
}

static bool integer(const char *name, long low, long high, long *out)
{
    const char *v = getenv(name);
    if (v == NULL) return false;
    char *end;
    long n = strtol(v, &end, 10);
    if (*v == 0 || *end != 0 || n < low || n > high) {
        char want[64];
        snprintf(want, sizeof(want), "an integer in %ld..%ld", low, high);
        bad(name, v, want);
        return false;
    }
    *out = n;
    return true;
}

static void ranged(const char *name, long low, long high, int *field)
{
    long n;
    if (integer(name, low, high, &n)) *field = (int)n;
}

int env_exec_timeout(int seconds)
{
    if (!sim_env()->chip->steps_of_68) return seconds;
    return seconds < 68 ? 68 : seconds / 68 * 68;
}

// Variables that take one of a few words.
static const struct {
    const char *name, *words; // between bars
} worded[] = {
    {"HCCL_DETERMINISTIC", "|false|true|strict|"},
    {"HCCL_WHITELIST_DISABLE", "|0|1|"},
    {"HCCL_ENTRY_LOG_ENABLE", "|0|1|"},
    {"HCCL_DIAGNOSE_ENABLE", "|0|1|"},
    {"HCCL_INTRA_PCIE_ENABLE", "|0|1|"},
    {"HCCL_INTRA_ROCE_ENABLE", "|0|1|"},
    {"HCCL_SOCKET_FAMILY", "|af_inet|af_inet6|"},
    {"HCCL_INTER_HCCS_DISABLE", "|true|false|"},
    {"HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT", "|true|false|"},
    {"HCCL_OP_EXPANSION_MODE", "|host|host_ts|ai_cpu|aicpu_ts|aicpu_cachedisable|aiv|ccu_ms|ccu_sched|"},
};

static bool among(const char *words, const char *value)
{
    char lower[64] = "|";
    size_t n = 1;
    for (; *value != 0 && n < sizeof(lower) - 2; value++)
        lower[n++] = (char)(*value >= 'A' && *value <= 'Z' ? *value + 32 : *value);
    lower[n++] = '|';
    lower[n] = 0;
    return n > 2 && strstr(words, lower) != NULL;
}

// Every "levelN:algorithm" of HCCL_ALGO must name a level and an algorithm there is.
static bool algo_ok(const char *v)
{
    for (const char *p = strstr(v, "level"); p != NULL; p = strstr(p + 1, "level")) {
        char word[24] = "";
        if (p[5] < '0' || p[5] > '2' || p[6] != ':') return false;
        sscanf(p + 7, "%23[A-Za-z0-9_-]", word);
        if (!among(p[5] == '0' ? "|na|" : "|na|ring|h-d_r|nhr|nhr_v1|nb|ahc|pipeline|pairwise|", word)) return false;
    }
    return strstr(v, "level") != NULL;
}

// "60000-60050,60100" or "auto".
static bool ports_ok(const char *v)
{
    if (strcmp(v, "auto") == 0) return true;
    for (const char *p = v;;) {
        char *end;
        long low = strtol(p, &end, 10), high = low;
        if (end == p) return false;
        if (*end == '-') high = strtol(end + 1, &end, 10);
        if (low < 1 || high < low || high > 65535) return false;
        if (*end == 0) return true;
        if (*end != ',') return false;
        p = end + 1;
    }
}

static void check_words(void)
{
    for (size_t i = 0; i < sizeof(worded) / sizeof(worded[0]); i++) {
        const char *v = getenv(worded[i].name);
        if (v != NULL && !among(worded[i].words, v)) bad(worded[i].name, v, worded[i].words);
    }
    const char *v = getenv("HCCL_ALGO");
    if (v != NULL && !algo_ok(v)) bad("HCCL_ALGO", v, "level0:NA;level1:<algorithm>;...");
    const char *const ranges[] = {"HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE"};
    for (int i = 0; i < 2; i++) {
        v = getenv(ranges[i]);
        if (v != NULL && !ports_ok(v)) bad(ranges[i], v, "ports as 60000-60050,60100, or auto");
    }
    const char *pcie = getenv("HCCL_INTRA_PCIE_ENABLE"), *roce = getenv("HCCL_INTRA_ROCE_ENABLE");
    bool p = pcie != NULL && *pcie == '1', r = roce != NULL && *roce == '1';
    if ((p && r) || (pcie != NULL && !p && roce == NULL) || (roce != NULL && !r && pcie == NULL))
        bad("HCCL_INTRA_ROCE_ENABLE", roce == NULL ? "" : roce, "one of PCIe and RoCE");
}

static void read_words(void)
{
    const char *v = getenv("HCCL_DETERMINISTIC");
    if (v != NULL) env.deterministic = strcasecmp(v, "strict") == 0 ? 2 : strcasecmp(v, "true") == 0;
    v = getenv("HCCL_IF_IP");
    if (v != NULL) {
        struct in_addr a;
        if (inet_pton(AF_INET, v, &a) != 1) bad("HCCL_IF_IP", v, "an IPv4 address (the simulator knows no IPv6)");
        snprintf(env.ip, sizeof(env.ip), "%s", v);
    }
    v = getenv("HCCL_WHITELIST_DISABLE");
    const char *file = getenv("HCCL_WHITELIST_FILE");
    if (v != NULL && strcmp(v, "0") == 0 && (file == NULL || access(file, R_OK) != 0))
        bad("HCCL_WHITELIST_FILE", file == NULL ? "" : file, "a readable file while HCCL_WHITELIST_DISABLE=0");
    v = getenv("HCCL_DFS_CONFIG");
    const char *t = v == NULL ? NULL : strstr(v, "connection_fault_detection_time:");
    if (t != NULL) {
        int n = atoi(strchr(t, ':') + 1);
        if (n != 0 && (n < 20 || n > 7200)) bad("HCCL_DFS_CONFIG", v, "connection_fault_detection_time 0 or 20..7200");
        else env.detection_time = n;
    }
    v = getenv("HCCL_HOST_SOCKET_PORT_RANGE");
    if (v != NULL) snprintf(env.port_range, sizeof(env.port_range), "%s", v);
    v = getenv("HCCL_ENTRY_LOG_ENABLE");
    env.entry_log = v != NULL && strcmp(v, "1") == 0;
}

static void read_env(void)
{
    bool old = sim_env()->chip->steps_of_68;
    int scratch = 0;
    long n;
    env.connect_timeout = 120;
    env.exec_timeout = 1836;
    env.buffsize = 200;
    env.rdma_timeout = 20;
    env.rdma_retry = 7;
    env.detection_time = 20;
    ranged("HCCL_CONNECT_TIMEOUT", 120, 7200, &env.connect_timeout);
    ranged("HCCL_EXEC_TIMEOUT", old ? 1 : 0, old ? 17340 : 2147483647L, &env.exec_timeout);
    ranged("HCCL_BUFFSIZE", 1, 2147483647L / 2, &env.buffsize);
    ranged("HCCL_RDMA_TIMEOUT", 5, old ? 24 : 20, &env.rdma_timeout);
    ranged("HCCL_RDMA_RETRY_CNT", 1, 7, &env.rdma_retry);
    ranged("HCCL_RDMA_SL", 0, 7, &scratch);
    ranged("HCCL_RDMA_QPS_PER_CONNECTION", 1, 32, &scratch);
    ranged("HCCL_MULTI_QP_THRESHOLD", 1, 8192, &scratch);
    if (integer("HCCL_RDMA_TC", 0, 255, &n) && n % 4 != 0)
        bad("HCCL_RDMA_TC", getenv("HCCL_RDMA_TC"), "a multiple of 4");
    if (integer("HCCL_IF_BASE_PORT", 1024, 65520, &n)) {
        env.base_port = (int)n;
        env.base_port_set = true;
    }
    env.exec_timeout = env_exec_timeout(env.exec_timeout);
    check_words();
    read_words();
}

const struct hccl_env *hccl_env(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_env);
    return &env;
}
