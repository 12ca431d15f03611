// Reductions. Each step rounds to the element type, in rank order, as the reducing DMA does.
#include "sim.h"

#include <string.h>

#define LOOP(T, expr)                      \
    do {                                   \
        T *a = acc;                        \
        const T *b = in;                   \
        for (uint64_t i = 0; i < n; i++) { \
            T x = a[i], y = b[i];          \
            a[i] = (T)(expr);              \
        }                                  \
    } while (0)

// Integers wrap: the arithmetic is done unsigned.
#define KERNELS(name, T, U)                                                  \
    static void name(void *acc, const void *in, uint64_t n, HcclReduceOp op) \
    {                                                                        \
        switch (op) {                                                        \
        case HCCL_REDUCE_SUM: LOOP(T, (U)x + (U)y); break;                   \
        case HCCL_REDUCE_PROD: LOOP(T, (U)x *(U)y); break;                   \
        case HCCL_REDUCE_MAX: LOOP(T, x > y ? x : y); break;                 \
        case HCCL_REDUCE_MIN: LOOP(T, x < y ? x : y); break;                 \
        case HCCL_REDUCE_RESERVED: break;                                    \
        }                                                                    \
    }

KERNELS(reduce_i8, int8_t, uint32_t)
KERNELS(reduce_i16, int16_t, uint32_t)
KERNELS(reduce_i32, int32_t, uint32_t)
KERNELS(reduce_i64, int64_t, uint64_t)
KERNELS(reduce_u8, uint8_t, uint32_t)
KERNELS(reduce_u16, uint16_t, uint32_t)
KERNELS(reduce_u32, uint32_t, uint32_t)
KERNELS(reduce_u64, uint64_t, uint64_t)
KERNELS(reduce_f32, float, float)
KERNELS(reduce_f64, double, double)

static float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static float half_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16, exp = h >> 10 & 31U, frac = h & 1023U;
    if (exp == 31) return bits_float(sign | 0x7f800000U | frac << 13);
    if (exp != 0) return bits_float(sign | (exp + 112) << 23 | frac << 13);
    float v = (float)frac / 16777216.0f;
    return sign != 0 ? -v : v;
}

// To nearest, ties to even.
static uint16_t float_half(float f)
{
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000U, mag = u & 0x7fffffffU;
    if (mag > 0x7f800000U) return (uint16_t)(sign | 0x7e00U);
    if (mag >= 0x47800000U) return (uint16_t)(sign | 0x7c00U);
    if (mag < 0x38800000U) {              // a half that is subnormal: let the float unit round
        float v = bits_float(mag) + 0.5f; // ulp of 0.5f is 2^-24, that of a subnormal half
        return (uint16_t)(sign | (float_bits(v) - 0x3f000000U));
    }
    mag += 0xfffU + (mag >> 13 & 1U);
    return (uint16_t)(sign | (mag - 0x38000000U) >> 13);
}

static float bf16_float(uint16_t h) { return bits_float((uint32_t)h << 16); }

static uint16_t float_bf16(float f)
{
    uint32_t u = float_bits(f);
    if ((u & 0x7fffffffU) > 0x7f800000U) return (uint16_t)(u >> 16 | 0x40U);
    return (uint16_t)((u + 0x7fffU + (u >> 16 & 1U)) >> 16);
}

static float combine(float x, float y, HcclReduceOp op)
{
    switch (op) {
    case HCCL_REDUCE_SUM: return x + y;
    case HCCL_REDUCE_PROD: return x * y;
    case HCCL_REDUCE_MAX: return x > y ? x : y;
    case HCCL_REDUCE_MIN: return x < y ? x : y;
    case HCCL_REDUCE_RESERVED: break;
    }
    return x;
}

static void reduce_f16(void *acc, const void *in, uint64_t n, HcclReduceOp op)
{
    LOOP(uint16_t, float_half(combine(half_float(x), half_float(y), op)));
}

static void reduce_bf16(void *acc, const void *in, uint64_t n, HcclReduceOp op)
{
    LOOP(uint16_t, float_bf16(combine(bf16_float(x), bf16_float(y), op)));
}

void reduce_into(void *acc, const void *in, uint64_t n, HcclDataType t, HcclReduceOp op)
{
    switch ((int)t) {
    case HCCL_DATA_TYPE_INT8: reduce_i8(acc, in, n, op); break;
    case HCCL_DATA_TYPE_INT16: reduce_i16(acc, in, n, op); break;
    case HCCL_DATA_TYPE_INT32: reduce_i32(acc, in, n, op); break;
    case HCCL_DATA_TYPE_INT64: reduce_i64(acc, in, n, op); break;
    case HCCL_DATA_TYPE_UINT8: reduce_u8(acc, in, n, op); break;
    case HCCL_DATA_TYPE_UINT16: reduce_u16(acc, in, n, op); break;
    case HCCL_DATA_TYPE_UINT32: reduce_u32(acc, in, n, op); break;
    case HCCL_DATA_TYPE_UINT64: reduce_u64(acc, in, n, op); break;
    case HCCL_DATA_TYPE_FP16: reduce_f16(acc, in, n, op); break;
    case HCCL_DATA_TYPE_FP32: reduce_f32(acc, in, n, op); break;
    case HCCL_DATA_TYPE_FP64: reduce_f64(acc, in, n, op); break;
    case HCCL_DATA_TYPE_BFP16: reduce_bf16(acc, in, n, op); break;
    default: break;
    }
}
