// How loops of kernels are unrolled, where it is not left to the compiler.
#ifndef TANDEM_MACHINE_UNROLL_H
#define TANDEM_MACHINE_UNROLL_H

#define TANDEM_INLINE_LAMBDA __attribute__((always_inline))
#define TANDEM_INLINE inline __attribute__((always_inline))
// (What is indexed by a loop stays in registers only if the loop is unrolled early.)
#define TANDEM_UNROLL _Pragma("GCC unroll 16")
// A core that another thread shares issues half as much: what only counts is done for four turns.
#define TANDEM_BY_FOUR _Pragma("GCC unroll 4")

#endif  // TANDEM_MACHINE_UNROLL_H
