/* vector_types.h: CUDA's small vectors, with their alignments. */
#ifndef LUO_STANDIN_VECTOR_TYPES_H
#define LUO_STANDIN_VECTOR_TYPES_H

#define STANDIN_ALIGN(n) __attribute__((aligned(n)))
#define STANDIN_BARE(...) __VA_ARGS__
#ifdef __cplusplus
#define STANDIN_MAKE(name, params, values)                                                         \
    static inline name make_##name params                                                          \
    {                                                                                              \
        return name STANDIN_BARE values;                                                           \
    }
#else
#define STANDIN_MAKE(name, params, values)
#endif
#define STANDIN_VECTORS(type, base, a2, a4)                                                        \
    typedef struct type##1                                                                         \
    {                                                                                              \
        base x;                                                                                    \
    }                                                                                              \
    type##1;                                                                                       \
    typedef struct STANDIN_ALIGN(a2) type##2                                                       \
    {                                                                                              \
        base x, y;                                                                                 \
    }                                                                                              \
    type##2;                                                                                       \
    typedef struct type##3                                                                         \
    {                                                                                              \
        base x, y, z;                                                                              \
    }                                                                                              \
    type##3;                                                                                       \
    typedef struct STANDIN_ALIGN(a4) type##4                                                       \
    {                                                                                              \
        base x, y, z, w;                                                                           \
    }                                                                                              \
    type##4;                                                                                       \
    STANDIN_MAKE(type##1, (base x), ({x}))                                                         \
    STANDIN_MAKE(type##2, (base x, base y), ({x, y}))                                              \
    STANDIN_MAKE(type##3, (base x, base y, base z), ({x, y, z}))                                   \
    STANDIN_MAKE(type##4, (base x, base y, base z, base w), ({x, y, z, w}))

STANDIN_VECTORS(char, signed char, 2, 4)
STANDIN_VECTORS(uchar, unsigned char, 2, 4)
STANDIN_VECTORS(short, short, 4, 8)
STANDIN_VECTORS(ushort, unsigned short, 4, 8)
STANDIN_VECTORS(int, int, 8, 16)
STANDIN_VECTORS(uint, unsigned int, 8, 16)
STANDIN_VECTORS(float, float, 8, 16)
STANDIN_VECTORS(longlong, long long, 16, 16)
STANDIN_VECTORS(ulonglong, unsigned long long, 16, 16)
STANDIN_VECTORS(double, double, 16, 16)

typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
#endif
} dim3;
#endif
