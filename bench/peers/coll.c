// What an MPI's collectives take, measured as `ps-worker bench allreduce` and its sisters measure ours: float32, sums, in place but for alltoall, one call after
// the other, the time of the slowest rank, the median of rounds in which sizes take turns; contents are checked outside the timed part.
//
//   mpicc -O3 -march=native coll.c -o coll
//   mpirun -n 2 ./coll allreduce|reducescatter|allgather|broadcast|alltoall ROUNDS SECONDS SIZE...
//
// prints a line a size: size, microseconds a call, GB/s (size over time), 0, wrong elements.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 99, MAX_SIZES = 64 };

static int rank, ranks;
static char op; // the letter that tells the operations apart
static float *buf, *other;

static void call(size_t n) { // n elements of all ranks' parts together
  size_t part = n / ranks;
  switch (op) {
  case 'r': MPI_Allreduce(MPI_IN_PLACE, buf, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
  case 's': MPI_Reduce_scatter_block(MPI_IN_PLACE, buf, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
  case 'g': MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, buf, part, MPI_FLOAT, MPI_COMM_WORLD); break;
  case 'b': MPI_Bcast(buf, n, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
  default: MPI_Alltoall(buf, part, MPI_FLOAT, other, part, MPI_FLOAT, MPI_COMM_WORLD);
  }
}

static float content(int from, size_t i) { return 1 + (31 * from + i) % 251 % 3; }

static float total(size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; r++) sum += content(r, i);
  return sum;
}

static long wrong(size_t n) {
  size_t part = n / ranks;
  long bad = 0;
  for (size_t i = 0; i < n; i++) buf[i] = op == 'b' && rank > 0 ? 0 : content(rank, i);
  call(n);
  for (size_t i = 0; i < n; i++) {
    if (op == 'r') bad += buf[i] != total(i);
    if (op == 's' && i < part) bad += buf[i] != total(rank * part + i);
    if (op == 'g') bad += buf[i] != content(i / part, i);
    if (op == 'b') bad += buf[i] != content(0, i);
    if (op == 'a') bad += other[i] != content(i / part, rank * part + i % part);
  }
  return bad;
}

static double timed(size_t n, long calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (long i = 0; i < calls; i++) call(n);
  double mine = (MPI_Wtime() - start) / calls, slowest;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int ascending(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int rounds = argc > 4 ? atoi(argv[2]) : 0, sizes = argc - 4;
  if (rounds < 1 || rounds > MAX_ROUNDS || sizes > MAX_SIZES) {
    fprintf(stderr, "usage: coll OPERATION ROUNDS SECONDS SIZE...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  op = !strcmp(argv[1], "allreduce") ? 'r' : !strcmp(argv[1], "reducescatter") ? 's' : !strcmp(argv[1], "allgather") ? 'g' : !strcmp(argv[1], "broadcast") ? 'b' : 'a';
  double want = atof(argv[3]) / rounds;
  static double seconds[MAX_SIZES][MAX_ROUNDS];
  static size_t count[MAX_SIZES], most;
  static long calls[MAX_SIZES], bad[MAX_SIZES];
  for (int k = 0; k < sizes; k++) {
    count[k] = strtoull(argv[4 + k], 0, 10) / 4;
    if (op != 'r' && op != 'b') count[k] = (count[k] < (size_t)ranks ? (size_t)ranks : count[k]) / ranks * ranks;
    if (count[k] < 1) count[k] = 1;
    if (count[k] > most) most = count[k];
  }
  buf = aligned_alloc(4096, (4 * most + 4095) / 4096 * 4096);
  other = aligned_alloc(4096, (4 * most + 4095) / 4096 * 4096);
  memset(other, 0, 4 * most);
  for (int k = 0; k < sizes; k++) {
    long mine = wrong(count[k]);
    MPI_Allreduce(&mine, &bad[k], 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    double one = timed(count[k], 3);
    long n = want / one;
    calls[k] = n < 1 ? 1 : n > 65536 ? 65536 : n;
  }
  for (int r = 0; r < rounds; r++)
    for (int k = 0; k < sizes; k++) seconds[k][r] = timed(count[k], calls[k]);
  for (int k = 0; rank == 0 && k < sizes; k++) {
    qsort(seconds[k], rounds, sizeof seconds[k][0], ascending);
    double median = seconds[k][rounds / 2];
    printf("%zu %.3f %.4f 0 %ld\n", 4 * count[k], median * 1e6, 4 * count[k] / median / 1e9, bad[k]);
  }
  MPI_Finalize();
}
