// What a communicator is made with: the config struct, the topology it may have, its device memory.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

// Copies the fields of the versions both sides know. Only the magic word is a reason to refuse.
static HcclResult config_read(const HcclCommConfig *from, HcclCommConfig *to, uint32_t *version)
{
    HcclCommConfigInfo info;
    memcpy(&info, from, sizeof(info));
    HcclCommConfigInit(to);
    if (info.magicWord != HCCL_COMM_CONFIG_MAGIC_WORD)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommConfig: magic word 0x%08x, want 0x%08x (was it initialised?)",
                         info.magicWord, HCCL_COMM_CONFIG_MAGIC_WORD);
    size_t n = info.configSize < cann_config_size() ? info.configSize : cann_config_size();
    if (info.configSize != cann_config_size() || info.version != cann_config_version())
        sim_log(LOG_WARN, "HcclCommConfig: size %zu version %u, the library's are %zu and %u", info.configSize,
                info.version, cann_config_size(), cann_config_version());
    memcpy(to, from, n);
    *version = info.version < cann_config_version() ? info.version : cann_config_version();
    return HCCL_SUCCESS;
}

static void text(char *into, const char *from, size_t n)
{
    memcpy(into, from, n);
    into[n - 1] = 0;
}

HcclResult comm_options(const HcclCommConfig *config, struct comm_options *opt)
{
    const struct hccl_env *e = hccl_env();
    HcclCommConfig c;
    uint32_t version = 0;
    *opt = (struct comm_options){
        .buffer = (uint64_t)e->buffsize * MIB, .deterministic = e->deterministic, .exec_timeout = e->exec_timeout};
    if (config == NULL) return HCCL_SUCCESS;
    HcclResult rc = config_read(config, &c, &version);
    if (rc != HCCL_SUCCESS) return rc;
    if (version >= 1 && c.hcclBufferSize != HCCL_COMM_CONFIG_NOT_SET) {
        if (c.hcclBufferSize < 1)
            return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommConfig: hcclBufferSize %u MB, want 1 or more",
                             c.hcclBufferSize);
        opt->buffer = c.hcclBufferSize * MIB;
    }
    if (version >= 1 && c.hcclDeterministic != HCCL_COMM_CONFIG_NOT_SET) {
        if (c.hcclDeterministic > 2)
            return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommConfig: hcclDeterministic %u, want 0..2",
                             c.hcclDeterministic);
        opt->deterministic = (int)c.hcclDeterministic;
    }
    if (version >= 2) text(opt->name, c.hcclCommName, sizeof(opt->name));
    if (version >= 4 && c.hcclOpExpansionMode > 6)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommConfig: hcclOpExpansionMode %u, want 0..6",
                         c.hcclOpExpansionMode);
    if (version >= 7 && c.aclGraphZeroCopyEnable > 1)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommConfig: aclGraphZeroCopyEnable %u, want 0 or 1",
                         c.aclGraphZeroCopyEnable);
    if (version >= 8 && c.hcclExecTimeOut >= 0) opt->exec_timeout = env_exec_timeout(c.hcclExecTimeOut);
    if (version >= 9) text(opt->buffer_name, c.hcclBufferName, sizeof(opt->buffer_name));
    return HCCL_SUCCESS;
}

static HcclResult check_910a(const uint32_t *per_server, const int *sides, int servers)
{
    for (int i = 0; i < servers; i++) {
        uint32_t n = per_server[i];
        if (n != per_server[0] || (n != 1 && n != 2 && n != 4 && n != 8))
            return hccl_fail(HCCL_E_PARA,
                             "EI0003: 910A: a server gives %u devices; a communicator takes 1, 2, 4 or 8 of each", n);
        if (n > 1 && n < 8 && sides[i] == 3)
            return hccl_fail(
                HCCL_E_PARA,
                "EI0003: 910A: devices 0-3 and 4-7 are separate rings; a communicator of %u devices cannot cross them",
                n);
    }
    return HCCL_SUCCESS;
}

HcclResult comm_check_topology(const struct member *m, uint32_t n)
{
    const char *servers[MAX_RANKS];
    uint32_t per_server[MAX_RANKS] = {0};
    int sides[MAX_RANKS] = {0}, ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++)
            if (m[i].phys == m[j].phys && strcmp(m[i].host, m[j].host) == 0)
                return hccl_fail(HCCL_E_INTERNAL, "EI0009: ranks %u and %u are on one device, %d of %s", j, i,
                                 m[i].phys, m[i].host);
        int k = 0;
        while (k < ns && strcmp(servers[k], m[i].host) != 0) k++;
        if (k == ns) servers[ns++] = m[i].host;
        per_server[k]++;
        sides[k] |= m[i].phys < 4 ? 1 : 2;
    }
    return strcmp(sim_env()->chip->name, "910A") == 0 ? check_910a(per_server, sides, ns) : HCCL_SUCCESS;
}

struct shared {
    char name[HCCL_COMM_BUFFER_NAME_MAX_LENGTH];
    struct device *dev;
    int stream, refs;
    void *ccl;
    struct shared *next;
};

static struct shared *shareds; // under sim_lock

static HcclResult buffer_alloc(struct comm *c, void **ccl)
{
    if (arena_alloc(c->dev, 2 * c->opt.buffer + MIB, 0, ccl) == ACL_SUCCESS) return HCCL_SUCCESS;
    return hccl_fail(sim_env()->cann == 81 ? HCCL_E_MEMORY : HCCL_E_OOM,
                     "EI0007: communicator %s: no device memory for its buffer of 2 x %llu + 1 MB", c->opt.name,
                     (unsigned long long)(c->opt.buffer / MIB));
}

// Finds or makes the buffer of a name; the caller holds sim_lock.
static HcclResult share(struct comm *c, int stream)
{
    struct shared *s = shareds;
    while (s != NULL && (s->dev != c->dev || strcmp(s->name, c->opt.buffer_name) != 0)) s = s->next;
    if (s == NULL) {
        s = calloc(1, sizeof(*s));
        if (s == NULL) return hccl_fail(HCCL_E_MEMORY, "out of host memory");
        HcclResult rc = buffer_alloc(c, &s->ccl);
        if (rc != HCCL_SUCCESS) {
            free(s);
            return rc;
        }
        memcpy(s->name, c->opt.buffer_name, sizeof(s->name));
        s->dev = c->dev;
        s->stream = stream;
        s->next = shareds;
        shareds = s;
    }
    s->refs++;
    c->shared = s;
    c->ccl = s->ccl;
    return HCCL_SUCCESS;
}

HcclResult comm_memory(struct comm *c, int stream)
{
    if (c->user_memory && c->ccl == NULL)
        return hccl_fail(HCCL_E_NOT_SUPPORT, "communicator %s has registered user memory: it can have no CCL buffer",
                         c->opt.name);
    if (c->opt.buffer_name[0] == 0) return c->ccl != NULL ? HCCL_SUCCESS : buffer_alloc(c, &c->ccl);
    HcclResult rc = HCCL_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    if (c->shared == NULL) rc = share(c, stream);
    int bound = c->shared != NULL ? c->shared->stream : stream;
    pthread_mutex_unlock(&sim_lock);
    if (rc == HCCL_SUCCESS && bound != stream)
        return hccl_fail(HCCL_E_PARA, "EI0003: buffer %s is bound to stream %d, the operator is on stream %d",
                         c->opt.buffer_name, bound, stream);
    return rc;
}

void comm_memory_free(struct comm *c)
{
    void *mine = c->ccl;
    pthread_mutex_lock(&sim_lock);
    struct shared *s = c->shared;
    if (s != NULL && --s->refs > 0) mine = NULL;
    if (s != NULL && s->refs == 0) {
        struct shared **at = &shareds;
        while (*at != s) at = &(*at)->next;
        *at = s->next;
        free(s);
    }
    pthread_mutex_unlock(&sim_lock);
    c->ccl = NULL;
    c->shared = NULL;
    if (mine != NULL && arena_free(mine) != ACL_SUCCESS)
        sim_log(LOG_WARN, "communicator %s: its device was reset before it", c->opt.name);
}
