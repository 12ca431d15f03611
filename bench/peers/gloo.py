# What the collectives of torch.distributed over gloo take, measured as coll.c measures an MPI's. One thread a rank, loopback only.
#
#   python3 gloo.py RANKS allreduce|allgather|broadcast ROUNDS SECONDS SIZE...
import os
import sys
import tempfile
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402


def rank_main(rank, ranks, op, rounds, want, sizes, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    ops, bad = [], []
    for size in sizes:
        n = max(ranks, size // 4 // ranks * ranks)
        buf = ((torch.arange(n) + 31 * rank) % 251 % 3 + 1).float()
        out = torch.zeros(n)
        parts = list(out.chunk(ranks))
        mine = buf[: n // ranks].clone()
        ops.append(
            {
                "allreduce": lambda buf=buf: dist.all_reduce(buf),
                "broadcast": lambda buf=buf: dist.broadcast(buf, 0),
                "allgather": lambda parts=parts, mine=mine: dist.all_gather(parts, mine),
            }[op]
        )
        ops[-1]()
        every = [((torch.arange(n) + 31 * r) % 251 % 3 + 1).float() for r in range(ranks)]
        if op == "allreduce":
            bad.append(int((buf != sum(every)).sum()))
        elif op == "broadcast":
            bad.append(int((buf != every[0]).sum()))
        else:
            bad.append(int((out != torch.cat([e[: n // ranks] for e in every])).sum()))

    def timed(call, calls):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        took = torch.tensor([(time.perf_counter() - start) / calls], dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        return float(took)

    calls = [max(1, int(want / rounds / timed(op, 3))) for op in ops]
    seconds = [[] for _ in ops]
    for _ in range(rounds):
        for k, call in enumerate(ops):
            seconds[k].append(timed(call, calls[k]))
    if rank == 0:
        for size, s, b in zip(sizes, seconds, bad):
            median = sorted(s)[len(s) // 2]
            print("%d %.3f %.4f 0 %d" % (size, median * 1e6, size / median / 1e9, b), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, op, rounds, want = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    sizes = [int(s) for s in sys.argv[5:]]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (ranks, op, rounds, want, sizes, folder + "/store"), nprocs=ranks)
