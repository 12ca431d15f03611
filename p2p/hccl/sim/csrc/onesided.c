// The one-sided service exists in the real libraries for other packages of CANN and is not stable. It is exported so
// that programs link, and refused: it needs a communicator the simulator does not make.
#include "sim.h"

#pragma GCC visibility push(default)
HcclResult HcclRegisterMem(HcclComm comm, uint32_t remoteRank, int type, void *addr, uint64_t size, void *desc);
HcclResult HcclDeregisterMem(HcclComm comm, uint32_t remoteRank, void *desc);
HcclResult HcclExchangeMemDesc(HcclComm comm, uint32_t remoteRank, void *local, int timeout, void *remote,
                               uint32_t *actualNum);
HcclResult HcclEnableMemAccess(HcclComm comm, void *remoteMemDesc, void *remoteMem);
HcclResult HcclDisableMemAccess(HcclComm comm, void *remoteMemDesc);
HcclResult HcclBatchPut(HcclComm comm, uint32_t remoteRank, void *desc, uint32_t descNum, aclrtStream stream);
HcclResult HcclBatchGet(HcclComm comm, uint32_t remoteRank, void *desc, uint32_t descNum, aclrtStream stream);
HcclResult HcclCommPrepare(HcclComm comm, const void *config, int timeoutSec);
HcclResult HcclRegisterGlobalMem(void *mem, void **handle);
HcclResult HcclCommBindMem(HcclComm comm, void *handle);
HcclResult HcclCommInitClusterInfoMemConfig(const char *rankTable, uint32_t rank, HcclCommConfig *config,
                                            HcclComm *comm);
#pragma GCC visibility pop

#define REFUSE()                                                                                                \
    do {                                                                                                        \
        HCCL_ENTER();                                                                                           \
        return hccl_fail(HCCL_E_NOT_SUPPORT, "hccl_sim: %s: the one-sided service is not simulated", __func__); \
    } while (0)

HcclResult HcclRegisterMem(HcclComm comm, uint32_t remoteRank, int type, void *addr, uint64_t size, void *desc)
{
    (void)comm;
    (void)remoteRank;
    (void)type;
    (void)addr;
    (void)size;
    (void)desc;
    REFUSE();
}

HcclResult HcclDeregisterMem(HcclComm comm, uint32_t remoteRank, void *desc)
{
    (void)comm;
    (void)remoteRank;
    (void)desc;
    REFUSE();
}

HcclResult HcclExchangeMemDesc(HcclComm comm, uint32_t remoteRank, void *local, int timeout, void *remote,
                               uint32_t *actualNum)
{
    (void)comm;
    (void)remoteRank;
    (void)local;
    (void)timeout;
    (void)remote;
    (void)actualNum;
    REFUSE();
}

HcclResult HcclEnableMemAccess(HcclComm comm, void *remoteMemDesc, void *remoteMem)
{
    (void)comm;
    (void)remoteMemDesc;
    (void)remoteMem;
    REFUSE();
}

HcclResult HcclDisableMemAccess(HcclComm comm, void *remoteMemDesc)
{
    (void)comm;
    (void)remoteMemDesc;
    REFUSE();
}

HcclResult HcclBatchPut(HcclComm comm, uint32_t remoteRank, void *desc, uint32_t descNum, aclrtStream stream)
{
    (void)comm;
    (void)remoteRank;
    (void)desc;
    (void)descNum;
    (void)stream;
    REFUSE();
}

HcclResult HcclBatchGet(HcclComm comm, uint32_t remoteRank, void *desc, uint32_t descNum, aclrtStream stream)
{
    (void)comm;
    (void)remoteRank;
    (void)desc;
    (void)descNum;
    (void)stream;
    REFUSE();
}

HcclResult HcclCommPrepare(HcclComm comm, const void *config, int timeoutSec)
{
    (void)comm;
    (void)config;
    (void)timeoutSec;
    REFUSE();
}

HcclResult HcclRegisterGlobalMem(void *mem, void **handle)
{
    (void)mem;
    (void)handle;
    REFUSE();
}

HcclResult HcclCommBindMem(HcclComm comm, void *handle)
{
    (void)comm;
    (void)handle;
    REFUSE();
}

HcclResult HcclCommInitClusterInfoMemConfig(const char *rankTable, uint32_t rank, HcclCommConfig *config,
                                            HcclComm *comm)
{
    (void)rankTable;
    (void)rank;
    (void)config;
    (void)comm;
    REFUSE();
}
