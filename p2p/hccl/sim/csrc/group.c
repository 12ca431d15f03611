#include "sim.h"
bool group_open(void) { return false; }
HcclResult group_add_p2p(const HcclSendRecvItem *item, HcclComm comm, aclrtStream stream) { (void)item;(void)comm;(void)stream; return HCCL_E_NOT_SUPPORT; }
