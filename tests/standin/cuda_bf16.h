/* cuda_bf16.h: bf16 as CUDA's type of it: the upper half of a float, rounded to
 * nearest even. NaN stays NaN. */
#ifndef LUO_STANDIN_CUDA_BF16_H
#define LUO_STANDIN_CUDA_BF16_H
#ifdef __cplusplus
#include <cstdint>
#include <cstring>

#include "vector_types.h"

struct alignas(2) __nv_bfloat16_raw {
    unsigned short x;
};

static inline unsigned short standin_bf16_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<unsigned short>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float standin_bf16_value(unsigned short bits)
{
    const uint32_t u = static_cast<uint32_t>(bits) << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

struct alignas(2) __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(float f) : __x(standin_bf16_bits(f))
    {
    }
    explicit __nv_bfloat16(double f) : __x(standin_bf16_bits(static_cast<float>(f)))
    {
    }
    explicit __nv_bfloat16(int f) : __x(standin_bf16_bits(static_cast<float>(f)))
    {
    }
    __nv_bfloat16(const __nv_bfloat16_raw &r) : __x(r.x)
    {
    }
    operator __nv_bfloat16_raw() const
    {
        return {__x};
    }
    operator float() const
    {
        return standin_bf16_value(__x);
    }
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(const __nv_bfloat16 &a, const __nv_bfloat16 &b) : x(a), y(b)
    {
    }
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float f)
{
    return __nv_bfloat16(f);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    return __nv_bfloat16(f);
}
static inline float __bfloat162float(__nv_bfloat16 b)
{
    return static_cast<float>(b);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v)
{
    return __floats2bfloat162_rn(v.x, v.y);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return make_float2(static_cast<float>(v.x), static_cast<float>(v.y));
}
static inline float __low2float(__nv_bfloat162 v)
{
    return static_cast<float>(v.x);
}
static inline float __high2float(__nv_bfloat162 v)
{
    return static_cast<float>(v.y);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b)
{
    return b.__x;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
#endif
#endif
