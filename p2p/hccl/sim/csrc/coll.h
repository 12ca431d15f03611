// A collective as flows: what this rank gives each other rank and what it takes from each. The public calls (collapi.c)
// describe themselves so; one engine (coll.c) runs them all.
#ifndef COLL_H
#define COLL_H

#include "sim.h"

struct flow {
    char *out; // to that rank
    uint64_t out_bytes;
    char *in; // from that rank
    uint64_t in_bytes;
};

struct coll {
    struct op_task o;
    struct comm *c;
    uint32_t command;
    HcclDataType type;
    HcclReduceOp op;
    bool reduces; // what comes in is reduced into one result, at the rank's own in
    bool same;    // every rank is given the same bytes: they are staged once
    struct link *links[MAX_RANKS];
    struct flow flows[MAX_RANKS]; // by rank, with this rank's own
};

struct coll_call { // the arguments of any collective
    uint32_t command;
    void *send, *recv;
    uint64_t count;
    HcclDataType type;
    HcclReduceOp op;
    uint32_t root;
    // Elements per rank, of the V forms.
    uint64_t out_counts[MAX_RANKS], out_displs[MAX_RANKS], in_counts[MAX_RANKS], in_displs[MAX_RANKS];
};

bool coll_reduces(uint32_t command);
void coll_flows(struct coll *x, const struct coll_call *a);
HcclResult coll_issue(struct op_call *call, const struct coll_call *a);
HcclResult group_add_coll(const char *function, const struct coll_call *a, HcclComm comm, aclrtStream stream);
HcclResult coll_run_call(const char *function, const struct coll_call *a, HcclComm comm, aclrtStream stream);

#endif
