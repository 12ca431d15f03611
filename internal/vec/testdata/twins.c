// Twins of the kernels as a C programmer writes them, for gcc -O3 -march=native, in a library that measures them by thread CPU time: the lower quartile
// of turns of a millisecond.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline float rounded(double v) {
	float f = (float)v, nan;
	uint32_t bits = 0x7fc00000;
	memcpy(&nan, &bits, 4);
	return f != f ? nan : f;
}

typedef float *restrict slice;
static volatile double sink;

static void add(long n, slice a, slice b) { for (long i = 0; i < n; i++) a[i] += b[i]; }
static void scale(long n, slice a, float k) { for (long i = 0; i < n; i++) a[i] *= k; }
static void axpy(long n, slice a, float k, slice b) { for (long i = 0; i < n; i++) a[i] += k * b[i]; }
static void axpby(long n, slice d, float a, slice x, float b, slice y) { for (long i = 0; i < n; i++) d[i] += a * x[i] + b * y[i]; }

static void dot(long n, slice a, slice b) {
	float lanes[32] = {0};
	long i = 0;
	for (; i + 32 <= n; i += 32)
		for (int j = 0; j < 32; j++) lanes[j] += a[i + j] * b[i + j];
	for (; i < n; i++) lanes[i % 32] += a[i] * b[i];
	float sum = 0;
	for (int j = 0; j < 32; j++) sum += lanes[j];
	sink = sum;
}

static void nonFinite(long n, slice a) {
	long i = 0;
	for (; i < n; i++) {
		uint32_t v;
		memcpy(&v, &a[i], 4);
		if ((v & 0x7f800000) == 0x7f800000) break;
	}
	sink = i;
}

static void sgd(long n, slice w, slice g32, const double *c) {
	double lr = c[0], decay = c[1];
	for (long i = 0; i < n; i++) {
		double old = w[i], g = g32[i] + decay * old;
		w[i] = rounded(old - lr * g);
	}
}

static void momentum(long n, slice w, slice m, slice g32, const double *c, int ahead) {
	double lr = c[0], mu = c[1], decay = c[2];
	if (ahead)
		for (long i = 0; i < n; i++) {
			double old = w[i], g = g32[i] + decay * old, v = mu * m[i] + g;
			m[i] = rounded(v);
			w[i] = rounded(old - lr * (g + mu * v));
		}
	else
		for (long i = 0; i < n; i++) {
			double old = w[i], g = g32[i] + decay * old, v = mu * m[i] + g;
			m[i] = rounded(v);
			w[i] = rounded(old - lr * v);
		}
}

static void rms(long n, slice w, slice s, slice g32, const double *c) {
	double lr = c[0], keep = c[1], gain = c[2], eps = c[3], decay = c[4];
	for (long i = 0; i < n; i++) {
		double old = w[i], g = g32[i] + decay * old, sum = keep * s[i] + gain * (g * g);
		s[i] = rounded(sum);
		w[i] = rounded(old - lr * g / (sqrt(sum) + eps));
	}
}

static void adam(long n, slice w, slice m, slice v, slice g32, const double *c) {
	double size = c[0], corr = c[1], eps = c[2], b1 = c[3], r1 = 1 - c[3], b2 = c[4], r2 = 1 - c[4], decay = c[5], keep = c[6];
	for (long i = 0; i < n; i++) {
		double old = w[i], g = g32[i] + decay * old;
		double first = b1 * m[i] + r1 * g, second = b2 * v[i] + r2 * (g * g);
		m[i] = rounded(first);
		v[i] = rounded(second);
		w[i] = rounded(keep * old - size * first / (sqrt(second) * corr + eps));
	}
}

static void amsgrad(long n, slice w, slice m, slice v, slice top, slice g32, const double *c) {
	double size = c[0], corr = c[1], eps = c[2], b1 = c[3], r1 = 1 - c[3], b2 = c[4], r2 = 1 - c[4], decay = c[5], keep = c[6];
	for (long i = 0; i < n; i++) {
		double old = w[i], g = g32[i] + decay * old;
		double first = b1 * m[i] + r1 * g, second = b2 * v[i] + r2 * (g * g), most = top[i];
		m[i] = rounded(first);
		v[i] = rounded(second);
		second = most > second ? most : second;
		top[i] = rounded(second);
		w[i] = rounded(keep * old - size * first / (sqrt(second) * corr + eps));
	}
}

static void ftrl(long n, slice w, slice z, slice sum, slice g32, const double *c) {
	double rate = c[0], inv = c[1], beta = c[2], l1 = c[3], l2 = c[4];
	for (long i = 0; i < n; i++) {
		double g = g32[i], before = sum[i], now = before + g * g, root = sqrt(now);
		double linear = z[i] + rate * g - (root - sqrt(before)) * inv * w[i];
		sum[i] = rounded(now);
		z[i] = rounded(linear);
		double beyond = fabs(linear) - l1;
		beyond = beyond < 0 ? 0 : beyond;
		w[i] = rounded(0 - copysign(beyond / ((beta + root) * inv + l2), linear));
	}
}

static void sumSquares(long n, slice w, slice g32, const double *c) {
	double lanes[8] = {0}, decay = c[0];
	for (long i = 0; i + 8 <= n; i += 8)
		for (int j = 0; j < 8; j++) {
			double g = g32[i + j] + decay * w[i + j];
			lanes[j] += g * g;
		}
	double sum = 0;
	for (int j = 0; j < 8; j++) sum += lanes[j];
	sink = sum;
}

static void adamNorms(long n, slice w, slice m, slice v, slice g32, const double *c) {
	double size = c[0], corr = c[1], eps = c[2], b1 = c[3], r1 = 1 - c[3], b2 = c[4], r2 = 1 - c[4], decay = c[5], apart = c[7];
	double ws[8] = {0}, us[8] = {0};
	for (long i = 0; i + 8 <= n; i += 8)
		for (int j = 0; j < 8; j++) {
			double old = w[i + j], g = g32[i + j] + decay * old;
			double first = b1 * m[i + j] + r1 * g, second = b2 * v[i + j] + r2 * (g * g);
			double u = size * first / (sqrt(second) * corr + eps) + apart * old;
			ws[j] += old * old;
			us[j] += u * u;
		}
	double sum = 0;
	for (int j = 0; j < 8; j++) sum += ws[j] + us[j];
	sink = sum;
}

#include "codecs.h"

// run says whether there is such a kernel.
static int run(const char *k, long n, float **s, const double *c) {
	if (!strcmp(k, "add")) add(n, s[0], s[1]);
	else if (!strcmp(k, "scale")) scale(n, s[0], c[0]);
	else if (!strcmp(k, "axpy")) axpy(n, s[0], c[0], s[1]);
	else if (!strcmp(k, "axpby")) axpby(n, s[0], c[0], s[1], c[1], s[2]);
	else if (!strcmp(k, "dot")) dot(n, s[0], s[1]);
	else if (!strcmp(k, "nonFinite")) nonFinite(n, s[0]);
	else if (!strcmp(k, "sgd")) sgd(n, s[0], s[1], c);
	else if (!strcmp(k, "momentum")) momentum(n, s[0], s[1], s[2], c, 0);
	else if (!strcmp(k, "nesterov")) momentum(n, s[0], s[1], s[2], c, 1);
	else if (!strcmp(k, "rms")) rms(n, s[0], s[1], s[2], c);
	else if (!strcmp(k, "adam")) adam(n, s[0], s[1], s[2], s[3], c);
	else if (!strcmp(k, "amsgrad")) amsgrad(n, s[0], s[1], s[2], s[3], s[4], c);
	else if (!strcmp(k, "ftrl")) ftrl(n, s[0], s[1], s[2], s[3], c);
	else if (!strcmp(k, "sumSquares")) sumSquares(n, s[0], s[1], c);
	else if (!strcmp(k, "adamNorms")) adamNorms(n, s[0], s[1], s[2], s[3], c);
	else return codec(k, n, s, c);
	return 1;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

#ifdef __AVX512F__
typedef __m512 vec;
#define FMA _mm512_fmadd_ps
#define SET _mm512_set1_ps
#else
typedef __m256 vec;
#define FMA _mm256_fmadd_ps
#define SET _mm256_set1_ps
#endif

static vec accumulators[12];

static void fused(long turns) {
	enum { accs = 12 };
	vec a[accs], x = SET(0.999f), y = SET(0.001f);
	for (int i = 0; i < accs; i++) a[i] = accumulators[i];
	for (long t = 0; t < turns; t++)
#pragma GCC unroll 12
		for (int i = 0; i < accs; i++) a[i] = FMA(a[i], x, y);
	for (int i = 0; i < accs; i++) accumulators[i] = a[i];
}

static int ascending(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

enum { most = 1000 };

// quartile is the lower one.
static double quartile(double *took, int count) {
	qsort(took, count, sizeof *took, ascending);
	return took[count / 4];
}

// measure is the nanoseconds of one call of a kernel, 0 of one that is not here.
double measure(const char *k, long n, float **s, const double *c, double ms) {
	double took[most];
	int count = 0;
	long calls = 1;
	if (!run(k, n, s, c)) return 0;
	for (double end = now() + ms * 1e6; count < most;) {
		double began = now();
		for (long i = 0; i < calls; i++) run(k, n, s, c);
		double t = now() - began;
		if (t < 1e6) {
			calls *= 2;
			continue;
		}
		took[count++] = t / calls;
		if (now() > end) break;
	}
	return quartile(took, count);
}

// peak is the FLOP/s of independent fused products.
double peak(double ms) {
	enum { turns = 100000, flops = 12 * 2 * sizeof(vec) / 4 };
	double took[most];
	int count = 0;
	for (double end = now() + ms * 1e6; count < most && now() < end;) {
		double began = now();
		fused(turns);
		took[count++] = now() - began;
	}
	return (double)turns * flops / quartile(took, count) * 1e9;
}
