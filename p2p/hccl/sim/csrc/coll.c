// The engine of the collectives. The ranks move in steps of at most the CCL buffer: each copies what it gives to its
// CCL buffer and tells the others where; each takes what it is given; each says so. So a collective may work in place.
#include "coll.h"

#include <stdlib.h>
#include <string.h>

// How many bytes of a flow move in one step.
static uint64_t quantum(const struct coll *x)
{
    return x->same ? x->c->opt.buffer : (x->c->opt.buffer / x->c->size) & ~(uint64_t)63;
}

static uint64_t steps_of(const struct flow *f, uint64_t q)
{
    uint64_t longest = f->out_bytes > f->in_bytes ? f->out_bytes : f->in_bytes;
    return longest <= q ? 1 : (longest + q - 1) / q;
}

static uint64_t part(uint64_t total, uint64_t q, uint64_t step)
{
    uint64_t at = step * q;
    if (at >= total) return 0;
    return total - at < q ? total - at : q;
}

// Where the piece for rank r lies in this rank's CCL buffer, as the host sees device memory.
static char *staged(const struct coll *x, uint32_t r, uint64_t q) { return (char *)x->c->ccl + (x->same ? 0 : r * q); }

static void stage(struct coll *x, uint64_t q, uint64_t step)
{
    for (uint32_t r = 0; r < x->c->size; r++) {
        struct flow *f = &x->flows[r];
        uint64_t n = part(f->out_bytes, q, step);
        if (n > 0) memcpy(mem_shadow(staged(x, r, q)), mem_shadow(f->out + step * q), n);
        if (x->same && n > 0) return;
    }
}

static bool active(const struct coll *x, uint32_t r, uint64_t q, uint64_t step)
{
    return r != x->c->rank && step < steps_of(&x->flows[r], q);
}

static aclError tell(struct coll *x, struct stream *s, uint64_t q, uint64_t step, int64_t deadline)
{
    for (uint32_t r = 0; r < x->c->size; r++) {
        if (!active(x, r, q, step)) continue;
        struct note n = {.step = step,
                         .offset = mem_offset(staged(x, r, q)),
                         .length = part(x->flows[r].out_bytes, q, step),
                         .extra = x->command};
        aclError rc = link_send(x->c, s, x->links[r], &n, deadline);
        if (rc != ACL_SUCCESS) return rc;
    }
    return ACL_SUCCESS;
}

// Takes one step of what rank r gives into at; the rank's own comes from its own buffer.
static aclError take(struct coll *x, struct stream *s, uint32_t r, uint64_t q, uint64_t step, void *at,
                     int64_t deadline)
{
    uint64_t want = part(x->flows[r].in_bytes, q, step);
    struct note n;
    if (r == x->c->rank) {
        if (want > 0) memmove(at, mem_shadow(staged(x, r, q)), want);
        return ACL_SUCCESS;
    }
    if (!active(x, r, q, step)) return ACL_SUCCESS;
    aclError rc = link_recv(x->c, s, x->links[r], &n, deadline);
    if (rc != ACL_SUCCESS) return rc;
    if (n.step != step || n.length != want || n.extra != x->command) return link_hang(x->c, s, x->links[r], deadline);
    return want > 0 ? link_fetch(x->c, s, x->links[r], n.offset, at, want) : ACL_SUCCESS;
}

static aclError take_all(struct coll *x, struct stream *s, uint64_t q, uint64_t step, int64_t deadline)
{
    for (uint32_t r = 0; r < x->c->size; r++) {
        struct flow *f = &x->flows[r];
        void *at = f->in_bytes > 0 ? mem_shadow(f->in + step * q) : NULL;
        aclError rc = take(x, s, r, q, step, at, deadline);
        if (rc != ACL_SUCCESS) return rc;
    }
    return ACL_SUCCESS;
}

static aclError reduce_all(struct coll *x, struct stream *s, uint64_t q, uint64_t step, int64_t deadline)
{
    struct flow *own = &x->flows[x->c->rank];
    uint64_t n = part(own->in_bytes, q, step);
    char *acc = malloc(2 * n + 1), *piece = acc + n;
    if (acc == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
    aclError rc = ACL_SUCCESS;
    for (uint32_t r = 0; r < x->c->size && rc == ACL_SUCCESS; r++) {
        rc = take(x, s, r, q, step, r == 0 ? acc : piece, deadline);
        if (rc == ACL_SUCCESS && r > 0 && n > 0) reduce_into(acc, piece, n / dtype_size(x->type), x->type, x->op);
    }
    if (rc == ACL_SUCCESS && n > 0) memcpy(mem_shadow(own->in + step * q), acc, n);
    free(acc);
    return rc;
}

// Says that this rank has taken the step, and waits until all others have.
static aclError close_step(struct coll *x, struct stream *s, uint64_t q, uint64_t step, int64_t deadline)
{
    struct note done = {.step = step, .extra = x->command};
    aclError rc = ACL_SUCCESS;
    for (uint32_t r = 0; r < x->c->size && rc == ACL_SUCCESS; r++)
        if (active(x, r, q, step)) rc = link_send(x->c, s, x->links[r], &done, deadline);
    for (uint32_t r = 0; r < x->c->size && rc == ACL_SUCCESS; r++)
        if (active(x, r, q, step)) rc = link_recv(x->c, s, x->links[r], &done, deadline);
    return rc;
}

static bool buffers_live(const struct coll *x)
{
    int d = x->c->dev->id;
    for (uint32_t r = 0; r < x->c->size; r++) {
        const struct flow *f = &x->flows[r];
        if (f->out_bytes > 0 && !mem_live(d, f->out, f->out_bytes)) return false;
        if (f->in_bytes > 0 && !mem_live(d, f->in, f->in_bytes)) return false;
    }
    return true;
}

static aclError coll_body(struct op_task *o, struct comm *c, struct stream *s)
{
    struct coll *x = (struct coll *)o;
    uint64_t q = quantum(x), steps = 1;
    int64_t deadline = comm_exec_deadline(c);
    if (!buffers_live(x))
        return acl_fail(sim_env()->chip->dma_fault, "EI0012: SDMA fault: %s: a buffer was freed or is too small",
                        command_name(x->command));
    for (uint32_t r = 0; r < c->size; r++) {
        if (x->links[r] != NULL && x->links[r]->broken) return link_hang(c, s, x->links[r], deadline);
        uint64_t n = steps_of(&x->flows[r], q);
        if (n > steps) steps = n;
    }
    aclError rc = ACL_SUCCESS;
    for (uint64_t step = 0; step < steps && rc == ACL_SUCCESS; step++) {
        stage(x, q, step);
        rc = tell(x, s, q, step, deadline);
        if (rc == ACL_SUCCESS)
            rc = x->reduces ? reduce_all(x, s, q, step, deadline) : take_all(x, s, q, step, deadline);
        if (rc == ACL_SUCCESS) rc = close_step(x, s, q, step, deadline);
    }
    for (uint32_t r = 0; r < c->size && rc != ACL_SUCCESS; r++)
        if (x->links[r] != NULL) x->links[r]->broken = true;
    return rc;
}

// The links of this kind of collective to all other ranks, made by its first call.
static HcclResult coll_links(struct coll *x, const struct coll_call *a)
{
    struct comm *c = x->c;
    struct want wants[MAX_RANKS];
    int n = 0;
    bool v = a->command == CMD_ALLTOALLV || a->command == CMD_ALLTOALLVC || a->command == CMD_ALLGATHER_V ||
             a->command == CMD_REDUCE_SCATTER_V;
    struct params p = {.command = a->command,
                       .dtype = a->type,
                       .op = a->op,
                       .root = a->root,
                       .count = a->count,
                       .buffer = c->opt.buffer,
                       .deterministic = c->opt.deterministic,
                       .cann = sim_env()->cann,
                       .unchecked = v};
    for (uint32_t r = 0; r < c->size; r++) {
        if (r == c->rank) continue;
        uint32_t src = r < c->rank ? r : c->rank, dst = r < c->rank ? c->rank : r;
        x->links[r] = link_find(c, a->command, src, dst);
        if (x->links[r] == NULL) wants[n++] = (struct want){.peer = r, .src = src, .dst = dst};
    }
    HcclResult rc = n > 0 ? links_build(c, a->command, &p, wants, n) : HCCL_SUCCESS;
    for (int i = 0; i < n && rc == HCCL_SUCCESS; i++) x->links[wants[i].peer] = wants[i].link;
    return rc;
}

static HcclResult check_flows(struct op_call *call, const struct coll *x)
{
    for (uint32_t r = 0; r < x->c->size; r++) {
        const struct flow *f = &x->flows[r];
        HcclResult rc = f->out_bytes > 0 ? op_buffer(call, "sendBuf", f->out, f->out_bytes) : HCCL_SUCCESS;
        if (rc == HCCL_SUCCESS && f->in_bytes > 0) rc = op_buffer(call, "recvBuf", f->in, f->in_bytes);
        if (rc != HCCL_SUCCESS) return rc;
        if (x->reduces && ((uintptr_t)f->out | (uintptr_t)f->in) % dtype_size(x->type) != 0)
            return hccl_fail(HCCL_E_PARA, "EI0003: %s: a buffer is not aligned to its element",
                             command_name(x->command));
    }
    return HCCL_SUCCESS;
}

HcclResult coll_issue(struct op_call *call, const struct coll_call *a)
{
    struct coll *x = calloc(1, sizeof(*x));
    if (x == NULL) return hccl_fail(HCCL_E_MEMORY, "out of host memory");
    x->o.body = coll_body;
    x->c = call->c;
    x->command = a->command;
    x->type = a->type;
    x->op = a->op;
    x->reduces = coll_reduces(a->command);
    HcclResult rc = a->root < call->c->size
                        ? HCCL_SUCCESS
                        : hccl_fail(HCCL_E_PARA, "EI0003: root %u of %u ranks", a->root, call->c->size);
    if (rc == HCCL_SUCCESS) {
        coll_flows(x, a);
        rc = check_flows(call, x);
    }
    if (rc == HCCL_SUCCESS) rc = comm_memory(call->c, call->s->id);
    if (rc == HCCL_SUCCESS) rc = coll_links(x, a);
    if (rc == HCCL_SUCCESS) return op_push(call, &x->o);
    free(x);
    return rc;
}
