"""The checked run of a graph in DebugMode: every node runs with all its implementations, usually twice with each."""

import ctypes
import logging
import sys
import time

import numpy as np

from theano_ng.compile.debugmode import _last_words
from theano_ng.compile.debugmode.checks import (
    _check_inputs,
    _check_preallocated_output,
    _check_strides_match,
    _check_viewmap,
    _copy_for,
    _may_share_memory,
    check_valid,
    default_make_thunk,
)
from theano_ng.compile.debugmode.errors import (
    AddressError,
    BadReferences,
    BadThunkOutput,
    DebugModeError,
    InvalidValueError,
    error_of,
)
from theano_ng.compile.debugmode.tracking import _find_bad_optimizations, check_eq
from theano_ng.compile.functions.aliasing import alias_root
from theano_ng.compile.mode import FAST_RUN, inner_functions
from theano_ng.configdefaults import config
from theano_ng.gof import link, ports
from theano_ng.gof.graph import Constant
from theano_ng.gof.link_errors import with_text
from theano_ng.gof.native import make_native_thunk, native_code_of
from theano_ng.gof.op import has_c_implementation, has_perform
from theano_ng.gof.places import location_of
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.native import alloc

_logger = logging.getLogger("theano_ng.compile.debugmode")


class _Checks:
    """The checks of a function: the settings of its mode, and the flags at the time of construction.

    Parameters
    ----------
    mode : DebugMode
    """

    def __init__(self, mode):
        flags = config.DebugMode
        self.mode = mode
        self.c_code, self.py_code, self.finite = mode.check_c_code, mode.check_py_code, mode.check_isfinite
        self.strides = mode.require_matching_strides
        self.memory = [kind for kind in mode.check_preallocated_output if kind]
        self.varied = flags.check_preallocated_output_ndim
        self.warn_not_reused = flags.warn_input_not_reused
        self.search = flags.search


# The bytes that fill fresh memory in the first and in the second run of a node. If code reads memory to which it has not
# written, the two runs compute different results.
# As floating point numbers, these bytes are a tiny number and a large negative number. They are not NaN, which another
# check would report first.
_FIRST_FILL, _SECOND_FILL = 0x3A, 0xC5


#: The number of additional references to each input during a run. If the node releases too many references, the input
#: stays alive.
_EXTRA_REFERENCES = 64


class _Guard:
    """A context in which a node runs: damages to memory are reported, if the process survives them.

    Fresh memory is filled with `byte`. If the process dies, a message names the node.

    Parameters
    ----------
    run : _NodeThunks
    cells : dict
    kind : str
        The name of the run.
    byte : int

    Raises
    ------
    AddressError
        If the node wrote outside of an array that it has made.
    BadReferences
        If it released an input, or an array that it has made, too often.
    """

    #: The messages of the runs that have begun, for nodes that run functions in DebugMode.
    _words = [b""]

    def __init__(self, run, cells, kind, byte):
        self.run, self.cells, self.kind, self.byte = run, cells, kind, byte

    def __enter__(self):
        node = self.run.node
        text = "DebugMode: the process died while it ran %s of %s%s\n" % (self.kind, node, self.run.places)
        self._words.append(text.encode("utf-8", "replace"))
        _last_words.note(self._words[-1])
        values = [self.cells[r][0] for r in dict.fromkeys(node.inputs)]
        # Other objects, such as None, numbers and the empty tuple, may be in use elsewhere.
        self.values = [v for v in values if isinstance(v, np.ndarray) or isinstance(v, (tuple, list, dict)) and v]
        self.held = [[value] * _EXTRA_REFERENCES for value in self.values]
        self.counts = [self._count(value) for value in self.values]
        self.previous = alloc.fill(self.byte)

    def __exit__(self, kind, failure, traceback):
        alloc.restore(self.previous)
        self._words.pop()
        _last_words.note(self._words[-1])
        node = self.run.node
        wrong = ""
        for value, count in zip(self.values, self.counts):
            missing = count - self._count(value)
            for _ in range(missing):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
            if missing > 0 and not wrong:
                place = next(i for i, r in enumerate(node.inputs) if self.cells[r][0] is value)
                wrong = "%d reference%s to input %d that it does not own" % (missing, "s"[: missing > 1], place)
        self.held = None
        damages = alloc.damages()
        if wrong:
            raise BadReferences(node, self.kind, wrong) from failure
        if damages:
            _raise_damages(node, self.cells, self.kind, damages, failure)

    def _count(self, value):
        """Return the number of references to an object, without those of output cells.

        The copy of a tuple may be the tuple itself. Then an output cell contains the input, before or after the run.
        """
        return sys.getrefcount(value) - sum(self.cells[r][0] is value for r in self.run.node.outputs)


def _raise_damages(node, cells, kind, damages, failure):
    """Raise the error for the result of `alloc.damages`. `failure` is the exception of the node, or None."""
    for side, size, _, _ in damages:
        if side == "released twice":
            raise BadReferences(node, kind, "an array of %d bytes twice" % size) from failure
    side, size, _, _ = damages[0]
    written = [(side, count, far) for side, other, count, far in damages if other == size]
    outputs = [r for r in node.outputs if getattr(cells[r][0], "nbytes", None) == size]
    what = "" if outputs else "an array of %d bytes that it has made" % size
    raise AddressError(
        (outputs or node.outputs)[0], kind, None, written, None, [cells[r][0] for r in node.inputs], what
    ) from failure


class _NodeThunks:
    """The thunks of a node: one for `perform`, one for C code, and one for the interpreter of its kernels.

    The attributes `py`, `c` and `interpreter` contain the thunks. If a thunk does not exist, its attribute is None.

    Parameters
    ----------
    node : Apply
    cells, compute_map : dict
    checks : _Checks
    """

    def __init__(self, node, cells, compute_map, checks):
        self.node, self.compute_map = node, compute_map
        self.py = self.c = self.interpreter = None
        op = node.op
        self.state = self._state()
        places = [location_of(op, method) for method in ("c_code", "perform")]
        self.places = " (%s)" % ", ".join(filter(None, places)) if any(places) else ""
        own = getattr(type(op), "make_thunk", None) not in default_make_thunk or "make_thunk" in vars(op)
        if checks.c_code and has_c_implementation(op) and (config.cxx or hasattr(op, "native_code")):
            try:
                op.prepare_node(node, storage_map=cells, compute_map=compute_map, impl="c")
                self.c = op.make_c_thunk(node, cells, compute_map, [])
            except (NotImplementedError, MethodNotDefined):
                pass  # this node has no C code
            else:
                self.interpreter = _interpreter(node, cells) if config.cxx else None
        if has_perform(op) and (checks.py_code or (self.c is None and not own)):
            if not checks.py_code:
                _logger.warning("Op %s doesn't have a c_code, forcing check of the python code", op)
            op.prepare_node(node, storage_map=cells, compute_map=compute_map, impl="py")
            self.py = op.make_py_thunk(node, cells, compute_map, [], debug=True)
        if own:
            thunk = link.make_node_thunk(node, cells, compute_map, [])
            if self.py is None:
                self.py = thunk
            elif self.c is None:
                self.c = thunk
            else:
                _logger.warning(
                    "We won't check the perform function of node '%s' but we will check its make_thunk function", node
                )
                self.py = thunk
        if self.py is None and self.c is None:
            if not checks.c_code and has_c_implementation(op):
                _logger.warning("Op %s doesn't have a perform, forcing check of the C code", op)
            self.c = link.make_node_thunk(node, cells, compute_map, [])

        # An Op without C code whose outputs are all views of inputs exists for its side effects, such as printing or a
        # breakpoint. Therefore it runs only once.
        self.twice = self.c is not None or any(
            i not in (getattr(op, "view_map", None) or {}) for i in range(len(node.outputs))
        )

    def _state(self):
        """Return the state that a run must not change: the node's Op and variables, and the hash of the Op."""
        node = self.node
        return node.op, list(node.inputs), list(node.outputs), hash(node.op)

    def check_state(self):
        """Raise DebugModeError if a run changed the node or its Op."""
        op, inputs, outputs, hashed = self.state
        node = self.node
        if node.op is not op or list(node.inputs) != inputs or list(node.outputs) != outputs:
            raise DebugModeError(
                "Compiling or running changed the node: it was %s of %s, and now is %s" % (op, inputs, node)
            )
        if hash(op) != hashed:
            raise DebugModeError(
                "Compiling or running the node %s changed the Op: its hash is different now. Attributes that "
                "`__props__` names must not change: Ops that were equal, and therefore were merged, are different now."
                % node
            )

    def call(self, thunk):
        """Run a thunk. All inputs are computed, so a lazy thunk is called until it requests no further inputs."""
        for r in self.node.outputs:
            self.compute_map[r][0] = False
        asked = set()
        while True:
            missing = thunk()
            if not getattr(thunk, "lazy", False) or not missing:
                break
            if set(missing) <= asked:
                raise RuntimeError(
                    "the lazy thunk of %s keeps asking for inputs that are already computed" % (self.node,)
                )
            asked.update(missing)
        for r in self.node.outputs:
            self.compute_map[r][0] = True


def _interpreter(node, cells):
    """Return the thunk that interprets the kernels of a node. Return None if the node has no such thunk."""
    code = native_code_of(node)
    if code is None or not code.kernels:
        return None
    loaded = [kernel.load_interpreted() for kernel in code.kernels]
    inputs, outputs = [[cells[v] for v in variables] for variables in (node.inputs, node.outputs)]
    return make_native_thunk(node, code, inputs, outputs, loaded) if all(loaded) else None


#: The nodes that `DebugMode.search` has searched: pairs of an Op and the types of its inputs.
_searched = set()


def _search(node, r_vals, seconds):
    """Search for errors of a node, with other values of the same types. Ops of this package are not searched.

    Raises
    ------
    DebugModeError
        A subclass with the name of the error.
    """
    op = node.op
    if all(is_from_package(type(part)) for part in (op, getattr(op, "scalar_op", op))):
        return
    key = op, tuple([v.type for v in node.inputs])
    if key in _searched:
        return
    _searched.add(key)
    try:
        finding = ports.search_node(node, [r_vals[v] for v in node.inputs], seconds)
    except ImportError as failure:
        _logger.warning("DebugMode.search has no effect: %s", failure)
        return
    if finding is not None:
        raise error_of(finding)


class _CheckedMachine:
    """The callable that `Function` calls: it runs and checks a graph.

    Parameters
    ----------
    fgraph : FunctionGraph
    checks : _Checks
    order : list of Apply
        All nodes, including the nodes that rewriting removed.
    active : set of Apply
        The nodes of the rewritten graph.
    runs : list of _NodeThunks
        The thunks of each node of `order`.
    cells : dict
        Variable -> cell that the nodes read and fill.
    storage_map : dict
        Variable -> cell that callers fill and read.
    reasons, inserted : dict
        See `_VariableEquivalenceTracker`.
    """

    def __init__(self, fgraph, checks, order, active, runs, cells, storage_map, reasons, inserted):
        self.fgraph, self.checks, self.order, self.active, self.runs = fgraph, checks, order, active, runs
        self.cells, self.storage_map, self.reasons, self.inserted = cells, storage_map, reasons, inserted
        self.allow_gc = True
        self.run_of = None
        self.reset_timing()
        self.last = {}  # values of the previous call, which some checks use as preallocated memory

    def __call__(self):
        checks, given = self.checks, self.storage_map
        roots = [r for r in given if r.owner is None]
        r_vals, dr_vals, originals = {}, {}, {}
        for r in roots:
            value = originals[r] = given[r][0]
            if value is None and not r.type.is_valid_value(None):
                raise InvalidValueError(r, hint="Graph Input '%s' is missing" % r)
            check_valid(
                r,
                value,
                checks.finite and not isinstance(r, Constant),
                "Graph Input '%s' has invalid value" % r,
                "none",
            )
            # Copy the values, because other functions may change shared variables during the call.
            r_vals[r] = value if isinstance(r, Constant) else _copy_for(r, value)
        _last_words.watch()
        try:
            with inner_functions(checks.mode):
                for i, (node, run) in enumerate(zip(self.order, self.runs)):
                    start = time.perf_counter()
                    self._run_node(node, run, r_vals, dr_vals)
                    self.call_times[i] += time.perf_counter() - start
                    self.call_counts[i] += 1
        finally:
            _last_words.unwatch()
        _find_bad_optimizations(self.order, self.reasons, r_vals, self._compute)
        if "initial" in checks.memory or "ALL" in checks.memory:
            self.last = {r: value for r, value in r_vals.items() if r.owner is not None}
        self._store_results(originals, r_vals, dr_vals)

    def reset_timing(self):
        """Reset the nodes' times and counts to zero."""
        self.call_times, self.call_counts = [0.0] * len(self.order), [0] * len(self.order)

    def update_profile(self, profile):
        """Add the nodes' times (checks included) and counts to a profile, then reset them."""
        for node, run, seconds, count in zip(self.order, self.runs, self.call_times, self.call_counts):
            profile.apply_time[node] = profile.apply_time.get(node, 0.0) + seconds
            profile.apply_callcount[node] = profile.apply_callcount.get(node, 0) + count
            profile.apply_cimpl[node] = run.c is not None
        self.reset_timing()

    def _compute(self, node, inputs):
        """Return the outputs of a node for input values that differ from those of the call. Check nothing."""
        if self.run_of is None:
            self.run_of = dict(zip(self.order, self.runs))
        run = self.run_of[node]
        self._fill(node, dict(zip(node.inputs, inputs)))
        try:
            run.call(run.c or run.py)
            return [self.cells[r][0] for r in node.outputs]
        finally:
            for r in [*node.inputs, *node.outputs]:
                self.cells[r][0] = None

    def _store_results(self, originals, r_vals, dr_vals):
        """Store the results of the call: in the inputs that the function destroyed, and in the output cells."""
        written = {}
        for r, (value, _) in dr_vals.items():
            if r.owner is not None or isinstance(r, Constant):
                continue
            memory = originals[r]
            if type(memory) is np.ndarray and memory.flags.writeable and getattr(value, "shape", None) == memory.shape:
                memory[...] = value
                written[r] = memory
            else:
                self.storage_map[r][0] = value
        for r in self.fgraph.outputs:
            if r.owner is None:
                continue
            value = r_vals[r]
            # If a node computed the output in the memory of an input, return the input's array itself, as in other
            # modes.
            memory = written.get(alias_root(r)) if written else None
            same = (
                memory is not None
                and (memory.shape, memory.dtype) == (value.shape, value.dtype)
                and r.type.values_eq(memory, value)
            )
            self.storage_map[r][0] = memory if same else value

    def _run_node(self, node, run, r_vals, dr_vals):
        """Run and check one node. Store the values of its outputs in `r_vals`."""
        cells, checks = self.cells, self.checks
        # Nodes that rewriting removed may compute infinities, which can be the reason for their removal.
        finite = checks.finite and node in self.active
        first = None
        try:
            for kind, thunk in (("perform", run.py), ("c_code", run.c), ("interpreter", run.interpreter)):
                if thunk is None:
                    continue
                self._fill(node, r_vals)
                with _Guard(run, cells, kind, _FIRST_FILL):
                    run.call(thunk)
                self._check_outputs(node, kind, finite)
                inplace = _check_inputs(
                    node,
                    cells,
                    r_vals,
                    dr_vals,
                    self.active,
                    clobber_dr_vals=True,
                    perform=kind,
                    warn_input_not_reused=checks.warn_not_reused and node in self.active,
                )
                _check_viewmap(node, cells)
                if first is None:
                    first = kind
                    for r in node.outputs:
                        r_vals[r] = _copy_for(r, cells[r][0])
                else:
                    self._compare(node, r_vals, first, kind)
                    for r in node.outputs:
                        _check_strides_match(r_vals[r], cells[r][0], checks.strides, node.op)
                # Nodes that rewriting removed run once: only their values are needed, to check the replacements. The
                # interpreter runs once, too: the same C code calls the interpreter and the compiled kernel, and the
                # repeated runs with the kernel have already tested this code.
                if node not in self.active or kind == "interpreter":
                    continue
                # The first run has already checked the inner functions, so the next runs use FAST_RUN for them.
                with inner_functions(FAST_RUN):
                    if run.twice:
                        self._run_again(node, run, thunk, kind, finite, r_vals, dr_vals)
                    if checks.memory:
                        initial = {r: self.last.get(r) for r in node.outputs}
                        _check_preallocated_output(
                            node,
                            thunk,
                            checks.memory,
                            checks.varied,
                            cells,
                            r_vals,
                            dr_vals,
                            kind,
                            self.active,
                            inplace,
                            initial,
                            run=lambda thunk_name: self._guarded(run, thunk, thunk_name),
                            finite=finite,
                        )
            run.check_state()
            if checks.search > 0 and node in self.active:
                _search(node, r_vals, checks.search)
        except DebugModeError:
            raise
        except Exception as failure:
            origin = self._origin(node)
            told = with_text(type(failure), failure, origin) if origin else failure
            link.raise_with_op(
                node, run.py or run.c, exc_info=(type(told), told, failure.__traceback__), storage_map=cells
            )
        finally:
            for r in list(node.inputs) + list(node.outputs):
                cells[r][0] = None

    def _guarded(self, run, thunk, kind):
        with _Guard(run, self.cells, kind, _SECOND_FILL):
            run.call(thunk)

    def _origin(self, node):
        """Return a text for error messages: the rewrite that inserted a node, and the graph that it replaced.

        The text is empty for a node of the user's graph.
        """
        rewrite = self.inserted.get(node)
        if rewrite is None:
            return ""
        text = "\nThe rewrite %s inserted this node" % rewrite
        for r in node.outputs:
            for _, old, old_graph, _ in self.reasons.get(r, ()):
                return text + ". It replaced %s:\n%s" % (old, old_graph)
        return text + "."

    def _run_again(self, node, run, thunk, kind, finite, r_vals, dr_vals):
        """Run a node a second time on the same inputs, and compare the results.

        The results differ if the first run left state behind, or if the code reads memory that it never wrote.
        """
        cells, again = self.cells, kind + ", in a second call"
        before = [cells[r][0] for r in node.outputs]
        self._fill(node, r_vals)
        with _Guard(run, cells, again, _SECOND_FILL):
            run.call(thunk)
        self._check_outputs(node, again, finite)
        _check_inputs(
            node, cells, r_vals, dr_vals, self.active, clobber_dr_vals=False, perform=again, warn_input_not_reused=False
        )
        _check_viewmap(node, cells)
        self._compare(node, r_vals, kind, again)
        maps = [getattr(node.op, name, None) or {} for name in ("view_map", "destroy_map")]
        for i, (r, value) in enumerate(zip(node.outputs, before)):
            if any(i in table for table in maps):
                continue  # `view_map` or `destroy_map` declares that this output shares memory with an input
            if _may_share_memory(r, value, cells[r][0]):
                raise BadThunkOutput(
                    r,
                    thunk1=kind,
                    val1=value,
                    thunk2=again,
                    val2=cells[r][0],
                    inputs_val=[r_vals[i] for i in node.inputs],
                    hint="both calls returned the same array, so that the second call overwrites the result of the first one. "
                    "Outputs must be new arrays, or the arrays that output_storage contained.",
                )

    def _check_outputs(self, node, kind, finite):
        for r in node.outputs:
            check_valid(r, self.cells[r][0], finite, "%s output" % kind, "none")

    def _compare(self, node, r_vals, kind, other):
        """Raise BadThunkOutput if the outputs in the cells differ from the values in `r_vals`."""
        for r in node.outputs:
            value = self.cells[r][0]
            if not check_eq(r, r_vals[r], value):
                raise BadThunkOutput(
                    r,
                    thunk1=kind,
                    val1=r_vals[r],
                    thunk2=other,
                    val2=_copy_for(r, value),
                    inputs_val=[r_vals[i] for i in node.inputs],
                )

    def _fill(self, node, r_vals):
        """Put copies of the inputs into their cells, and empty the cells of the outputs."""
        for r in node.inputs:
            self.cells[r][0] = _copy_for(r, r_vals[r])
        for r in node.outputs:
            self.cells[r][0] = None
