// Internal header of the simulator. The order of locks is: sim_lock, comm->mu, stream->mu, event lock.
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "hccl/hccl.h"
// The version of the simulator; only it exports this name, so that a program can say where it runs.
const char *hccl_sim_version(void);
#pragma GCC visibility pop

#define SIM_VERSION "1"
#define MAX_DEVICES 16
#define MAX_RANKS 64

// ---- env.c: the environment, the chips, the faults --------------------------------------------

enum phase { PHASE_NEVER, PHASE_MEET, PHASE_CREATE, PHASE_FIRST, PHASE_LATER };

struct chip {
    const char *name; // as in HCCL_SIM_CHIP
    const char *soc;  // as aclrtGetSocName
    uint32_t devices;
    uint32_t p2p_types; // bit per HcclDataType
    uint32_t reduce_types;
    uint32_t noprod_types;
    bool has_p2p, has_abort, has_group, has_window, steps_of_68;
    uint32_t max_streams, max_events;
    aclError task_timeout; // EI0002
    aclError dma_fault;    // EI0012
};

struct sim_env {
    const struct chip *chip;
    uint32_t devices;
    int visible[MAX_DEVICES]; // logical id -> physical id
    size_t hbm;
    char host[64];
    bool host_named;   // HCCL_SIM_HOST given: NPUs are owned by one process
    int cann;          // 81, 85, 90
    int64_t second_ns; // how long a second of HCCL's own time-outs lasts
    int64_t latency_ns, create_ns, issue_ns;
    double bytes_per_ns; // 0: unlimited
    bool rdma, noop, strict, stricter, fast_death, log_events;
    int log_level;
    enum phase die;
    int die_rank; // -1: any
    uint64_t die_op;
    uint64_t task_fail_op;
    aclError task_fail_code;
};

struct hccl_env {
    int connect_timeout, exec_timeout, buffsize, base_port, rdma_timeout, rdma_retry, detection_time;
    bool base_port_set, entry_log;
    int deterministic;
    char ip[64];
    char port_range[128];
    char bad[160]; // EI0001: what was wrong, or ""
};

const struct sim_env *sim_env(void);
const struct hccl_env *hccl_env(void);
int cann_capability(void);
size_t cann_config_size(void);
uint32_t cann_config_version(void);
int env_exec_timeout(int seconds); // rounds by the chip's rule
int64_t sim_seconds(double s);     // in ns of this run
int64_t now_ns(void);
void pause_ns(int64_t ns);

bool fault_hit(const char *function, int *code);
void fault_die(enum phase phase, uint32_t rank);
bool fault_task(aclError *code); // counts the tasks of operators that ran

// ---- log.c: messages and errors ---------------------------------------------------------------

enum { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_EVENT };
void sim_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
aclError acl_fail(aclError code, const char *format, ...) __attribute__((format(printf, 2, 3)));
HcclResult hccl_fail(HcclResult code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void errmsg_take(char *into, size_t n); // moves this thread's message
void errmsg_put(const char *message);

#define ERRMSG_BYTES 1024

#define ACL_ENTER()                                                                           \
    do {                                                                                      \
        int code_;                                                                            \
        if (fault_hit(__func__, &code_)) return acl_fail(code_, "fault: %s fails", __func__); \
    } while (0)
#define HCCL_ENTER()                                                                                       \
    do {                                                                                                   \
        int code_;                                                                                         \
        if (fault_hit(__func__, &code_)) return hccl_fail((HcclResult)code_, "fault: %s fails", __func__); \
    } while (0)

// ---- device.c: devices and contexts -----------------------------------------------------------

struct context {
    int device;
    bool alive, primary, stop_on_failure;
    aclrtStream deflt; // made at first use
    struct context *next;
};

struct arena;

struct device {
    int id, phys, refs;
    struct context primary;
    struct arena *mem;       // made at first use
    int streams, events;     // counted against the chip's limits
    int npu_lock;            // socket that marks the NPU as this process's
    atomic_int creating;     // threads inside the creation of a communicator
    atomic_int issuing;      // threads inside an operator call
    _Atomic uint64_t issuer; // first thread that issued, for strict mode
};

extern pthread_mutex_t sim_lock; // registries: devices, contexts, streams, comms, clocks
struct device *device_at(int id);
struct context *context_current(void);
void context_use(struct context *c);
aclError context_need(struct context **c); // 107002 when the thread has none
uint64_t thread_id(void);
aclError npu_own(struct device *d); // refuses an NPU that another process holds

// ---- memory.c ---------------------------------------------------------------------------------

aclError arena_alloc(struct device *d, size_t size, size_t extra, void **ptr);
aclError arena_free(void *ptr);
void arena_reset(struct device *d);
int arena_fd(struct device *d);
size_t arena_used(struct device *d);
int mem_device(const void *ptr);                      // device of a pointer, -1: host
void *mem_shadow(const void *ptr);                    // where the simulator itself reads and writes it
size_t mem_offset(const void *ptr);                   // in the file of the device's memory
bool mem_live(int device, const void *ptr, size_t n); // wholly inside one living allocation

const void *vmm_resolve(const void *ptr); // vmm.c: where a mapped address lies in an arena, or ptr itself

// ---- stream.c, event.c ------------------------------------------------------------------------

struct stream;

// A task of a stream. run says an aclError, or TASK_STOPPED when the stream was aborted meanwhile.
struct task {
    struct task *next;
    uint64_t seq;
    aclError (*run)(struct task *t, struct stream *s);
    void (*release)(struct task *t);
};
#define TASK_STOPPED (-1)

// What is known to have been done before something: the last task of each stream.
struct clock {
    struct tick {
        int stream;
        uint64_t seq;
    } * ticks;
    int n, room;
};
void clock_raise(struct clock *c, int stream, uint64_t seq);
void clock_join(struct clock *c, const struct clock *other);
uint64_t clock_at(const struct clock *c, int stream);
void clock_free(struct clock *c);

struct stream {
    uint32_t magic;
    int id;
    struct context *ctx;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    struct task *head, *tail, *running;
    uint64_t issued, completed;
    uint64_t synced;     // last task the host has seen the end of
    struct clock before; // what this stream's next task comes after
    aclError error;      // of the first failed task, until a thread hears it
    char message[ERRMSG_BYTES];
    bool stop_on_failure, failed, quit;
    uint64_t aborts;
    aclError abort_code;
    atomic_bool stopping;
    int wake; // eventfd, readable while the running task must stop
    struct stream *next;
};

aclError stream_need(aclrtStream handle, struct stream **s); // of the current context; NULL is its default stream
uint64_t stream_push(struct stream *s, struct task *t);      // gives the number of the task
aclError stream_wait(struct stream *s, uint64_t seq, int64_t timeout_ns);
void stream_saw(int id, uint64_t seq); // the host knows that this task ended; under sim_lock
struct stream *stream_by_id(int id);   // under sim_lock
struct stream *stream_after(int id, int device);
void streams_drop(struct context *c); // aborts and frees all streams of a context
void streams_abort(int device, aclError code);
void streams_stop_on_failure(struct context *c);
void event_wake_all(void);

// ---- comm.c -----------------------------------------------------------------------------------

struct member {
    char host[64];
    int32_t phys;
    int32_t pid;
};

struct comm_options {
    char name[HCCL_COMM_NAME_MAX_LENGTH];
    char buffer_name[HCCL_COMM_BUFFER_NAME_MAX_LENGTH];
    uint64_t buffer; // bytes
    int deterministic;
    int exec_timeout; // s, 0: never
};

struct link;
struct shared;

struct comm {
    struct comm *next;
    char id[192]; // the same on all ranks and unique
    struct comm_options opt;
    uint32_t rank, size;
    struct member *members;
    struct context *ctx;
    struct device *dev;
    bool sub;         // made out of another one
    bool user_memory; // HcclCommRegister was called: no CCL buffer any more
    int listener;     // abstract socket that link building knocks on
    int dead;         // eventfd, readable once the communicator is destroyed
    pthread_mutex_t mu;
    pthread_cond_t cond;
    int refs, inside, queued, executing; // queued and executing: operators on streams
    bool building, dying, suspended;
    void *ccl; // 2 x buffer + 1 MiB of device memory, at the first operator
    struct link *links, *strangers;
    atomic_int async_error;
    int last_stream; // for the check of two streams
    uint64_t last_seq;
    struct shared *shared; // buffer of all communicators with one hcclBufferName
};

struct comm *comm_new(const char *id, const struct comm_options *opt, uint32_t rank, uint32_t size,
                      const struct member *members, HcclResult *why);
void comm_door(const char *id, uint32_t rank, char *name, size_t n); // the listener's abstract name
HcclResult comm_name_free(const char *name, const struct device *d);
struct comm *comm_named(const char *name);
HcclResult comm_publish(struct comm *c, HcclComm *out);
void comm_unref(struct comm *c);
HcclResult comm_find(HcclComm handle, struct comm **c);  // takes a reference
HcclResult comm_enter(HcclComm handle, struct comm **c); // and marks it in use
void comm_leave(struct comm *c);
bool comm_building(struct comm *c, bool on); // false: it is being destroyed
HcclResult comm_memory(struct comm *c, int stream);
void comm_memory_free(struct comm *c);
HcclResult comm_options(const HcclCommConfig *config, struct comm_options *opt);
HcclResult comm_check_topology(const struct member *m, uint32_t n);
HcclResult creation_begin(struct device **d);
void creation_end(struct device *d);
int64_t comm_exec_deadline(struct comm *c); // 0: none

// ---- root.c -----------------------------------------------------------------------------------

struct root_handle {
    char ip[64];
    uint32_t port;
    char identifier[128];
    uint64_t nonce;
};
HcclResult root_parse(const HcclRootInfo *info, struct root_handle *h);
HcclResult root_meet(const struct root_handle *root, uint32_t n, uint32_t rank, struct member *members);
int abstract_socket(const char *name, bool listener); // -1 and errno

// ---- link.c -----------------------------------------------------------------------------------

enum command {
    CMD_BROADCAST = 1,
    CMD_ALLREDUCE,
    CMD_REDUCE,
    CMD_SEND,
    CMD_RECEIVE,
    CMD_ALLGATHER,
    CMD_REDUCE_SCATTER,
    CMD_ALLTOALLV,
    CMD_ALLTOALLVC,
    CMD_ALLTOALL,
    CMD_GATHER,
    CMD_SCATTER,
    CMD_BATCH_SEND_RECV,
    CMD_BATCH_PUT,
    CMD_BATCH_GET,
    CMD_ALLGATHER_V,
    CMD_REDUCE_SCATTER_V,
    CMD_BATCH_WRITE,
    CMD_BARRIER = 64
};

// What the first operator over a link compares.
struct params {
    uint32_t command, dtype, op, root;
    uint64_t count, buffer;
    int32_t deterministic, cann;
    uint32_t unchecked; // counts differ by right (V forms, batches)
};

struct link {
    struct link *next;
    uint32_t kind, src, dst; // the tag
    uint32_t peer;
    int fd, peer_mem;
    void *qp;    // device memory of an RDMA link
    bool ready;  // parameters compared
    bool broken; // an operation ended half-way: nothing moves on it any more
    bool said_lost;
    _Atomic int64_t lost; // when the peer's end was seen closed, 0: not
    struct params theirs;
};

struct want {
    uint32_t peer, src, dst;
    struct link *link;
};
HcclResult links_build(struct comm *c, uint32_t kind, const struct params *p, struct want *wants, int n);
struct link *link_find(struct comm *c, uint32_t kind, uint32_t src, uint32_t dst);
void links_close(struct comm *c);

struct note { // between the two ends of a link while an operator runs
    uint64_t step, offset, length, extra;
};
// Both return 0, TASK_STOPPED or an error with its message set.
aclError link_send(struct comm *c, struct stream *s, struct link *l, const struct note *n, int64_t deadline);
aclError link_recv(struct comm *c, struct stream *s, struct link *l, struct note *n, int64_t deadline);
aclError link_fetch(struct comm *c, struct stream *s, struct link *l, uint64_t offset, void *into, size_t n);
aclError link_hang(struct comm *c, struct stream *s, struct link *l, int64_t deadline);

// ---- p2p.c, coll.c, reduce.c ------------------------------------------------------------------

struct op_call { // an operator call between op_begin and op_end
    struct comm *c;
    struct stream *s;
};
HcclResult op_begin(const char *function, HcclComm comm, aclrtStream stream, struct op_call *call);
HcclResult op_end(struct op_call *call, HcclResult rc);
HcclResult op_buffer(struct op_call *call, const char *what, const void *buf, uint64_t bytes);
// The task of an operator; it holds a reference to its communicator.
struct op_task {
    struct task t;
    struct comm *c;
    aclError (*body)(struct op_task *o, struct comm *c, struct stream *s);
    bool started;
};
HcclResult op_push(struct op_call *call, struct op_task *o);

#define MAX_COUNT 0x7FFFFFFFFULL
size_t dtype_size(HcclDataType t);
HcclResult p2p_check(const char *function, const void *buf, uint64_t count, HcclDataType type);
HcclResult batch_issue(const char *function, const HcclSendRecvItem *items, uint32_t n, HcclComm comm,
                       aclrtStream stream);
const char *command_name(uint32_t command);
void reduce_into(void *acc, const void *in, uint64_t count, HcclDataType t, HcclReduceOp op);
HcclResult ranktable_read(const char *path, struct member *out, uint32_t *n, char *id, size_t id_n);

// ---- group.c ----------------------------------------------------------------------------------

// What one call of HcclCommInitRootInfo* is told.
struct make_call {
    const char *function;
    uint32_t n, rank;
    HcclRootInfo info;
    HcclCommConfig config;
    bool configured;
    HcclComm *comm;
};
HcclResult make_by_root(const struct make_call *m);

bool group_open(void);
HcclResult group_add_p2p(const HcclSendRecvItem *item, HcclComm comm, aclrtStream stream);
HcclResult group_add_make(const struct make_call *m);

#endif
