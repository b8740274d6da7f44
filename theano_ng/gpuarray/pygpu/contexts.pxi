# Part of gpuarray.pyx: contexts, how they are opened, and what is kept of programs between processes.

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
        pass  # a cache that cannot be written is none


cdef void *_give_lock() noexcept nogil:
    return PyEval_SaveThread() if PyGILState_Check() else NULL


cdef void _take_lock(void *given) noexcept nogil:
    PyEval_RestoreThread(given)


cdef object _program_key(gpucontext *ctx, const char *text, int flags, const char *options):
    cdef const char *binaries = NULL
    gpucontext_property(ctx, GA_CTX_PROP_BIN_ID, &binaries)
    return (binaries, b"%d" % flags, options, loader.cluda(_kinds[<size_t>ctx]).encode(), text)


_caches = {}  # address of a context -> ProgramCache
_kinds = {}  # address of a context -> "cuda", "opencl", "stub"
_names = {}  # address of a context -> what it was opened as
_default = None


def init(dev, sched="default", single_stream=False, kernel_cache_path=None, max_cache_size=None, initial_cache_size=0, checked=False):
    """Open a context: a device with a stream and a pool of memory of its own.

    Parameters
    ----------
    dev : str
        ``"cuda"``, ``"cuda0"``, ``"opencl0:1"`` (platform and device).
    sched : {"default", "single", "multi"}
        How the host waits: for one thread that waits often, or for several.
    single_stream : bool
        Copies go in the stream of the computations. That is always so here.
    kernel_cache_path : str, optional
        A folder for what was built for the device.
    max_cache_size : int, optional
        0: memory is given back at once.
    initial_cache_size : float
        As `config.gpuarray.preallocate`: a part of the memory, or megabytes.
    checked : bool
        Wait for every kernel, so that the one that fails is known. Slow.

    Returns
    -------
    GpuContext

    Raises
    ------
    ValueError
        When the string names no device.
    GpuArrayException
        When there is no such device, or it cannot be used; with the reason.
    """
    cdef GpuContext made = GpuContext.__new__(GpuContext)
    cdef char text[4096]
    cdef int code, flags = GA_CTX_SINGLE_STREAM
    name = dev.encode()
    if sched not in ("default", "single", "multi"):
        raise ValueError("sched is 'default', 'single' or 'multi', not %r" % (sched,))
    flags |= {"default": 0, "single": GA_CTX_SCHED_SINGLE, "multi": GA_CTX_SCHED_MULTI}[sched]
    if checked:
        flags |= GA_CTX_CHECKED
    for which, path in loader.libraries(dev).items():
        encoded = b"" if path is None else os.fsencode(path)
        device_set_library(which.encode(), <const char *>NULL if path is None else <const char *>encoded)
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
        device_outer_lock.give = _give_lock
        device_outer_lock.take = _take_lock
    return made


def set_default_context(context):
    """The context of calls that name none; None: no one."""
    global _default
    if context is not None and not isinstance(context, GpuContext):
        raise TypeError("expected a GpuContext, got %s" % type(context).__name__)
    _default = context


def get_default_context():
    """The context of calls that name none, or None."""
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
    """How many platforms of a kind ("cuda", "opencl") there are."""
    n = 0
    while _opens("%s%d" % (kind, n)) if kind == "opencl" else n == 0 and count_devices(kind, 0) > 0:
        n += 1
    return n


def count_devices(kind, platform):
    """How many devices a platform of a kind has; CUDA has one platform, number 0."""
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


cdef public class GpuContext [object PyGpuContextObject, type _PyGpuContextType]:
    """A device, with a stream and a pool of memory; `init` opens one. It is closed when nothing refers to it any more."""

    def __init__(self):
        raise TypeError("contexts are opened by init()")

    def __cinit__(self):
        self.kernels = {}

    def __dealloc__(self):
        if self.ctx != NULL:
            for table in (_kinds, _names, _caches):
                if table is not None:  # at the end of the process
                    table.pop(<size_t>self.ctx, None)
            gpucontext_release(self.ctx)

    def __reduce__(self):
        raise RuntimeError("contexts cannot be pickled")

    def __enter__(self):
        """The default context inside a ``with``."""
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
        """Wait until all that was asked for is done."""
        cdef int code
        with nogil:
            code = gpucontext_sync(self.ctx)
        pygpu_raise(self.ctx, code)

    def trim(self):
        """Give the memory of the pool that nobody uses back to the device."""
        pool_trim(self.ctx)

    @property
    def ptr(self):
        """The address of the context in C."""
        return <size_t>self.ctx

    @property
    def kind(self):
        """b"cuda", b"opencl" or b"stub"."""
        return _kinds[<size_t>self.ctx].encode()

    @property
    def devname(self):
        """What the device is called."""
        cdef char name[256]
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_DEVNAME, name))
        return name.decode("utf-8", "replace")

    @property
    def unique_id(self):
        """Where the device is: its place on the bus; of OpenCL the numbers of platform and device."""
        cdef char name[16]
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_UNIQUE_ID, name))
        return name.decode("utf-8", "replace")

    @property
    def bin_id(self):
        """What binaries for the device depend on."""
        cdef const char *name = NULL
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_BIN_ID, &name))
        return name.decode("utf-8", "replace")

    @property
    def lmemsize(self):
        """Bytes of local memory of a group."""
        return _number(self, GA_CTX_PROP_LMEMSIZE)

    @property
    def numprocs(self):
        """How many processors the device has."""
        cdef unsigned value = 0
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_NUMPROCS, &value))
        return value

    @property
    def maxlsize(self):
        """Most threads of a group."""
        return _number(self, GA_CTX_PROP_MAXLSIZE)

    @property
    def maxlsize0(self):
        """The same: along the first axis."""
        return self.maxlsize

    @property
    def maxgsize(self):
        """Most groups of a launch, along the first axis."""
        return _number(self, GA_CTX_PROP_MAXGSIZE)

    @property
    def maxgsize0(self):
        """The same: along the first axis."""
        return self.maxgsize

    @property
    def total_gmem(self):
        """Bytes of memory of the device."""
        return _number(self, GA_CTX_PROP_TOTAL_GMEM)

    @property
    def free_gmem(self):
        """Bytes of it that are free; all, where the driver does not tell."""
        return _number(self, GA_CTX_PROP_FREE_GMEM)

    @property
    def largest_memblock(self):
        """Bytes of the largest array."""
        return _number(self, GA_CTX_PROP_LARGEST_MEMBLOCK)

    @property
    def memory(self):
        """What the pool has: a dict with the bytes ``in_use``, ``reserved`` and at the ``peak``, the number of ``blocks`` in use, and of ``allocations``."""
        cdef pool_counts counts
        pool_count(self.ctx, &counts)
        return {"in_use": counts.in_use, "reserved": counts.reserved, "peak": counts.peak, "blocks": counts.blocks, "allocations": counts.allocations}
