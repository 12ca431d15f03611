// Types of HCCL. Values and layouts are those of hcomm 9.0; older libraries know a prefix of them.
#ifndef HCCL_TYPES_H
#define HCCL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    HCCL_SUCCESS = 0,
    HCCL_E_PARA = 1,
    HCCL_E_PTR = 2,
    HCCL_E_MEMORY = 3,
    HCCL_E_INTERNAL = 4,
    HCCL_E_NOT_SUPPORT = 5,
    HCCL_E_NOT_FOUND = 6,
    HCCL_E_UNAVAIL = 7,
    HCCL_E_SYSCALL = 8,
    HCCL_E_TIMEOUT = 9,
    HCCL_E_OPEN_FILE_FAILURE = 10,
    HCCL_E_TCP_CONNECT = 11,
    HCCL_E_ROCE_CONNECT = 12,
    HCCL_E_TCP_TRANSFER = 13,
    HCCL_E_ROCE_TRANSFER = 14,
    HCCL_E_RUNTIME = 15,
    HCCL_E_DRV = 16,
    HCCL_E_PROFILING = 17,
    HCCL_E_CCE = 18,
    HCCL_E_NETWORK = 19,
    HCCL_E_AGAIN = 20,
    HCCL_E_REMOTE = 21,
    HCCL_E_SUSPENDING = 22,
    HCCL_E_OPRETRY_FAIL = 23,
    HCCL_E_OOM = 24,
    HCCL_E_IN_STATUS = 1041,
    HCCL_E_RESERVED
} HcclResult;

typedef void *HcclComm;

typedef enum {
    HCCL_REDUCE_SUM = 0,
    HCCL_REDUCE_PROD = 1,
    HCCL_REDUCE_MAX = 2,
    HCCL_REDUCE_MIN = 3,
    HCCL_REDUCE_RESERVED = 255
} HcclReduceOp;

typedef enum {
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16 = 1,
    HCCL_DATA_TYPE_INT32 = 2,
    HCCL_DATA_TYPE_FP16 = 3,
    HCCL_DATA_TYPE_FP32 = 4,
    HCCL_DATA_TYPE_INT64 = 5,
    HCCL_DATA_TYPE_UINT64 = 6,
    HCCL_DATA_TYPE_UINT8 = 7,
    HCCL_DATA_TYPE_UINT16 = 8,
    HCCL_DATA_TYPE_UINT32 = 9,
    HCCL_DATA_TYPE_FP64 = 10,
    HCCL_DATA_TYPE_BFP16 = 11,
    HCCL_DATA_TYPE_INT128 = 12,
    HCCL_DATA_TYPE_HIF8 = 14,
    HCCL_DATA_TYPE_FP8E4M3 = 15,
    HCCL_DATA_TYPE_FP8E5M2 = 16,
    HCCL_DATA_TYPE_FP8E8M0 = 17,
    HCCL_DATA_TYPE_RESERVED = 255
} HcclDataType;

typedef enum { HCCL_SEND = 0, HCCL_RECV = 1, HCCL_SEND_RECV_RESERVED = 2 } HcclSendRecvType;

typedef struct {
    HcclSendRecvType sendRecvType;
    void *buf;
    uint64_t count;
    HcclDataType dataType;
    uint32_t remoteRank;
} HcclSendRecvItem;

typedef enum { HCCL_DETERMINISTIC = 0, HCCL_CONFIG_RESERVED } HcclConfig;
union HcclConfigValue {
    int32_t value;
};

typedef enum {
    HCCL_COMM_STATUS_READY = 0,
    HCCL_COMM_STATUS_SUSPENDING = 1,
    HCCL_COMM_STATUS_INVALID = 254,
    HCCL_COMM_STATUS_RESERVED = 255
} HcclCommStatus;

typedef enum {
    HCCL_COMM_STATE_PHASE_INVALID = -1,
    HCCL_COMM_STATE_DESTROY_PRE = 0,
    HCCL_COMM_STATE_DESTROY_POST = 1,
    HCCL_COMM_STATE_RESUME_PRE = 2,
    HCCL_COMM_STATE_RESUME_POST = 3
} HcclCommStatePhase;
typedef void (*HcclCommStateCallback)(HcclComm comm, HcclCommStatePhase phase, void *args);
typedef int32_t HcclConfigType;
typedef void *HcclCommSymWindow;

typedef enum {
    HCCL_COMM_CONFIG_BUFFER_SIZE = 0,
    HCCL_COMM_CONFIG_DETERMINISTIC = 1,
    HCCL_COMM_CONFIG_COMM_NAME = 2,
    HCCL_COMM_CONFIG_OP_EXPANSION_MODE = 3,
    HCCL_COMM_CONFIG_SUPPORT_INIT_BY_ENV = 4,
    HCCL_COMM_CONFIG_WORLD_RANKID = 5,
    HCCL_COMM_CONFIG_JOBID = 6,
    HCCL_COMM_CONFIG_ACLGRAPH_ZEROCOPY_ENABLE = 7,
    HCCL_COMM_CONFIG_EXEC_TIMEOUT = 8,
    HCCL_COMM_CONFIG_ALGO = 9,
    HCCL_COMM_CONFIG_RETRY = 10,
    HCCL_COMM_CONFIG_BUFFER_NAME = 11,
    HCCL_COMM_CONFIG_RESERVED
} HcclCommConfigCapability;

#define HCCL_ROOT_INFO_BYTES 4108
typedef struct {
    char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

#define HCCL_COMM_CONFIG_INFO_BYTES 24
#define HCCL_COMM_CONFIG_MAGIC_WORD 0xF0F0F0F0U
#define HCCL_COMM_CONFIG_VERSION 10
#define HCCL_COMM_CONFIG_NOT_SET 0xFFFFFFFFU
#define HCCL_COMM_NAME_MAX_LENGTH 128
#define HCCL_COMM_UDI_MAX_LENGTH 128
#define HCCL_COMM_ALGO_MAX_LENGTH 1600
#define HCCL_COMM_RETRY_ENABLE_MAX_LENGTH 50
#define HCCL_COMM_RETRY_PARAMS_MAX_LENGTH 128
#define HCCL_COMM_BUFFER_NAME_MAX_LENGTH 128

// Each field exists since the version named; a library reads it only when the caller's version is at least that.
typedef struct {
    char reserved[HCCL_COMM_CONFIG_INFO_BYTES];
    uint32_t hcclBufferSize;                                 // 1, MB
    uint32_t hcclDeterministic;                              // 1
    char hcclCommName[HCCL_COMM_NAME_MAX_LENGTH];            // 2
    char hcclUdi[HCCL_COMM_UDI_MAX_LENGTH];                  // 3
    uint32_t hcclOpExpansionMode;                            // 4
    uint32_t hcclRdmaTrafficClass;                           // 5
    uint32_t hcclRdmaServiceLevel;                           // 5
    uint32_t hcclWorldRankID;                                // 6
    uint64_t hcclJobID;                                      // 6
    uint8_t aclGraphZeroCopyEnable;                          // 7
    int32_t hcclExecTimeOut;                                 // 8, s
    char hcclAlgo[HCCL_COMM_ALGO_MAX_LENGTH];                // 8
    char hcclRetryEnable[HCCL_COMM_RETRY_ENABLE_MAX_LENGTH]; // 8
    char hcclRetryParams[HCCL_COMM_RETRY_PARAMS_MAX_LENGTH]; // 8
    char hcclBufferName[HCCL_COMM_BUFFER_NAME_MAX_LENGTH];   // 9
    uint32_t hcclQos;                                        // 10
    uint64_t hcclSymWinMaxMemSizePerRank;                    // 10, GB
} HcclCommConfig;

typedef struct {
    size_t configSize;
    uint32_t magicWord;
    uint32_t version;
    uint64_t reserved;
} HcclCommConfigInfo;

#ifdef __cplusplus
}
#endif
#endif
