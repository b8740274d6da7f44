"""The class DebugMode, its linker and the maker of its functions."""

import logging

from theano_ng.compile.debugmode.errors import EndlessOptimization, StochasticOrder
from theano_ng.compile.debugmode.run import _CheckedMachine, _Checks, _NodeThunks
from theano_ng.compile.debugmode.tracking import _VariableEquivalenceTracker
from theano_ng.compile.functions.maker import FunctionMaker, std_fgraph
from theano_ng.compile.mode import Mode, inner_functions
from theano_ng.configdefaults import config
from theano_ng.gof import link, progress
from theano_ng.gof.graph import io_toposort
from theano_ng.gof.rewriting.endless import EndlessRewriting

_logger = logging.getLogger("theano_ng.compile.debugmode")


class NoDuplicateOptWarningFilter(logging.Filter):
    """A logging filter that accepts each warning about rewriting only once."""

    def __init__(self, name=""):
        super().__init__(name)
        self.prev_msgs = set()

    def filter(self, record):
        message = record.getMessage()
        if message.startswith("Optimization Warning: "):
            if message in self.prev_msgs:
                return False
            self.prev_msgs.add(message)
        return True


_logger.addFilter(NoDuplicateOptWarningFilter())


class DataDestroyed:
    """A placeholder for the value of a variable that a node destroyed."""


data_destroyed = DataDestroyed()


def _optcheck_fgraph(input_specs, output_specs, accept_inplace=False, snapshots=True):
    """Make a graph with `std_fgraph`, and attach a feature that records rewriting: ``fgraph.equivalence_tracker``."""
    fgraph, updates = std_fgraph(input_specs, output_specs, accept_inplace)
    _track(fgraph, snapshots)
    return fgraph, updates


def _track(fgraph, snapshots=True):
    fgraph.equivalence_tracker = _VariableEquivalenceTracker(snapshots)
    fgraph.attach_feature(fgraph.equivalence_tracker)


class _Linker(link.LocalLinker):
    """A linker whose functions run every node with all its implementations, and check the results.

    Parameters
    ----------
    maker : _Maker
    schedule : callable, optional
        ``schedule(fgraph)`` returns the nodes in the order in which they run.
    """

    def __init__(self, maker, schedule=None):
        self.maker = maker
        self.fgraph = None
        self.no_recycling = []
        if schedule is not None:
            self.schedule = schedule

    def accept(self, fgraph, no_recycling=None, profile=None):
        if self.fgraph is not None and self.fgraph is not fgraph:
            return type(self)(self.maker).accept(fgraph, no_recycling, profile)
        self.fgraph = fgraph
        self.no_recycling = [] if no_recycling is None else no_recycling
        return self

    def make_all(self, profiler=None, input_storage=None, output_storage=None, storage_map=None):
        fgraph = self.fgraph
        tracker = fgraph.equivalence_tracker
        active_order = self.schedule(fgraph)
        # Also run the nodes that rewriting removed: their values show if the replacements were correct. Leave out nodes
        # that destroy a variable which they also read as another input: the values of their outputs have no meaning,
        # and rewriting rejected these nodes.
        active = set(active_order)
        once = [r for r in tracker.all_variables_ever if r.owner in active or not _destroys_what_it_reads(r.owner)]
        order = io_toposort(fgraph.inputs, list(fgraph.outputs) + once)
        known = {r for node in order for r in node.outputs}.union(r for r in tracker.reasons if r.owner is None)
        reasons = {
            new: [entry for entry in entries if entry[1].owner is None or entry[1] in known]
            for new, entries in tracker.reasons.items()
            if new in known
        }
        input_storage, output_storage, storage_map = link.map_storage(
            fgraph, order, input_storage, output_storage, storage_map
        )
        # Let nodes use separate cells instead of the cells in `storage_map`. There, the cells of the graph's inputs may
        # belong to shared variables, which other functions may read during the call.
        cells = {r: [None] for r in storage_map}
        compute_map = {r: [True] for r in storage_map}
        checks = self.maker.checks
        runs = []
        # Wait until the kernels are compiled. By default, an interpreter runs the nodes until then. DebugMode runs the
        # interpreter as a separate implementation, and compares its results with the results of the kernels.
        compiled = config.change_flags(tiered="off")
        with compiled, inner_functions(checks.mode), link.native_kernels(order if checks.c_code else ()):
            for i, node in enumerate(order):
                progress.task.linking(i + 1, order)
                try:
                    runs.append(_NodeThunks(node, cells, compute_map, checks))
                except Exception as failure:
                    failure.args = ("The following error happened while compiling the node", node, "\n") + failure.args
                    raise

        call = _CheckedMachine(fgraph, checks, order, active, runs, cells, storage_map, reasons, tracker.inserted)
        computed, _ = link.gc_helper(order)
        link.add_clear_storage(call, computed, storage_map)
        thunks = [run.py or run.c for run in runs]
        return (
            call,
            link.containers(fgraph.inputs, input_storage),
            link.containers(fgraph.outputs, output_storage, True),
            thunks,
            order,
        )


def _destroys_what_it_reads(node):
    """Return True if a variable that a node destroys occurs twice among the inputs of the node."""
    destroyed = {i for indices in (getattr(node.op, "destroy_map", None) or {}).values() for i in indices}
    return any(node.inputs.count(node.inputs[i]) > 1 for i in destroyed)


class _Maker(FunctionMaker):
    """The function maker of DebugMode: it rewrites a graph several times, and links it with `_Linker`.

    It has the parameters of `FunctionMaker`.
    """

    def _make_linker(self, mode):
        self.checks = _Checks(mode)  # reads the current values of the flags
        if not hasattr(self.fgraph, "equivalence_tracker"):
            _track(self.fgraph)  # a graph from a pickle is already rewritten, and has no tracker
        return _Linker(self)

    def _rewritten_graph(self, inputs, outputs, accept_inplace):
        kept = None
        for i in range(max(self.mode.stability_patience, 1)):
            fgraph, additional_outputs = _optcheck_fgraph(inputs, outputs, accept_inplace, snapshots=i == 0)
            fgraph.profile = self.profile
            try:
                self._rewrite(fgraph, inputs, outputs + additional_outputs)
            except EndlessRewriting as failure:
                raise EndlessOptimization(str(failure)) from None
            if kept is None:
                kept = fgraph
            else:
                self._compare(kept.equivalence_tracker.event_list, fgraph.equivalence_tracker.event_list)
        return kept

    @staticmethod
    def _compare(first, other):
        """Raise StochasticOrder unless two runs of rewriting made the same changes in the same order."""
        if first == other:
            return
        lines = ["Rewriting the same graph again did not apply the same steps in the same order. The first difference:"]
        for i in range(max(len(first), len(other))):
            a, b = (events[i] if i < len(events) else None for events in (first, other))
            if a != b:
                for j in range(max(i - 3, 0), i):
                    lines.append("   both  : %s" % first[j])
                lines += ["   first : %s" % a, "   later : %s" % b]
                break
        raise StochasticOrder("\n".join(lines))


class _DummyLinker:
    """A placeholder for the linker of the mode. DebugMode makes a separate linker for each function."""

    def clone(self, allow_gc=None):
        """Return this object, because it has no state."""
        return self

    def __reduce__(self):
        return _the_dummy_linker, ()


default_linker = _DummyLinker()


def _the_dummy_linker():
    return default_linker


class _Setting:
    """A descriptor for a setting of DebugMode: the value in the mode or, by default, the current value of a flag.

    Parameters
    ----------
    flag : str
        The name of the flag in the section DebugMode of the configuration.
    convert : callable, optional
        A function that converts the value of the flag.
    doc : str
    """

    def __init__(self, flag, doc, convert=lambda value: value):
        self.flag, self.convert, self.__doc__ = flag, convert, doc

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, mode, owner=None):
        value = None if mode is None else mode.__dict__.get(self.name)
        return self.convert(getattr(config.DebugMode, self.flag)) if value is None else value

    def __set__(self, mode, value):
        mode.__dict__[self.name] = value


class DebugMode(Mode):
    """A mode whose functions detect errors of Ops and of rewrites.

    Parameters
    ----------
    optimizer : str, Query or Optimizer
    stability_patience : int, optional
        The number of times that a graph is rewritten, to check that rewriting is deterministic. By default,
        `config.DebugMode.patience`. As for all defaults below, this flag is read when a function is compiled.
    check_c_code, check_py_code : bool, optional
        Whether to run and check the C code, and whether to run and check `perform`. At least one of the two parameters
        must be True. By default, `config.DebugMode.check_c` and `config.DebugMode.check_py`.
    check_isfinite : bool, optional
        Whether NaN and infinities are errors. By default, `config.DebugMode.check_finite`.
    check_preallocated_output : list of str, optional
        The kinds of preallocated memory for outputs to test. By default,
        `config.DebugMode.check_preallocated_output`.
    require_matching_strides : int, optional
        Whether C code and `perform` have to return arrays with equal strides. 0: no. 1: warn. 2: raise TypeError. By
        default, `config.DebugMode.check_strides`.
    linker : optional
        Not used. The parameter exists so that methods of `Mode` can make copies.

    Raises
    ------
    ValueError
        If neither C code nor Python code would be run.
    Exception
        If the linker belongs to another mode.

    Notes
    -----
    Compiling a function, or calling it, raises a subclass of `DebugModeError`:

    - `BadThunkOutput`: two runs of a node on the same inputs computed different values, or returned the same memory.
      The two runs are: Python code and C code; the first and the second run of the same code; or a run with and a run
      without preallocated memory for the output;
    - `AddressError`, a subclass of `BadThunkOutput`: a node wrote outside of the memory in the cell of an output, or
      between its elements (`check_preallocated_output`), or outside of an array that it has made. The memory has guard
      margins;
    - `BadReferences`: a node released a reference to an input that it does not own, or an array twice;
    - `BadOptimization`: a rewrite replaced a variable by a variable that has a different value. Elements may differ if
      the old graph turned finite values into NaN or infinities. Rules with an attribute ``ignores_nonfinite = True``
      may change the results for NaN and infinities in the inputs. Rounding differences are accepted (for details see
      `tracking._Judge`);
    - `BadDestroyMap`, `BadViewMap`: a node changes inputs, or shares memory with them, but its Op does not declare it;
    - `StochasticOrder`: when the same graph is rewritten twice, the changes or their order are different;
    - `EndlessOptimization`: rules undo each other, or apply to their own results, so that rewriting would not end;
    - `InvalidValueError`: a value does not fit its type, or is not finite, in the rewritten graph.

    An Op that changes itself or its node while it runs is reported as a plain `DebugModeError`. Nodes that rewriting
    removed are run, too, but only once, and without preallocated memory for the output. Ops that run an inner function
    compile it in this mode (`compile.mode.inner_mode`).

    Examples
    --------
    >>> import theano_ng as theano
    >>> from theano_ng.compile.debugmode import DebugMode
    >>> x = theano.tensor.dscalar('x')
    >>> f = theano.function([x], 10 * x, mode=DebugMode(check_c_code=False))
    >>> f(5).tolist()
    50.0
    """

    stability_patience = _Setting("patience", "The number of times that a graph is rewritten.")
    check_c_code = _Setting("check_c", "Whether C code runs.")
    check_py_code = _Setting("check_py", "Whether `perform` runs.")
    check_isfinite = _Setting("check_finite", "Whether NaN and infinities raise an error.")
    require_matching_strides = _Setting("check_strides", "The action if strides differ: 0 nothing, 1 warn, 2 raise.")
    check_preallocated_output = _Setting(
        "check_preallocated_output",
        "Kinds of memory that output cells contain before a node runs.",
        lambda text: [kind for kind in text.split(":") if kind],
    )

    def __init__(
        self,
        optimizer="fast_run",
        stability_patience=None,
        check_c_code=None,
        check_py_code=None,
        check_isfinite=None,
        check_preallocated_output=None,
        require_matching_strides=None,
        linker=default_linker,
    ):
        if linker is not None and not isinstance(linker, _DummyLinker):
            raise Exception("DebugMode can only use its own linker! You should not provide one.", linker)
        if isinstance(check_preallocated_output, str):
            check_preallocated_output = [kind for kind in check_preallocated_output.split(":") if kind]
        self.stability_patience = stability_patience
        self.check_c_code = check_c_code
        self.check_py_code = check_py_code
        self.check_isfinite = check_isfinite
        self.check_preallocated_output = check_preallocated_output
        self.require_matching_strides = require_matching_strides
        super().__init__(linker=default_linker, optimizer=optimizer)
        if not (self.check_c_code or self.check_py_code):
            raise ValueError("DebugMode has to check at least one of C and Python code")

    def function_maker(self, i, o, m, *args, **kwargs):
        """Return the maker of a function of this mode. `m` must be this mode."""
        if m is not self:
            raise ValueError("this DebugMode cannot make a function for another mode: %s" % (m,))
        return _Maker(i, o, self, *args, **kwargs)

    def __getstate__(self):
        return super().__getstate__(), {name: self.__dict__.get(name) for name in _SETTINGS}

    def __setstate__(self, state):
        if len(state) == 2 and isinstance(state[1], dict):
            state, settings = state
            self.__dict__.update(settings)
        super().__setstate__(state)

    def clone(self, link_kwargs=None, optimizer="", **kwargs):
        """Return a mode with the same settings, and with another optimizer if one is given."""
        if isinstance(optimizer, str) and optimizer == "":
            optimizer = self.provided_optimizer
        settings = {name: self.__dict__.get(name) for name in _SETTINGS}
        return type(self)(optimizer=optimizer, **dict(settings, **kwargs))

    def inner_key(self):
        """Return a key that is equal for two modes if they compile the same function now.

        The key depends on the settings of the mode and on the current flags.
        """
        flags = config.DebugMode
        return (str(self._optimizer), flags.warn_input_not_reused, flags.check_preallocated_output_ndim) + tuple(
            str(getattr(self, name)) for name in _SETTINGS
        )

    def __str__(self):
        return "DebugMode(linker=%s, optimizer=%s)" % (self.provided_linker, self.provided_optimizer)


_SETTINGS = (
    "stability_patience",
    "check_c_code",
    "check_py_code",
    "check_isfinite",
    "check_preallocated_output",
    "require_matching_strides",
)
