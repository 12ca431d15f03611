// What moves over a link while an operator runs, seen from the stream's thread. A peer that died is a peer that is
// silent: only the exec time-out, an abort or the end of the communicator ends the wait.
#include "sim.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)4 << 20)

static int64_t rdma_retry_ns(void)
{
    const struct hccl_env *e = hccl_env();
    return sim_seconds(4.096e-6 * (double)((int64_t)1 << e->rdma_timeout) * e->rdma_retry);
}

static aclError expired(struct comm *c, struct link *l)
{
    return acl_fail(sim_env()->chip->task_timeout,
                    "EI0002: notify wait timed out after %d s: communicator %s, rank %u waits for rank %u",
                    c->opt.exec_timeout, c->opt.name, c->rank, l->peer);
}

// What HCCL notices of a dead peer besides the time-out.
static void tell_lost(struct comm *c, struct link *l, int64_t lost)
{
    if (sim_env()->rdma && now_ns() - lost >= rdma_retry_ns() &&
        atomic_exchange(&c->async_error, HCCL_E_REMOTE) != HCCL_E_REMOTE)
        sim_log(LOG_ERROR, "EI0013: communicator %s: error CQE, retries to rank %u exhausted", c->opt.name, l->peer);
    if (!l->said_lost && now_ns() - lost >= sim_seconds(30)) {
        l->said_lost = true;
        sim_log(LOG_ERROR, "communicator %s: heartbeat of rank %u LOST", c->opt.name, l->peer);
    }
}

// Waits until the link is readable (when listen), or says why not.
static aclError await(struct comm *c, struct stream *s, struct link *l, bool listen, int64_t deadline)
{
    for (;;) {
        int64_t lost = atomic_load(&l->lost), now = now_ns();
        int64_t until = deadline > 0 ? deadline : now + 3600 * (int64_t)1000000000;
        if (lost > 0 && sim_env()->fast_death)
            return acl_fail(sim_env()->chip->task_timeout,
                            "EI0002: rank %u of communicator %s closed (HCCL_SIM_DEATH=fast)", l->peer, c->opt.name);
        if (lost > 0) {
            tell_lost(c, l, lost);
            if (until > now + sim_seconds(0.5)) until = now + sim_seconds(0.5);
        }
        int64_t left = until > now ? until - now : 0;
        struct timespec t = {left / 1000000000, left % 1000000000};
        struct pollfd f[3] = {
            {.fd = s->wake, .events = POLLIN},
            {.fd = c->dead, .events = POLLIN},
            {.fd = listen && lost == 0 ? l->fd : -1, .events = POLLIN},
        };
        ppoll(f, 3, &t, NULL);
        if (f[0].revents != 0) return TASK_STOPPED;
        if (f[1].revents != 0)
            return acl_fail(sim_env()->chip->dma_fault,
                            "EI0012: SDMA fault: communicator %s was destroyed before its stream finished",
                            c->opt.name);
        if (f[2].revents != 0) return ACL_SUCCESS;
        if (deadline > 0 && now_ns() >= deadline) return expired(c, l);
    }
}

static void lose(struct link *l)
{
    int64_t never = 0;
    atomic_compare_exchange_strong(&l->lost, &never, now_ns());
}

aclError link_hang(struct comm *c, struct stream *s, struct link *l, int64_t deadline)
{
    l->broken = true;
    aclError rc;
    do rc = await(c, s, l, false, deadline);
    while (rc == ACL_SUCCESS);
    return rc;
}

aclError link_send(struct comm *c, struct stream *s, struct link *l, const struct note *n, int64_t deadline)
{
    (void)c;
    (void)s;
    (void)deadline;
    if (send(l->fd, n, sizeof(*n), MSG_NOSIGNAL) != (ssize_t)sizeof(*n)) lose(l); // the wait for the answer will tell
    return ACL_SUCCESS;
}

aclError link_recv(struct comm *c, struct stream *s, struct link *l, struct note *n, int64_t deadline)
{
    for (;;) {
        aclError rc = await(c, s, l, true, deadline);
        if (rc != ACL_SUCCESS) return rc;
        ssize_t k = recv(l->fd, n, sizeof(*n), 0);
        if (k == (ssize_t)sizeof(*n)) return ACL_SUCCESS;
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR)) lose(l);
    }
}

// Makes a transfer last as long as the simulated wire would, unless something ends it.
static aclError linger(struct comm *c, struct stream *s, struct link *l, int64_t began, size_t n)
{
    const struct sim_env *e = sim_env();
    if (e->latency_ns == 0 && e->bytes_per_ns == 0) return ACL_SUCCESS;
    int64_t until = began + e->latency_ns + (e->bytes_per_ns > 0 ? (int64_t)((double)n / e->bytes_per_ns) : 0);
    struct pollfd f[2] = {{.fd = s->wake, .events = POLLIN}, {.fd = c->dead, .events = POLLIN}};
    for (int64_t now = now_ns(); now < until; now = now_ns()) {
        struct timespec t = {(until - now) / 1000000000, (until - now) % 1000000000};
        if (ppoll(f, 2, &t, NULL) > 0) return await(c, s, l, false, 0);
    }
    return ACL_SUCCESS;
}

aclError link_fetch(struct comm *c, struct stream *s, struct link *l, uint64_t offset, void *into, size_t n)
{
    int64_t began = now_ns();
    for (size_t done = 0; done < n;) {
        if (atomic_load(&s->stopping)) return TASK_STOPPED;
        size_t want = n - done < PIECE ? n - done : PIECE;
        ssize_t k = pread(l->peer_mem, (char *)into + done, want, (off_t)(offset + done));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return acl_fail(sim_env()->chip->dma_fault, "EI0012: SDMA fault: %zu bytes at offset %llu of rank %u", n,
                            (unsigned long long)offset, l->peer);
        done += (size_t)k;
    }
    return linger(c, s, l, began, n);
}
