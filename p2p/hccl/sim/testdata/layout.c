// Prints the layout of every struct that crosses the ABI.
#include <stddef.h>

#include "check.h"

#define SIZE(t) printf("%s size %zu align %zu\n", #t, sizeof(t), _Alignof(t))
#define AT(t, field) printf("%s.%s %zu\n", #t, #field, offsetof(t, field))

int main(void)
{
    SIZE(HcclResult);
    SIZE(HcclDataType);
    SIZE(HcclRootInfo);
    SIZE(HcclSendRecvItem);
    AT(HcclSendRecvItem, sendRecvType);
    AT(HcclSendRecvItem, buf);
    AT(HcclSendRecvItem, count);
    AT(HcclSendRecvItem, dataType);
    AT(HcclSendRecvItem, remoteRank);
    SIZE(HcclCommConfigInfo);
    AT(HcclCommConfigInfo, configSize);
    AT(HcclCommConfigInfo, magicWord);
    AT(HcclCommConfigInfo, version);
    AT(HcclCommConfigInfo, reserved);
    SIZE(HcclCommConfig);
    AT(HcclCommConfig, hcclBufferSize);
    AT(HcclCommConfig, hcclDeterministic);
    AT(HcclCommConfig, hcclCommName);
    AT(HcclCommConfig, hcclUdi);
    AT(HcclCommConfig, hcclOpExpansionMode);
    AT(HcclCommConfig, hcclRdmaTrafficClass);
    AT(HcclCommConfig, hcclRdmaServiceLevel);
    AT(HcclCommConfig, hcclWorldRankID);
    AT(HcclCommConfig, hcclJobID);
    AT(HcclCommConfig, aclGraphZeroCopyEnable);
    AT(HcclCommConfig, hcclExecTimeOut);
    AT(HcclCommConfig, hcclAlgo);
    AT(HcclCommConfig, hcclRetryEnable);
    AT(HcclCommConfig, hcclRetryParams);
    AT(HcclCommConfig, hcclBufferName);
    AT(HcclCommConfig, hcclQos);
    AT(HcclCommConfig, hcclSymWinMaxMemSizePerRank);
    SIZE(union HcclConfigValue);
    SIZE(aclrtPtrAttributes);
    AT(aclrtPtrAttributes, location);
    AT(aclrtPtrAttributes, pageSize);
    SIZE(aclrtPhysicalMemProp);
    AT(aclrtPhysicalMemProp, memAttr);
    AT(aclrtPhysicalMemProp, location);
    AT(aclrtPhysicalMemProp, reserve);
    return 0;
}
