// HcclSend and HcclRecv: an untagged rendezvous, in order per (communicator, source, destination).
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

struct p2p {
    struct op_task o;
    struct link *l;
    char *buf;
    uint64_t bytes;
    bool send;
};

static uint64_t chunk_of(struct comm *c, uint64_t left) { return left < c->opt.buffer ? left : c->opt.buffer; }

static aclError send_body(struct p2p *p, struct comm *c, struct stream *s)
{
    int64_t deadline = comm_exec_deadline(c);
    uint64_t step = 0;
    for (uint64_t at = 0; at < p->bytes; step++) {
        struct note n = {.step = step, .offset = mem_offset(p->buf + at), .length = chunk_of(c, p->bytes - at)}, ack;
        aclError rc = link_send(c, s, p->l, &n, deadline);
        if (rc == ACL_SUCCESS) rc = link_recv(c, s, p->l, &ack, deadline);
        if (rc != ACL_SUCCESS) return rc;
        if (ack.step != step) return link_hang(c, s, p->l, deadline);
        at += n.length;
    }
    return ACL_SUCCESS;
}

static aclError recv_body(struct p2p *p, struct comm *c, struct stream *s)
{
    int64_t deadline = comm_exec_deadline(c);
    uint64_t step = 0;
    for (uint64_t at = 0; at < p->bytes; step++) {
        struct note n;
        aclError rc = link_recv(c, s, p->l, &n, deadline);
        if (rc != ACL_SUCCESS) return rc;
        // Counts are compared for the first operator of a pair only; later both sides wait for what never comes.
        if (n.step != step || n.length != chunk_of(c, p->bytes - at)) return link_hang(c, s, p->l, deadline);
        rc = link_fetch(c, s, p->l, n.offset, mem_shadow(p->buf + at), n.length);
        if (rc == ACL_SUCCESS) rc = link_send(c, s, p->l, &(struct note){.step = step}, deadline);
        if (rc != ACL_SUCCESS) return rc;
        at += n.length;
    }
    return ACL_SUCCESS;
}

static aclError p2p_body(struct op_task *o, struct comm *c, struct stream *s)
{
    struct p2p *p = (struct p2p *)o;
    if (!mem_live(c->dev->id, p->buf, p->bytes))
        return acl_fail(sim_env()->chip->dma_fault,
                        "EI0012: SDMA fault: buffer %p of %llu bytes was freed or is too small", (void *)p->buf,
                        (unsigned long long)p->bytes);
    if (p->l->broken) return link_hang(c, s, p->l, comm_exec_deadline(c));
    aclError rc = p->send ? send_body(p, c, s) : recv_body(p, c, s);
    if (rc != ACL_SUCCESS) p->l->broken = true;
    return rc;
}

static HcclResult p2p_link(struct comm *c, const HcclSendRecvItem *i, struct link **l)
{
    bool send = i->sendRecvType == HCCL_SEND;
    struct want w = {
        .peer = i->remoteRank, .src = send ? c->rank : i->remoteRank, .dst = send ? i->remoteRank : c->rank};
    *l = link_find(c, CMD_SEND, w.src, w.dst);
    if (*l != NULL) return HCCL_SUCCESS;
    struct params p = {.command = CMD_SEND,
                       .dtype = i->dataType,
                       .count = i->count,
                       .buffer = c->opt.buffer,
                       .deterministic = c->opt.deterministic,
                       .cann = sim_env()->cann};
    HcclResult rc = links_build(c, CMD_SEND, &p, &w, 1);
    *l = w.link;
    return rc;
}

static HcclResult p2p_issue(struct op_call *call, const HcclSendRecvItem *i)
{
    struct comm *c = call->c;
    uint64_t bytes = i->count * dtype_size(i->dataType);
    struct link *l;
    if (i->remoteRank >= c->size)
        return hccl_fail(HCCL_E_PARA, "EI0003: peer rank %u of a communicator of %u", i->remoteRank, c->size);
    if (i->remoteRank == c->rank)
        return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: rank %u sends to itself; use HcclBatchSendRecv", c->rank);
    HcclResult rc = op_buffer(call, i->sendRecvType == HCCL_SEND ? "sendBuf" : "recvBuf", i->buf, bytes);
    if (rc == HCCL_SUCCESS) rc = comm_memory(c, call->s->id);
    if (rc == HCCL_SUCCESS) rc = p2p_link(c, i, &l);
    if (rc != HCCL_SUCCESS) return rc;
    struct p2p *p = calloc(1, sizeof(*p));
    if (p == NULL) return hccl_fail(HCCL_E_MEMORY, "out of host memory");
    *p = (struct p2p){.o.body = p2p_body, .l = l, .buf = i->buf, .bytes = bytes, .send = i->sendRecvType == HCCL_SEND};
    return op_push(call, &p->o);
}

HcclResult p2p_check(const char *function, const void *buf, uint64_t count, HcclDataType type)
{
    const struct chip *chip = sim_env()->chip;
    if (!chip->has_p2p) return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: not supported on %s", function, chip->name);
    if (buf == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: the buffer is NULL", function);
    if (count > MAX_COUNT)
        return hccl_fail(HCCL_E_PARA, "EI0003: %s: count %llu, at most %llu", function, (unsigned long long)count,
                         MAX_COUNT);
    if ((unsigned)type >= 32 || (chip->p2p_types >> type & 1) == 0)
        return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: data type %d on %s", function, type, chip->name);
    return HCCL_SUCCESS;
}

static HcclResult p2p_call(const char *function, const HcclSendRecvItem *i, HcclComm comm, aclrtStream stream)
{
    if (i->count == 0) return HCCL_SUCCESS;
    HcclResult rc = p2p_check(function, i->buf, i->count, i->dataType);
    if (rc != HCCL_SUCCESS) return rc;
    if (group_open()) return group_add_p2p(i, comm, stream);
    struct op_call call;
    rc = op_begin(function, comm, stream, &call);
    return rc == HCCL_SUCCESS ? op_end(&call, p2p_issue(&call, i)) : rc;
}

HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream)
{
    HCCL_ENTER();
    if (sim_env()->noop) return HCCL_SUCCESS;
    HcclSendRecvItem i = {HCCL_SEND, sendBuf, count, dataType, destRank};
    return p2p_call(__func__, &i, comm, stream);
}

HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream)
{
    HCCL_ENTER();
    if (sim_env()->noop) return HCCL_SUCCESS;
    HcclSendRecvItem i = {HCCL_RECV, recvBuf, count, dataType, srcRank};
    return p2p_call(__func__, &i, comm, stream);
}
