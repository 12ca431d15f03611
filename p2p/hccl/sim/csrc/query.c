// Questions to a communicator, and process-wide settings.
#include "sim.h"

#include <stdio.h>
#include <string.h>

static atomic_int deterministic;

HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank)
{
    HCCL_ENTER();
    struct comm *c;
    if (rank == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGetRankId: NULL argument");
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    *rank = c->rank;
    comm_unref(c);
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize)
{
    HCCL_ENTER();
    struct comm *c;
    if (rankSize == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGetRankSize: NULL argument");
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    *rankSize = c->size;
    comm_unref(c);
    return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm comm, char *commName)
{
    HCCL_ENTER();
    struct comm *c;
    if (commName == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGetCommName: NULL argument");
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    memcpy(commName, c->opt.name, sizeof(c->opt.name));
    comm_unref(c);
    return HCCL_SUCCESS;
}

uint32_t HcclGetCommConfigCapability(void) { return (uint32_t)cann_capability(); }

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError)
{
    HCCL_ENTER();
    struct comm *c;
    if (asyncError == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGetCommAsyncError: NULL argument");
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    *asyncError = (HcclResult)atomic_load(&c->async_error);
    comm_unref(c);
    return HCCL_SUCCESS;
}

HcclResult HcclSetConfig(HcclConfig config, union HcclConfigValue configValue)
{
    HCCL_ENTER();
    if (config != HCCL_DETERMINISTIC || configValue.value < 0 || configValue.value > 2)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclSetConfig: config %d value %d", config, configValue.value);
    atomic_store(&deterministic, configValue.value);
    return HCCL_SUCCESS;
}

HcclResult HcclGetConfig(HcclConfig config, union HcclConfigValue *configValue)
{
    HCCL_ENTER();
    if (configValue == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGetConfig: NULL argument");
    if (config != HCCL_DETERMINISTIC) return hccl_fail(HCCL_E_PARA, "EI0003: HcclGetConfig: config %d", config);
    configValue->value = atomic_load(&deterministic);
    return HCCL_SUCCESS;
}

static HcclResult set_suspended(HcclComm comm, bool on)
{
    struct comm *c;
    if (!sim_env()->chip->has_abort)
        return hccl_fail(HCCL_E_NOT_SUPPORT, "HcclCommSuspend/Resume: not on %s", sim_env()->chip->name);
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    pthread_mutex_lock(&c->mu);
    c->suspended = on;
    pthread_mutex_unlock(&c->mu);
    comm_unref(c);
    return HCCL_SUCCESS;
}

HcclResult HcclCommSuspend(HcclComm comm)
{
    HCCL_ENTER();
    return set_suspended(comm, true);
}

HcclResult HcclCommResume(HcclComm comm)
{
    HCCL_ENTER();
    return set_suspended(comm, false);
}

HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm)
{
    HCCL_ENTER();
    if (commName == NULL || comm == NULL)
        return hccl_fail(HCCL_E_PTR, "EI0003: HcclCommGetHandleWithName: NULL argument");
    *comm = comm_named(commName);
    return *comm != NULL ? HCCL_SUCCESS : hccl_fail(HCCL_E_NOT_FOUND, "EI0003: no communicator is named %s", commName);
}
