/* Functions of the fake driver (fake_cuda.c) for fake libraries: streams, memory, failures, notes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUstream_st;
struct CUctx_st;
int fake_enqueue(struct CUstream_st *, void (*)(void *), void *, size_t);
int fake_is_memory(const void *, size_t);
void fake_note(const char *);
int fake_fails(const char *);
struct CUctx_st *fake_current(void);

static void note(const char *format, ...)
{
    char line[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fake_note(line);
}

/* Fail if a test has asked for it. */
#define CALL(name)                      \
    do {                                \
        int status_ = fake_fails(name); \
        if (status_)                    \
            return status_;             \
    } while (0)

/* Elements of type float or double, as doubles */

static double get(const void *at, int is_double, long i)
{
    return is_double ? ((const double *)at)[i] : ((const float *)at)[i];
}

static void put(void *at, int is_double, long i, double value)
{
    if (is_double)
        ((double *)at)[i] = value;
    else
        ((float *)at)[i] = (float)value;
}

static size_t size_of(int is_double)
{
    return is_double ? sizeof(double) : sizeof(float);
}

/* Return whether a matrix by columns is in device memory, and its columns do not overlap. */
static int is_matrix(const void *at, int is_double, long rows, long columns, long leading)
{
    return rows > 0 && columns > 0 && leading >= rows
           && fake_is_memory(at, (size_t)((columns - 1) * leading + rows) * size_of(is_double));
}
