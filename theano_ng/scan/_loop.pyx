"""The loop of Scan, compiled to C. `loop.py` does the same in Python, and documents the computation.

A step is one run of the machine of the inner graph (`gof._cvm`). The input cells of the machine hold views of the rows
of sequences and buffers; each step moves the views to the next rows. The output cells of the machine hold views of the
rows to be written, so that most nodes compute directly into the rows. A step allocates no other objects, except in the
inner graph.
"""
import time

from libc.string cimport memmove
from libc.stdint cimport int64_t
from cpython.exc cimport PyErr_Clear
from cpython.object cimport PyObject, PyObject_IsTrue

cimport numpy as cnp

from theano_ng.gof._cvm cimport CLazyLinker
from theano_ng.gof._native cimport (
    Arena, Array, CThunk, allocate, array_dim, array_itemsize, array_ndim, array_type, behaved, free_arena, has_flags,
    NativeThunk, is_exact_array, native_fn, thunk_fn)
from theano_ng.gof.cells cimport cell_of, decref, empty, incref, peek, put, put_owned, refcount, take
from theano_ng.scan._row_table cimport row_places, row_table, row_table_of

from theano_ng.compile.functions.aliasing import alias_root, alias_roots
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import CompileError, MissingGXX, load_kernels
from theano_ng.scan import loop
from theano_ng.scan.array_source import BoxHelper, FoldHelper, KernelHelper
from theano_ng.tensor.native.reduce import address_of_fold_box, fold_of

cnp.import_array()


cdef extern from "numpy/arrayobject.h":
    ctypedef struct Fields "PyArrayObject_fields":
        char *data
    char *array_data "PyArray_BYTES"(Array *array) noexcept
    cnp.npy_intp *array_dims "PyArray_DIMS"(Array *array) noexcept
    cnp.npy_intp *array_strides "PyArray_STRIDES"(Array *array) noexcept
    int same_lengths "PyArray_CompareLists"(cnp.npy_intp *a, cnp.npy_intp *b, int n) noexcept


ctypedef int64_t (*kernel_fn)(int64_t steps, int64_t length, char **base, const int64_t *place) noexcept
ctypedef int64_t (*array_kernel_fn)(
    int64_t steps, const int64_t *size, char **base, const int64_t *place, char ***data, const Helper *helpers, int64_t *left) noexcept

cdef enum:
    KEPT_MEMORY = 1 << 20   # a kernel's arrays are kept between calls up to this total size in bytes


cdef struct Helper:
    # A native function that a kernel calls; array_kernel.py declares the same struct.
    native_fn function
    int64_t n_ins
    int64_t n_outs
    PyObject **ins          # borrowed references
    PyObject **outs         # owned references, because the function may replace the arrays
    PyObject **own          # the arrays that are in `outs` before the call; borrowed references
    const int64_t *params


cdef struct Rows:
    # An array of one call whose rows the steps read or write: a sequence, the buffer of a state, or the buffer of a
    # result.
    const row_table *table
    PyObject *array         # owned; NULL for a result before its first step
    row_places at
    Py_ssize_t lead         # index of the row of step 0
    bint expected           # whether `array` was made for rows with the layout of the previous call


cdef struct Tap:
    # An inner input whose value is a row.
    int rows                # index of its Rows
    int offset
    PyObject *cell          # cell of the inner input; borrowed
    PyObject *view          # what the cell contains: a view of the row, or a copy of the row; owned
    bint escapes            # whether an inner output may be a view of the row
    bint copied             # whether the step gets a copy: a result may be a view of the row, which the step overwrites


cdef struct Sink:
    # An inner output that is written to a row.
    int rows
    int offset
    PyObject *cell          # cell of the inner output; borrowed
    PyObject *view          # view of the row, lent to the step; owned
    bint lends              # whether a step may compute into the row
    int nearest             # number of rows back to the earliest tap; a buffer with at most so many rows lends none


cdef class LoopThunk(CThunk):
    """A thunk that runs the loop of a Scan node.

    Parameters
    ----------
    op : Scan
    linker : Linker
        The linker of the inner graph. It makes programs that the virtual machine in C executes.
    inputs, outputs : list of cells
        The cells of the node.
    tables : list
        For each sequence, state and result, the name of the row table of its type, or None for NumPy arrays.
    kernel : LoopKernel, optional
        A kernel that executes all steps at once, if it accepts the arrays.
    loaded : LoadedKernel, optional
        `kernel`, compiled and loaded. If it is not given, the thunk compiles `kernel` after `loop.HOT_STEPS` steps.
    profile : ScanProfileStats, optional
        The profile that records the times of the steps and of their nodes.
    """
    cdef object op, linker, profile
    cdef CLazyLinker machine
    cdef Arena arena
    cdef list kept              # lists that keep alive the cells to which the pointers below refer
    cdef int n_seqs, n_states, n_results, n_shared, n_others, n_taps, n_sinks, n_mit_mot
    cdef bint as_while
    cdef PyObject **in_cells    # cells of the node
    cdef PyObject **out_cells
    cdef Rows *rows             # sequences, states, results
    cdef Tap *taps
    cdef Sink *sinks
    cdef PyObject **shared_ins  # cells of the step
    cdef PyObject **shared_outs
    cdef bint *made             # whether the new value of a shared variable shares no memory with other values
    cdef PyObject **passed      # new values of shared variables, until `pass_on` puts them into `shared_ins`; owned
    cdef PyObject **others
    cdef PyObject *until
    cdef int n_temporaries
    cdef PyObject **temporaries     # cells of variables that the step computes; emptied after each call
    cdef kernel_fn kernel           # NULL if there is none
    cdef int n_operands             # number of operands of the kernel
    cdef char **base
    cdef int64_t *place
    cdef char *numbers
    cdef int *type_numbers
    cdef object pending             # the kernel until it is compiled, else None
    cdef long long left_to_machine  # number of steps that the virtual machine runs before `pending` is compiled
    cdef object layout              # layout of a kernel with arrays, else None
    cdef int n_lengths, n_helpers
    cdef int64_t *size              # lengths of dimensions in this call; -1 if not known yet
    cdef int64_t *size_of_memory    # the lengths for which `memory` was allocated
    cdef int **dims                 # for each operand, the index in `size` of each dimension; -1: length 1
    cdef int *ranks
    cdef char ***pointers           # addresses of the data pointers of the arrays
    cdef Helper *helpers
    cdef list layouts               # for each result, shape and dtype of its rows in the previous call, or None
    cdef list memory, bound         # memory: the kernel's arrays; bound: the helpers' thunks

    def __init__(self, op, linker, inputs, outputs, tables, kernel=None, loaded=None, profile=None):
        cdef int i, k
        self.op, self.linker, self.profile = op, linker, profile
        self.inputs, self.outputs = inputs, outputs
        self.n_seqs, self.n_states, self.n_results = op.n_seqs, op.n_states, op.n_nit_sot
        self.n_mit_mot, self.n_shared, self.n_others = op.n_mit_mot, op.n_shared_outs, op.n_others
        self.as_while = op.as_while
        check_groups(op, len(inputs), len(outputs), len(tables))
        self.kept = [inputs, outputs]
        self.layouts = [None] * self.n_results
        self.in_cells = self.cells(inputs)
        self.out_cells = self.cells(outputs)
        self.rows = <Rows *>allocate(&self.arena, self.n_seqs + self.n_states + self.n_results, sizeof(Rows))
        for i in range(self.n_seqs + self.n_states + self.n_results):
            self.rows[i].table = row_table_of(tables[i])
        self.n_taps = self.n_seqs + op.n_inner_taps
        self.taps = <Tap *>allocate(&self.arena, self.n_taps, sizeof(Tap))
        for i in range(self.n_seqs):
            self.taps[i].rows = i
        k = self.n_seqs
        for i, taps in enumerate(op.tap_array):
            for tap in taps:
                self.taps[k].rows, self.taps[k].offset = self.n_seqs + i, tap
                k += 1
        sinks = []
        for i in range(self.n_states):
            read = op.tap_array[i]
            for tap in op.output_taps(i):
                # A step must not compute into a row that it may read afterwards. In a mit_mot buffer, this is a row
                # that the step also reads. In a ring buffer without a spare row, it is the row of the earliest tap.
                sinks.append((self.n_seqs + i, tap, i >= self.n_mit_mot or tap not in read, -min(read) if i >= self.n_mit_mot else 0))
        for i in range(self.n_results):
            sinks.append((self.n_seqs + self.n_states + i, 0, True, 0))
        self.n_sinks = len(sinks)
        self.sinks = <Sink *>allocate(&self.arena, self.n_sinks, sizeof(Sink))
        for k, (i, tap, lends, nearest) in enumerate(sinks):
            self.sinks[k].rows, self.sinks[k].offset = i, tap
            self.sinks[k].lends = lends and config.scan.allow_output_prealloc
            self.sinks[k].nearest = nearest
        self.run, self.data = <thunk_fn><void *>run_loop, <void *>self
        if kernel is not None and loaded is not None:
            self.set_kernel(kernel, loaded.address, loaded.program)
        else:
            self.pending, self.left_to_machine = kernel, loop.HOT_STEPS
            self.bind()

    cdef int set_kernel(self, kernel, size_t address, size_t program=0) except -1:
        cdef int k
        self.kernel = <kernel_fn>address
        self.n_operands = len(kernel.numbers)
        self.base = <char **>allocate(&self.arena, self.n_operands, sizeof(char *))
        cdef int64_t *record = <int64_t *>allocate(&self.arena, 1 + 3 * self.n_operands, sizeof(int64_t))
        record[0] = program
        self.place = record + 1
        self.numbers = <char *>allocate(&self.arena, self.n_operands, 1)
        self.type_numbers = <int *>allocate(&self.arena, self.n_operands, sizeof(int))
        for k in range(self.n_operands):
            self.numbers[k], self.type_numbers[k] = kernel.numbers[k], kernel.type_numbers[k]
        self.layout = kernel.layout
        if kernel.layout is not None:
            self.set_layout(kernel.layout)
        return 0

    cdef int compile_kernel(self) except -1:
        """Compile the kernel. If this fails, the virtual machine continues to run the steps."""
        kernel, self.pending = self.pending, None
        try:
            addresses = load_kernels((kernel.kernel, *kernel.others))
        except (MissingGXX, CompileError):
            return 0
        self.set_kernel(kernel, addresses[0])
        return 0

    cdef int set_layout(self, layout) except -1:
        """Allocate the additional data of a kernel with arrays."""
        cdef int k, d
        cdef int64_t *params
        self.n_lengths, self.n_helpers = len(layout.lengths), len(layout.helpers)
        self.size = <int64_t *>allocate(&self.arena, self.n_lengths + 1, sizeof(int64_t))
        self.size_of_memory = <int64_t *>allocate(&self.arena, self.n_lengths + 1, sizeof(int64_t))
        self.ranks = <int *>allocate(&self.arena, self.n_operands, sizeof(int))
        self.dims = <int **>allocate(&self.arena, self.n_operands, sizeof(int *))
        for k in range(self.n_operands):
            self.ranks[k] = len(layout.dims[k])
            self.dims[k] = <int *>allocate(&self.arena, self.ranks[k] + 1, sizeof(int))
            for d in range(self.ranks[k]):
                self.dims[k][d] = layout.dims[k][d]
        self.pointers = <char ***>allocate(&self.arena, len(layout.arrays) + 1, sizeof(char **))
        self.helpers = <Helper *>allocate(&self.arena, self.n_helpers + 1, sizeof(Helper))
        self.bound = []
        for k in range(self.n_helpers):
            helper = layout.helpers[k]
            if isinstance(helper, FoldHelper):
                self.set_fold(&self.helpers[k], helper)
                self.bound.append(None)
                continue
            if isinstance(helper, BoxHelper):
                self.helpers[k].function = <native_fn><void *><size_t>address_of_fold_box()
                params = <int64_t *>allocate(&self.arena, len(helper.params), sizeof(int64_t))
                for d in range(len(helper.params)):
                    params[d] = helper.params[d]
                self.helpers[k].params = params
                self.bound.append(None)
                continue
            if isinstance(helper, KernelHelper):
                self.helpers[k].function = <native_fn><void *><size_t>load_kernels((helper.kernel,))[0]
                self.bound.append(None)
                continue
            addresses = load_kernels(helper.code.kernels) if helper.code.kernels else ()
            thunk = helper.code.bind(addresses, [[None] for _ in helper.inputs], [[None] for _ in helper.outputs], None)
            self.bound.append(thunk)
            self.helpers[k].function = (<NativeThunk>thunk).call.function
            self.helpers[k].params = (<NativeThunk>thunk).call.params
            self.helpers[k].n_ins, self.helpers[k].n_outs = len(helper.inputs), len(helper.outputs)
            self.helpers[k].ins = <PyObject **>allocate(&self.arena, len(helper.inputs) + 1, sizeof(PyObject *))
            self.helpers[k].outs = <PyObject **>allocate(&self.arena, len(helper.outputs) + 1, sizeof(PyObject *))
            self.helpers[k].own = <PyObject **>allocate(&self.arena, len(helper.outputs) + 1, sizeof(PyObject *))
        return 0

    cdef int set_fold(self, Helper *helper, fold) except -1:
        """Set the function of a helper to a fold function of native/reductions/reduce.c. Set the helper's `params` to
        the initial value of the accumulator.
        """
        address, lowest = fold_of(fold.operation, fold.element_type, fold.accumulator_type)
        cdef int64_t *start = <int64_t *>allocate(&self.arena, 2, sizeof(int64_t))
        cdef bytes first = fold.identity or lowest
        memmove(start, <char *>first, len(first))
        helper.function, helper.params = <native_fn><void *><size_t>address, start
        return 0

    cdef int bind(self) except -1:
        """Make a virtual machine for the steps. Other nodes of the same Op have their own machines, because several
        threads may run these nodes at the same time.
        """
        cdef int k
        program = self.linker.make_program()
        machine = self.linker.machine(program)
        step_ins, step_outs = list(program.input_cells), list(program.output_cells)
        self.kept += [step_ins, step_outs]
        for k in range(self.n_taps):
            self.taps[k].cell = cell_of(step_ins[k])
        first_of = set()
        for k in range(self.n_sinks):
            self.sinks[k].cell = cell_of(step_outs[k])
            variable = program.fgraph.outputs[k]
            if variable.owner is None or variable in first_of:
                self.sinks[k].lends = False
            first_of.add(variable)
        self.shared_ins = self.cells(step_ins[self.n_taps : self.n_taps + self.n_shared])
        self.others = self.cells(step_ins[self.n_taps + self.n_shared :])
        self.shared_outs = self.cells(step_outs[self.n_sinks : self.n_sinks + self.n_shared])
        self.made = <bint *>allocate(&self.arena, self.n_shared + 1, sizeof(bint))
        self.passed = <PyObject **>allocate(&self.arena, self.n_shared + 1, sizeof(PyObject *))
        for k in range(self.n_shared):
            variable = program.fgraph.outputs[self.n_sinks + k]
            self.made[k] = variable.owner is not None and alias_root(variable) is variable and variable not in first_of
            first_of.add(variable)
        roots = alias_roots(*program.fgraph.outputs)
        for k in range(self.n_seqs, self.n_taps):
            self.taps[k].escapes = program.fgraph.inputs[k] in roots
        self.until = cell_of(step_outs[self.n_sinks + self.n_shared]) if self.as_while else NULL
        computed = [program.storage_map[v] for node in program.nodes for v in node.outputs]
        self.n_temporaries = len(computed)
        self.temporaries = self.cells(computed)
        self.kept.append(computed)
        machine.time_thunks = self.profile is not None and self.profile.flag_time_thunks
        self.machine = machine
        self.queue = self.machine.common_queue()
        return 0

    cdef PyObject **cells(self, list cells) except NULL:
        cdef PyObject **found = <PyObject **>allocate(&self.arena, len(cells) + 1, sizeof(PyObject *))
        cdef int i
        for i in range(len(cells)):
            found[i] = cell_of(cells[i])
        return found

    def __dealloc__(self):
        self.let_go()
        self.drop_memory()
        free_arena(&self.arena)

    cdef void let_go(self) noexcept:
        """Release the references to the arrays and views of a call."""
        cdef int k
        for k in range(self.n_taps if self.taps != NULL else 0):
            if self.taps[k].view != NULL:
                decref(self.taps[k].view)
                self.taps[k].view = NULL
        for k in range(self.n_sinks if self.sinks != NULL else 0):
            if self.sinks[k].view != NULL:
                decref(self.sinks[k].view)
                self.sinks[k].view = NULL
        if self.rows != NULL:
            for k in range(self.n_seqs + self.n_states + self.n_results):
                if self.rows[k].array != NULL:
                    decref(self.rows[k].array)
                    self.rows[k].array = NULL

    cdef void drop_memory(self) noexcept:
        """Release the references to the arrays of the kernel."""
        cdef int k, j
        for k in range(self.n_helpers if self.helpers != NULL else 0):
            for j in range(self.helpers[k].n_outs):
                if self.helpers[k].outs[j] != NULL:
                    decref(self.helpers[k].outs[j])
                    self.helpers[k].outs[j] = NULL
        self.memory = None

    # -- before the steps

    cdef int start(self, long long n_steps) except -1:
        """Set up the rows of sequences and states, and check the lengths."""
        cdef int i
        cdef Rows *rows
        cdef int first_state = 1 + self.n_seqs
        for i in range(self.n_seqs):
            set_rows(&self.rows[i], readable(self.rows[i].table, peek(self.in_cells[1 + i])))
        destroyed = self.op.destroy_map
        for i in range(self.n_states):
            rows = &self.rows[self.n_seqs + i]
            set_rows(rows, self.writable(i, peek(self.in_cells[first_state + i]), i in destroyed))
            rows.lead = self.op.lead(i)
        loop.check_lengths(self.op, n_steps, [(<list>cell)[0] for cell in self.inputs])
        return 0

    cdef int share(self) except -1:
        """Put the inputs that are not rows into the cells of the step, and find the taps whose rows must be copied."""
        cdef int i, k
        cdef Rows *rows
        for k in range(self.n_seqs, self.n_taps):
            rows = &self.rows[self.taps[k].rows]
            self.taps[k].copied = False
            for i in range(self.n_sinks if self.taps[k].escapes else 0):
                if self.sinks[i].rows == self.taps[k].rows and (self.sinks[i].offset - self.taps[k].offset) % rows.at.length == 0:
                    self.taps[k].copied = True
        cdef int first_shared = 1 + self.n_seqs + self.n_states
        for i in range(self.n_shared):
            put(self.shared_ins[i], peek(self.in_cells[first_shared + i]))
        for i in range(self.n_others):
            put(self.others[i], peek(self.in_cells[first_shared + self.n_shared + self.n_results + i]))
        return 0

    # -- all steps at once

    cdef bint fits_kernel(self) except -1:
        """Return True if the kernel accepts the arrays. Set the kernel's pointers and lengths."""
        cdef int k, rank = 0
        cdef Rows *rows
        cdef Array *array
        cdef cnp.npy_intp *lengths = NULL
        cdef int first_other = 1 + self.n_seqs + self.n_states + self.n_shared + self.n_results
        if self.layout is not None:
            for k in range(self.n_lengths):
                self.size[k] = self.layout.lengths[k]
        for k in range(self.n_taps):
            rows = &self.rows[self.taps[k].rows]
            if not self.fits_operand(k, <Array *>rows.array, 1, &lengths, &rank):
                return False
            self.place_operand(k, rows, self.taps[k].offset)
        for k in range(self.n_others):
            array = <Array *>peek(self.in_cells[first_other + k])
            if not (is_exact_array(<PyObject *>array)
                    and self.fits_operand(self.n_taps + k, array, 0, &lengths, &rank)):
                return False
            self.base[self.n_taps + k] = array_data(array)
        if self.layout is not None and not self.knows_lengths():
            return False
        for k in range(self.n_sinks):
            rows = &self.rows[self.sinks[k].rows]
            if rows.array == NULL:
                self.make_rows(k, lengths, rank)
            elif not self.fits_operand(self.n_taps + self.n_others + k, <Array *>rows.array, 1, &lengths, &rank):
                return False
            if rows.at.length == 0:
                return False
            self.place_operand(self.n_taps + self.n_others + k, rows, self.sinks[k].offset)
        return True

    cdef int place_operand(self, int k, Rows *rows, int offset) noexcept:
        """Tell the kernel where the rows of an operand are: set `base` and `place`."""
        self.base[k] = rows.at.data
        self.place[3 * k], self.place[3 * k + 1] = rows.at.stride, rows.at.length
        self.place[3 * k + 2] = (rows.lead + offset) % rows.at.length if rows.at.length else 0
        return 0

    cdef bint fits_operand(self, int k, Array *array, int skipped, cnp.npy_intp **lengths, int *rank) noexcept:
        """Return True if an operand has the expected dtype, is contiguous, and is a scalar or has the same lengths as
        the other operands.
        """
        cdef int d, ndim = array_ndim(array) - skipped
        cdef cnp.npy_intp *dims = array_dims(array) + skipped
        cdef cnp.npy_intp *strides = array_strides(array) + skipped
        cdef cnp.npy_intp expected = array_itemsize(array)
        if array_type(array) != self.type_numbers[k] or not behaved(array):
            return False
        if self.numbers[k]:
            for d in range(ndim):
                if dims[d] != 1:
                    return False
            return True
        if self.layout is not None:
            return self.fits_lengths(k, ndim, dims, strides, expected)
        for d in range(ndim - 1, -1, -1):
            if dims[d] != 1 and strides[d] != expected:
                return False
            expected *= dims[d]
        if lengths[0] == NULL:
            lengths[0], rank[0] = dims, ndim
            return True
        return ndim == rank[0] and same_lengths(dims, lengths[0], ndim)

    cdef bint fits_lengths(self, int k, int ndim, cnp.npy_intp *dims, cnp.npy_intp *strides, cnp.npy_intp expected) noexcept:
        """Return True if an operand is contiguous and has lengths that are consistent with the other operands."""
        cdef int d, length
        if ndim != self.ranks[k]:
            return False
        for d in range(ndim - 1, -1, -1):
            length = self.dims[k][d]
            if length >= 0 and self.size[length] < 0:
                self.size[length] = dims[d]
            if dims[d] != (self.size[length] if length >= 0 else 1) or (dims[d] != 1 and strides[d] != expected):
                return False
            expected *= dims[d]
        return True

    cdef bint knows_lengths(self) except -1:
        """Return True if all lengths are known and positive, and if native functions take the same code path for these
        lengths in the kernel and in the virtual machine.

        In this case, also allocate the arrays of the kernel, unless they already have these lengths.
        """
        cdef int k, j
        cdef bint same = self.memory is not None
        for k in range(self.n_lengths):
            if self.size[k] < 1 or (self.size[k] == 1 and self.layout.several):
                return False
            same = same and self.size[k] == self.size_of_memory[k]
        if same:
            return True
        self.drop_memory()
        self.memory = loop.allocate_arrays(self.layout, [self.size[k] for k in range(self.n_lengths)])
        for k in range(self.n_lengths):
            self.size_of_memory[k] = self.size[k]
        for k in range(len(self.memory)):
            self.pointers[k] = &(<Fields *><PyObject *>self.memory[k]).data
        for k in range(self.n_helpers):
            helper = self.layout.helpers[k]     # only a NativeHelper has arrays; otherwise n_ins = n_outs = 0
            for j in range(self.helpers[k].n_ins):
                self.helpers[k].ins[j] = <PyObject *>self.memory[helper.inputs[j]]
            for j in range(self.helpers[k].n_outs):
                self.helpers[k].own[j] = self.helpers[k].outs[j] = <PyObject *>self.memory[helper.outputs[j]]
                incref(self.helpers[k].own[j])
        return True

    cdef int make_rows(self, int k, cnp.npy_intp *lengths, int rank) except -1:
        """Make the buffer of a result that the kernel computes."""
        cdef int o, i = self.sinks[k].rows - self.n_seqs - self.n_states
        cdef PyObject *rows = peek(self.in_cells[1 + self.n_seqs + self.n_states + self.n_shared + i])
        cdef PyObject *old = peek(self.out_cells[self.n_states + i])
        kind = self.op.output_types[self.n_states + i]
        if self.layout is not None:
            o = self.n_taps + self.n_others + k
            shape = tuple([self.size[self.dims[o][d]] if self.dims[o][d] >= 0 else 1 for d in range(self.ranks[o])])
        else:
            shape = (1,) * (kind.ndim - 1) if lengths == NULL else tuple([lengths[d] for d in range(rank)])
        made = loop.result_buffer(<object>rows, shape, kind.dtype, None if old == NULL or refcount(old) != 1 else <object>old)
        incref(<PyObject *>made)
        return set_rows(&self.rows[self.sinks[k].rows], <PyObject *>made)

    cdef int64_t all_steps(self, int64_t n_steps, int64_t *left) except -1:
        """Call the kernel, and return the number of completed steps. Set `left` to nonzero if the virtual machine has
        to run the remaining steps.
        """
        cdef int k, d
        cdef int64_t length = 1, done
        cdef Array *array
        left[0] = 0
        if self.layout is not None:
            done = (<array_kernel_fn><void *>self.kernel)(
                n_steps, self.size, self.base, self.place, self.pointers, self.helpers, left)
            if left[0]:
                PyErr_Clear()   # the virtual machine repeats the step and raises the error again
                self.drop_memory()
            elif sum([own.nbytes for own in self.memory]) > KEPT_MEMORY:
                self.drop_memory()
            return done
        for k in range(self.n_sinks):
            if not self.numbers[self.n_taps + self.n_others + k]:
                array = <Array *>self.rows[self.sinks[k].rows].array
                for d in range(1, array_ndim(array)):
                    length *= array_dim(array, d)
                break
        return self.kernel(n_steps, length, self.base, self.place)

    cdef PyObject *writable(self, int i, PyObject *value, bint in_place) except NULL:
        """Return the buffer of a state: the value itself, or a copy of the value. The copy is made in the output of the
        previous call if this array fits.
        """
        cdef const row_table *table = self.rows[self.n_seqs + i].table
        cdef PyObject *old
        if in_place and table.writable(value):
            incref(value)
            return value
        old = peek(self.out_cells[i])
        if refcount(old) == 1 and table.refill(old, value):
            return take(self.out_cells[i])
        copied = loop.contiguous_copy(<object>value)
        incref(<PyObject *>copied)
        return <PyObject *>copied

    # -- a step

    cdef int lay_out(self, long long t) except -1:
        """Put views or copies of the rows that step `t` reads into the cells of its inputs. Lend rows to the step, into
        which it may compute its results.
        """
        cdef Rows *rows
        cdef Tap *tap
        cdef Sink *sink
        cdef int k
        for k in range(self.n_taps):
            tap = &self.taps[k]
            rows = &self.rows[tap.rows]
            if tap.copied:
                copy_row(tap, rows, row_at(rows, t + tap.offset))
            else:
                show_row(&tap.view, tap.cell, rows, row_at(rows, t + tap.offset))
        for k in range(self.n_sinks):
            sink = &self.sinks[k]
            rows = &self.rows[sink.rows]
            if sink.lends and rows.array != NULL and rows.at.length > sink.nearest:
                show_row(&sink.view, sink.cell, rows, row_at(rows, t + sink.offset))
        return 0

    cdef int collect(self, long long t) except -1:
        """Write the results of a step to their rows, unless the step has computed into the rows.

        A result is never a view of a row that this method overwrites, because the step got a copy of such a row.
        """
        cdef Sink *sink
        cdef Rows *rows
        cdef PyObject *value
        cdef int k
        for k in range(self.n_sinks):
            sink = &self.sinks[k]
            value = peek(sink.cell)
            rows = &self.rows[sink.rows]
            if value == sink.view and value != NULL:
                rows.expected = False
                continue
            if rows.array == NULL or rows.expected:
                self.find_layout(k, value)
            if rows.at.length and not rows.table.store(rows.array, row_at(rows, t + sink.offset), value):
                loop.assign(
                    self.op, <object>rows.array, (rows.lead + t + sink.offset) % rows.at.length, <object>value, sink.rows - self.n_seqs)
        return 0

    cdef int expect_results(self) except -1:
        """Make the buffers of the results before the first step, for rows with the layout of the previous call. Then the
        first step can compute into its rows, too.
        """
        cdef Rows *rows
        cdef int i
        for i in range(self.n_results):
            rows = &self.rows[self.n_seqs + self.n_states + i]
            if rows.array == NULL and self.layouts[i] is not None:
                self.make_result(i)
                rows.expected = True
        return 0

    cdef int find_layout(self, int k, PyObject *value) except -1:
        """Make the buffer of a result when its first row is available, unless there is one for rows of this layout."""
        cdef Rows *rows = &self.rows[self.sinks[k].rows]
        cdef int i = self.sinks[k].rows - self.n_seqs - self.n_states
        cdef tuple layout = loop.row_layout(<object>value)
        if rows.expected:
            rows.expected = False
            if layout == self.layouts[i]:
                return 0
            if self.sinks[k].view != NULL:
                decref(self.sinks[k].view)
                self.sinks[k].view = NULL
            decref(rows.array)
            rows.array = NULL
        self.layouts[i] = layout
        return self.make_result(i)

    cdef int make_result(self, int i) except -1:
        """Make the buffer of a result."""
        cdef PyObject *length = peek(self.in_cells[1 + self.n_seqs + self.n_states + self.n_shared + i])
        cdef PyObject *old = peek(self.out_cells[self.n_states + i])
        made = loop.buffer_of(
            self.op.output_types[self.n_states + i], <object>length, self.layouts[i], None if refcount(old) != 1 else <object>old)
        incref(<PyObject *>made)
        return set_rows(&self.rows[self.n_seqs + self.n_states + i], <PyObject *>made)

    cdef int pass_on(self) except -1:
        """Make the new values of shared variables the inputs of the next step. The previous arrays are lent to the step
        as output memory.
        """
        cdef PyObject *former
        cdef int i
        for i in range(self.n_shared):
            if self.made[i]:
                self.passed[i] = take(self.shared_outs[i])
            else:
                copied = loop.copy_shared(<object>peek(self.shared_outs[i]))
                incref(<PyObject *>copied)
                self.passed[i] = <PyObject *>copied
        for i in range(self.n_shared):
            former = take(self.shared_ins[i])
            put_owned(self.shared_ins[i], self.passed[i])
            self.passed[i] = NULL
            if (self.made[i] and refcount(former) == 1 and is_exact_array(former)
                    and has_flags(<Array *>former, cnp.NPY_ARRAY_OWNDATA)):
                put_owned(self.shared_outs[i], former)
            else:
                decref(former)
        return 0

    cdef bint is_over(self) except -1:
        cdef PyObject *value = peek(self.until)
        if is_exact_array(value) and array_type(<Array *>value) == cnp.NPY_BOOL and array_ndim(<Array *>value) == 0:
            return array_data(<Array *>value)[0] != 0
        return PyObject_IsTrue(<object>value)

    # -- after the steps

    cdef int finish(self, long long done) except -1:
        """Store the outputs in their cells."""
        cdef int i
        cdef Rows *rows
        for i in range(self.n_states + self.n_results):
            rows = &self.rows[self.n_seqs + i]
            if rows.array == NULL:
                result = loop.empty_result(self.op, i - self.n_states, [(<list>cell)[0] for cell in self.inputs])
            elif i < self.n_mit_mot or rows.lead + done == rows.at.length:
                result = <object>rows.array
            else:
                result = loop.in_order(<object>rows.array, rows.lead + done)
            put(self.out_cells[i], <PyObject *>result)
        for i in range(self.n_shared):
            # If the loop executed no step, `shared_ins` holds the node's input, which must be copied.
            result = <object>peek(self.shared_ins[i]) if done else loop.copy_shared(<object>peek(self.shared_ins[i]))
            put(self.out_cells[self.n_states + self.n_results + i], <PyObject *>result)
        return 0

    cdef void clean(self) noexcept:
        """Empty the cells of the step."""
        cdef int k
        if self.machine is not None:
            for k in range(self.n_taps):
                empty(self.taps[k].cell)
            for k in range(self.n_shared):
                empty(self.shared_ins[k])
                if self.passed[k] != NULL:
                    decref(self.passed[k])
                    self.passed[k] = NULL
            for k in range(self.n_others):
                empty(self.others[k])
            for k in range(self.n_temporaries):
                empty(self.temporaries[k])
        self.let_go()


cdef int check_groups(op, n_inputs, n_outputs, n_rows) except -1:
    """Raise ValueError if the counts of an Op are not consistent with its graphs. The counts determine the sizes of C
    arrays.
    """
    cells = (len(op.tap_array), len(op.mit_mot_out_slices), op.n_outputs_before_results - op.n_mit_sot - op.n_sit_sot, n_inputs, n_outputs,
             n_rows, len(op.inputs), len(op.outputs))
    counts = (op.n_states, op.n_mit_mot, sum(map(len, op.mit_mot_out_slices)),
              1 + op.n_seqs + op.n_buffers + op.n_shared_outs + op.n_others, op.n_buffers + op.n_shared_outs,
              op.n_seqs + op.n_states + op.n_nit_sot, op.n_seqs + op.n_inner_taps + op.n_shared_outs + op.n_others,
              op.n_outputs_before_results + op.n_nit_sot + op.n_shared_outs + bool(op.as_while))
    if cells != counts:
        raise ValueError("the counts and taps of the loop %s are not those of its node and its step: %s, expected %s" % (op.name, counts, cells))
    return 0


cdef PyObject *readable(const row_table *table, PyObject *value) except NULL:
    """Return an array whose rows are all aligned: the value itself, or a copy."""
    if table.readable(value):
        incref(value)
        return value
    copied = loop.contiguous_copy(<object>value)
    incref(<PyObject *>copied)
    return <PyObject *>copied


cdef int set_rows(Rows *rows, PyObject *value) except -1:
    """Set the array of a Rows, and steal the reference to the array."""
    rows.array = value
    rows.table.find(value, &rows.at)
    rows.lead = 0
    rows.expected = False
    return 0


cdef inline char *row_at(Rows *rows, long long number) noexcept:
    """Return the address of a row. `number` counts from the row of step 0, and wraps around at the buffer's end."""
    cdef Py_ssize_t place = rows.lead + number
    if place >= rows.at.length:
        place %= rows.at.length
    return rows.at.data + place * rows.at.stride


cdef int show_row(PyObject **view, PyObject *cell, Rows *rows, char *data) except -1:
    """Put a view of a row into a cell. The view in the cell is reused if nothing else refers to it."""
    if view[0] != NULL and peek(cell) == view[0] and refcount(view[0]) == 2:
        (<char **>(<char *>view[0] + rows.table.data_in_view))[0] = data
        return 0
    if view[0] != NULL:
        decref(view[0])
        view[0] = NULL
    view[0] = rows.table.view(rows.array, data)
    put(cell, view[0])
    return 0


cdef int copy_row(Tap *tap, Rows *rows, char *data) except -1:
    """Put a copy of a row of a state into the cell of a tap. The array of the previous step is reused if nothing else
    refers to it.
    """
    cdef bint alone = tap.view != NULL and peek(tap.cell) == tap.view and refcount(tap.view) == 2
    if not alone and tap.view != NULL:
        decref(tap.view)
        tap.view = NULL
    rows.table.copy(rows.array, data, &tap.view)
    if not alone:
        put(tap.cell, tap.view)
    return 0


cdef int run_loop(void *data) except -1:
    cdef LoopThunk self = <LoopThunk>data
    cdef long long t = 0, n_steps
    cdef int64_t left = 1
    cdef double start = 0, before = 0, in_steps = 0
    if self.profile is not None:
        start = time.perf_counter()
    try:
        n_steps = (<object>peek(self.in_cells[0])).__index__()
        self.start(n_steps)
        if self.pending is not None:
            self.left_to_machine -= n_steps
            if self.left_to_machine <= 0:
                self.compile_kernel()
        if self.kernel != NULL and n_steps > 0 and self.fits_kernel():
            t = self.all_steps(n_steps, &left)
        if left:
            if self.machine is None:
                self.bind()
            self.share()
            if t < n_steps:
                self.expect_results()
            while t < n_steps:
                self.lay_out(t)
                if self.profile is not None:
                    before = time.perf_counter()
                try:
                    self.machine.run(None)
                except BaseException as failure:
                    loop.raise_in_step(self.op, t, failure, self.machine)
                if self.profile is not None:
                    in_steps += time.perf_counter() - before
                self.collect(t)
                if self.n_shared:
                    self.pass_on()
                t += 1
                if self.as_while and self.is_over():
                    break
        self.finish(t)
    finally:
        self.clean()
    if self.profile is not None:
        self.profile.vm_call_time += in_steps
        self.machine.update_profile(self.profile)
        self.profile.count_loop(t, time.perf_counter() - start)
    return 0
