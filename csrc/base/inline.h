// Inner loops are made of small functions that must not become calls; and their registers are given out best
// where they stand alone.
#pragma once

#if defined(_MSC_VER)
#define INTACT_INLINE __forceinline
#define INTACT_INLINE_BODY
#define INTACT_APART __declspec(noinline)
#else
#define INTACT_INLINE __attribute__((always_inline)) inline
#define INTACT_INLINE_BODY __attribute__((always_inline))  // of a lambda
#define INTACT_APART __attribute__((noinline))
#endif

#if defined(__GNUC__)
#define INTACT_UNROLL(n) _Pragma(n)
#else
#define INTACT_UNROLL(n)
#endif
