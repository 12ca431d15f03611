// Ten thousand sends and receives each way, with events, pinned and device memory taken and given back; prints the
// resident bytes, the descriptors and the mappings early and late.
#include <dirent.h>

#include "check.h"

static long resident(void)
{
    long pages = 0, total = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f != NULL && fscanf(f, "%ld %ld", &total, &pages) == 2);
    fclose(f);
    return pages * 4096;
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

static int mappings(void)
{
    int n = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    while ((c = getc(f)) != EOF) n += c == '\n';
    fclose(f);
    return n;
}

static void some(struct rank *r, int n)
{
    uint32_t peer = 1 - r->rank;
    for (int i = 0; i < n; i++) {
        void *dev = device(200000), *host;
        aclrtEvent e;
        OK(aclrtMallocHost(&host, 4096));
        OK(aclrtCreateEvent(&e));
        OK(aclrtMemcpyAsync(dev, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, r->stream));
        for (uint32_t from = 0; from < 2; from++) {
            if (from == r->rank) OK(HcclSend(dev, 4096, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
            else OK(HcclRecv(dev, 4096, HCCL_DATA_TYPE_UINT8, peer, r->comm, r->stream));
        }
        OK(aclrtRecordEvent(e, r->stream));
        OK(aclrtSynchronizeEvent(e));
        OK(aclrtDestroyEvent(e));
        OK(aclrtFree(dev));
        OK(aclrtFreeHost(host));
    }
}

int main(int argc, char **argv)
{
    struct rank r = join(argc, argv);
    size_t before, after, total;
    some(&r, 500);
    long rss = resident();
    int fds = descriptors(), maps = mappings();
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    some(&r, 10000);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    long grown = resident() - rss;
    if (grown > 512 * 1024 || descriptors() != fds || mappings() > maps + 2 || before != after) {
        fprintf(stderr, "grew by %ld bytes, descriptors %d -> %d, mappings %d -> %d, HBM %zu -> %zu\n", grown, fds,
                descriptors(), maps, mappings(), before, after);
        return 1;
    }
    part(&r);
    return 0;
}
