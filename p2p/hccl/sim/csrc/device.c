// Devices and contexts. A context belongs to the thread that set it; a thread without one gets 107002.
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;

static struct device devices[MAX_DEVICES];
static struct context *made; // by aclrtCreateContext; never freed, so that a stale handle is only refused
static bool initialised;
static _Thread_local struct context *current;

static void devices_init(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        devices[i].id = i;
        devices[i].phys = sim_env()->visible[i];
        devices[i].npu_lock = -1;
        devices[i].primary.device = i;
        devices[i].primary.primary = true;
    }
}

struct device *device_at(int id)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, devices_init);
    return id >= 0 && (uint32_t)id < sim_env()->devices ? &devices[id] : NULL;
}

uint64_t thread_id(void)
{
    static _Thread_local uint64_t id;
    if (id == 0) id = (uint64_t)syscall(SYS_gettid);
    return id;
}

struct context *context_current(void) { return current; }
void context_use(struct context *c) { current = c; }

aclError context_need(struct context **c)
{
    pthread_mutex_lock(&sim_lock);
    bool alive = current != NULL && current->alive;
    pthread_mutex_unlock(&sim_lock);
    if (!alive)
        return acl_fail(
            ACL_ERROR_RT_CONTEXT_NULL,
            "EE1001: thread %llu has no current context; call aclrtSetDevice or aclrtSetCurrentContext on it",
            (unsigned long long)thread_id());
    *c = current;
    return ACL_SUCCESS;
}

aclError npu_own(struct device *d)
{
    if (!sim_env()->host_named) return ACL_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    if (d->npu_lock < 0) {
        char name[108];
        snprintf(name, sizeof(name), "hccl_sim/%s/npu%d:16666", sim_env()->host, d->phys);
        d->npu_lock = abstract_socket(name, true);
    }
    bool ours = d->npu_lock >= 0;
    pthread_mutex_unlock(&sim_lock);
    return ours ? ACL_SUCCESS : ACL_ERROR_RT_PARAM_INVALID;
}

const char *hccl_sim_version(void) { return SIM_VERSION; }

static void say_hello(void)
{
    const char *quiet = getenv("HCCL_SIM_QUIET");
    if (quiet != NULL && strcmp(quiet, "1") == 0) return;
    fprintf(stderr, "[hccl_sim] this is a simulator of CANN %d.%d on %s (%s), not an NPU\n", sim_env()->cann / 10,
            sim_env()->cann % 10, sim_env()->chip->name, sim_env()->chip->soc);
}

aclError aclInit(const char *configPath)
{
    ACL_ENTER();
    (void)configPath;
    pthread_mutex_lock(&sim_lock);
    bool again = initialised;
    initialised = true;
    pthread_mutex_unlock(&sim_lock);
    if (again) return ACL_ERROR_REPEAT_INITIALIZE;
    say_hello();
    return ACL_SUCCESS;
}

static aclError need_init(void)
{
    pthread_mutex_lock(&sim_lock);
    bool done = initialised;
    pthread_mutex_unlock(&sim_lock);
    return done ? ACL_SUCCESS : acl_fail(ACL_ERROR_UNINITIALIZE, "call aclInit first");
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    ACL_ENTER();
    if (majorVersion == NULL || minorVersion == NULL || patchVersion == NULL)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetVersion: NULL argument");
    *majorVersion = 1;
    *minorVersion = sim_env()->cann == 81 ? 13 : sim_env()->cann == 85 ? 14 : 15;
    *patchVersion = 0;
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void) { return sim_env()->chip->soc; }

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    ACL_ENTER();
    if (runMode == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetRunMode: NULL argument");
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    ACL_ENTER();
    if (mode > ACL_RT_OVERFLOW_MODE_UNDEF)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtSetDeviceSatMode: mode %d", mode);
    struct context *c;
    return context_need(&c);
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    ACL_ENTER();
    if (count == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceCount: NULL argument");
    *count = sim_env()->devices;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *deviceId)
{
    ACL_ENTER();
    if (deviceId == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDevice: NULL argument");
    struct context *c;
    aclError rc = context_need(&c);
    if (rc == ACL_SUCCESS) *deviceId = c->device;
    return rc;
}

static aclError need_device(int32_t id, struct device **d)
{
    *d = device_at(id);
    if (*d != NULL) return ACL_SUCCESS;
    return acl_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1001: device %d: this host has devices 0..%d", id,
                    (int)sim_env()->devices - 1);
}

aclError aclrtSetDevice(int32_t deviceId)
{
    ACL_ENTER();
    struct device *d;
    aclError rc = need_init();
    if (rc == ACL_SUCCESS) rc = need_device(deviceId, &d);
    if (rc != ACL_SUCCESS) return rc;
    pthread_mutex_lock(&sim_lock);
    d->refs++;
    d->primary.alive = true;
    pthread_mutex_unlock(&sim_lock);
    current = &d->primary;
    return ACL_SUCCESS;
}

static void device_down(struct device *d)
{
    pthread_mutex_lock(&sim_lock);
    d->refs = 0;
    d->primary.alive = false;
    for (struct context *c = made; c != NULL; c = c->next)
        if (c->device == d->id) c->alive = false;
    pthread_mutex_unlock(&sim_lock);
    streams_drop(&d->primary);
    for (struct context *c = made; c != NULL; c = c->next)
        if (c->device == d->id) streams_drop(c);
    arena_reset(d);
}

static aclError reset(int32_t id, bool force)
{
    struct device *d;
    aclError rc = need_device(id, &d);
    if (rc != ACL_SUCCESS) return rc;
    pthread_mutex_lock(&sim_lock);
    bool set = d->refs > 0;
    bool last = set && (force || --d->refs == 0);
    pthread_mutex_unlock(&sim_lock);
    if (!set) return acl_fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtResetDevice: device %d is not set", id);
    if (last) device_down(d);
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId)
{
    ACL_ENTER();
    return reset(deviceId, false);
}

aclError aclrtResetDeviceForce(int32_t deviceId)
{
    ACL_ENTER();
    return reset(deviceId, true);
}

aclError aclFinalize(void)
{
    ACL_ENTER();
    aclError rc = need_init();
    if (rc != ACL_SUCCESS) return rc;
    for (uint32_t i = 0; i < sim_env()->devices; i++) {
        struct device *d = device_at((int)i);
        pthread_mutex_lock(&sim_lock);
        bool set = d->refs > 0;
        pthread_mutex_unlock(&sim_lock);
        if (set) device_down(d);
    }
    pthread_mutex_lock(&sim_lock);
    initialised = false;
    pthread_mutex_unlock(&sim_lock);
    return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    ACL_ENTER();
    struct device *d;
    if (context == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateContext: NULL argument");
    aclError rc = need_init();
    if (rc == ACL_SUCCESS) rc = need_device(deviceId, &d);
    if (rc != ACL_SUCCESS) return rc;
    struct context *c = calloc(1, sizeof(*c));
    if (c == NULL) return acl_fail(ACL_ERROR_BAD_ALLOC, "aclrtCreateContext: out of host memory");
    c->device = d->id;
    c->alive = true;
    pthread_mutex_lock(&sim_lock);
    c->next = made;
    made = c;
    if (d->refs == 0) d->refs = 1;
    pthread_mutex_unlock(&sim_lock);
    current = c;
    *context = c;
    return ACL_SUCCESS;
}

// Finds a living context by its handle; the caller holds sim_lock.
static struct context *context_of(aclrtContext handle)
{
    for (struct context *c = made; c != NULL; c = c->next)
        if (c == handle && c->alive) return c;
    for (uint32_t i = 0; i < sim_env()->devices; i++)
        if (&device_at((int)i)->primary == handle && device_at((int)i)->primary.alive) return handle;
    return NULL;
}

aclError aclrtDestroyContext(aclrtContext context)
{
    ACL_ENTER();
    pthread_mutex_lock(&sim_lock);
    struct context *c = context_of(context);
    bool ok = c != NULL && !c->primary;
    if (ok) c->alive = false;
    pthread_mutex_unlock(&sim_lock);
    if (!ok) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDestroyContext: not a context of aclrtCreateContext");
    streams_drop(c);
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    ACL_ENTER();
    pthread_mutex_lock(&sim_lock);
    struct context *c = context_of(context);
    pthread_mutex_unlock(&sim_lock);
    if (c == NULL) return acl_fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetCurrentContext: not a living context");
    current = c;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    ACL_ENTER();
    if (context == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetCurrentContext: NULL argument");
    struct context *c;
    aclError rc = context_need(&c);
    if (rc == ACL_SUCCESS) *context = c;
    return rc;
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout)
{
    ACL_ENTER();
    (void)timeout; // every task of the simulator stops at once
    struct device *d;
    aclError rc = need_device(deviceId, &d);
    if (rc != ACL_SUCCESS) return rc;
    if (!sim_env()->chip->has_abort)
        return acl_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtDeviceTaskAbort: not on %s", sim_env()->chip->name);
    streams_abort(d->id, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    return ACL_SUCCESS;
}
