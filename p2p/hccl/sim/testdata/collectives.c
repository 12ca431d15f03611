// Every collective with every type and reduction the chip allows, against naive results. Values are small whole
// numbers, so every type holds them exactly. Counts cover one element, odd ones and more than the CCL buffer (1 MiB)
// takes at once.
#include "check.h"

static size_t size_of(HcclDataType t)
{
    switch ((int)t) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8: return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16: return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32: return 4;
    default: return 8;
    }
}

static uint16_t small_half(int v, int mantissa, int bias)
{
    uint16_t sign = v < 0 ? 0x8000 : 0;
    unsigned m = (unsigned)(v < 0 ? -v : v);
    if (m == 0) return sign;
    int e = 31 - __builtin_clz(m);
    return (uint16_t)(sign | (unsigned)(e + bias) << mantissa | ((m << mantissa >> e) & ((1U << mantissa) - 1)));
}

static void store(void *p, size_t i, HcclDataType t, int v)
{
    switch ((int)t) {
    case HCCL_DATA_TYPE_INT8: ((int8_t *)p)[i] = (int8_t)v; break;
    case HCCL_DATA_TYPE_UINT8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case HCCL_DATA_TYPE_INT16: ((int16_t *)p)[i] = (int16_t)v; break;
    case HCCL_DATA_TYPE_UINT16: ((uint16_t *)p)[i] = (uint16_t)v; break;
    case HCCL_DATA_TYPE_INT32: ((int32_t *)p)[i] = v; break;
    case HCCL_DATA_TYPE_UINT32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case HCCL_DATA_TYPE_INT64: ((int64_t *)p)[i] = v; break;
    case HCCL_DATA_TYPE_UINT64: ((uint64_t *)p)[i] = (uint64_t)v; break;
    case HCCL_DATA_TYPE_FP16: ((uint16_t *)p)[i] = small_half(v, 10, 15); break;
    case HCCL_DATA_TYPE_BFP16: ((uint16_t *)p)[i] = small_half(v, 7, 127); break;
    case HCCL_DATA_TYPE_FP32: ((float *)p)[i] = (float)v; break;
    default: ((double *)p)[i] = v; break;
    }
}

// What rank r holds at element i: 1, 2 or 3, so that a product of four ranks stays below 128.
static int held(uint32_t r, size_t i) { return (int)((i + 2 * r) % 3) + 1; }

static int reduced(uint32_t n, size_t i, HcclReduceOp op)
{
    int v = held(0, i);
    for (uint32_t r = 1; r < n; r++) {
        int x = held(r, i);
        if (op == HCCL_REDUCE_SUM) v += x;
        if (op == HCCL_REDUCE_PROD) v *= x;
        if (op == HCCL_REDUCE_MAX && x > v) v = x;
        if (op == HCCL_REDUCE_MIN && x < v) v = x;
    }
    return v;
}

struct run {
    struct rank *r;
    HcclDataType t;
    HcclReduceOp op;
    size_t count, es;
    char *host, *want; // room for size * count elements
    void *in, *out;
};

static void load(struct run *x, size_t n)
{
    for (size_t i = 0; i < n; i++) store(x->host, i, x->t, held(x->r->rank, i));
    put(x->in, x->host, n * x->es);
    OK(aclrtMemset(x->out, x->r->size * x->count * x->es, 0x5a, x->r->size * x->count * x->es));
}

static void same(struct run *x, const void *dev, size_t n, const char *what)
{
    OK(aclrtSynchronizeStream(x->r->stream));
    get(x->host, dev, n * x->es);
    if (memcmp(x->host, x->want, n * x->es) == 0) return;
    fprintf(stderr, "%s: rank %u type %d op %d count %zu: wrong result\n", what, x->r->rank, x->t, x->op, x->count);
    exit(1);
}

static void all_reduce(struct run *x)
{
    load(x, x->count);
    for (size_t i = 0; i < x->count; i++) store(x->want, i, x->t, reduced(x->r->size, i, x->op));
    OK(HcclAllReduce(x->in, x->out, x->count, x->t, x->op, x->r->comm, x->r->stream));
    same(x, x->out, x->count, "AllReduce");
    load(x, x->count);
    OK(HcclAllReduce(x->in, x->in, x->count, x->t, x->op, x->r->comm, x->r->stream));
    same(x, x->in, x->count, "AllReduce in place");
}

static void reduce(struct run *x)
{
    uint32_t root = x->r->size - 1;
    load(x, x->count);
    for (size_t i = 0; i < x->count; i++) store(x->want, i, x->t, reduced(x->r->size, i, x->op));
    OK(HcclReduce(x->in, x->out, x->count, x->t, x->op, root, x->r->comm, x->r->stream));
    if (x->r->rank == root) same(x, x->out, x->count, "Reduce");
    OK(aclrtSynchronizeStream(x->r->stream));
}

static void reduce_scatter(struct run *x)
{
    uint32_t n = x->r->size;
    load(x, n * x->count);
    for (size_t i = 0; i < x->count; i++) store(x->want, i, x->t, reduced(n, x->r->rank * x->count + i, x->op));
    OK(HcclReduceScatter(x->in, x->out, x->count, x->t, x->op, x->r->comm, x->r->stream));
    same(x, x->out, x->count, "ReduceScatter");
    load(x, n * x->count);
    OK(HcclReduceScatter(x->in, x->in, x->count, x->t, x->op, x->r->comm, x->r->stream));
    same(x, x->in, x->count, "ReduceScatter in place");
}

static void reduce_scatter_v(struct run *x)
{
    uint64_t counts[16], displs[16], at = 0;
    for (uint32_t r = 0; r < x->r->size; r++) {
        counts[r] = x->count * (r + 1) / x->r->size;
        displs[r] = at;
        at += counts[r];
    }
    load(x, at);
    uint64_t n = counts[x->r->rank];
    for (size_t i = 0; i < n; i++) store(x->want, i, x->t, reduced(x->r->size, displs[x->r->rank] + i, x->op));
    OK(HcclReduceScatterV(x->in, counts, displs, x->out, n, x->t, x->op, x->r->comm, x->r->stream));
    same(x, x->out, n, "ReduceScatterV");
}

static void reductions(struct run *x)
{
    all_reduce(x);
    reduce(x);
    reduce_scatter(x);
    reduce_scatter_v(x);
}

static void broadcast(struct run *x)
{
    load(x, x->count);
    for (size_t i = 0; i < x->count; i++) store(x->want, i, x->t, held(0, i));
    OK(HcclBroadcast(x->in, x->count, x->t, 0, x->r->comm, x->r->stream));
    same(x, x->in, x->count, "Broadcast");
}

static void scatter(struct run *x)
{
    uint32_t root = x->r->size - 1;
    load(x, x->r->size * x->count);
    for (size_t i = 0; i < x->count; i++) store(x->want, i, x->t, held(root, x->r->rank * x->count + i));
    OK(HcclScatter(x->in, x->out, x->count, x->t, root, x->r->comm, x->r->stream));
    same(x, x->out, x->count, "Scatter");
}

static void all_gather(struct run *x)
{
    load(x, x->count);
    for (uint32_t r = 0; r < x->r->size; r++)
        for (size_t i = 0; i < x->count; i++) store(x->want, r * x->count + i, x->t, held(r, i));
    OK(HcclAllGather(x->in, x->out, x->count, x->t, x->r->comm, x->r->stream));
    same(x, x->out, x->r->size * x->count, "AllGather");
    char *own = (char *)x->out + x->r->rank * x->count * x->es;
    OK(aclrtMemcpy(own, x->count * x->es, x->in, x->count * x->es, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(HcclAllGather(own, x->out, x->count, x->t, x->r->comm, x->r->stream));
    same(x, x->out, x->r->size * x->count, "AllGather in place");
}

static void all_gather_v(struct run *x)
{
    uint64_t counts[16], displs[16], at = 0;
    for (uint32_t r = 0; r < x->r->size; r++) {
        counts[r] = x->count * r / x->r->size; // rank 0 gives nothing
        displs[r] = at;
        at += counts[r];
        for (size_t i = 0; i < counts[r]; i++) store(x->want, displs[r] + i, x->t, held(r, i));
    }
    load(x, x->count);
    OK(HcclAllGatherV(x->in, counts[x->r->rank], x->out, counts, displs, x->t, x->r->comm, x->r->stream));
    same(x, x->out, at, "AllGatherV");
}

static void all_to_all(struct run *x)
{
    uint32_t n = x->r->size;
    load(x, n * x->count);
    for (uint32_t r = 0; r < n; r++)
        for (size_t i = 0; i < x->count; i++)
            store(x->want, r * x->count + i, x->t, held(r, x->r->rank * x->count + i));
    OK(HcclAlltoAll(x->in, x->count, x->t, x->out, x->count, x->t, x->r->comm, x->r->stream));
    same(x, x->out, n * x->count, "AlltoAll");
}

// Rank a gives rank b (a + b) % n shares of count / n elements.
static void all_to_all_v(struct run *x)
{
    uint32_t n = x->r->size, me = x->r->rank;
    uint64_t matrix[256], out[16], from[16], in[16], to[16], of = 0, at = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) matrix[a * n + b] = x->count / n * ((a + b) % n);
    for (uint32_t r = 0; r < n; r++) {
        out[r] = matrix[me * n + r];
        in[r] = matrix[r * n + me];
        from[r] = of;
        to[r] = at;
        uint64_t theirs = 0; // where rank r keeps what it gives this rank
        for (uint32_t b = 0; b < me; b++) theirs += matrix[r * n + b];
        for (size_t i = 0; i < in[r]; i++) store(x->want, at + i, x->t, held(r, theirs + i));
        of += out[r];
        at += in[r];
    }
    load(x, of);
    OK(HcclAlltoAllV(x->in, out, from, x->t, x->out, in, to, x->t, x->r->comm, x->r->stream));
    same(x, x->out, at, "AlltoAllV");
    load(x, of);
    OK(HcclAlltoAllVC(x->in, matrix, x->t, x->out, x->t, x->r->comm, x->r->stream));
    same(x, x->out, at, "AlltoAllVC");
}

static void moves(struct run *x)
{
    broadcast(x);
    scatter(x);
    all_gather(x);
    all_gather_v(x);
    all_to_all(x);
    all_to_all_v(x);
    OK(HcclBarrier(x->r->comm, x->r->stream));
    OK(aclrtSynchronizeStream(x->r->stream));
}

static void with_count(struct rank *r, HcclDataType t, size_t count, bool reduces)
{
    struct run x = {.r = r, .t = t, .count = count, .es = size_of(t)};
    size_t bytes = r->size * count * x.es;
    x.host = malloc(bytes);
    x.want = malloc(bytes);
    x.in = device(bytes);
    x.out = device(bytes);
    if (!reduces) moves(&x);
    for (int op = HCCL_REDUCE_SUM; reduces && op <= HCCL_REDUCE_MIN; op++) {
        x.op = (HcclReduceOp)op;
        if (op == HCCL_REDUCE_PROD && (t == HCCL_DATA_TYPE_INT16 || t == HCCL_DATA_TYPE_BFP16))
            WANT(HcclAllReduce(x.in, x.out, count, t, x.op, r->comm, r->stream), HCCL_E_NOT_SUPPORT);
        else reductions(&x);
    }
    OK(aclrtFree(x.in));
    OK(aclrtFree(x.out));
    free(x.host);
    free(x.want);
}

int main(int argc, char **argv)
{
    static const HcclDataType copied[] = {HCCL_DATA_TYPE_INT8,   HCCL_DATA_TYPE_UINT8,  HCCL_DATA_TYPE_INT16,
                                          HCCL_DATA_TYPE_UINT16, HCCL_DATA_TYPE_INT32,  HCCL_DATA_TYPE_UINT32,
                                          HCCL_DATA_TYPE_INT64,  HCCL_DATA_TYPE_UINT64, HCCL_DATA_TYPE_FP16,
                                          HCCL_DATA_TYPE_BFP16,  HCCL_DATA_TYPE_FP32,   HCCL_DATA_TYPE_FP64};
    static const HcclDataType reducible[] = {HCCL_DATA_TYPE_INT8,  HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_INT32,
                                             HCCL_DATA_TYPE_INT64, HCCL_DATA_TYPE_FP16,  HCCL_DATA_TYPE_BFP16,
                                             HCCL_DATA_TYPE_FP32};
    struct rank r = join(argc, argv);
    // The first call of each kind fixes count and type for its check; all ranks go the same way.
    for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
        with_count(&r, copied[i], i == 0 ? 1 : 1000 + i, false);
    for (size_t i = 0; i < sizeof(reducible) / sizeof(reducible[0]); i++)
        with_count(&r, reducible[i], i == 0 ? 1 : 1000 + i, true);
    with_count(&r, HCCL_DATA_TYPE_FP32, 300001, false);
    with_count(&r, HCCL_DATA_TYPE_FP32, 300001, true);
    WANT(HcclAllReduce(device(64), device(64), 1, HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM, r.comm, r.stream),
         HCCL_E_NOT_SUPPORT);
    part(&r);
    return 0;
}
