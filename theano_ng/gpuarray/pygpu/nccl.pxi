# Part of gpuarray.pyx: members of groups of CUDA contexts that exchange arrays by NCCL. The module collectives uses it.

_NCCL_CALLS = {
    "all_reduce": NCCL_ALL_REDUCE, "reduce": NCCL_REDUCE, "broadcast": NCCL_BROADCAST, "all_gather": NCCL_ALL_GATHER,
    "reduce_scatter": NCCL_REDUCE_SCATTER,
}
_NCCL_OPERATIONS = {"sum": NCCL_SUM, "prod": NCCL_PROD, "max": NCCL_MAX, "min": NCCL_MIN}


def nccl_id(GpuContext context not None):
    """Return the identifier of a new group: 128 bytes, which can be passed to other processes."""
    cdef char made[128]
    cdef int code
    with nogil:
        code = nccl_make_id(context.ctx, made)
    pygpu_raise(context.ctx, code)
    return made[:128]


@cython.no_gc_clear  # nccl_leave needs the context
cdef class NcclMember:
    """A member of a group. One thread uses it at a time.

    Parameters
    ----------
    context : GpuContext
    identifier : bytes
    size : int
        The number of members.
    rank : int
        The number of this member. `wait` returns True after all members have been made.
    """

    def __cinit__(self, GpuContext context not None, bytes identifier not None, int size, int rank):
        cdef const char *text = identifier
        cdef int code
        if len(identifier) != 128:
            raise ValueError("an identifier must have 128 bytes, got %d" % len(identifier))
        self.context = context
        queue_close_any()
        with nogil:
            code = nccl_join(context.ctx, text, size, rank, &self.member)
        pygpu_raise(context.ctx, code)

    def __dealloc__(self):
        if self.member != NULL:
            nccl_leave(self.member)

    def begin(self, str call, str operation, GpuArray src not None, GpuArray dest, size_t count, int root):
        """Begin a collective operation.

        Parameters
        ----------
        call : {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"}
        operation : {"sum", "prod", "max", "min"}
            For reductions.
        src : GpuArray
            In C order. The caller keeps both arrays until the operation is finished.
        dest : GpuArray
            In C order. None for members of a "reduce" that get no result.
        count : int
            The number of elements that each member contributes; in "reduce_scatter", the number for each member.
        root : int
            For "reduce" and "broadcast".
        """
        cdef nccl_work work
        cdef int code
        work.call = <nccl_call><int>_NCCL_CALLS[call]
        work.operation = <nccl_operation><int>_NCCL_OPERATIONS[operation]
        work.typecode = src.ga.typecode
        work.root = root
        work.count = count
        work.source, work.source_offset = src.ga.data, src.ga.offset
        work.to, work.to_offset = NULL, 0
        if dest is not None:
            work.to, work.to_offset = dest.ga.data, dest.ga.offset
        queue_close_any()
        with nogil:
            code = nccl_begin(self.member, &work)
        pygpu_raise(self.context.ctx, code)

    def wait(self, double seconds):
        """Wait, for at most this time, until what was begun is finished; return whether it is."""
        cdef int code, finished = 0
        with nogil:
            code = nccl_wait(self.member, seconds, &finished)
        pygpu_raise(self.context.ctx, code)
        return bool(finished)

    def abort(self):
        """Abort what was begun. The member cannot be used any longer."""
        nccl_abort(self.member)
