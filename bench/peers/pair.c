// What an MPI does between two processes, measured as `ps-worker bench p2p` measures ours: ordinary buffers, eight in turn, half a ping-pong, and a
// stream of messages with eight under way that ends when the receiver has said that it has all; contents are compared outside the timed part.
//
//   mpicc -O3 -march=native pair.c -o pair
//   mpirun -n 2 ./pair ROUNDS SECONDS SIZE...
//
// prints a line a size: size, microseconds one way, GB/s of the stream, CPU seconds a GB of both, wrong messages. The rounds' median counts. With
// more than two processes neighbours are pairs, which run at the same time, and the line is that of the slowest pair.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SLOTS = 8, MAX_ROUNDS = 99 };

static int rank, peer, slots;
static size_t size;
static char *out[SLOTS], *in[SLOTS];
static MPI_Comm pair;

static double cpu_time(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static char content(int from, int slot, size_t i) { return (char)(i * 131 + i / 251 + slot * 7 + from * 3 + 1); }

static void ping_pong(long count) {
  for (long i = 0; i < count; i++) {
    int s = i % slots;
    if (rank == 0) MPI_Send(out[s], size, MPI_BYTE, peer, 0, pair);
    MPI_Recv(in[s], size, MPI_BYTE, peer, 0, pair, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(out[s], size, MPI_BYTE, peer, 0, pair);
  }
}

static void stream(long count) {
  MPI_Request under_way[SLOTS];
  for (long i = 0; i < count; i++) {
    int s = i % slots;
    if (i >= slots) MPI_Wait(&under_way[s], MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Isend(out[s], size, MPI_BYTE, peer, 0, pair, &under_way[s]);
    else MPI_Irecv(in[s], size, MPI_BYTE, peer, 0, pair, &under_way[s]);
  }
  for (long i = count > slots ? count - slots : 0; i < count; i++) MPI_Wait(&under_way[i % slots], MPI_STATUS_IGNORE);
  MPI_Barrier(pair);
}

// timed runs f on both ranks at the same time; the time is that of rank 0.
static double timed(void (*f)(long), long count) {
  MPI_Barrier(pair);
  double start = MPI_Wtime();
  f(count);
  double wall = MPI_Wtime() - start;
  MPI_Bcast(&wall, 1, MPI_DOUBLE, 0, pair);
  return wall;
}

static long trial(void (*f)(long), long least, double want) {
  for (long count = least;; count *= 4) {
    double wall = timed(f, count);
    if (wall < want / 8 && count * 4 <= 1L << 20) continue;
    double n = count * want / wall;
    return n < least ? least : n > 1L << 20 ? 1L << 20 : (long)n;
  }
}

static int wrong(int receives) {
  int n = 0;
  for (int s = 0; receives && s < slots; s++)
    for (size_t i = 0; i < size; i++)
      if (in[s][i] != content(peer, s, i)) { n++; break; }
  return n;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int n) {
  qsort(v, n, sizeof *v, compare);
  return v[n / 2];
}

static void measure(int rounds, double seconds, double line[4]) {
  double us[MAX_ROUNDS], rate[MAX_ROUNDS], cpu[MAX_ROUNDS], want = seconds / (2 * rounds);
  long pings = trial(ping_pong, 1, want), messages = trial(stream, slots, want);
  for (int r = 0; r < rounds; r++) {
    us[r] = timed(ping_pong, pings) * 1e6 / (2 * pings);
    double gb = 1e-9 * size * messages, before = cpu_time(), spent, sum;
    rate[r] = gb / timed(stream, messages);
    spent = cpu_time() - before;
    MPI_Allreduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, pair);
    cpu[r] = sum / gb;
  }
  int bad = 0, all;
  for (int s = 0; s < slots; s++) memset(in[s], 0, size);
  ping_pong(slots);
  bad += wrong(1);
  for (int s = 0; s < slots; s++) memset(in[s], 0, size);
  stream(2 * slots);
  bad += wrong(rank == 1);
  MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, pair);
  line[0] = median(us, rounds), line[1] = median(rate, rounds), line[2] = median(cpu, rounds), line[3] = all;
}

int main(int argc, char **argv) {
  int world, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int rounds = argc > 3 ? atoi(argv[1]) : 0;
  if (ranks % 2 || rounds < 1 || rounds > MAX_ROUNDS) {
    if (world == 0) fprintf(stderr, "usage: mpirun -n 2 pair ROUNDS SECONDS SIZE...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_split(MPI_COMM_WORLD, world / 2, world, &pair);
  MPI_Comm_rank(pair, &rank);
  peer = 1 - rank;
  for (int a = 3; a < argc; a++) {
    size = strtoull(argv[a], NULL, 10);
    slots = size > 0 && (1UL << 30) / size < SLOTS ? (1UL << 30) / size : SLOTS;
    if (slots < 2) slots = 2;
    for (int s = 0; s < slots; s++) {
      out[s] = malloc(size + 1), in[s] = malloc(size + 1);
      if (!out[s] || !in[s]) MPI_Abort(MPI_COMM_WORLD, 1);
      for (size_t i = 0; i < size; i++) out[s][i] = content(rank, s, i);
      memset(in[s], 0, size);
    }
    double line[4], slowest[4], mine[4];
    measure(rounds, atof(argv[2]), line);
    memcpy(mine, line, sizeof mine);
    mine[1] = -mine[1]; // the largest of the negative is the slowest
    MPI_Reduce(mine, slowest, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (world == 0) {
      printf("%zu %.4f %.6f %.4f %.0f\n", size, slowest[0], -slowest[1], slowest[2], slowest[3]);
      fflush(stdout);
    }
    for (int s = 0; s < slots; s++) free(out[s]), free(in[s]);
  }
  MPI_Finalize();
  return 0;
}
