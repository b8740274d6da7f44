"""Lazy names of a package: on first access, a name is imported from the module that defines it."""

import importlib
import sys

from theano_ng.moved import no_attribute

# Names that the classic modules imported for their own use. Ops by other authors import them from these modules, as in
# `from theano.tensor.basic import Apply, grad_undefined`.
CLASSIC_IMPORTS = {
    "theano_ng": "compile gof printing scalar tensor",
    "theano_ng.configdefaults": "config",
    "theano_ng.configparser": "change_flags",
    "theano_ng.gof": "graph opt toolbox utils",
    "theano_ng.gof.fg": "FunctionGraph InconsistencyError",
    "theano_ng.gof.graph": "Apply Constant Variable view_roots",
    "theano_ng.gof.null_type": "NullType",
    "theano_ng.gof.op": "COp Op OpenMPOp",
    "theano_ng.gof.opt": (
        "EquilibriumOptimizer Optimizer TopoOptimizer copy_stack_trace in2out inherit_stack_trace local_optimizer out2in "
        "pre_constant_merge pre_greedy_local_optimizer"
    ),
    "theano_ng.gof.optdb": "SequenceDB",
    "theano_ng.gof.params_type": "ParamsType",
    "theano_ng.gof.toolbox": "ReplacementDidntRemovedError",
    "theano_ng.gof.type": "EnumList Generic Type",
    "theano_ng.gof.utils": "MethodNotDefined hashtype",
    "theano_ng.gradient": "DisconnectedType disconnected_type grad_not_implemented grad_undefined",
    "theano_ng.misc.frozendict": "frozendict",
    "theano_ng.printing": "FunctionPrinter debugprint pprint",
    "theano_ng.scalar": "bool_t=bool get_scalar_type int_t",
}


def lazy_names(module, homes, modules=""):
    """Return the functions ``__getattr__`` and ``__dir__`` for the lazy names of a module, and a list of these names.

    Parameters
    ----------
    module : str
        The ``__name__`` of the module.
    homes : dict of str to str
        Path of a module -> the names to import from it, separated by blanks. An entry ``alias=name`` imports `name`
        under the name `alias`.
    modules : str
        Names of submodules of the package, separated by blanks.
        Access to a submodule that does not exist raises AttributeError.

    Returns
    -------
    __getattr__, __dir__ : callable
    names : list of str
        The names in `homes`, sorted.
    """
    home_of = {}
    for home, names in homes.items():
        for entry in names.split():
            alias, _, name = entry.partition("=")
            home_of[alias] = (home, name or alias)
    own = frozenset(modules.split())
    namespace = sys.modules[module].__dict__

    def __getattr__(name):
        if name not in home_of:
            if name in own:
                path = "%s.%s" % (module, name)
                try:
                    return importlib.import_module(path)
                except ModuleNotFoundError as failure:
                    if failure.name != path:
                        raise
            raise no_attribute(module, name)
        home, there = home_of[name]
        value = namespace[name] = getattr(importlib.import_module(home), there)
        return value

    def __dir__():
        return sorted({*namespace, *home_of, *own})

    return __getattr__, __dir__, sorted(home_of)
