// Link building: the part of a first operator that blocks the host. The source of a tag knocks at the destination's
// socket, says the parameters of its operator and hands over its device memory; the other answers once it is inside
// the matching call. Both compare. Links live until the communicator is destroyed.
#include "sim.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct greeting {
    uint32_t kind, src, dst, pad;
    struct params p;
};

static bool send_greeting(int fd, const struct greeting *g, int mem)
{
    struct iovec v = {(void *)g, sizeof(*g)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof(control));
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &mem, sizeof(int));
    return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(*g);
}

// Says 1 for a greeting, 0 for nothing yet, -1 for a peer that is gone.
static int recv_greeting(int fd, struct greeting *g, int *mem)
{
    struct iovec v = {g, sizeof(*g)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (h == NULL || h->cmsg_type != SCM_RIGHTS) return -1;
    memcpy(mem, CMSG_DATA(h), sizeof(int));
    if (n == (ssize_t)sizeof(*g)) return 1;
    close(*mem);
    return -1;
}

static void link_free(struct link *l)
{
    if (l->fd >= 0) close(l->fd);
    if (l->peer_mem >= 0) close(l->peer_mem);
    if (l->qp != NULL && arena_free(l->qp) != ACL_SUCCESS)
        sim_log(LOG_WARN, "the device was reset before a link of it");
    free(l);
}

void links_close(struct comm *c)
{
    struct link *lists[] = {c->links, c->strangers};
    c->links = c->strangers = NULL;
    for (int i = 0; i < 2; i++)
        for (struct link *l = lists[i], *next; l != NULL; l = next) {
            next = l->next;
            link_free(l);
        }
}

struct link *link_find(struct comm *c, uint32_t kind, uint32_t src, uint32_t dst)
{
    struct link *l = c->links;
    while (l != NULL && (l->kind != kind || l->src != src || l->dst != dst)) l = l->next;
    return l;
}

static struct link *link_new(int fd)
{
    struct link *l = calloc(1, sizeof(*l));
    if (l == NULL) return NULL;
    l->fd = fd;
    l->peer_mem = -1;
    return l;
}

struct build {
    struct comm *c;
    uint32_t kind;
    const struct params *p;
    struct want *wants;
    int n;
};

static void knock(struct build *b, struct want *w)
{
    char door[64];
    comm_door(b->c->id, w->dst, door, sizeof(door));
    int fd = abstract_socket(door, false);
    if (fd < 0) return; // not there yet, or no more
    struct greeting g = {.kind = b->kind, .src = w->src, .dst = w->dst, .p = *b->p};
    struct link *l = link_new(fd);
    if (l == NULL || !send_greeting(fd, &g, arena_fd(b->c->dev))) {
        close(fd);
        free(l);
        return;
    }
    w->link = l;
}

static void let_in(struct build *b)
{
    int fd;
    while ((fd = accept4(b->c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct link *l = link_new(fd);
        if (l == NULL) {
            close(fd);
            return;
        }
        l->next = b->c->strangers;
        b->c->strangers = l;
    }
}

// Reads what those at the door say. One that left is forgotten: it gave up, or died.
static void hear(struct build *b)
{
    for (struct link **at = &b->c->strangers; *at != NULL;) {
        struct link *l = *at;
        struct greeting g;
        int got = l->peer_mem < 0 ? recv_greeting(l->fd, &g, &l->peer_mem) : 0;
        if (got < 0) {
            *at = l->next;
            link_free(l);
            continue;
        }
        if (got > 0) {
            l->kind = g.kind;
            l->src = g.src;
            l->dst = g.dst;
            l->theirs = g.p;
        }
        at = &l->next;
    }
}

static void answer(struct build *b, struct want *w)
{
    for (struct link **at = &b->c->strangers; *at != NULL; at = &(*at)->next) {
        struct link *l = *at;
        if (l->peer_mem < 0 || l->kind != b->kind || l->src != w->src || l->dst != w->dst) continue;
        *at = l->next;
        struct greeting g = {.kind = b->kind, .src = w->src, .dst = w->dst, .p = *b->p};
        char left;
        ssize_t n = recv(l->fd, &left, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n == 0 || !send_greeting(l->fd, &g, arena_fd(b->c->dev))) {
            link_free(l);
            return;
        }
        l->ready = true;
        w->link = l;
        return;
    }
}

static void hear_answer(struct want *w)
{
    struct greeting g;
    int got = recv_greeting(w->link->fd, &g, &w->link->peer_mem);
    if (got == 0) return;
    if (got < 0) {
        link_free(w->link);
        w->link = NULL;
        return;
    }
    w->link->theirs = g.p;
    w->link->ready = true;
}

// Moves every wanted link on; says how many are not ready.
static int advance(struct build *b)
{
    int missing = 0;
    let_in(b);
    hear(b);
    for (int i = 0; i < b->n; i++) {
        struct want *w = &b->wants[i];
        if (w->link != NULL && w->link->ready) continue;
        if (w->src == b->c->rank) {
            if (w->link == NULL) knock(b, w);
            if (w->link != NULL) hear_answer(w);
        } else {
            answer(b, w);
        }
        missing += w->link == NULL || !w->link->ready;
    }
    return missing;
}

// Waits for news: of the listener, of those at the door, of those asked, or of the communicator's end.
static bool await_news(struct build *b, int64_t left)
{
    struct pollfd f[2 + 4 * MAX_RANKS];
    nfds_t n = 0;
    bool retry = false;
    f[n++] = (struct pollfd){.fd = b->c->dead, .events = POLLIN};
    f[n++] = (struct pollfd){.fd = b->c->listener, .events = POLLIN};
    for (int i = 0; i < b->n; i++) {
        struct want *w = &b->wants[i];
        if (w->link == NULL) retry = retry || w->src == b->c->rank;
        else if (!w->link->ready && n < 2 + 4 * MAX_RANKS)
            f[n++] = (struct pollfd){.fd = w->link->fd, .events = POLLIN};
    }
    for (struct link *l = b->c->strangers; l != NULL && n < 2 + 4 * MAX_RANKS; l = l->next)
        if (l->peer_mem < 0) f[n++] = (struct pollfd){.fd = l->fd, .events = POLLIN};
    int64_t ms = left / 1000000 + 1;
    if (retry && ms > 5) ms = 5;
    poll(f, n, ms > 1000 ? 1000 : (int)ms);
    return (f[0].revents & POLLIN) == 0;
}

static HcclResult compare(const struct build *b, const struct want *w)
{
    const struct params *a = b->p, *o = &w->link->theirs;
    const char *what = NULL;
    unsigned long long mine = 0, theirs = 0;
#define DIFFERS(field)                          \
    if (what == NULL && a->field != o->field) { \
        what = #field;                          \
        mine = (unsigned long long)a->field;    \
        theirs = (unsigned long long)o->field;  \
    }
    if (a->cann != o->cann)
        return hccl_fail(HCCL_E_INTERNAL, "EI0008: CANN %d here, %d on rank %u", a->cann, o->cann, w->peer);
    DIFFERS(command)
    DIFFERS(dtype)
    DIFFERS(op)
    DIFFERS(root)
    DIFFERS(buffer)
    DIFFERS(deterministic)
    if (!a->unchecked) DIFFERS(count)
#undef DIFFERS
    if (what == NULL) return HCCL_SUCCESS;
    return hccl_fail(HCCL_E_INTERNAL, "EI0005: %s: %s is %llu here and %llu on rank %u", command_name(b->kind), what,
                     mine, theirs, w->peer);
}

// With RDMA every link takes a queue pair of the device's memory.
static HcclResult pay(struct build *b)
{
    for (int i = 0; i < b->n && sim_env()->rdma; i++)
        if (arena_alloc(b->c->dev, (size_t)3 << 20, 0, &b->wants[i].link->qp) != ACL_SUCCESS)
            return hccl_fail(sim_env()->cann == 81 ? HCCL_E_MEMORY : HCCL_E_OOM,
                             "EI0011: communicator %s: no device memory for a queue pair to rank %u", b->c->opt.name,
                             b->wants[i].peer);
    return HCCL_SUCCESS;
}

static void drop_all(struct build *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->wants[i].link != NULL) link_free(b->wants[i].link);
}

static HcclResult build(struct build *b)
{
    const struct hccl_env *e = hccl_env();
    int extra = e->detection_time > 0 ? e->detection_time + 10 : 0;
    int64_t deadline = now_ns() + sim_seconds(e->connect_timeout + extra);
    bool alive = comm_building(b->c, true);
    while (alive && advance(b) > 0 && now_ns() < deadline) alive = await_news(b, deadline - now_ns());
    alive = comm_building(b->c, false) && alive;
    if (!alive)
        return hccl_fail(HCCL_E_INTERNAL, "communicator %s: Terminating operation due to external request",
                         b->c->opt.name);
    for (int i = 0; i < b->n; i++)
        if (b->wants[i].link == NULL || !b->wants[i].link->ready)
            return hccl_fail(HCCL_E_TIMEOUT,
                             "EI0006: Getting socket times out: %s: rank %u did not come to rank %u within %d s",
                             command_name(b->kind), b->wants[i].peer, b->c->rank, e->connect_timeout);
    for (int i = 0; i < b->n; i++) {
        HcclResult rc = compare(b, &b->wants[i]);
        if (rc != HCCL_SUCCESS) return rc;
    }
    return HCCL_SUCCESS;
}

HcclResult links_build(struct comm *c, uint32_t kind, const struct params *p, struct want *wants, int n)
{
    struct build b = {c, kind, p, wants, n};
    fault_die(PHASE_FIRST, c->rank);
    HcclResult rc = build(&b);
    if (rc == HCCL_SUCCESS) rc = pay(&b);
    if (rc != HCCL_SUCCESS) {
        drop_all(&b);
        return rc;
    }
    for (int i = 0; i < n; i++) {
        struct link *l = wants[i].link;
        l->kind = kind;
        l->src = wants[i].src;
        l->dst = wants[i].dst;
        l->peer = wants[i].peer;
        l->next = c->links;
        c->links = l;
    }
    return HCCL_SUCCESS;
}
