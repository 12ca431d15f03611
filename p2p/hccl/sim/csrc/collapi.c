// The public calls of the collectives: argument checks and a description for the engine.
#include "coll.h"

#include <stdlib.h>
#include <string.h>

static HcclResult check(const char *function, const struct coll_call *a)
{
    const struct chip *chip = sim_env()->chip;
    uint32_t type = (unsigned)a->type < 32 ? 1U << a->type : 0;
    if (a->command == CMD_BARRIER)
        return chip->has_p2p ? HCCL_SUCCESS
                             : hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: not supported on %s", function, chip->name);
    if (a->count > MAX_COUNT)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: count %llu, at most %llu", function, (unsigned long long)a->count,
                         MAX_COUNT);
    if (!coll_reduces(a->command))
        return (chip->p2p_types & type) != 0
                   ? HCCL_SUCCESS
                   : hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: data type %d on %s", function, a->type, chip->name);
    if ((unsigned)a->op > HCCL_REDUCE_MIN) return hccl_fail(HCCL_E_PARA, "EI0003: %s: reduction %d", function, a->op);
    if ((chip->reduce_types & type) == 0 || (a->op == HCCL_REDUCE_PROD && (chip->noprod_types & type) != 0))
        return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: data type %d with reduction %d on %s", function, a->type,
                         a->op, chip->name);
    return HCCL_SUCCESS;
}

HcclResult coll_run_call(const char *function, const struct coll_call *a, HcclComm comm, aclrtStream stream)
{
    struct op_call call;
    HcclResult rc = op_begin(function, comm, stream, &call);
    return rc == HCCL_SUCCESS ? op_end(&call, coll_issue(&call, a)) : rc;
}

static HcclResult collective(const char *function, const struct coll_call *a, HcclComm comm, aclrtStream stream)
{
    HcclResult rc = check(function, a);
    if (rc != HCCL_SUCCESS) return rc;
    return group_open() ? group_add_coll(function, a, comm, stream) : coll_run_call(function, a, comm, stream);
}

// The size and rank of a communicator, which the V forms need to read their arrays.
static HcclResult whereabouts(HcclComm comm, uint32_t *rank, uint32_t *size)
{
    struct comm *c;
    HcclResult rc = comm_find(comm, &c);
    if (rc != HCCL_SUCCESS) return rc;
    *rank = c->rank;
    *size = c->size;
    comm_unref(c);
    return HCCL_SUCCESS;
}

#define NEED(pointer)                                                                                      \
    do {                                                                                                   \
        if ((pointer) == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: %s is NULL", __func__, #pointer); \
    } while (0)
#define COLLECTIVE_ENTER()                        \
    do {                                          \
        HCCL_ENTER();                             \
        if (sim_env()->noop) return HCCL_SUCCESS; \
    } while (0)

HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (count == 0) return HCCL_SUCCESS;
    NEED(sendBuf);
    NEED(recvBuf);
    struct coll_call a = {
        .command = CMD_ALLREDUCE, .send = sendBuf, .recv = recvBuf, .count = count, .type = dataType, .op = op};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (count == 0) return HCCL_SUCCESS;
    NEED(sendBuf);
    struct coll_call a = {.command = CMD_REDUCE,
                          .send = sendBuf,
                          .recv = recvBuf,
                          .count = count,
                          .type = dataType,
                          .op = op,
                          .root = root};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (count == 0) return HCCL_SUCCESS;
    NEED(buf);
    struct coll_call a = {
        .command = CMD_BROADCAST, .send = buf, .recv = buf, .count = count, .type = dataType, .root = root};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (sendCount == 0) return HCCL_SUCCESS;
    NEED(sendBuf);
    NEED(recvBuf);
    struct coll_call a = {
        .command = CMD_ALLGATHER, .send = sendBuf, .recv = recvBuf, .count = sendCount, .type = dataType};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (recvCount == 0) return HCCL_SUCCESS;
    NEED(sendBuf);
    NEED(recvBuf);
    struct coll_call a = {.command = CMD_REDUCE_SCATTER,
                          .send = sendBuf,
                          .recv = recvBuf,
                          .count = recvCount,
                          .type = dataType,
                          .op = op};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (recvCount == 0) return HCCL_SUCCESS;
    NEED(recvBuf);
    struct coll_call a = {
        .command = CMD_SCATTER, .send = sendBuf, .recv = recvBuf, .count = recvCount, .type = dataType, .root = root};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    struct coll_call a = {.command = CMD_BARRIER, .type = HCCL_DATA_TYPE_INT8};
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
                          const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    NEED(recvBuf);
    NEED(recvCounts);
    NEED(recvDispls);
    uint32_t rank, size;
    HcclResult rc = whereabouts(comm, &rank, &size);
    if (rc != HCCL_SUCCESS) return rc;
    struct coll_call a = {
        .command = CMD_ALLGATHER_V, .send = sendBuf, .recv = recvBuf, .count = sendCount, .type = dataType};
    for (uint32_t r = 0; r < size; r++) a.out_counts[r] = sendCount;
    memcpy(a.in_counts, recvCounts, size * sizeof(uint64_t));
    memcpy(a.in_displs, recvDispls, size * sizeof(uint64_t));
    if (a.in_counts[rank] != sendCount)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: sendCount %llu, recvCounts of this rank %llu", __func__,
                         (unsigned long long)sendCount, (unsigned long long)a.in_counts[rank]);
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream)
{
    COLLECTIVE_ENTER();
    NEED(sendBuf);
    NEED(sendCounts);
    NEED(sendDispls);
    uint32_t rank, size;
    HcclResult rc = whereabouts(comm, &rank, &size);
    if (rc != HCCL_SUCCESS) return rc;
    struct coll_call a = {.command = CMD_REDUCE_SCATTER_V,
                          .send = sendBuf,
                          .recv = recvBuf,
                          .count = recvCount,
                          .type = dataType,
                          .op = op};
    for (uint32_t r = 0; r < size; r++) a.in_counts[r] = recvCount;
    memcpy(a.out_counts, sendCounts, size * sizeof(uint64_t));
    memcpy(a.out_displs, sendDispls, size * sizeof(uint64_t));
    if (a.out_counts[rank] != recvCount)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: recvCount %llu, sendCounts of this rank %llu", __func__,
                         (unsigned long long)recvCount, (unsigned long long)a.out_counts[rank]);
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    if (sendCount == 0 && recvCount == 0) return HCCL_SUCCESS;
    NEED(sendBuf);
    NEED(recvBuf);
    if (sendType != recvType || sendCount != recvCount)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: send and receive must agree in count and type", __func__);
    uint32_t rank, size;
    HcclResult rc = whereabouts(comm, &rank, &size);
    if (rc != HCCL_SUCCESS) return rc;
    struct coll_call a = {.command = CMD_ALLTOALL,
                          .send = (void *)sendBuf,
                          .recv = (void *)recvBuf,
                          .count = sendCount,
                          .type = sendType};
    for (uint32_t r = 0; r < size; r++) {
        a.out_counts[r] = a.in_counts[r] = sendCount;
        a.out_displs[r] = a.in_displs[r] = r * sendCount;
    }
    return collective(__func__, &a, comm, stream);
}

HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
                         const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    NEED(sendCounts);
    NEED(sdispls);
    NEED(recvCounts);
    NEED(rdispls);
    if (sendType != recvType)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: send type %d, receive type %d", __func__, sendType, recvType);
    uint32_t rank, size;
    HcclResult rc = whereabouts(comm, &rank, &size);
    if (rc != HCCL_SUCCESS) return rc;
    struct coll_call a = {.command = CMD_ALLTOALLV, .send = (void *)sendBuf, .recv = (void *)recvBuf, .type = sendType};
    memcpy(a.out_counts, sendCounts, size * sizeof(uint64_t));
    memcpy(a.out_displs, sdispls, size * sizeof(uint64_t));
    memcpy(a.in_counts, recvCounts, size * sizeof(uint64_t));
    memcpy(a.in_displs, rdispls, size * sizeof(uint64_t));
    return collective(__func__, &a, comm, stream);
}

// The matrix says what each rank (row) sends to each (column); pieces lie one after the other.
HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
    COLLECTIVE_ENTER();
    NEED(sendCountMatrix);
    if (sendType != recvType)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: send type %d, receive type %d", __func__, sendType, recvType);
    uint32_t rank, size;
    HcclResult rc = whereabouts(comm, &rank, &size);
    if (rc != HCCL_SUCCESS) return rc;
    const uint64_t *m = sendCountMatrix;
    struct coll_call a = {
        .command = CMD_ALLTOALLVC, .send = (void *)sendBuf, .recv = (void *)recvBuf, .type = sendType};
    for (uint32_t r = 0; r < size; r++) {
        a.out_counts[r] = m[rank * size + r];
        a.in_counts[r] = m[r * size + rank];
        if (r == 0) continue;
        a.out_displs[r] = a.out_displs[r - 1] + a.out_counts[r - 1];
        a.in_displs[r] = a.in_displs[r - 1] + a.in_counts[r - 1];
    }
    return collective(__func__, &a, comm, stream);
}
