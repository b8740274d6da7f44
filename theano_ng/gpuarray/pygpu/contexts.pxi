# Part of gpuarray.pyx: contexts, how they are opened, and the program cache that processes share.

cdef void *_find(gpucontext *ctx, const char *text, int flags, const char *options, size_t *size) noexcept with gil:
    try:
        cache = _caches.get(<size_t>ctx)
        found = None if cache is None else cache.find(_program_key(ctx, text, flags, options))
    except Exception:
        found = None
    if found is None:
        return NULL
    size[0] = len(found)
    cdef void *copy = malloc(size[0] + 1)
    if copy != NULL:
        memcpy(copy, <const char *><bytes>found, size[0])
    return copy


cdef void _keep(gpucontext *ctx, const char *text, int flags, const char *options, const void *binary, size_t size) noexcept with gil:
    try:
        cache = _caches.get(<size_t>ctx)
        if cache is not None:
            cache.keep(_program_key(ctx, text, flags, options), (<const char *>binary)[:size])
    except Exception:
        pass  # a cache that cannot be written is ignored


cdef void *_release_gil() noexcept nogil:
    if not PyGILState_Check():
        return NULL
    queue_close_any()
    return PyEval_SaveThread()


cdef void _acquire_gil(void *given) noexcept nogil:
    PyEval_RestoreThread(given)


cdef object _program_key(gpucontext *ctx, const char *text, int flags, const char *options):
    cdef const char *binaries = NULL
    gpucontext_property(ctx, GA_CTX_PROP_BIN_ID, &binaries)
    return (binaries, b"%d" % flags, options, loader.cluda(_kinds[<size_t>ctx]).encode(), text)


_caches = {}  # address of a context -> ProgramCache
_kinds = {}  # address of a context -> "cuda", "opencl", "stub"
_names = {}  # address of a context -> the string with which the context was opened
_default = None


def init(dev, sched="default", single_stream=False, kernel_cache_path=None, max_cache_size=None, initial_cache_size=0, checked=False):
    """Open a context: a device with a separate stream and memory pool.

    Parameters
    ----------
    dev : str
        ``"cuda"``, ``"cuda0"``, ``"opencl0:1"`` (platform and device).
    sched : {"default", "single", "multi"}
        How the host waits: "single" spins, for one thread that waits often; "multi" yields, for several threads.
    single_stream : bool
        Accepted for old code, without effect: copies always run in the stream of the computations.
    kernel_cache_path : str, optional
        A folder for the built programs.
    max_cache_size : int, optional
        If 0, freed memory is returned to the device at once.
    initial_cache_size : float
        Memory to reserve, as in `config.gpuarray.preallocate`: a fraction of the memory, or megabytes.
    checked : bool
        Whether to wait for every kernel, so that an error is reported for the kernel that failed. This is slow.

    Returns
    -------
    GpuContext

    Raises
    ------
    ValueError
        If `dev` is not a valid name of a device.
    GpuArrayException
        If there is no such device, or it cannot be used; the message gives the reason.
    """
    cdef GpuContext made = GpuContext.__new__(GpuContext)
    cdef char text[4096]
    cdef int code, flags = GA_CTX_SINGLE_STREAM
    name = dev.encode()
    if sched not in ("default", "single", "multi"):
        raise ValueError("sched must be 'default', 'single' or 'multi', not %r" % (sched,))
    flags |= {"default": 0, "single": GA_CTX_SCHED_SINGLE, "multi": GA_CTX_SCHED_MULTI}[sched]
    if checked:
        flags |= GA_CTX_CHECKED
    for which, path in loader.libraries(dev).items():
        _set_library(which, path)
    kind = dev.rstrip("0123456789:")
    if kind in ("cuda", "opencl"):
        device_set_dialect(kind.encode(), loader.cluda(kind).encode())
    made.ctx = gpucontext_open(name, flags, -1.0 if max_cache_size == 0 else initial_cache_size, &code, text, sizeof(text))
    if made.ctx == NULL:
        raise _EXCEPTIONS.get(code, GpuArrayException)(text.decode("utf-8", "replace"))
    _kinds[<size_t>made.ctx] = kind
    _names[<size_t>made.ctx] = dev
    if kernel_cache_path is not None:
        made.kernel_cache_path = kernel_cache_path
        _caches[<size_t>made.ctx] = ProgramCache(kernel_cache_path)
        device_program_cache.find = _find
        device_program_cache.keep = _keep
    device_outer_lock.release = _release_gil
    device_outer_lock.acquire = _acquire_gil
    return made


def set_default_context(context):
    """Set the default context. It is used by calls without a context. None removes the default context."""
    global _default
    if context is not None and not isinstance(context, GpuContext):
        raise TypeError("expected a GpuContext, got %s" % type(context).__name__)
    _default = context


def get_default_context():
    """Return the default context. It is used by calls without a context. Return None if no default context is set."""
    return _default


cdef GpuContext _context(context):
    if context is None:
        context = _default
    if context is None:
        raise TypeError("no context was given, and there is no default (set_default_context)")
    if not isinstance(context, GpuContext):
        raise TypeError("expected a GpuContext, got %s" % type(context).__name__)
    return context


def count_platforms(kind):
    """Return the number of platforms of a kind ("cuda", "opencl")."""
    n = 0
    while _opens("%s%d" % (kind, n)) if kind == "opencl" else n == 0 and count_devices(kind, 0) > 0:
        n += 1
    return n


def count_devices(kind, platform):
    """Return the number of devices of a platform. CUDA has one platform, number 0."""
    n = 0
    while _opens("%s%d" % (kind, n) if kind == "cuda" else "%s%d:%d" % (kind, platform, n)):
        n += 1
    return n


def _opens(name):
    try:
        init(name)
    except (GpuArrayException, ValueError, MemoryError):
        return False
    return True


cdef size_t _number(GpuContext context, int property) except? 0:
    cdef size_t value = 0
    pygpu_raise(context.ctx, gpucontext_property(context.ctx, property, &value))
    return value


def _set_library(which, path):
    """Tell the C code where a library is; see `loader.libraries`."""
    encoded = b"" if path is None else os.fsencode(path)
    device_set_library(which.encode(), <const char *>NULL if path is None else <const char *>encoded)


def _version_text(version):
    """Return the text of a version number that C code returns: "12.4.1" for 120401."""
    return "%d.%d.%d" % (version // 10000, version // 100 % 100, version % 100)


cdef public class GpuContext [object PyGpuContextObject, type _PyGpuContextType]:
    """A device with a stream and a memory pool. `init` opens a context. The context is closed when its last reference
    is dropped.
    """

    def __init__(self):
        raise TypeError("contexts are opened by init()")

    def __cinit__(self):
        self.kernels = {}

    def __dealloc__(self):
        if self.ctx != NULL:
            for table in (_kinds, _names, _caches):
                if table is not None:  # Python sets the tables to None at the end of the process
                    table.pop(<size_t>self.ctx, None)
            gpucontext_release(self.ctx)

    def __reduce__(self):
        raise RuntimeError("contexts cannot be pickled")

    def __enter__(self):
        """Make this the default context inside a ``with`` statement."""
        if self.entered is None:
            self.entered = []
        self.entered.append(_default)
        set_default_context(self)
        return self

    def __exit__(self, *raised):
        set_default_context(self.entered.pop())

    def __repr__(self):
        return "<GpuContext %s: %s>" % (self.kind.decode(), self.devname)

    def sync(self):
        """Wait until the device has done all its work."""
        cdef int code
        queue_close_any()
        with nogil:
            code = gpucontext_sync(self.ctx)
        pygpu_raise(self.ctx, code)

    def trim(self):
        """Return the unused memory of the pool to the device."""
        pool_trim(self.ctx)

    @property
    def ptr(self):
        """The address of the context's C record."""
        return <size_t>self.ctx

    @property
    def kind(self):
        """b"cuda", b"opencl" or b"stub"."""
        return _kinds[<size_t>self.ctx].encode()

    @property
    def devname(self):
        """The name of the device."""
        cdef char name[256]
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_DEVNAME, name))
        return name.decode("utf-8", "replace")

    @property
    def unique_id(self):
        """A text that identifies the device: its PCI bus id, or for OpenCL the numbers of its platform and device."""
        cdef char name[16]
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_UNIQUE_ID, name))
        return name.decode("utf-8", "replace")

    @property
    def pcibusid(self):
        """The PCI bus id of the device.

        Raises
        ------
        UnsupportedException
            If the device is an OpenCL device: OpenCL does not report the bus id.
        """
        if self.kind == b"opencl":
            raise UnsupportedException("%s has no PCI bus id: OpenCL does not report it" % self.devname)
        return self.unique_id

    @property
    def bin_id(self):
        """A text that identifies the device and compiler for which binaries are built."""
        cdef const char *name = NULL
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_BIN_ID, &name))
        return name.decode("utf-8", "replace")

    @property
    def cublas(self):
        """The version of cuBLASLt, which multiplies matrices on CUDA devices, such as ``"13.1.0"``.

        Raises
        ------
        UnsupportedException
            If the device is no CUDA device.
        GpuArrayException
            If the library is missing, too old, or of a CUDA version that the driver does not support.
        """
        cdef size_t version = 0
        pygpu_raise(self.ctx, cublas_open(self.ctx, &version))
        return _version_text(version)

    @property
    def cublas_solve(self):
        """The version of cuBLAS, which solves triangular systems on CUDA devices. For errors, see `cublas`."""
        cdef size_t version = 0
        _set_library("cublas", loader.cublas("cublas"))
        pygpu_raise(self.ctx, cublas_solve_open(self.ctx, &version))
        return _version_text(version)

    @property
    def cusolver(self):
        """The version of cuSOLVER, which factorizes matrices on CUDA devices. For errors, see `cublas`."""
        cdef size_t version = 0
        _set_library("cusolver", loader.cusolver())
        pygpu_raise(self.ctx, cusolver_open(self.ctx, &version))
        return _version_text(version)

    @property
    def cufft(self):
        """The version of cuFFT, which computes Fourier transforms on CUDA devices. For errors, see `cublas`."""
        cdef size_t version = 0
        _set_library("cufft", loader.cufft())
        pygpu_raise(self.ctx, cufft_open(self.ctx, &version))
        return _version_text(version)

    @property
    def cudnn(self):
        """The version of cuDNN, which computes parts of neural networks on CUDA devices, such as ``92800`` for 9.28.0.

        Raises
        ------
        UnsupportedException
            If the device is no CUDA device.
        GpuArrayException
            If the library is missing, too old, or of a CUDA version that the driver does not support.
        """
        cdef size_t version = 0
        pygpu_raise(self.ctx, cudnn_open(self.ctx, &version))
        return version

    @property
    def cudnn_handle(self):
        """The address of cuDNN's handle of this device, for C code. Errors as for `cudnn`."""
        cdef void *handle = NULL
        pygpu_raise(self.ctx, cudnn_handle(self.ctx, &handle))
        return <size_t>handle

    @property
    def nccl(self):
        """The version of NCCL, which sums and copies arrays of several CUDA devices, such as ``"2.28.3"``.

        Raises
        ------
        UnsupportedException
            If the device is no CUDA device.
        GpuArrayException
            If the library is missing or too old.
        """
        cdef int version = 0
        pygpu_raise(self.ctx, nccl_open(self.ctx, &version))
        return "%d.%d.%d" % (version // 10000, version // 100 % 100, version % 100)

    @property
    def lmemsize(self):
        """The number of bytes of local memory per group."""
        return _number(self, GA_CTX_PROP_LMEMSIZE)

    @property
    def numprocs(self):
        """The number of processors (multiprocessors, compute units) of the device."""
        cdef unsigned value = 0
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_NUMPROCS, &value))
        return value

    @property
    def maxlsize(self):
        """The maximum number of threads in a group."""
        return _number(self, GA_CTX_PROP_MAXLSIZE)

    @property
    def maxlsize0(self):
        """The maximum number of threads in a group, along the first axis."""
        return _number(self, GA_CTX_PROP_MAXLSIZE0)

    @property
    def maxlsize1(self):
        """The maximum number of threads in a group, along the second axis."""
        return _number(self, GA_CTX_PROP_MAXLSIZE1)

    @property
    def maxlsize2(self):
        """The maximum number of threads in a group, along the third axis."""
        return _number(self, GA_CTX_PROP_MAXLSIZE2)

    @property
    def maxgsize(self):
        """The maximum number of groups in a launch, along the first axis. It equals `maxgsize0`."""
        return _number(self, GA_CTX_PROP_MAXGSIZE)

    @property
    def maxgsize0(self):
        """The maximum number of groups in a launch, along the first axis."""
        return _number(self, GA_CTX_PROP_MAXGSIZE0)

    @property
    def maxgsize1(self):
        """The maximum number of groups in a launch, along the second axis."""
        return _number(self, GA_CTX_PROP_MAXGSIZE1)

    @property
    def maxgsize2(self):
        """The maximum number of groups in a launch, along the third axis."""
        return _number(self, GA_CTX_PROP_MAXGSIZE2)

    @property
    def vector_bytes(self):
        """The number of bytes of the vectors in which a processor computes. It is 0 for GPUs."""
        cdef size_t value = 0
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_VECTOR_BYTES, &value))
        return value

    @property
    def has_double(self):
        """Whether kernels can compute with float64 numbers."""
        cdef size_t value = 0
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_HAS_DOUBLE, &value))
        return value != 0

    @property
    def argument_bytes(self):
        """The number of bytes that all arguments of a kernel may have together."""
        return _number(self, GA_CTX_PROP_ARGUMENT_BYTES)

    @property
    def has_long_atomics(self):
        """Whether kernels can add and exchange values of 8 bytes atomically."""
        cdef size_t value = 0
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_LONG_ATOMICS, &value))
        return value != 0

    @property
    def total_gmem(self):
        """The number of bytes of device memory."""
        return _number(self, GA_CTX_PROP_TOTAL_GMEM)

    @property
    def free_gmem(self):
        """The number of free bytes of device memory, or the number of all bytes if the driver does not report it."""
        return _number(self, GA_CTX_PROP_FREE_GMEM)

    @property
    def largest_memblock(self):
        """The number of bytes of the largest possible array."""
        return _number(self, GA_CTX_PROP_LARGEST_MEMBLOCK)

    def work_queue(self, size_t open_queue):
        """Return the address of the context's `WorkQueue` (gof/work_queue.h), which collects launches for graphs.

        Parameters
        ----------
        open_queue : int
            The address of the pointer to the open queue of the process.
        """
        cdef WorkQueue *queue = launch_queue_of(self.ctx, <WorkQueue **>open_queue, raise_collected)
        if queue == NULL:
            raise MemoryError()
        return <size_t>queue

    @property
    def graphs(self):
        """What functions with graphs have done on the device: a dict with the number of graphs that were ``recorded``,
        of their ``runs``, of the calls in these runs (``in_runs``), of the calls whose arguments were ``replaced`` for
        these runs, and of the ``calls`` that were made one by one.
        """
        cdef queue_counts counts
        queue_count(self.ctx, &counts)
        return {"recorded": counts.recorded, "runs": counts.runs, "in_runs": counts.in_runs, "replaced": counts.replaced, "calls": counts.calls}

    @property
    def memory(self):
        """The state of the pool: a dict with the bytes ``in_use`` and ``reserved``, the maximum (``peak``) of the bytes
        in use, the number of ``blocks`` in use, and the number of ``allocations`` from the device.
        """
        cdef pool_counts counts
        pool_count(self.ctx, &counts)
        return {"in_use": counts.in_use, "reserved": counts.reserved, "peak": counts.peak, "blocks": counts.blocks, "allocations": counts.allocations}
