/* The interpreter of elementwise programs: what stands in for compiled kernels (elemwise/kernel.py) where there are none.
 *
 * A program (elemwise/interpreter.py writes it) is a list of instructions, each of which does one operation for a block of elements; blocks are so
 * small that what passes from one instruction to the next stays in the first-level cache.
 */
#ifndef THEANO_NG_BLOCKS_H
#define THEANO_NG_BLOCKS_H

#include <stdint.h>

/* n elements of the operation's result, of one to four operands, contiguous. The result may overwrite an operand, element by element. Divisions of
 * integers have an int in place of the fourth operand, which becomes 1 where a divisor is zero. */
typedef void (*instruction_fn)(int64_t n, char *out, const char *a, const char *b, const char *c, char *d);

typedef struct {
    const char *name;
    instruction_fn run;
} Instruction;

/* Ends in a name that is NULL. */
extern const Instruction block_instructions[] __attribute__((visibility("hidden")));

/* Two kernels, as elemwise.c and reduce_elemwise.h call them: stride[-1] is the address of the program. The second adds up the program's only
 * result, whose dtype is that of the accumulator (the number of a kind, see SUMS in rows.c). */
__attribute__((visibility("hidden"))) void blocks_run(int64_t n, char **ptr, const int64_t *stride);

/* A loop of scan, as LoopThunk calls it (scan/kernel.py); place[-1] is the address of the program. */
__attribute__((visibility("hidden"))) int64_t blocks_loop(int64_t steps, int64_t total, char **base, const int64_t *place);
typedef int64_t (*blocks_loop_fn)(int64_t steps, int64_t total, char **base, const int64_t *place);

typedef void (*blocks_fn)(int64_t n, char **ptr, const int64_t *stride);
typedef struct {
    const char *dtype;
    blocks_fn run;
} BlockSum;
extern const BlockSum block_sums[] __attribute__((visibility("hidden")));

#endif
