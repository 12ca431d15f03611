// HcclBatchSendRecv: sends and receives to many peers at once, in any order, at most one of each per peer.
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    struct link *l; // NULL: to oneself
    char *buf;
    uint64_t bytes;
    bool send;
};

struct batch {
    struct op_task o;
    struct comm *c;
    char *self_from, *self_to;
    uint64_t self_bytes;
    uint32_t n;
    struct piece pieces[];
};

static aclError announce(struct batch *b, struct stream *s, int64_t deadline)
{
    for (uint32_t i = 0; i < b->n; i++) {
        struct piece *p = &b->pieces[i];
        if (!p->send) continue;
        struct note n = {.offset = mem_offset(p->buf), .length = p->bytes};
        aclError rc = link_send(b->c, s, p->l, &n, deadline);
        if (rc != ACL_SUCCESS) return rc;
    }
    return ACL_SUCCESS;
}

static aclError receive(struct batch *b, struct stream *s, struct piece *p, int64_t deadline)
{
    struct note n;
    aclError rc = link_recv(b->c, s, p->l, &n, deadline);
    if (rc != ACL_SUCCESS) return rc;
    if (n.length != p->bytes) return link_hang(b->c, s, p->l, deadline);
    rc = link_fetch(b->c, s, p->l, n.offset, mem_shadow(p->buf), n.length);
    return rc == ACL_SUCCESS ? link_send(b->c, s, p->l, &(struct note){0}, deadline) : rc;
}

static aclError batch_body(struct op_task *o, struct comm *c, struct stream *s)
{
    struct batch *b = (struct batch *)o;
    int64_t deadline = comm_exec_deadline(c);
    for (uint32_t i = 0; i < b->n; i++) {
        if (!mem_live(c->dev->id, b->pieces[i].buf, b->pieces[i].bytes))
            return acl_fail(sim_env()->chip->dma_fault,
                            "EI0012: SDMA fault: a buffer of BATCH_SEND_RECV was freed or is too small");
        if (b->pieces[i].l->broken) return link_hang(c, s, b->pieces[i].l, deadline);
    }
    if (b->self_bytes > 0) memmove(mem_shadow(b->self_to), mem_shadow(b->self_from), b->self_bytes);
    aclError rc = announce(b, s, deadline);
    for (uint32_t i = 0; i < b->n && rc == ACL_SUCCESS; i++)
        if (!b->pieces[i].send) rc = receive(b, s, &b->pieces[i], deadline);
    for (uint32_t i = 0; i < b->n && rc == ACL_SUCCESS; i++) {
        struct note ack;
        if (b->pieces[i].send) rc = link_recv(c, s, b->pieces[i].l, &ack, deadline);
    }
    for (uint32_t i = 0; i < b->n && rc != ACL_SUCCESS; i++) b->pieces[i].l->broken = true;
    return rc;
}

// Sends to oneself pair with receives from oneself.
static HcclResult pair_self(struct batch *b, const HcclSendRecvItem *items, uint32_t n)
{
    const HcclSendRecvItem *send = NULL, *recv = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].remoteRank != b->c->rank || items[i].buf == NULL) continue;
        if (items[i].sendRecvType == HCCL_SEND) send = &items[i];
        else recv = &items[i];
    }
    if (send == NULL && recv == NULL) return HCCL_SUCCESS;
    if (send == NULL || recv == NULL || send->count != recv->count || send->dataType != recv->dataType)
        return hccl_fail(HCCL_E_PARA,
                         "EI0003: HcclBatchSendRecv: a send to oneself needs its receive of equal count and type");
    b->self_from = send->buf;
    b->self_to = recv->buf;
    b->self_bytes = send->count * dtype_size(send->dataType);
    return HCCL_SUCCESS;
}

static HcclResult check_item(struct op_call *call, const HcclSendRecvItem *items, uint32_t at)
{
    const HcclSendRecvItem *i = &items[at];
    if (i->sendRecvType != HCCL_SEND && i->sendRecvType != HCCL_RECV)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclBatchSendRecv: item %u has type %d", at, i->sendRecvType);
    if (i->remoteRank >= call->c->size)
        return hccl_fail(HCCL_E_PARA, "EI0003: HcclBatchSendRecv: peer rank %u of a communicator of %u", i->remoteRank,
                         call->c->size);
    for (uint32_t j = 0; j < at; j++)
        if (items[j].buf != NULL && items[j].count > 0 && items[j].remoteRank == i->remoteRank &&
            items[j].sendRecvType == i->sendRecvType)
            return hccl_fail(HCCL_E_PARA,
                             "EI0003: HcclBatchSendRecv: items %u and %u are both to rank %u in one direction", j, at,
                             i->remoteRank);
    HcclResult rc = p2p_check("HcclBatchSendRecv", i->buf, i->count, i->dataType);
    return rc == HCCL_SUCCESS ? op_buffer(call, "buf", i->buf, i->count * dtype_size(i->dataType)) : rc;
}

// Fills the pieces, and builds the links (of a kind of their own) that are missing.
static HcclResult fill(struct op_call *call, struct batch *b, const HcclSendRecvItem *items, uint32_t n)
{
    struct comm *c = call->c;
    struct want wants[2 * MAX_RANKS];
    struct piece *missing[2 * MAX_RANKS];
    int m = 0;
    for (uint32_t i = 0; i < n; i++) {
        const HcclSendRecvItem *x = &items[i];
        if (x->buf == NULL || x->count == 0) continue;
        HcclResult rc = check_item(call, items, i);
        if (rc != HCCL_SUCCESS) return rc;
        if (x->remoteRank == c->rank) continue;
        bool send = x->sendRecvType == HCCL_SEND;
        struct want w = {
            .peer = x->remoteRank, .src = send ? c->rank : x->remoteRank, .dst = send ? x->remoteRank : c->rank};
        struct piece *p = &b->pieces[b->n++];
        *p = (struct piece){link_find(c, CMD_BATCH_SEND_RECV, w.src, w.dst), x->buf, x->count * dtype_size(x->dataType),
                            send};
        if (p->l != NULL) continue;
        missing[m] = p;
        wants[m++] = w;
    }
    struct params p = {.command = CMD_BATCH_SEND_RECV,
                       .buffer = c->opt.buffer,
                       .deterministic = c->opt.deterministic,
                       .cann = sim_env()->cann,
                       .unchecked = 1};
    HcclResult rc = m > 0 ? links_build(c, CMD_BATCH_SEND_RECV, &p, wants, m) : HCCL_SUCCESS;
    for (int i = 0; i < m && rc == HCCL_SUCCESS; i++) missing[i]->l = wants[i].link;
    return rc;
}

static HcclResult issue(struct op_call *call, const HcclSendRecvItem *items, uint32_t n)
{
    struct batch *b = calloc(1, sizeof(*b) + n * sizeof(b->pieces[0]));
    if (b == NULL) return hccl_fail(HCCL_E_MEMORY, "out of host memory");
    b->o.body = batch_body;
    b->c = call->c;
    HcclResult rc = comm_memory(call->c, call->s->id);
    if (rc == HCCL_SUCCESS) rc = pair_self(b, items, n);
    if (rc == HCCL_SUCCESS) rc = fill(call, b, items, n);
    if (rc == HCCL_SUCCESS) return op_push(call, &b->o);
    free(b);
    return rc;
}

HcclResult batch_issue(const char *function, const HcclSendRecvItem *items, uint32_t n, HcclComm comm,
                       aclrtStream stream)
{
    struct op_call call;
    if (n > 2 * MAX_RANKS) return hccl_fail(HCCL_E_PARA, "EI0003: %s: %u items", function, n);
    HcclResult rc = op_begin(function, comm, stream, &call);
    return rc == HCCL_SUCCESS ? op_end(&call, issue(&call, items, n)) : rc;
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream)
{
    HCCL_ENTER();
    if (sim_env()->noop) return HCCL_SUCCESS;
    if (!sim_env()->chip->has_p2p)
        return hccl_fail(HCCL_E_NOT_SUPPORT, "EI0003: %s: not supported on %s", __func__, sim_env()->chip->name);
    if (sendRecvInfo == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: %s: NULL argument", __func__);
    if (itemNum == 0) return HCCL_SUCCESS;
    if (group_open()) return hccl_fail(HCCL_E_PARA, "EI0003: %s: not inside a group", __func__);
    return batch_issue(__func__, sendRecvInfo, itemNum, comm, stream);
}
