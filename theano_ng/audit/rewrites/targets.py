"""The rules that an argument of the command line names."""

import importlib

from theano_ng.audit.resolve import UsageError as ResolveError
from theano_ng.audit.resolve import import_file
from theano_ng.audit.rewrites.registry import Registered, lookup, registered
from theano_ng.gof.op import PureOp
from theano_ng.gof.rewriting import LocalOptimizer, Optimizer


class UsageError(Exception):
    """An error in the arguments of the command line."""


def rules_of(target, devices=False):
    """Return the rules that an argument of the command line names.

    Parameters
    ----------
    target : str
        A registered name, ``package.module:RULE``, ``file.py:RULE``, or the name of a module or file, which selects all
        rules that the module or file defines.
    devices : bool
        Whether `target` may be the registered name of a rule for arrays on devices.

    Returns
    -------
    list of Registered

    Raises
    ------
    UsageError
        If `target` names neither a registered rule nor a module, or if the module lacks the rule or has no rules.
    """
    known = [one for one in registered(devices) if one.name == target]
    if known:
        return known
    path, _, name = target.partition(":")
    module = _module(path, target)
    if name:
        rule = getattr(module, name, None)
        if not isinstance(rule, (LocalOptimizer, Optimizer)):
            raise UsageError("%s has no rule %s" % (path, name))
        return [_given(path, name, rule, module)]
    rules = {}
    for name, value in vars(module).items():
        if isinstance(value, (LocalOptimizer, Optimizer)) and not _is_imported(value, module):
            rules.setdefault(value, name)
    if not rules:
        raise UsageError("%s has no rules" % path)
    return [_given(path, name, rule, module) for rule, name in rules.items()]


def rule_of(target):
    """Return the rule with a registered name, ``package.module:RULE`` or ``file.py:RULE``.

    Raises
    ------
    UsageError
        If there is no such rule.
    """
    return rules_of(target)[0].rule


def ops_in(path):
    """Return a dict of the Ops and the classes of Ops that a module or file defines or imports, with their names."""
    return {
        name: value
        for name, value in vars(_module(path, path)).items()
        if isinstance(value, PureOp) or isinstance(value, type) and issubclass(value, PureOp)
    }


def _module(path, target):
    try:
        return import_file(path) if path.endswith(".py") else importlib.import_module(path)
    except ImportError as failure:
        raise UsageError("%s is neither a registered rule nor a module: %s" % (target, failure)) from failure
    except ResolveError as failure:
        raise UsageError(str(failure)) from failure


def _given(path, name, rule, module):
    tags, databases = lookup(rule)
    return Registered(name, rule, tags, databases, "%s:%s" % (path, name))


def _is_imported(rule, module):
    """Return True if a module imports a rule from another module."""
    home = getattr(getattr(rule, "fn", None), "__module__", None)
    if home is not None:
        return home != module.__name__
    return any(one.rule is rule for one in registered())
