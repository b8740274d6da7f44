"""Runs kernels on the host for the fake CUDA driver (`stub_cuda/fake_cuda.c`): g++ compiles the CUDA code.

The threads of a group run one after the other, each until its next barrier. The shuffles, atomic functions and conversions
of float16 that kernels use are emulated.
"""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_uint, c_void_p

_BEFORE = r"""
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cmath>
#include <utility>
using namespace std;

#define __CUDACC__
#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct tng_sizes { unsigned x, y, z; };
struct float2 { float x, y; };
struct double2 { double x, y; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
static tng_sizes threadIdx, blockIdx, blockDim, gridDim;

enum { TNG_THREADS = 1024, TNG_STACK = 64 << 10 };
static ucontext_t tng_scheduler, tng_contexts[TNG_THREADS];
static unsigned tng_current, tng_exchanged[TNG_THREADS];

static void __syncthreads() { swapcontext(&tng_contexts[tng_current], &tng_scheduler); }

static unsigned __shfl_down_sync(unsigned, unsigned x, unsigned by)
{
    unsigned me = tng_current, threads = blockDim.x * blockDim.y * blockDim.z;
    tng_exchanged[me] = x;
    __syncthreads();
    unsigned found = me % 32 + by < 32 && me + by < threads ? tng_exchanged[me + by] : x;
    __syncthreads();
    return found;
}

template <typename To, typename From> static To tng_bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
#define __double_as_longlong(x) tng_bits<long long>((double)(x))
#define __longlong_as_double(x) tng_bits<double>((long long)(x))
#define __float_as_int(x) tng_bits<int>((float)(x))
#define __int_as_float(x) tng_bits<float>((int)(x))

template <typename T> static T atomicAdd(T *p, T x) { T old = *p; *p += x; return old; }
template <typename T> static T atomicExch(T *p, T x) { T old = *p; *p = x; return old; }
template <typename T> static T atomicCAS(T *p, T a, T x) { T old = *p; if (old == a) *p = x; return old; }
"""

_AFTER = r"""
template <typename... P, size_t... I> static void tng_call(void (*f)(P...), void **values, index_sequence<I...>)
{
    f(*(P *)values[I]...);
}

template <typename... P> static void tng_call(void (*f)(P...), void **values)
{
    tng_call(f, values, index_sequence_for<P...>());
}

template <typename... P> static void **tng_copy(void (*)(P...), void **values)
{
    const size_t sizes[] = {sizeof(P)..., 0}, count = sizeof...(P), word = sizeof(long double);
    size_t bytes = count * sizeof(void *) / word * word + word;
    for (size_t size : sizes)
        bytes += size / word * word + word;
    void **copy = (void **)malloc(bytes);
    char *at = (char *)copy + count * sizeof(void *) / word * word + word;
    for (size_t i = 0; i < count; at += sizes[i++] / word * word + word)
        copy[i] = memcpy(at, values[i], sizes[i]);
    return copy;
}

extern "C" void **tng_kept(void **values) { return tng_copy(%(name)s, values); }

static void **tng_values;
static bool tng_done[TNG_THREADS];

static void tng_thread()
{
    tng_call(%(name)s, tng_values);
    tng_done[tng_current] = true;
    swapcontext(&tng_contexts[tng_current], &tng_scheduler);
}

static void tng_place(unsigned thread)
{
    tng_current = thread;
    threadIdx = {thread %% blockDim.x, thread / blockDim.x %% blockDim.y, thread / blockDim.x / blockDim.y};
}

static void tng_group_with_barriers(unsigned threads)
{
    static char *stacks = (char *)malloc((size_t)TNG_THREADS * TNG_STACK);
    for (unsigned i = 0; i < threads; ++i) {
        getcontext(&tng_contexts[i]);
        tng_contexts[i].uc_stack.ss_sp = stacks + (size_t)i * TNG_STACK;
        tng_contexts[i].uc_stack.ss_size = TNG_STACK;
        tng_contexts[i].uc_link = NULL;
        makecontext(&tng_contexts[i], tng_thread, 0);
        tng_done[i] = false;
    }
    for (bool all = false; !all;) {
        all = true;
        for (unsigned i = 0; i < threads; ++i)
            if (!tng_done[i]) {
                tng_place(i);
                swapcontext(&tng_scheduler, &tng_contexts[i]);
                all = all && tng_done[i];
            }
    }
}

extern "C" void tng_run(const unsigned *sizes, void **values)
{
    gridDim = {sizes[0], sizes[1], sizes[2]};
    blockDim = {sizes[3], sizes[4], sizes[5]};
    tng_values = values;
    unsigned threads = sizes[3] * sizes[4] * sizes[5];
    for (blockIdx.z = 0; blockIdx.z < sizes[2]; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < sizes[1]; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < sizes[0]; ++blockIdx.x)
                if (%(barriers)d)
                    tng_group_with_barriers(threads);
                else
                    for (unsigned i = 0; i < threads; ++i) {
                        tng_place(i);
                        tng_call(%(name)s, values);
                    }
}
"""


# Instruction of a GPU -> C++ code for the same conversion
_CONVERSIONS = {
    'asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.data));': "y = tng_bits<_Float16>(x.data);",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.data) : "f"(x));': "y.data = tng_bits<uint16_t>((_Float16)x);",
    'asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.data) : "d"(x));': "y.data = tng_bits<uint16_t>((_Float16)x);",
}


class KernelRunner:
    """Runs the kernels of a fake driver from its construction on.

    Parameters
    ----------
    driver : ctypes.CDLL
        The fake driver.
    folder : str
        The folder of compiled kernels, which later processes find there.
    dialect : str
        The source code in front of kernels, as `loader.cluda` returns it.
    """

    def __init__(self, driver, folder, dialect):
        self.folder, self.dialect = folder, dialect
        os.makedirs(folder, exist_ok=True)
        self.loaded = {}
        self.failures = []
        # The driver holds the address of this object.
        self._callback = CFUNCTYPE(c_void_p, c_char_p, c_char_p, POINTER(c_uint), POINTER(c_void_p))(self._run)
        driver.fake_run_kernels(self._callback)

    def _run(self, text, name, sizes, values):
        """Run a kernel. If `sizes` is NULL, return the address of a copy of its arguments, for a kernel of a graph."""
        try:
            run, kept = self.kernel(text.decode(), name.decode())
            return run(sizes, values) if sizes else kept(values)
        except Exception as error:  # ctypes would only print it
            self.failures.append(error)
            return None

    def kernel(self, text, name):
        """Return the function that runs a kernel of a program, and the function that copies its arguments."""
        if (text, name) not in self.loaded:
            path = os.path.join(self.folder, hashlib.sha256((_BEFORE + _AFTER + text + name).encode()).hexdigest()[:24])
            if not os.path.exists(path + ".so"):
                self._compile(text, name, path)
            library = ctypes.PyDLL(path + ".so")  # kernels have static variables, so threads must not run together
            library.tng_run.restype, library.tng_kept.restype = None, c_void_p
            self.loaded[text, name] = library.tng_run, library.tng_kept
        return self.loaded[text, name]

    def _compile(self, text, name, path):
        own = text.rpartition("#line 1\n")[2]
        barriers = "local_barrier" in own or "ga_shuffle" in own
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            with open(os.path.join(folder, "cluda.h"), "w") as file:
                file.write(_converted(self.dialect))
            with open(os.path.join(folder, "kernel.cpp"), "w") as file:
                prefix = "" if "CLUDA_H" in text else self.dialect
                file.write(_BEFORE + _converted(prefix + text) + _AFTER % dict(name=name, barriers=barriers))
            command = "g++ -std=c++17 -O1 -w -shared -fPIC -I . -o kernel.so kernel.cpp"
            done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError("%s does not compile: %s" % (name, done.stderr[:3000]))
            os.replace(os.path.join(folder, "kernel.so"), path + ".so")


def _converted(text):
    for instruction, code in _CONVERSIONS.items():
        text = text.replace(instruction, code)
    return text
