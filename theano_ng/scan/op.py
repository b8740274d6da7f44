"""`Scan`: the Op of a loop, which contains the graph of a step."""

import time
from collections import OrderedDict
from itertools import accumulate
from weakref import WeakValueDictionary

from theano_ng.compile import graph_cache
from theano_ng.compile.functions.maker import FunctionMaker, std_fgraph
from theano_ng.compile.inner_graph import InnerGraph
from theano_ng.compile.io import In, Out
from theano_ng.compile.mode import get_mode, inner_mode
from theano_ng.compile.profiling import ScanProfileStats
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import MissingGXX, has_kernel
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import obtain_kernels
from theano_ng.gof.op import Op, ops_with_inner_function
from theano_ng.gof.optdb import register_loader
from theano_ng.gof.vm import CVM, VM_Linker
from theano_ng.scan import loop
from theano_ng.scan._loop import LoopThunk
from theano_ng.scan.array_kernel import array_kernel
from theano_ng.scan.gradient import Derivatives
from theano_ng.scan.groups import Groups
from theano_ng.scan.kernel import loop_kernel
from theano_ng.scan.validation import check_step, fit_inputs
from theano_ng.tensor.type import TensorType

__all__ = ["Scan"]


_makers = WeakValueDictionary()  # (mode or None, identity of a step) -> the FunctionMaker of the step


class StepGraph(InnerGraph):
    """The graph of a step. The function of the step reuses the memory of its results in the next call, and a result
    may be a view of an input. Therefore the loop copies values that it has to keep.

    `arguments` has the entries ``mode``, ``allow_gc``, ``profile`` and ``name``.
    """

    def _start(self):
        super()._start()
        self.makers, self.kernels, self.shape_functions = {}, {}, {}

    def maker(self):
        """Return the maker of functions and programs of the step, in the current inner mode.

        Equal steps from the same source lines share a maker. The gradient of nested loops contains the inner
        loops once more at each level. With a shared maker, these loops are rewritten only once.
        """
        asked = inner_mode()
        key = None if asked is None else asked.inner_key()
        if key not in self.makers:
            mode = get_mode(self.arguments["mode"]) if asked is None else asked
            profile = self.arguments["profile"] or config.profile
            text = None if profile else graph_cache.identity(mode, self, std_fgraph.features)
            # `text` identifies the loop's own mode. If a different mode is used, the key also contains that mode,
            # because two modes with the same rewriting may have different linkers.
            which = None if mode is self.arguments["mode"] else mode
            made = None if text is None else _makers.get((which, text))
            if made is None:
                made = self._make_maker(mode, profile)
                if text is not None:
                    _makers[which, text] = made
            self.makers[key] = made
        return self.makers[key]

    def _make_maker(self, mode, profile):
        moves = mode.selects("gpuarray_opt")
        if self.arguments["gpua"] and not moves:
            mode = mode.including("gpuarray")
        elif moves and not self.arguments["gpua"]:
            # A step that moves computations to a device would transfer rows to the device and back in each step.
            mode = mode.excluding("gpuarray")
        if getattr(mode.linker, "allow_gc", None) not in (None, self.arguments["allow_gc"]):
            mode = mode.clone(link_kwargs={"allow_gc": self.arguments["allow_gc"]})
        name = self.arguments["name"]
        if profile:
            profile = ScanProfileStats(name=profile if isinstance(profile, str) else name)
        make = getattr(mode, "function_maker", FunctionMaker)
        return make(
            [In(v, borrow=True) for v in self.inputs],
            [Out(v, borrow=True) for v in self.outputs],
            mode,
            accept_inplace=True,
            profile=profile or None,
            on_unused_input="ignore",
            name=name,
        )

    def compile(self, arguments):
        return self.maker().create()

    def shape_of_result(self, k, values):
        """Return the shape of an output. If possible, the output itself is not computed.

        Parameters
        ----------
        k : int
        values : list
            The values of `inputs`.

        Returns
        -------
        tuple of int
        """
        if k not in self.shape_functions:
            shapes = [tuple(v.shape[d] for d in range(v.ndim)) if hasattr(v, "ndim") else None for v in self.inputs]
            lengths = list(self.infer_shape(self.inputs, shapes)[k])
            self.shape_functions[k] = FunctionMaker(
                self.inputs, lengths, get_mode("FAST_COMPILE"), accept_inplace=True, on_unused_input="ignore"
            ).create()
        return tuple(int(length) for length in self.shape_functions[k](*values))

    def kernel(self, op):
        """Return the kernel that executes all steps of a loop at once, or None. If the nodes of a step are profiled,
        return None, so that the steps are run one by one.

        Parameters
        ----------
        op : Scan
        """
        maker = self.maker()
        if maker not in self.kernels:
            found = None
            on_devices = any(hasattr(v.type, "row_table") for v in [*op.inputs, *op.outputs])
            if not maker.profile and not on_devices:
                found = loop_kernel(op, maker.fgraph) or (array_kernel(op, maker.fgraph) if config.cxx else None)
            self.kernels[maker] = found
        return self.kernels[maker]


class Scan(Derivatives, Groups, Op):
    """A loop over the rows of sequences, with states.

    Users make loops with `theano_ng.scan`. `scan.groups` documents the order of the variables.

    Parameters
    ----------
    inputs, outputs : list of Variable
        The graph of a step. It belongs to the Op and must not be changed.
    info : dict
        ``n_seqs``, ``n_mit_mot``, ``n_mit_mot_outs``, ``n_mit_sot``, ``n_sit_sot``, ``n_shared_outs``, ``n_nit_sot``,
        ``tap_array``, ``mit_mot_out_slices`` and ``as_while``: see `Groups`. Also ``truncate_gradient`` (int; -1: all
        steps), ``name`` (str or None), ``mode``, ``profile`` (bool or str; `config.profile` also enables it),
        ``allow_gc`` (bool), ``strict`` (bool), ``gpua`` (bool: steps run on a device), and ``destroy_map`` (dict: outer
        output -> outer inputs that it overwrites).
    typeConstructor : callable, optional
        ``typeConstructor(broadcastable=, dtype=)`` returns the type of an outer output. Default: a tensor type.
    """

    # Theano's rule that shortens buffers marks the visited loops by this attribute. The attribute is kept for
    # compatibility: in this package, the rule may visit a loop again.
    _scan_savemem_visited = True
    takes_undefined_gradients = True

    def __init__(self, inputs, outputs, info, typeConstructor=None):
        self.set_groups(info)
        self.info = OrderedDict(info)
        self.truncate_gradient = info.get("truncate_gradient", -1)
        self.name = info.get("name")
        self.mode = info.get("mode")
        self.profile = info.get("profile", False)
        self.allow_gc = info.get("allow_gc", config.scan.allow_gc)
        self.strict = info.get("strict", False)
        self.gpua = info.get("gpua", False)
        self.destroy_map = dict(info.get("destroy_map", ()))
        arguments = {
            "mode": self.mode,
            "allow_gc": self.allow_gc,
            "profile": self.profile,
            "name": self.name,
            "gpua": self.gpua,
        }
        self.inner_graph = StepGraph.of_parts(list(inputs), list(outputs), [], arguments)
        self.n_others = len(self.inner_non_seqs(inputs))
        if typeConstructor is not None:
            self.info["type_constructor"] = typeConstructor  # loops made from this `info` use it, too
        make_type = self.info.get("type_constructor", TensorType)
        # The type of an outer output follows from an inner output. For a mit_mot buffer, this is the first inner output
        # that is written to it.
        firsts = accumulate((len(taps) for taps in self.mitmot_out_taps()), initial=0)
        written = [outputs[first] for first in list(firsts)[:-1]]
        written += outputs[self.n_mit_mot_outs : self.n_outputs_before_results + self.n_nit_sot]
        stacked = [make_type(broadcastable=(False, *out.type.broadcastable), dtype=out.type.dtype) for out in written]
        self.output_types = stacked + [out.type for out in self.inner_shared_outs(outputs)]
        self.var_mappings = self.get_oinp_iinp_iout_oout_mappings()

    inputs = property(lambda self: self.inner_graph.inputs, doc="The inner inputs.")
    outputs = property(lambda self: self.inner_graph.outputs, doc="The inner outputs.")

    @property
    def fn(self):
        """The compiled function of the step, for inspection. It is None if the step has not been needed yet."""
        return self.inner_graph.compiled() if self.inner_graph.makers else None

    def program_lines(self, node):
        """Return the text of a step: its loop program, or the program of its function.

        Return no lines if the step has not been compiled, or if its machine has no program, as in DebugMode.
        """
        if not self.inner_graph.makers:
            return []
        kernel = self.inner_graph.kernel(self)
        program = None if kernel is None else kernel.kernel.program
        if program is None:
            program = getattr(self.fn.fn, "program", None)
        return [] if program is None else str(program).splitlines()

    def __str__(self):
        name = self.name if self.name is not None else "None"
        kind = "gpu" if self.gpua else "cpu"
        if not self.destroy_map:
            return "%s{%s,%s}" % ("do_while" if self.as_while else "for", kind, name)
        return "%s_inplace,%s,%s}" % ("do_while" if self.as_while else "forall", kind, name)

    # -- identity

    def _identity(self):
        """Return the properties that equal loops share, except the step."""
        return (
            self.n_seqs,
            self.n_mit_mot,
            self.n_mit_sot,
            self.n_sit_sot,
            self.n_shared_outs,
            self.n_nit_sot,
            tuple(map(tuple, self.tap_array)),
            tuple(map(tuple, self.mit_mot_out_slices)),
            self.as_while,
            self.truncate_gradient,
            self.gpua,
            tuple(sorted((out, tuple(ins)) for out, ins in self.destroy_map.items())),
            tuple(self.output_types),
        )

    def __eq__(self, other):
        return self is other or (
            type(self) is type(other)
            and self._identity() == other._identity()
            and self.inner_graph == other.inner_graph
        )

    def __hash__(self):
        return hash((type(self), self._identity(), self.inner_graph))

    def describe_for_cache(self, key, depth):
        """Return a text that identifies the loop; see `compile.graph_cache`."""
        return "%s %s" % (key.text([self.name, *self._identity()], depth), key.text(self.inner_graph, depth))

    # -- the node

    def make_node(self, *inputs):
        """Make a node of the loop on outer inputs.

        Raises
        ------
        AssertionError, TypeError, ValueError
            If inputs do not fit the step, or if the step is inconsistent; see `scan.validation`.
        """
        inputs = fit_inputs(self, inputs)
        check_step(self, inputs)
        return Apply(self, inputs, [t() for t in self.output_types])

    def validate_inner_graph(self):
        """Raise an error if the step changes the type of a state. `make_node` makes the same check.

        Raises
        ------
        TypeError, ValueError
        """
        check_step(self)

    def runs_in_c(self):
        """Return True if the linker of the step runs nodes with the virtual machine that is written in C."""
        linker = self.inner_graph.maker().linker
        return isinstance(linker, VM_Linker) and linker.machine_class(True) is CVM

    def inner_profile(self):
        """Return the profile of the step, or None."""
        return self.inner_graph.maker().profile

    def inside(self):
        """Return the kernels that execute all steps. If there are none, return the inner nodes that need kernels.

        The result is a pair of lists, at least one of which is empty; see `gof.link.native_kernels`.
        """
        if not self.runs_in_c():
            return [], []
        kernel = self.inner_graph.kernel(self)
        if kernel is None or not self.starts_with(kernel):
            return [], self.inner_graph.maker().fgraph.toposort()
        return [kernel.kernel, *kernel.others], []

    @staticmethod
    def starts_with(kernel):
        """Return True if a kernel is used from the first step on.

        In most cases, the kernels that the virtual machine needs for steps with arrays exist already. Therefore a
        missing kernel of the loop is compiled only after many steps.
        """
        if kernel.layout is None or not loop.HOT_STEPS:
            return True
        try:
            return has_kernel(kernel.kernel)
        except MissingGXX:
            return False

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        """Return a thunk that runs the loop in C, or in Python if this is requested or if the step cannot run in C."""
        if impl == "py" or not self.runs_in_c():
            return self.make_py_thunk(node, storage_map, compute_map, no_recycling)
        inputs, outputs = [[storage_map[v] for v in variables] for variables in (node.inputs, node.outputs)]
        kernel, loaded = self.inner_graph.kernel(self), None
        if kernel is not None and self.starts_with(kernel):
            try:
                (loaded,) = obtain_kernels((kernel.kernel,))
            except MissingGXX:
                kernel = None
        maker = self.inner_graph.maker()
        buffers = [*self.outer_seqs(node.inputs), *node.outputs[: self.n_buffers]]
        tables = [getattr(v.type, "row_table", None) for v in buffers]
        thunk = LoopThunk(self, maker.linker, inputs, outputs, tables, kernel, loaded, maker.profile or None)
        if compute_map is not None:
            thunk.computed = [compute_map[v] for v in node.outputs if v in compute_map]
        return thunk

    def perform(self, node, inputs, outputs):
        start = time.perf_counter()
        steps = loop.run(self, lambda values: self.inner_graph(*values), inputs, outputs)
        profile = self.inner_profile()
        if profile:
            profile.count_loop(steps, time.perf_counter() - start)

    def execute(self, node, args, outs):
        """Run the loop. This is the classic name of `perform`.

        Parameters
        ----------
        node : Apply
        args : list
            The values of the outer inputs.
        outs : list of cells
            Cells for the values of the outer outputs.
        """
        self.perform(node, args, outs)


ops_with_inner_function[Scan] = "fn"
# Register a loader, so that the rules for loops are imported only if a program has loops.
register_loader("theano_ng.scan.opt")
