"""Modes, which are pairs of an optimizer and a linker, and `optdb`, the database of rewrites in phases."""

import contextlib
import importlib
import logging
import threading
import warnings

from theano_ng.configdefaults import config
from theano_ng.configparser import flags_in_effect
from theano_ng.gof import link, vm
from theano_ng.gof import optdb as gof_optdb
from theano_ng.gof import rewriting as gof_opt
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.optdb import Query
from theano_ng.gof.toolbox import NoOutputFromInplace
from theano_ng.gof.utils import string_types
from theano_ng.printing import debugprint

_logger = logging.getLogger("theano_ng.compile.mode")


# ------------------------------------------------------------------ linkers

# Creating these linkers does not search for a C compiler. If none is installed, all linkers except "c" make Python
# thunks for nodes whose code would have to be compiled. The linker "c" raises MissingGXX.
predefined_linkers = {
    "py": link.PerformLinker(),
    "c": cc.CLinker(),
    "c|py": cc.OpWiseCLinker(),
    "c|py_nogc": cc.OpWiseCLinker(allow_gc=False),
    "c&py": cc.DualLinker(),
    "vm": vm.VM_Linker(use_cloop=False),
    "cvm": vm.VM_Linker(use_cloop=True),
    "vm_nogc": vm.VM_Linker(allow_gc=False, use_cloop=False),
    "cvm_nogc": vm.VM_Linker(allow_gc=False, use_cloop=True),
}


def _add_name(table, kind, name, meaning):
    if name in table:
        raise ValueError("%s name already taken: %s" % (kind, name))
    table[name] = meaning


def register_linker(name, linker):
    """Register a linker under a name, for ``Mode(linker=name)``.

    Raises
    ------
    ValueError
        If the name is already used.
    """
    _add_name(predefined_linkers, "Linker", name, linker)


# --------------------------------------------------------------- optimizers

# These queries need not exclude the tag cxx_only: if there is no C compiler, the databases exclude rules with this tag.
OPT_NONE = Query(include=[])
OPT_MERGE = Query(include=["merge"])
OPT_FAST_RUN = Query(include=["fast_run"])
OPT_FAST_RUN_STABLE = OPT_FAST_RUN.requiring("stable")
OPT_FAST_COMPILE = Query(include=["fast_compile", "fast_compile_gpu"])
OPT_STABILIZE = Query(include=["fast_run"], position_cutoff=1.5000001)
OPT_O3 = OPT_FAST_RUN.excluding("inplace")
OPT_O2 = OPT_FAST_COMPILE.including("fusion")
OPT_UNSAFE = OPT_O3.including("unsafe")
OPT_FAST_RUN.name = "OPT_FAST_RUN"
OPT_FAST_RUN_STABLE.name = "OPT_FAST_RUN_STABLE"
OPT_FAST_COMPILE.name = "OPT_FAST_COMPILE"
OPT_STABILIZE.name = "OPT_STABILIZE"
OPT_O3.name = "OPT_O3"
OPT_O2.name = "OPT_O2"
OPT_UNSAFE.name = "OPT_UNSAFE"
OPT_MERGE.name = "OPT_MERGE"
OPT_NONE.name = "OPT_NONE"

predefined_optimizers = {
    None: OPT_NONE,
    "None": OPT_NONE,
    "merge": OPT_MERGE,
    "o4": OPT_FAST_RUN,
    "o3": OPT_O3,
    "o2": OPT_O2,
    "o1": OPT_FAST_COMPILE,
    "unsafe": OPT_UNSAFE,
    "fast_compile": OPT_FAST_COMPILE,
    "fast_run": OPT_FAST_RUN,
    "fast_run_stable": OPT_FAST_RUN_STABLE,
    "stabilize": OPT_STABILIZE,
    "Stabilization": OPT_STABILIZE,
}


def register_optimizer(name, opt):
    """Register an optimizer or a Query under a name, for ``Mode(optimizer=name)``.

    Raises
    ------
    ValueError
        If the name is already used.
    """
    _add_name(predefined_optimizers, "Optimizer", name, opt)


class AddDestroyHandler(gof_opt.Optimizer):
    """An optimizer that attaches the destroy handler, which orders in-place operations and rejects invalid ones.

    After this phase, each replacement is validated. Inputs that the user did not permit to be overwritten are protected
    by the `Supervisor` that `function` attaches.
    """

    def apply(self, fgraph):
        if not any(getattr(feature, "protects_inputs", False) for feature in fgraph._features):
            _logger.warning(
                "A Supervisor feature is missing from %s: its inputs are not protected from in-place operations.",
                fgraph,
            )

    def add_requirements(self, fgraph):
        super().add_requirements(fgraph)
        fgraph.attach_feature(DestroyHandler())


class AddNoOutputFromInplace(gof_opt.Optimizer):
    """An optimizer that attaches `NoOutputFromInplace`, which forbids in-place Ops to compute outputs of the graph.

    Parameters
    ----------
    first_output_idx, last_output_idx : int, int or None
        The bounds of the slice of outputs that are checked.
    """

    def __init__(self, first_output_idx=0, last_output_idx=None):
        self.first_output_idx = first_output_idx
        self.last_output_idx = last_output_idx

    def add_requirements(self, fgraph):
        super().add_requirements(fgraph)
        fgraph.attach_feature(NoOutputFromInplace(self.first_output_idx, self.last_output_idx))


class AddFeatureOptimizer(gof_opt.Optimizer):
    """An optimizer that only attaches a feature to the graph.

    Parameters
    ----------
    feature : Feature
    """

    def __init__(self, feature):
        self.feature = feature

    def add_requirements(self, fgraph):
        super().add_requirements(fgraph)
        fgraph.attach_feature(self.feature)


class PrintCurrentFunctionGraph(gof_opt.Optimizer):
    """An optimizer that prints the graph at its position in the sequence, to debug rewriting.

    Parameters
    ----------
    header : str
        The text that is printed before the graph.
    """

    def __init__(self, header):
        self.header = header

    def apply(self, fgraph):
        print("PrintCurrentFunctionGraph:", self.header)
        debugprint(fgraph.outputs)


# --------------------------------------------------------------- database

optdb = gof_optdb.SequenceDB()

# This optimizer has no tags, so no query selects it: FunctionMaker attaches the check if config.check_stack_trace is
# set.
optdb.register("CheckStackTrace", gof_opt.CheckStackTraceOptimization(), -1)

optdb.register("merge1", gof_opt.MergeOptimizer(), 0, "fast_run", "fast_compile", "merge")

# Rules that remove useless nodes. They run after the shape feature is attached and before canonicalization.
local_useless = gof_optdb.LocalGroupDB(apply_all_opts=True, profile=True)
optdb.register(
    "useless",
    gof_optdb.TopoDB(local_useless, failure_callback=gof_opt.NavigatorOptimizer.warn_inplace),
    0.6,
    "fast_run",
    "fast_compile",
)
optdb.register("merge1.1", gof_opt.MergeOptimizer(), 0.65, "fast_run", "fast_compile", "merge")

# Rules that convert the graph to canonical form. New nodes are visited in the same pass, because canonical forms build
# on each other.
optdb.register(
    "canonicalize", gof_optdb.EquilibriumDB(ignore_newtrees=False), 1, "fast_run", "fast_compile", "canonicalize_db"
)
optdb["canonicalize"].register("merge", gof_opt.MergeOptimizer(), "fast_run", "fast_compile", cleanup=True)

optdb.register("merge1.2", gof_opt.MergeOptimizer(), 1.2, "fast_run", "fast_compile", "merge")
optdb.register("Print1.21", PrintCurrentFunctionGraph("Post-canonicalize"), 1.21)

# Rules that replace expressions by equal expressions with better numerical stability.
optdb.register("stabilize", gof_optdb.EquilibriumDB(), 1.5, "fast_run")
optdb.register("Print1.51", PrintCurrentFunctionGraph("Post-stabilize"), 1.51)

# Rules that introduce specialized Ops, which combine several operations.
optdb.register("specialize", gof_optdb.EquilibriumDB(), 2, "fast_run", "fast_compile_gpu")

# Rules that replace canonical forms by forms that are faster to compute.
optdb.register("uncanonicalize", gof_optdb.EquilibriumDB(), 3, "fast_run")

# Rules that introduce Ops for the device on which a node runs. They run after `gpuarray_opt` (position 48.5), which
# moves nodes to a device.
optdb.register("specialize_device", gof_optdb.EquilibriumDB(), 48.6, "fast_compile", "fast_run")

optdb.register("merge2", gof_opt.MergeOptimizer(), 49, "fast_run", "merge")

optdb.register("add_no_output_from_inplace", AddNoOutputFromInplace(), 49.4)
optdb.register("add_destroy_handler", AddDestroyHandler(), 49.5, "fast_run", "inplace")

optdb.register("merge3", gof_opt.MergeOptimizer(), 100, "fast_run", "merge")


# ------------------------------------------------------------------- modes


def _look_up(given, table, kind, others):
    """Return the entry of `table` with the name `given`. If `given` is not a name, return it unchanged.

    Raise ValueError for an unknown name.
    """
    if given is not None and not isinstance(given, string_types):
        return given
    if given not in table:
        raise ValueError(
            "unknown %s %r: expected %s one of %s" % (kind, given, others, sorted(name for name in table if name))
        )
    return table[given]


class Mode:
    """A pair of a linker and an optimizer, with which functions are compiled.

    Parameters
    ----------
    linker : str or Linker, optional
        A name in `predefined_linkers`, or a Linker. By default, `config.linker`.
    optimizer : str, Query, Optimizer or None
        A name in `predefined_optimizers`, a Query, or an Optimizer. By default, `config.optimizer`.

    Attributes
    ----------
    linker : Linker
    optimizer : Optimizer
        The Optimizer. If the mode was created with a Query, the database evaluates the Query at each access.
    provided_linker, provided_optimizer
        The arguments of the constructor.

    Notes
    -----
    ``including``, ``excluding`` and ``requiring`` return new modes and do not change the mode.
    """

    def __init__(self, linker=None, optimizer="default"):
        if linker is None:
            linker = config.linker
        if isinstance(optimizer, string_types) and optimizer == "default":
            optimizer = config.optimizer
        self.__setstate__((linker, optimizer))

    def __getstate__(self):
        return self.provided_linker, self.provided_optimizer

    def __setstate__(self, state):
        self.provided_linker, self.provided_optimizer = state
        self.linker = _look_up(self.provided_linker, predefined_linkers, "linker", "a linker or")
        self._optimizer = _look_up(
            self.provided_optimizer, predefined_optimizers, "optimizer", "an optimizer, a Query or"
        )
        self.call_time = self.fn_time = 0

    def __str__(self):
        return "%s(linker = %s, optimizer = %s)" % (
            self.__class__.__name__,
            self.provided_linker,
            self.provided_optimizer,
        )

    @property
    def optimizer(self):
        """The optimizer. If the mode was made with a Query, `optdb` builds the optimizer from the Query."""
        if isinstance(self._optimizer, Query):
            return optdb.query(self._optimizer)
        return self._optimizer

    def selects(self, name):
        """Return True if the optimizer contains the optimization `name`.

        If the optimizer was given as a Query, evaluate the Query without building the optimizer.
        """
        if isinstance(self._optimizer, Query):
            return optdb.selects(name, self._optimizer)
        steps = self._optimizer if isinstance(self._optimizer, list) else [self._optimizer]
        return any(step.name == name for step in steps)

    def get_linker_optimizer(self, linker, optimizer):
        """Return the linker and the optimizer for names. A Linker or an Optimizer is returned unchanged.

        For a Query, return the optimizer that `optdb` builds from it.

        Parameters
        ----------
        linker, optimizer : str or object

        Returns
        -------
        (Linker, Optimizer)
        """
        if isinstance(linker, string_types) or linker is None:
            linker = predefined_linkers[linker]
        if isinstance(optimizer, string_types) or optimizer is None:
            optimizer = predefined_optimizers[optimizer]
        if isinstance(optimizer, Query):
            optimizer = optdb.query(optimizer)
        return (linker, optimizer)

    def inner_key(self):
        """Return a key that differs for modes that compile inner functions differently; see `inner_functions`."""
        return type(self).__name__, str(self.provided_linker), str(self.provided_optimizer)

    def _query(self):
        link, opt = self.provided_linker, self._optimizer
        if not isinstance(opt, Query):
            raise TypeError(
                "This mode has the optimizer %s, which is not a Query: tags cannot be applied to it. Make the mode "
                "with the name of an optimizer or with a Query." % (opt,)
            )
        return link, opt

    def including(self, *tags):
        """Return a new mode that also uses the optimizations with these names or tags."""
        _, opt = self._query()
        return self.clone(optimizer=opt.including(*tags))

    def register(self, *optimizations):
        """Return a new mode with additional optimizers: pairs (optimizer, position)."""
        _, opt = self._query()
        return self.clone(optimizer=opt.register(*optimizations))

    def excluding(self, *tags):
        """Return a new mode that excludes the optimizations with these names or tags."""
        _, opt = self._query()
        return self.clone(optimizer=opt.excluding(*tags))

    def requiring(self, *tags):
        """Return a new mode that uses only optimizations with all these tags."""
        _, opt = self._query()
        return self.clone(optimizer=opt.requiring(*tags))

    def clone(self, link_kwargs=None, optimizer="", **kwargs):
        """Return a new mode of the same class.

        Parameters
        ----------
        link_kwargs : dict, optional
            Arguments for ``linker.clone``.
        optimizer : optional
            The optimizer of the new mode. By default, the optimizer of this mode.
        **kwargs
            Arguments for the constructor of a subclass.
        """
        if link_kwargs is None:
            link_kwargs = {}
        new_linker = self.linker.clone(**link_kwargs)
        if isinstance(optimizer, string_types) and optimizer == "":
            optimizer = self.provided_optimizer
        return type(self)(linker=new_linker, optimizer=optimizer, **kwargs)


# FAST_COMPILE selects few rewrites, and a linker that makes only Python thunks. The virtual machine of VM_Linker
# evaluates lazy Ops lazily.
FAST_COMPILE = Mode(vm.VM_Linker(use_cloop=False, c_thunks=False), "fast_compile")
FAST_RUN = Mode("cvm", "fast_run")


class _Modes(dict):
    """A dict from names to modes. The modes in `_lazy_modes` are created at access, with the current flags.

    While the flags do not change, an access returns the same object, so that attributes that were set on it are kept.
    """

    def __init__(self, **modes):
        super().__init__(**modes)
        self.made = {}

    def __missing__(self, name):
        if name == "DEBUG_MODE":
            name = "DebugMode"
            warnings.warn(
                "The mode DEBUG_MODE is called DebugMode; the old name is deprecated.", DeprecationWarning, stacklevel=3
            )
        flags = flags_in_effect()
        if self.made.get(name, (None, None))[0] != flags:
            self.made[name] = (flags, _lazy_modes[name]())
        return self.made[name][1]

    def __contains__(self, name):
        return dict.__contains__(self, name) or name in _lazy_modes


predefined_modes = _Modes(FAST_COMPILE=FAST_COMPILE, FAST_RUN=FAST_RUN)


_lazy_modes = {"Mode": lambda: Mode(linker=config.linker, optimizer=config.optimizer), "DEBUG_MODE": None}


def register_mode_class(name, module):
    """Register a class of modes. Its name then selects an instance with the optimizer of `config.optimizer`.

    Parameters
    ----------
    name : str
        The name of the mode and of its class.
    module : str
        The module of the class, which is imported at the first use of the mode.
    """
    _lazy_modes[name] = lambda: getattr(importlib.import_module(module), name)(optimizer=config.optimizer)


_default_modes = {}
_inner = threading.local()


@contextlib.contextmanager
def inner_functions(mode):
    """Inside the context, let Ops compile and run their inner functions in `mode`, but only in the calling thread.

    DebugMode uses this context to check the nodes of inner functions.
    """
    previous = inner_mode()
    _inner.mode = mode
    try:
        yield
    finally:
        _inner.mode = previous


def inner_mode():
    """Return the mode for inner functions that `inner_functions` has set, or None if Ops use their own mode."""
    return getattr(_inner, "mode", None)


def get_mode(orig_string):
    """Return the mode with the given name.

    Parameters
    ----------
    orig_string : str, Mode or None
        The name of the mode. A Mode is returned unchanged. None means the default mode of the configuration. The
        flags `config.optimizer_including`, `optimizer_excluding` and `optimizer_requiring` apply only to the default
        mode.

    Raises
    ------
    Exception
        If no mode has this name.
    """
    if orig_string is None:
        string = config.mode
    else:
        string = orig_string
    if not isinstance(string, string_types):
        return string
    if orig_string is None:
        key = (
            string,
            config.linker,
            config.optimizer,
            config.optimizer_including,
            config.optimizer_excluding,
            config.optimizer_requiring,
        )
        if key in _default_modes:
            return _default_modes[key]

    if string not in predefined_modes:
        raise Exception(
            "No predefined mode exist for string: %s. Expected one of %s."
            % (string, ", ".join(sorted(set(predefined_modes) | set(_lazy_modes))))
        )
    ret = predefined_modes[string]

    if orig_string is None:
        for tags, method in (
            (config.optimizer_excluding, "excluding"),
            (config.optimizer_including, "including"),
            (config.optimizer_requiring, "requiring"),
        ):
            if tags:
                ret = getattr(ret, method)(*tags.split(":"))
        if string == "Mode" or string not in _lazy_modes:  # other lazy modes depend on flags that are not in `key`
            _default_modes[key] = ret
    return ret


def get_default_mode():
    """Return the default mode of the configuration."""
    return get_mode(None)


def register_mode(name, mode):
    """Register a mode under a name, for ``function(mode=name)``.

    Raises
    ------
    ValueError
        If the name is already used.
    """
    _add_name(predefined_modes, "Mode", name, mode)
