/* The interpreter of elementwise programs. It runs a program until the program has a compiled kernel (loops/kernel.py).
 *
 * A program (written by loops/blocks/interpreter.py) is a list of instructions. Each instruction applies one operation
 * to a block of elements. Blocks are so small that intermediate results stay in the first-level cache. */
#ifndef THEANO_NG_BLOCKS_H
#define THEANO_NG_BLOCKS_H

#include <stdint.h>

/* Compute n elements of an operation with one to four operands; all arrays are contiguous. The result may overwrite an
 * operand, element by element. For divisions of integers, the fourth operand points to an int instead, which is set to
 * 1 if a divisor is zero. */
typedef void (*instruction_fn)(int64_t n, char *out, const char *a, const char *b, const char *c, char *d);

typedef struct {
    const char *name;
    instruction_fn run;
} Instruction;

/* The list of all instructions; the last entry has the name NULL. */
extern const Instruction block_instructions[] __attribute__((visibility("hidden")));

/* The functions that elemwise.c and reduce_elemwise.h call instead of compiled kernels; stride[-1] is the address of
 * the program. blocks_run stores the results. A function in block_sums adds the elements of the program's only result
 * to one accumulator, or each element to a separate accumulator. `dtype` is the dtype of the accumulators (see SUM in
 * interpreter.c). */
__attribute__((visibility("hidden"))) void blocks_run(int64_t n, char **ptr, const int64_t *stride);

/* The function that LoopThunk calls instead of a compiled loop of scan (scan/kernel.py); place[-1] is the address of
 * the program. */
__attribute__((visibility("hidden"))) int64_t blocks_loop(int64_t steps, int64_t total, char **base,
                                                          const int64_t *place);
typedef int64_t (*blocks_loop_fn)(int64_t steps, int64_t total, char **base, const int64_t *place);

typedef void (*blocks_fn)(int64_t n, char **ptr, const int64_t *stride);
typedef struct {
    const char *dtype;
    blocks_fn run;
} BlockSum;
extern const BlockSum block_sums[] __attribute__((visibility("hidden")));

#endif
