// Two ranks, messages of many sizes there and back, contents checked; some are longer than the CCL buffer.
#include "check.h"

static unsigned char at(size_t i, unsigned salt) { return (unsigned char)(i * 31 + salt * 7 + (i >> 9)); }

static void one(struct rank *r, size_t n, unsigned salt)
{
    void *pinned, *dev = device(n);
    OK(aclrtMallocHost(&pinned, n));
    unsigned char *b = pinned;
    uint32_t peer = 1 - r->rank;
    if (r->rank == 0) {
        for (size_t i = 0; i < n; i++) b[i] = at(i, salt);
        OK(aclrtMemcpyAsync(dev, n, b, n, ACL_MEMCPY_HOST_TO_DEVICE, r->stream));
        OK(HcclSend(dev, n, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
        OK(HcclRecv(dev, n, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
    } else {
        OK(HcclRecv(dev, n, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
        OK(HcclSend(dev, n, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
    }
    OK(aclrtSynchronizeStream(r->stream));
    memset(b, 0, n);
    OK(aclrtMemcpyAsync(b, n, dev, n, ACL_MEMCPY_DEVICE_TO_HOST, r->stream));
    OK(aclrtSynchronizeStreamWithTimeout(r->stream, 10000));
    for (size_t i = 0; i < n; i++) CHECK(b[i] == at(i, salt));
    OK(aclrtFree(dev));
    OK(aclrtFreeHost(pinned));
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1, 7, 64, 4096, 65537, 1048575, 1048576, 1048577, 5000001};
    struct rank r = join(argc, argv);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) one(&r, sizes[i], i);
    for (unsigned i = 0; i < 200; i++) one(&r, 100 + i, i);
    part(&r);
    return 0;
}
