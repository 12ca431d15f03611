// What each collective moves between each pair of ranks.
#include "coll.h"

bool coll_reduces(uint32_t command)
{
    return command == CMD_ALLREDUCE || command == CMD_REDUCE || command == CMD_REDUCE_SCATTER ||
           command == CMD_REDUCE_SCATTER_V;
}

static void all_reduce(struct coll *x, const struct coll_call *a, uint64_t bytes)
{
    x->same = true;
    for (uint32_t r = 0; r < x->c->size; r++) {
        bool to = a->command == CMD_ALLREDUCE || r == a->root,
             from = a->command == CMD_ALLREDUCE || x->c->rank == a->root;
        x->flows[r] = (struct flow){a->send, to ? bytes : 0, a->recv, from ? bytes : 0};
    }
}

static void broadcast(struct coll *x, const struct coll_call *a, uint64_t bytes)
{
    bool root = x->c->rank == a->root;
    x->same = true;
    for (uint32_t r = 0; r < x->c->size; r++) {
        if (r == x->c->rank) continue;
        x->flows[r] = (struct flow){a->send, root ? bytes : 0, a->recv, r == a->root ? bytes : 0};
    }
}

static void scatter(struct coll *x, const struct coll_call *a, uint64_t bytes)
{
    bool root = x->c->rank == a->root;
    for (uint32_t r = 0; r < x->c->size; r++)
        x->flows[r] = (struct flow){root ? (char *)a->send + r * bytes : NULL, root ? bytes : 0, a->recv,
                                    r == a->root ? bytes : 0};
}

static void gather_all(struct coll *x, const struct coll_call *a, uint64_t bytes)
{
    x->same = true;
    for (uint32_t r = 0; r < x->c->size; r++)
        x->flows[r] = (struct flow){a->send, bytes, (char *)a->recv + r * bytes, bytes};
}

static void reduce_scatter(struct coll *x, const struct coll_call *a, uint64_t bytes)
{
    for (uint32_t r = 0; r < x->c->size; r++)
        x->flows[r] = (struct flow){(char *)a->send + r * bytes, bytes, a->recv, bytes};
}

// The V forms, in elements per rank; AllGatherV gives all ranks one piece, ReduceScatterV takes one from all.
static void by_counts(struct coll *x, const struct coll_call *a, size_t size)
{
    x->same = a->command == CMD_ALLGATHER_V;
    for (uint32_t r = 0; r < x->c->size; r++)
        x->flows[r] = (struct flow){(char *)a->send + a->out_displs[r] * size, a->out_counts[r] * size,
                                    (char *)a->recv + a->in_displs[r] * size, a->in_counts[r] * size};
}

void coll_flows(struct coll *x, const struct coll_call *a)
{
    size_t size = dtype_size(a->type);
    uint64_t bytes = a->count * size;
    switch (a->command) {
    case CMD_ALLREDUCE:
    case CMD_REDUCE: all_reduce(x, a, bytes); break;
    case CMD_BROADCAST: broadcast(x, a, bytes); break;
    case CMD_SCATTER: scatter(x, a, bytes); break;
    case CMD_ALLGATHER: gather_all(x, a, bytes); break;
    case CMD_REDUCE_SCATTER: reduce_scatter(x, a, bytes); break;
    case CMD_ALLTOALL:
    case CMD_ALLTOALLV:
    case CMD_ALLTOALLVC:
    case CMD_ALLGATHER_V:
    case CMD_REDUCE_SCATTER_V: by_counts(x, a, size); break;
    default: break; // a barrier moves nothing
    }
}
