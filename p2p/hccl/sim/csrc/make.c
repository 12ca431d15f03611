// The ways to make a communicator: from root info, from a rank table, all in one process, out of another one.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void place(struct member *m, const struct device *d)
{
    *m = (struct member){.phys = d->phys, .pid = (int32_t)getpid()};
    memcpy(m->host, sim_env()->host, sizeof(m->host));
}

static HcclResult meet_and_make(const struct make_call *m, struct device *d)
{
    struct root_handle root;
    struct comm_options opt;
    struct member members[MAX_RANKS];
    char id[192];
    HcclResult rc = root_parse(&m->info, &root);
    if (rc == HCCL_SUCCESS) rc = comm_options(m->configured ? &m->config : NULL, &opt);
    if (rc != HCCL_SUCCESS) return rc;
    if (opt.name[0] == 0) snprintf(opt.name, sizeof(opt.name), "%.127s", root.identifier);
    rc = comm_name_free(opt.name, d);
    if (rc != HCCL_SUCCESS) return rc;
    snprintf(id, sizeof(id), "%.127s#%016llx", root.identifier, (unsigned long long)root.nonce);
    memset(members, 0, sizeof(members));
    place(&members[m->rank], d);
    struct comm *c = comm_new(id, &opt, m->rank, m->n, members, &rc); // before the meeting: peers knock after it
    if (c == NULL) return rc;
    rc = root_meet(&root, m->n, m->rank, members);
    if (rc == HCCL_SUCCESS) rc = comm_check_topology(members, m->n);
    if (rc != HCCL_SUCCESS) {
        comm_unref(c);
        return rc;
    }
    memcpy(c->members, members, m->n * sizeof(members[0]));
    return comm_publish(c, m->comm);
}

HcclResult make_by_root(const struct make_call *m)
{
    struct device *d;
    HcclResult rc = creation_begin(&d);
    if (rc != HCCL_SUCCESS) return rc;
    rc = meet_and_make(m, d);
    creation_end(d);
    return rc;
}

static HcclResult init_root_info(struct make_call *m, const HcclRootInfo *info, const HcclCommConfig *config)
{
    if (info == NULL || m->comm == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", m->function);
    if (m->n == 0 || m->n > MAX_RANKS || m->rank >= m->n)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: rank %u of %u (the simulator makes at most %d ranks)", m->function,
                         m->rank, m->n, MAX_RANKS);
    m->info = *info;
    if (config != NULL) {
        HcclCommConfigInfo head; // the caller's struct may be an older, shorter one
        memcpy(&head, config, sizeof(head));
        memcpy(&m->config, config, head.configSize < sizeof(m->config) ? head.configSize : sizeof(m->config));
        m->configured = true;
    }
    return group_open() ? group_add_make(m) : make_by_root(m);
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm)
{
    HCCL_ENTER();
    struct make_call m = {.function = __func__, .n = nRanks, .rank = rank, .comm = comm};
    return init_root_info(&m, rootInfo, NULL);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm)
{
    HCCL_ENTER();
    if (config == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL config", __func__);
    struct make_call m = {.function = __func__, .n = nRanks, .rank = rank, .comm = comm};
    return init_root_info(&m, rootInfo, config);
}

static HcclResult make_known(const char *id, const struct comm_options *opt, uint32_t rank, uint32_t n,
                             const struct member *members, HcclComm *comm)
{
    HcclResult rc = comm_name_free(opt->name, device_at(context_current()->device));
    if (rc == HCCL_SUCCESS) rc = comm_check_topology(members, n);
    if (rc != HCCL_SUCCESS) return rc;
    struct comm *c = comm_new(id, opt, rank, n, members, &rc);
    return c != NULL ? comm_publish(c, comm) : rc;
}

static HcclResult init_cluster(const char *function, const char *table, uint32_t rank, const HcclCommConfig *config,
                               HcclComm *comm)
{
    struct device *d;
    struct comm_options opt;
    struct member members[MAX_RANKS];
    char id[192];
    uint32_t n = 0;
    if (table == NULL || comm == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", function);
    HcclResult rc = comm_options(config, &opt);
    if (rc == HCCL_SUCCESS) rc = ranktable_read(table, members, &n, id, sizeof(id));
    if (rc != HCCL_SUCCESS) return rc;
    if (opt.name[0] == 0) snprintf(opt.name, sizeof(opt.name), "hccl_world_group");
    rc = creation_begin(&d);
    if (rc != HCCL_SUCCESS) return rc;
    if (rank >= n) rc = hccl_fail(HCCL_E_PARA, "EI0004: rank %u is not in %s, which has %u", rank, table, n);
    else if (members[rank].phys != d->phys)
        rc = hccl_fail(HCCL_E_PARA, "EI0014: %s gives rank %u device %d, the current device is %d", table, rank,
                       members[rank].phys, d->phys);
    else rc = make_known(id, &opt, rank, n, members, comm);
    creation_end(d);
    return rc;
}

HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm)
{
    HCCL_ENTER();
    return init_cluster(__func__, clusterInfo, rank, NULL, comm);
}

HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm)
{
    HCCL_ENTER();
    if (config == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL config", __func__);
    return init_cluster(__func__, clusterInfo, rank, config, comm);
}

// Each communicator belongs to the default context of its device, which is set here and stays set.
static HcclResult make_one_of_all(const char *id, const struct comm_options *opt, uint32_t rank, uint32_t n,
                                  const struct member *members, int device, HcclComm *comm)
{
    struct device *d;
    if (aclrtSetDevice(device) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    HcclResult rc = creation_begin(&d);
    if (rc != HCCL_SUCCESS) return rc;
    rc = make_known(id, opt, rank, n, members, comm);
    creation_end(d);
    return rc;
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms)
{
    HCCL_ENTER();
    static _Atomic unsigned counter;
    struct member members[MAX_RANKS];
    struct comm_options opt;
    char id[192];
    if (devices == NULL || comms == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclCommInitAll: NULL argument");
    if (ndev == 0 || ndev > sim_env()->devices)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommInitAll: %u devices", ndev);
    for (uint32_t i = 0; i < ndev; i++) {
        if (device_at(devices[i]) == NULL)
            return hccl_fail(HCCL_E_PARA, "EI0003: HcclCommInitAll: device %d", devices[i]);
        place(&members[i], device_at(devices[i]));
    }
    HcclResult rc = comm_options(NULL, &opt);
    struct context *before = context_current();
    snprintf(opt.name, sizeof(opt.name), "hccl_all_%d_%u", (int)getpid(), atomic_fetch_add(&counter, 1));
    snprintf(id, sizeof(id), "%.127s", opt.name);
    for (uint32_t i = 0; i < ndev && rc == HCCL_SUCCESS; i++) {
        rc = make_one_of_all(id, &opt, i, ndev, members, devices[i], &comms[i]);
        for (uint32_t j = 0; rc != HCCL_SUCCESS && j < i; j++) HcclCommDestroy(comms[j]);
    }
    context_use(before);
    return rc;
}

static HcclResult make_sub(struct comm *p, uint32_t n, const uint32_t *ids, uint64_t sub, uint32_t rank,
                           const HcclCommConfig *config, HcclComm *out)
{
    struct comm_options opt;
    struct member members[MAX_RANKS];
    char id[192];
    if (p->sub) return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: a sub-communicator of a sub-communicator");
    if (n == 0 || n > p->size || rank >= n || ids[rank] != p->rank)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclCreateSubCommConfig: sub rank %u of %u is not rank %u of the parent",
                         rank, n, p->rank);
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= p->size)
            return hccl_fail(HCCL_E_PARA, "EI0003: HcclCreateSubCommConfig: parent rank %u of %u", ids[i], p->size);
        members[i] = p->members[ids[i]];
    }
    HcclResult rc = comm_options(config, &opt);
    if (rc != HCCL_SUCCESS) return rc;
    if (opt.name[0] == 0) snprintf(opt.name, sizeof(opt.name), "%.90s_sub_%llu", p->opt.name, (unsigned long long)sub);
    snprintf(id, sizeof(id), "%.160s_sub_%llu", p->id, (unsigned long long)sub);
    rc = make_known(id, &opt, rank, n, members, out);
    if (rc == HCCL_SUCCESS) ((struct comm *)*out)->sub = true;
    return rc;
}

HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm)
{
    HCCL_ENTER();
    struct comm *parent;
    struct device *d;
    if (comm == NULL || config == NULL || subComm == NULL)
        return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    if (!sim_env()->chip->has_p2p)
        return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: not on %s", __func__, sim_env()->chip->name);
    if (rankIds == NULL && subCommId == 0xFFFFFFFFU) { // this rank stays out
        *subComm = NULL;
        return HCCL_SUCCESS;
    }
    if (rankIds == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: rankIds is NULL", __func__);
    HcclResult rc = comm_find(*comm, &parent);
    if (rc != HCCL_SUCCESS) return rc;
    rc = creation_begin(&d);
    if (rc == HCCL_SUCCESS) {
        rc = make_sub(parent, rankNum, rankIds, subCommId, subCommRankId, config, subComm);
        creation_end(d);
    }
    comm_unref(parent);
    return rc;
}
