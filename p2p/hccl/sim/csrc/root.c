// How ranks meet: the root listens on a TCP port, every rank comes to it, and when all have come each is told who
// the others are. There is no call to cancel a root: its port lives until all came or HCCL_CONNECT_TIMEOUT.
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ROOT_MAGIC 0x68736d31U
#define FIRST_PORT 60000
#define PORTS 32

struct root_wire { // inside HcclRootInfo
    uint32_t magic, port;
    uint64_t nonce;
    char ip[64], identifier[128];
};

struct hello {
    uint32_t magic, n, rank, pad;
    uint64_t nonce;
    struct member me;
};

struct verdict {
    uint32_t code; // HcclResult
    uint32_t n;
    char message[256];
};

struct server {
    int fd;
    uint64_t nonce;
    uint32_t n, came;
    int conns[MAX_RANKS];
    struct member members[MAX_RANKS];
    int64_t deadline;
};

int abstract_socket(const char *name, bool listener)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    if (n > sizeof(a.sun_path) - 1) n = sizeof(a.sun_path) - 1;
    memcpy(a.sun_path + 1, name, n);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    int rc = listener ? bind(fd, (struct sockaddr *)&a, len) : connect(fd, (struct sockaddr *)&a, len);
    if (rc == 0 && listener) rc = listen(fd, 256);
    if (rc == 0) return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

// Moves exactly n bytes over a non-blocking socket.
static bool move(int fd, void *buf, size_t n, bool out, int64_t deadline)
{
    char *p = buf;
    while (n > 0) {
        ssize_t k = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
        if (k > 0) {
            p += k;
            n -= (size_t)k;
            continue;
        }
        int64_t left = deadline - now_ns();
        if (left <= 0 || k == 0 || (errno != EAGAIN && errno != EINTR)) return false;
        struct pollfd f = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        poll(&f, 1, (int)(left / 1000000) + 1);
    }
    return true;
}

// The root's own process is told last: told first, it might end, and this thread with it, before the others hear.
static void answer_all(struct server *s, HcclResult code, const char *message)
{
    struct verdict v = {.code = (uint32_t)code, .n = s->n};
    snprintf(v.message, sizeof(v.message), "%s", message);
    int64_t soon = now_ns() + 5000000000;
    for (int own = 0; own < 2; own++) {
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->conns[i] < 0 || (s->members[i].pid == (int32_t)getpid()) != (own == 1)) continue;
            if (move(s->conns[i], &v, sizeof(v), true, soon) && code == HCCL_SUCCESS)
                move(s->conns[i], s->members, s->n * sizeof(struct member), true, soon);
        }
    }
}

// Reads the hello of one connection and takes its place in the table.
static void admit(struct server *s, int fd)
{
    struct hello h;
    int64_t soon = now_ns() + 2000000000;
    if (soon > s->deadline) soon = s->deadline;
    if (!move(fd, &h, sizeof(h), false, soon) || h.magic != ROOT_MAGIC || h.nonce != s->nonce || h.n == 0 ||
        h.n > MAX_RANKS || h.rank >= h.n || (s->n != 0 && h.n != s->n) || s->conns[h.rank] >= 0) {
        close(fd);
        return;
    }
    s->n = h.n;
    s->conns[h.rank] = fd;
    s->members[h.rank] = h.me;
    s->came++;
}

static void name_missing(struct server *s, char *into, size_t n)
{
    size_t at = (size_t)snprintf(
        into, n, "EI0015: rank table exchange: %u of %u ranks came in time, missing ranks:", s->came, s->n);
    for (uint32_t i = 0; i < s->n && at < n; i++)
        if (s->conns[i] < 0) at += (size_t)snprintf(into + at, n - at, " %u", i);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    while (s->n == 0 || s->came < s->n) {
        int64_t left = s->deadline - now_ns();
        if (left <= 0) break;
        struct pollfd f = {.fd = s->fd, .events = POLLIN};
        poll(&f, 1, (int)(left / 1000000) + 1);
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) admit(s, fd);
    }
    close(s->fd); // the port is free again
    char message[256] = "";
    bool all = s->n != 0 && s->came == s->n;
    if (!all) name_missing(s, message, sizeof(message));
    answer_all(s, all ? HCCL_SUCCESS : HCCL_E_INTERNAL, message);
    for (uint32_t i = 0; i < MAX_RANKS; i++)
        if (s->conns[i] >= 0) close(s->conns[i]);
    free(s);
    return NULL;
}

static int listen_on(const char *ip, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0) return -1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &a.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, MAX_RANKS) == 0) return fd;
    close(fd);
    return -1;
}

// Takes the first free port of "60000-60050,60100" or "auto".
static int listen_in(const char *ip, const char *range, int *port)
{
    if (strcmp(range, "auto") == 0) {
        int fd = listen_on(ip, 0);
        struct sockaddr_in a;
        socklen_t n = sizeof(a);
        if (fd >= 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0) *port = ntohs(a.sin_port);
        return fd;
    }
    for (const char *p = range; *p != 0;) {
        char *end;
        long low = strtol(p, &end, 10), high = low;
        if (end == p) break;
        if (*end == '-') high = strtol(end + 1, &end, 10);
        for (*port = (int)low; *port <= high && *port <= 65535; (*port)++) {
            int fd = listen_on(ip, *port);
            if (fd >= 0) return fd;
        }
        p = *end == ',' ? end + 1 : end;
        if (*end != ',') break;
    }
    return -1;
}

static int root_listen(struct device *d, const char *ip, int *port)
{
    const struct hccl_env *e = hccl_env();
    if (e->port_range[0] != 0) return listen_in(ip, e->port_range, port);
    if (e->base_port_set) {
        *port = e->base_port + d->phys;
        return listen_on(ip, *port);
    }
    for (*port = FIRST_PORT; *port < FIRST_PORT + PORTS; (*port)++) {
        int fd = listen_on(ip, *port);
        if (fd >= 0) return fd;
    }
    return -1;
}

static HcclResult root_start(int fd, uint64_t nonce)
{
    struct server *s = calloc(1, sizeof(*s));
    pthread_t thread;
    if (s == NULL) return hccl_fail(HCCL_E_MEMORY, "HcclGetRootInfo: out of host memory");
    s->fd = fd;
    s->nonce = nonce;
    s->deadline = now_ns() + sim_seconds(hccl_env()->connect_timeout);
    for (int i = 0; i < MAX_RANKS; i++) s->conns[i] = -1;
    if (pthread_create(&thread, NULL, serve, s) != 0) {
        free(s);
        return hccl_fail(HCCL_E_SYSCALL, "HcclGetRootInfo: cannot start a thread");
    }
    pthread_detach(thread);
    return HCCL_SUCCESS;
}

HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo)
{
    HCCL_ENTER();
    struct context *c;
    if (rootInfo == NULL) return hccl_fail(HCCL_E_PTR, "EI0003: HcclGetRootInfo: NULL argument");
    if (context_need(&c) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    const struct hccl_env *e = hccl_env();
    if (e->bad[0] != 0) return hccl_fail(HCCL_E_PARA, "EI0001: %s", e->bad);
    struct device *d = device_at(c->device);
    const char *ip = e->ip[0] != 0 ? e->ip : "127.0.0.1";
    int port = 0, fd = root_listen(d, ip, &port);
    if (fd < 0)
        return hccl_fail(e->base_port_set ? HCCL_E_TCP_CONNECT : HCCL_E_UNAVAIL,
                         "EI0019: no host port for the root on %s (base %d): all taken", ip,
                         e->base_port_set ? e->base_port + d->phys : FIRST_PORT);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    static _Atomic uint64_t counter;
    uint64_t nonce = ((uint64_t)getpid() << 40) ^ ((uint64_t)t.tv_sec << 20) ^ (uint64_t)t.tv_nsec ^
                     (atomic_fetch_add(&counter, 1) << 52);
    struct root_wire w = {.magic = ROOT_MAGIC, .port = (uint32_t)port, .nonce = nonce};
    snprintf(w.ip, sizeof(w.ip), "%s", ip);
    snprintf(w.identifier, sizeof(w.identifier), "%s%%%s_%d_%d_%lld", ip, e->ip[0] != 0 ? "eth0" : "lo", port, d->phys,
             (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
    memset(rootInfo, 0, sizeof(*rootInfo));
    memcpy(rootInfo, &w, sizeof(w));
    HcclResult rc = root_start(fd, nonce);
    if (rc != HCCL_SUCCESS) close(fd);
    return rc;
}

HcclResult root_parse(const HcclRootInfo *info, struct root_handle *h)
{
    struct root_wire w;
    memcpy(&w, info, sizeof(w));
    w.ip[sizeof(w.ip) - 1] = 0;
    w.identifier[sizeof(w.identifier) - 1] = 0;
    if (w.magic != ROOT_MAGIC || w.port > 65535)
        return hccl_fail(HCCL_E_PARA, "EI0003: the root info is not of HcclGetRootInfo");
    *h = (struct root_handle){.port = w.port, .nonce = w.nonce};
    memcpy(h->ip, w.ip, sizeof(h->ip));
    memcpy(h->identifier, w.identifier, sizeof(h->identifier));
    return HCCL_SUCCESS;
}

// A socket may meet itself: the ports of roots lie in the range that clients are given, and a connect to a port nobody
// listens on succeeds when it is made from that very port.
static bool met_itself(int fd)
{
    struct sockaddr_in mine, theirs;
    socklen_t n = sizeof(mine), m = sizeof(theirs);
    if (getsockname(fd, (struct sockaddr *)&mine, &n) != 0 || getpeername(fd, (struct sockaddr *)&theirs, &m) != 0)
        return true;
    return mine.sin_port == theirs.sin_port && mine.sin_addr.s_addr == theirs.sin_addr.s_addr;
}

static int root_connect(const struct root_handle *r, int64_t deadline)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)r->port)};
    inet_pton(AF_INET, r->ip, &a.sin_addr);
    while (now_ns() < deadline) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) return -1;
        struct timeval two = {2, 0};
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &two, sizeof(two));
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && !met_itself(fd)) {
            int on = 1;
            if (ioctl(fd, FIONBIO, &on) == 0) return fd;
        }
        close(fd);
        pause_ns(sim_seconds(0.02) < 20000000 ? 5000000 : 20000000);
    }
    return -1;
}

HcclResult root_meet(const struct root_handle *root, uint32_t n, uint32_t rank, struct member *members)
{
    int64_t deadline = now_ns() + sim_seconds(hccl_env()->connect_timeout + 20);
    struct hello h = {.magic = ROOT_MAGIC, .n = n, .rank = rank, .nonce = root->nonce, .me = members[rank]};
    struct verdict v;
    fault_die(PHASE_MEET, rank);
    int fd = root_connect(root, deadline);
    bool ok = fd >= 0 && move(fd, &h, sizeof(h), true, deadline);
    fault_die(PHASE_CREATE, rank);
    ok = ok && move(fd, &v, sizeof(v), false, deadline);
    bool all = ok && v.code == HCCL_SUCCESS && move(fd, members, n * sizeof(*members), false, deadline);
    if (fd >= 0) close(fd);
    if (!ok) pause_ns(deadline - now_ns()); // a root that is gone is a root that is silent
    if (!ok)
        return hccl_fail(HCCL_E_TIMEOUT, "EI0015: rank %u got no answer from the root %s:%u within %d + 20 s", rank,
                         root->ip, root->port, hccl_env()->connect_timeout);
    if (v.code != HCCL_SUCCESS) {
        v.message[sizeof(v.message) - 1] = 0;
        return hccl_fail((HcclResult)v.code, "%s", v.message);
    }
    return all ? HCCL_SUCCESS
               : hccl_fail(HCCL_E_INTERNAL, "EI0015: the root %s:%u stopped answering", root->ip, root->port);
}
