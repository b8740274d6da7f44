# Part of gpuarray.pyx: kernels.

cdef class GpuKernel:
    """A kernel, built for a context.

    Parameters
    ----------
    source : str
        Source code in the dialect of ``cluda.h``, or, with `cuda` or `opencl`, in the device's language.
    name : str
        Name of the kernel in `source`.
    types : sequence
        Types of the arguments: `GpuArray`, `SIZE`, `SSIZE` or a dtype.
    context : GpuContext, optional
    cuda, opencl : bool
        Whether `source` is plain CUDA or OpenCL.
    have_double, have_small, have_complex, have_half : bool
        Capabilities that the kernel needs.

    Raises
    ------
    GpuArrayException
        If the kernel cannot be built. The message contains the numbered source and the compiler's output.
    """

    def __init__(self, source, name, types, context=None, cuda=False, opencl=False, have_double=False, have_small=False, have_complex=False,
                 have_half=False):
        flags = (cuda and GA_USE_CUDA) | (opencl and GA_USE_OPENCL) | (have_double and GA_USE_DOUBLE) | (have_small and GA_USE_SMALL)
        flags |= (have_complex and GA_USE_COMPLEX) | (have_half and GA_USE_HALF)
        made = build(source, [(name, types)], context, flags)[0]
        _move_kernel(self, made)

    def __dealloc__(self):
        gpukernel_release(self.kernel)

    @property
    def maxlsize(self):
        """The maximum number of threads in a group."""
        cdef size_t value = 0
        pygpu_raise(self.context.ctx, gpukernel_property(self.kernel, GA_KERNEL_PROP_MAXLSIZE, &value))
        return value

    @property
    def preflsize(self):
        """The preferred group size. The number of threads in a group should be a multiple of it."""
        cdef size_t value = 0
        pygpu_raise(self.context.ctx, gpukernel_property(self.kernel, GA_KERNEL_PROP_PREFLSIZE, &value))
        return value

    @property
    def numargs(self):
        """The number of arguments."""
        return len(self.types)

    @property
    def ptr(self):
        """The address of the kernel's C record. It is valid as long as the kernel exists."""
        return <size_t>self.kernel

    def __call__(self, *args, n=None, gs=None, ls=None, shared=0):
        """Launch the kernel.

        Parameters
        ----------
        *args
            Arrays and numbers, in the order of the arguments.
        n : int or sequence of int, optional
            Number of threads in total. Alternatively, give `gs` and `ls`.
        gs, ls : int or sequence of int, optional
            Number of groups, and of threads in a group.
        shared : int
            Bytes of local memory.
        """
        cdef size_t groups[3]
        cdef size_t group[3]
        cdef void *values[256]
        cdef char numbers[256 * 16]
        cdef GpuArray a
        cdef int i, nd
        cdef bytes number
        if len(args) != len(self.types):
            raise TypeError("kernel %s has %d arguments, got %d" % (self.name, len(self.types), len(args)))
        for i, (value, kind) in enumerate(zip(args, self.types)):
            if kind is None:
                if not isinstance(value, GpuArray):
                    raise TypeError("argument %d of kernel %s is an array, not %s" % (i, self.name, type(value).__name__))
                a = value
                values[i] = a.ga.data
            else:
                if not number_fits(value, kind):
                    raise TypeError("argument %d of kernel %s is a number of %s, not %r: convert the number first" % (i, self.name, kind, value))
                number = np.asarray(value, dtype=kind).tobytes()
                memcpy(&numbers[16 * i], <const char *>number, len(number))
                values[i] = &numbers[16 * i]
        sizes = [() if size is None else tuple(size) if isinstance(size, (tuple, list)) else (size,) for size in (n, gs, ls)]
        nd = max(len(size) for size in sizes) or 1
        if nd > 3:
            raise ValueError("a kernel runs along 1 to 3 axes, not %d" % nd)
        if not sizes[0] and not sizes[1]:
            raise ValueError("the number of threads of kernel %s is missing: give n, or gs and ls" % self.name)
        for i in range(nd):
            groups[i] = sizes[1][i] if i < len(sizes[1]) else 0
            group[i] = sizes[2][i] if i < len(sizes[2]) else 0
            if groups[i] == 0 or group[i] == 0:
                total = sizes[0][i] if i < len(sizes[0]) else groups[i] * (group[i] or 1) or 1
                if nd == 1:
                    gpukernel_sched(self.kernel, total, &groups[i], &group[i])
                else:
                    group[i] = group[i] or 1
                    groups[i] = groups[i] or (total + group[i] - 1) // group[i]
        pygpu_raise(self.context.ctx, gpukernel_call(self.kernel, nd, groups, group, shared, values))


_KINDS = {"b": 0, "u": 0, "i": 0, "f": 1, "c": 2}


def number_fits(value, dtype):
    """Return True if a number keeps its fraction and its imaginary part when it is converted to the dtype."""
    if isinstance(value, int):
        return True
    return _KINDS.get(np.asarray(value).dtype.kind, 3) <= _KINDS[dtype.kind]


cdef int _move_kernel(GpuKernel to, GpuKernel made) except -1:
    to.kernel, made.kernel = made.kernel, NULL
    to.context, to.name, to.types, to.codes = made.context, made.name, made.types, made.codes
    return 0


def build(source, kernels, context=None, int flags=0, options=""):
    """Build all kernels of one source text together.

    Parameters
    ----------
    source : str
    kernels : sequence of (str, sequence)
        Names, and argument types as for `GpuKernel`.
    context : GpuContext, optional
    flags : int
        ``GA_USE_...``
    options : str
        Options for the device's compiler.

    Returns
    -------
    list of GpuKernel

    Raises
    ------
    GpuArrayException
        If the program cannot be built. The message contains the numbered source and the compiler's output.
    """
    cdef GpuContext ctx = _context(context)
    cdef unsigned i, n = len(kernels)
    cdef char *log = NULL
    cdef char *listing
    cdef const char **names = <const char **>malloc(n * sizeof(char *) or 1)
    cdef unsigned *counts = <unsigned *>malloc(n * sizeof(unsigned) or 1)
    cdef const int **types = <const int **>malloc(n * sizeof(int *) or 1)
    cdef gpukernel **built = <gpukernel **>malloc(n * sizeof(gpukernel *) or 1)
    cdef GpuKernel kernel
    made = []
    kept = []
    text, words = source.encode(), options.encode()
    try:
        if names == NULL or counts == NULL or types == NULL or built == NULL:
            raise MemoryError()
        for i, (name, arguments) in enumerate(kernels):
            kernel = GpuKernel.__new__(GpuKernel)
            kernel.name = name
            kernel.context = ctx
            kernel.types = [_number_type(argument) for argument in arguments]
            kernel.codes = np.array([_argument_code(argument) for argument in arguments], np.intc).tobytes()
            kept.append(name.encode())
            names[i] = <const char *><bytes>kept[i]
            counts[i] = len(kernel.types)
            types[i] = <const int *><const char *>kernel.codes
            made.append(kernel)
        code = gpukernel_build(ctx.ctx, text, flags, words, n, names, counts, types, built, &log)
        if code != GA_NO_ERROR:
            reason = gpucontext_error(ctx.ctx, code).decode("utf-8", "replace")
            listing = numbered_listing(text, log)
            try:
                raise _EXCEPTIONS.get(code, GpuArrayException)(
                    "kernel %s cannot be built for %s: %s\n%s"
                    % (", ".join([name for name, _ in kernels]), ctx.devname, reason, b"" if listing == NULL else listing.decode("utf-8", "replace"))
                )
            finally:
                free(listing)
        for i in range(n):
            kernel = made[i]
            kernel.kernel = built[i]
    finally:
        free(log)
        free(names)
        free(counts)
        free(types)
        free(built)
    return made


def _is_array(kind):
    return kind == "*" or isinstance(kind, type) and issubclass(kind, GpuArray)


def _argument_code(kind):
    if _is_array(kind):
        return GA_BUFFER
    return kind.code if isinstance(kind, _Argument) else dtype_to_typecode(kind)


def _number_type(kind):
    """Return the dtype of a scalar argument, or None for an array."""
    if _is_array(kind):
        return None
    if isinstance(kind, _Argument):
        return np.dtype("uint64" if kind is SIZE else "int64")
    return typecode_to_dtype(dtype_to_typecode(kind))
