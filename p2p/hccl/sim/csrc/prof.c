// The profiler calls succeed, record nothing and say so once.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

struct aclprofConfig {
    uint64_t types;
};

static void once(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said)) fprintf(stderr, "[hccl_sim] profiling is simulated: nothing is recorded\n");
}

aclError aclprofInit(const char *profilerResultPath, size_t length)
{
    ACL_ENTER();
    if (profilerResultPath == NULL || length == 0) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclprofInit: no path");
    once();
    return ACL_SUCCESS;
}

aclError aclprofFinalize(void)
{
    ACL_ENTER();
    return ACL_SUCCESS;
}

aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,
                                   const aclprofAicoreEvents *aicoreEvents, uint64_t dataTypeConfig)
{
    (void)aicoreMetrics;
    (void)aicoreEvents;
    if (deviceIdList == NULL || deviceNums == 0) return NULL;
    aclprofConfig *c = calloc(1, sizeof(*c));
    if (c != NULL) c->types = dataTypeConfig;
    return c;
}

aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig)
{
    ACL_ENTER();
    if (profilerConfig == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclprofDestroyConfig: NULL argument");
    free((void *)profilerConfig);
    return ACL_SUCCESS;
}

aclError aclprofStart(const aclprofConfig *profilerConfig)
{
    ACL_ENTER();
    if (profilerConfig == NULL) return acl_fail(ACL_ERROR_INVALID_PARAM, "aclprofStart: NULL argument");
    once();
    return ACL_SUCCESS;
}

aclError aclprofStop(const aclprofConfig *profilerConfig)
{
    ACL_ENTER();
    return profilerConfig != NULL ? ACL_SUCCESS : acl_fail(ACL_ERROR_INVALID_PARAM, "aclprofStop: NULL argument");
}
