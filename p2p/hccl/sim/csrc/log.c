// What the simulator says: log lines on stderr, and the message of the last failure of each thread.
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The message waits until it is asked for; the copy lives until the next question.
static _Thread_local char pending[ERRMSG_BYTES], told[ERRMSG_BYTES];

void sim_log(int level, const char *format, ...)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR", "EVENT"};
    if (level == LOG_EVENT ? !sim_env()->log_events : level < sim_env()->log_level) return;
    char line[ERRMSG_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    fprintf(stderr, "[%s] HCCL(%d,hccl_sim): %s\n", names[level], (int)getpid(), line);
}

aclError acl_fail(aclError code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(pending, sizeof(pending), format, args);
    va_end(args);
    sim_log(LOG_ERROR, "%s (%d)", pending, code);
    return code;
}

HcclResult hccl_fail(HcclResult code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(pending, sizeof(pending), format, args);
    va_end(args);
    sim_log(LOG_ERROR, "%s errNo[0x%016llx]", pending, 0x0000000005000000ULL | (unsigned)code);
    return code;
}

void errmsg_take(char *into, size_t n)
{
    snprintf(into, n, "%s", pending);
    pending[0] = 0;
}

void errmsg_put(const char *message) { snprintf(pending, sizeof(pending), "%s", message); }

const char *aclGetRecentErrMsg(void)
{
    if (pending[0] == 0) return NULL;
    memcpy(told, pending, sizeof(told));
    pending[0] = 0;
    return told;
}

const char *HcclGetErrorString(HcclResult code)
{
    static const char *const texts[] = {
        "no error",
        "parameter error",
        "empty pointer",
        "memory error",
        "internal error",
        "not support feature",
        "not found specific resource",
        "resource unavailable",
        "call system interface error",
        "timeout",
        "open file fail",
        "tcp connect fail",
        "roce connect fail",
        "tcp transfer fail",
        "roce transfer fail",
        "call runtime api fail",
        "call driver api fail",
        "call profiling api fail",
        "call cce api fail",
        "call network api fail",
        "try again",
        "error cqe",
        "error communicator suspending",
        "retry constraint",
        "out of memory",
    };
    return (unsigned)code < sizeof(texts) / sizeof(texts[0]) ? texts[code] : "unknown error";
}
