// Twins of the kernels of codecs, for twins.c. Where gcc makes no vectors of a plain loop, the loop is as a C programmer writes it who knows the instructions.

// gcc thinks little of what is called at the end of a long chain of comparisons, and makes no vectors there unless it is told.
#define KERNEL static __attribute__((noinline, hot)) void
#define INNER static inline __attribute__((always_inline)) void

typedef uint8_t *restrict octets;
typedef uint16_t *restrict halves;
typedef uint32_t *restrict words;

static inline uint32_t magnitude(float f) {
	uint32_t v;
	memcpy(&v, &f, 4);
	return v & 0x7fffffff;
}

static inline float ofBits(uint32_t bits) {
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static inline uint32_t bitsOf(float f) {
	uint32_t v;
	memcpy(&v, &f, 4);
	return v;
}

static inline float signedBy(float f, uint32_t sign) { return ofBits(bitsOf(f) ^ (sign & 0x80000000)); }

#ifdef __AVX512F__
KERNEL encodeF16(long n, halves d, slice x) {
	for (long i = 0; i + 16 <= n; i += 16) _mm256_storeu_si256((__m256i *)(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
}
KERNEL decodeF16(long n, slice d, halves x) {
	for (long i = 0; i + 16 <= n; i += 16) _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((__m256i *)(x + i))));
}
KERNEL addF16(long n, slice d, halves x) {
	for (long i = 0; i + 16 <= n; i += 16)
		_mm512_storeu_ps(d + i, _mm512_add_ps(_mm512_loadu_ps(d + i), _mm512_cvtph_ps(_mm256_loadu_si256((__m256i *)(x + i)))));
}
#else
KERNEL encodeF16(long n, halves d, slice x) {
	for (long i = 0; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
}
KERNEL decodeF16(long n, slice d, halves x) {
	for (long i = 0; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((__m128i *)(x + i))));
}
KERNEL addF16(long n, slice d, halves x) {
	for (long i = 0; i + 8 <= n; i += 8)
		_mm256_storeu_ps(d + i, _mm256_add_ps(_mm256_loadu_ps(d + i), _mm256_cvtph_ps(_mm_loadu_si128((__m128i *)(x + i)))));
}
#endif

KERNEL encodeBF16(long n, halves d, words x) {
	for (long i = 0; i < n; i++) {
		uint32_t v = x[i];
		d[i] = (v & 0x7fffffff) > 0x7f800000 ? v >> 16 | 0x40 : (v + 0x7fff + (v >> 16 & 1)) >> 16;
	}
}
KERNEL decodeBF16(long n, words d, halves x) { for (long i = 0; i < n; i++) d[i] = (uint32_t)x[i] << 16; }
KERNEL addBF16(long n, slice d, halves x) { for (long i = 0; i < n; i++) d[i] += ofBits((uint32_t)x[i] << 16); }

KERNEL maxAbs(long n, words x) {
	uint32_t top = 0;
	for (long i = 0; i < n; i++) {
		uint32_t v = x[i] & 0x7fffffff;
		top = v > top ? v : top;
	}
	sink = top;
}

KERNEL absSum(long n, slice x) {
	float lanes[32] = {0}, sum = 0;
	for (long i = 0; i + 32 <= n; i += 32)
		for (int j = 0; j < 32; j++) lanes[j] += fabsf(x[i + j]);
	for (int j = 0; j < 32; j++) sum += lanes[j];
	sink = sum;
}

KERNEL addAbsSum(long n, slice d, slice x) {
	float lanes[32] = {0}, sum = 0;
	for (long i = 0; i + 32 <= n; i += 32)
		for (int j = 0; j < 32; j++) {
			d[i + j] += x[i + j];
			lanes[j] += fabsf(d[i + j]);
		}
	for (int j = 0; j < 32; j++) sum += lanes[j];
	sink = sum;
}

KERNEL absSumAbove(long n, slice x, float t) {
	float lanes[32] = {0}, sum = 0;
	int count[32] = {0};
	for (long i = 0; i + 32 <= n; i += 32)
		for (int j = 0; j < 32; j++) {
			float a = fabsf(x[i + j]);
			lanes[j] += a >= t ? a : 0;
			count[j] += a >= t;
		}
	for (int j = 0; j < 32; j++) sum += lanes[j] + count[j];
	sink = sum;
}

KERNEL selectAbs(long n, words to, slice x, float t) {
	long found = 0;
#ifdef __AVX512F__
	__m512i places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
	for (long i = 0; i + 16 <= n; i += 16) {
		__mmask16 k = _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_loadu_ps(x + i)), _mm512_set1_ps(t), _CMP_GE_OQ);
		_mm512_storeu_si512(to + found, _mm512_maskz_compress_epi32(k, places));
		found += __builtin_popcount(k);
		places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
	}
#else
	for (long i = 0; i < n; i++) {
		to[found] = i;
		found += fabsf(x[i]) >= t;
	}
#endif
	sink = found;
}

KERNEL packSigns(long n, octets d, slice x) {
#ifdef __AVX512F__
	for (long i = 0; i + 16 <= n; i += 16) {
		uint16_t k = _mm512_movepi32_mask(_mm512_castps_si512(_mm512_loadu_ps(x + i)));
		memcpy(d + i / 8, &k, 2);
	}
#else
	for (long i = 0; i + 8 <= n; i += 8) d[i / 8] = _mm256_movemask_ps(_mm256_loadu_ps(x + i));
#endif
}

KERNEL packSignsRest(long n, octets d, slice x, float scale) {
#ifdef __AVX512F__
	__m512 sign = _mm512_set1_ps(-0.f), s = _mm512_set1_ps(scale);
	for (long i = 0; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		uint16_t k = _mm512_movepi32_mask(_mm512_castps_si512(v));
		memcpy(d + i / 8, &k, 2);
		_mm512_storeu_ps(x + i, _mm512_sub_ps(v, _mm512_xor_ps(_mm512_and_ps(v, sign), s)));
	}
#else
	for (long i = 0; i + 8 <= n; i += 8) {
		d[i / 8] = _mm256_movemask_ps(_mm256_loadu_ps(x + i));
		for (long j = i; j < i + 8; j++) x[j] -= signedBy(scale, bitsOf(x[j]));
	}
#endif
}

INNER signs(long n, slice d, octets x, float scale, int add) {
#ifdef __AVX512F__
	__m512 plus = _mm512_set1_ps(scale), minus = _mm512_set1_ps(-scale);
	for (long i = 0; i + 16 <= n; i += 16) {
		uint16_t k;
		memcpy(&k, x + i / 8, 2);
		__m512 v = _mm512_mask_blend_ps(k, plus, minus);
		_mm512_storeu_ps(d + i, add ? _mm512_add_ps(_mm512_loadu_ps(d + i), v) : v);
	}
#else
	for (long i = 0; i + 8 <= n; i += 8)
		for (int j = 0; j < 8; j++) {
			float v = signedBy(scale, (uint32_t)x[i / 8] << (31 - j));
			d[i + j] = add ? d[i + j] + v : v;
		}
#endif
}

INNER twoBits(long n, octets some, octets neg, slice x, float t, float level, int rest) {
#ifdef __AVX512F__
	__m512 sign = _mm512_set1_ps(-0.f), s = _mm512_set1_ps(level), least = _mm512_set1_ps(t);
	for (long i = 0; i + 16 <= n; i += 16) {
		__m512 v = _mm512_loadu_ps(x + i);
		uint16_t k = _mm512_cmp_ps_mask(_mm512_abs_ps(v), least, _CMP_GE_OQ), m = k & _mm512_movepi32_mask(_mm512_castps_si512(v));
		memcpy(some + i / 8, &k, 2);
		memcpy(neg + i / 8, &m, 2);
		if (rest) _mm512_storeu_ps(x + i, _mm512_mask_sub_ps(v, k, v, _mm512_xor_ps(_mm512_and_ps(v, sign), s)));
	}
#else
	for (long i = 0; i + 8 <= n; i += 8) {
		__m256 v = _mm256_loadu_ps(x + i);
		__m256 k = _mm256_cmp_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.f), v), _mm256_set1_ps(t), _CMP_GE_OQ);
		some[i / 8] = _mm256_movemask_ps(k);
		neg[i / 8] = _mm256_movemask_ps(_mm256_and_ps(k, v));
		if (rest)
			for (long j = i; j < i + 8; j++) x[j] -= fabsf(x[j]) >= t ? signedBy(level, bitsOf(x[j])) : 0;
	}
#endif
}

INNER ofTwoBits(long n, slice d, octets some, octets neg, float level, int add) {
#ifdef __AVX512F__
	__m512 plus = _mm512_set1_ps(level), minus = _mm512_set1_ps(-level);
	for (long i = 0; i + 16 <= n; i += 16) {
		uint16_t k, m;
		memcpy(&k, some + i / 8, 2);
		memcpy(&m, neg + i / 8, 2);
		__m512 v = _mm512_maskz_mov_ps(k, _mm512_mask_blend_ps(m, plus, minus));
		_mm512_storeu_ps(d + i, add ? _mm512_add_ps(_mm512_loadu_ps(d + i), v) : v);
	}
#else
	for (long i = 0; i + 8 <= n; i += 8)
		for (int j = 0; j < 8; j++) {
			float v = some[i / 8] >> j & 1 ? signedBy(level, (uint32_t)neg[i / 8] << (31 - j)) : 0;
			d[i + j] = add ? d[i + j] + v : v;
		}
#endif
}

enum { int8Block = 256 };

INNER toInt8(long n, octets d, slice x, int rest) {
	for (; n >= int8Block; n -= int8Block, d += 4 + int8Block, x += int8Block) {
		uint32_t top = 0;
		for (int i = 0; i < int8Block; i++) {
			uint32_t v = magnitude(x[i]);
			top = v > top ? v : top;
		}
		float scale = 0, inv = 0;
		if (top >= 0x0d800000) scale = ofBits(top) / 127, inv = 127 / ofBits(top);
		memcpy(d, &scale, 4);
		int8_t *restrict q = (int8_t *)d + 4;
		for (int i = 0; i < int8Block; i++) {
			q[i] = (int)rintf(x[i] * inv);
			if (rest) x[i] -= q[i] * scale;
		}
	}
}

INNER fromInt8(long n, slice d, octets x, int add) {
	for (; n >= int8Block; n -= int8Block, x += 4 + int8Block, d += int8Block) {
		float scale;
		memcpy(&scale, x, 4);
		const int8_t *restrict q = (const int8_t *)x + 4;
		for (int i = 0; i < int8Block; i++) d[i] = add ? d[i] + q[i] * scale : q[i] * scale;
	}
}

KERNEL unpackSigns(long n, slice d, octets x, float scale) { signs(n, d, x, scale, 0); }
KERNEL addSigns(long n, slice d, octets x, float scale) { signs(n, d, x, scale, 1); }
KERNEL packTwoBit(long n, octets some, octets neg, slice x, float t) { twoBits(n, some, neg, x, t, 0, 0); }
KERNEL packTwoBitRest(long n, octets some, octets neg, slice x, float t, float level) { twoBits(n, some, neg, x, t, level, 1); }
KERNEL unpackTwoBit(long n, slice d, octets some, octets neg, float level) { ofTwoBits(n, d, some, neg, level, 0); }
KERNEL addTwoBit(long n, slice d, octets some, octets neg, float level) { ofTwoBits(n, d, some, neg, level, 1); }
KERNEL encodeInt8(long n, octets d, slice x) { toInt8(n, d, x, 0); }
KERNEL encodeInt8Rest(long n, octets d, slice x) { toInt8(n, d, x, 1); }
KERNEL decodeInt8(long n, slice d, octets x) { fromInt8(n, d, x, 0); }
KERNEL addInt8(long n, slice d, octets x) { fromInt8(n, d, x, 1); }

// codec runs a kernel of codecs and says whether k is one.
static int codec(const char *k, long n, float **s, const double *c) {
	void *a = s[0], *b = s[1];
	octets more = (octets)a + 2 * n, from = (octets)b + 2 * n;
	if (!strcmp(k, "encodeF16")) encodeF16(n, a, b);
	else if (!strcmp(k, "decodeF16")) decodeF16(n, a, b);
	else if (!strcmp(k, "addF16")) addF16(n, a, b);
	else if (!strcmp(k, "encodeBF16")) encodeBF16(n, a, b);
	else if (!strcmp(k, "decodeBF16")) decodeBF16(n, a, b);
	else if (!strcmp(k, "addBF16")) addBF16(n, a, b);
	else if (!strcmp(k, "maxAbs")) maxAbs(n, a);
	else if (!strcmp(k, "absSum")) absSum(n, a);
	else if (!strcmp(k, "addAbsSum")) addAbsSum(n, a, b);
	else if (!strcmp(k, "absSumAbove")) absSumAbove(n, a, c[0]);
	else if (!strcmp(k, "selectAbs")) selectAbs(n, a, b, c[0]);
	else if (!strcmp(k, "packSigns")) packSigns(n, a, b);
	else if (!strcmp(k, "packSignsRest")) packSignsRest(n, a, b, c[0]);
	else if (!strcmp(k, "unpackSigns")) unpackSigns(n, a, b, c[0]);
	else if (!strcmp(k, "addSigns")) addSigns(n, a, b, c[0]);
	else if (!strcmp(k, "packTwoBit")) packTwoBit(n, a, more, b, c[0]);
	else if (!strcmp(k, "packTwoBitRest")) packTwoBitRest(n, a, more, b, c[0], c[1]);
	else if (!strcmp(k, "unpackTwoBit")) unpackTwoBit(n, a, b, from, c[0]);
	else if (!strcmp(k, "addTwoBit")) addTwoBit(n, a, b, from, c[0]);
	else if (!strcmp(k, "encodeInt8")) encodeInt8(n, a, s[2]);
	else if (!strcmp(k, "encodeInt8Rest")) encodeInt8Rest(n, a, s[2]);
	else if (!strcmp(k, "decodeInt8")) decodeInt8(n, a, b);
	else if (!strcmp(k, "addInt8")) addInt8(n, a, b);
	else return 0;
	return 1;
}
