"""The registry of all rules in databases, with their names, their tags and the databases that contain them."""

import importlib
from dataclasses import dataclass, field
from typing import Any

import theano_ng.ifelse
import theano_ng.sparse.opt
from theano_ng.compile import mode as compile_mode
from theano_ng.gof.optdb import DB, EquilibriumDB, load
from theano_ng.gof.rewriting import EquilibriumOptimizer, LocalOptGroup, LocalOptimizer, NavigatorOptimizer
from theano_ng.tensor import opt
from theano_ng.tensor.nnet import opt_sigm

# Modules that register rules when they are imported. A program imports them only when it uses their Ops, so `load_all`
# imports all of them.
CHAPTERS = tuple(
    "theano_ng." + name
    for name in (
        "scan.op sparse sandbox.rng_mrg sandbox.linalg.ops tensor.raw_random tensor.nlinalg tensor.nnet.convolution.abstract"
        " tensor.nnet.blocksparse tensor.nnet.ctc tensor.nnet.bn_ops"
    ).split()
)


#: From this position of `optdb` on, graphs have a destroy handler.
IN_PLACE = 49.5


def load_all():
    """Import the modules in `CHAPTERS` and the modules that are passed to `register_loader`, to register all rules."""
    for chapter in CHAPTERS:
        importlib.import_module(chapter)
    load()


@dataclass
class Registered:
    """A rule, with its name, its tags and its databases.

    Attributes
    ----------
    name : str
    rule : LocalOptimizer or Optimizer
    tags : set of str
        All tags of the rule, from all databases.
    databases : dict
        Database -> name of the database. The dict is empty for a rule that is in no database.
    target : str
        ``package.module:NAME`` or ``file.py:NAME`` for a rule that the user names in this way, or "".
    """

    name: str
    rule: Any
    tags: set = field(default_factory=set)
    databases: dict = field(default_factory=dict)
    target: str = ""

    @property
    def module(self):
        """The module that defines the rule."""
        return getattr(getattr(self.rule, "fn", None), "__module__", None) or type(self.rule).__module__

    @property
    def on_devices(self):
        """Return True if the rule is for graphs with arrays on a device."""
        return self.module.startswith("theano_ng.gpuarray.")


def parts(optimizer):
    """Return the rules that an optimizer applies. For a rule, return the rule itself."""
    if isinstance(optimizer, LocalOptGroup):
        return [part for rule in optimizer.opts for part in parts(rule)]
    if isinstance(optimizer, EquilibriumOptimizer):
        return [part for rule in optimizer.get_local_optimizers() for part in parts(rule)]
    if isinstance(optimizer, NavigatorOptimizer) and optimizer.local_opt is not None:
        return parts(optimizer.local_opt)
    return [optimizer]


def name_of(rule):
    """Return the name by which a rule is known."""
    return getattr(rule, "__name__", None) or getattr(rule, "name", None) or type(rule).__name__


def _collect(db, db_name, found, devices):
    """Add the rules of a database, and of the databases in it, to the dict `found`: rule -> `Registered`."""
    db.__db__  # noqa: B018, loads the rules that are registered on demand
    for obj in sorted(db._order, key=db._order.__getitem__):
        tags = db._tags_of(obj)
        if "gpuarray" in tags and not devices:
            continue
        if isinstance(obj, DB):
            _collect(obj, obj.name or type(obj).__name__, found, devices)
            continue
        for rule in parts(obj):
            one = found.setdefault(rule, Registered(name_of(rule), rule))
            one.tags.update(tag for tag in tags if tag != type(obj).__name__)
            one.databases.setdefault(db, db_name)


def _is_own(one):
    """Return True for a rule of this package. Tests may have registered other rules in this process."""
    return one.module.startswith("theano_ng.") and ".tests" not in one.module


def registered(devices=False):
    """Return all rules of this package: rules in databases, and documented rules that are in no database.

    Parameters
    ----------
    devices : bool
        Whether to load, and include, the rules about arrays on devices.

    Returns
    -------
    list of Registered
        The rules, in the order of their databases.
    """
    if devices:
        importlib.import_module("theano_ng.gpuarray")  # registers the rules about devices
    load_all()
    found = {}
    _collect(compile_mode.optdb, "optdb", found, devices)
    for module in (opt, opt_sigm, theano_ng.ifelse, theano_ng.sparse.opt):
        for name, value in vars(module).items():
            if isinstance(value, LocalOptimizer) and value not in found:
                found[value] = Registered(name, value)
    return [one for one in found.values() if _is_own(one) and (devices or not one.on_devices)]


def lookup(rule):
    """Return the tags and the databases (`Registered`) of a rule. They are empty if the rule is not registered."""
    load_all()
    found = {}
    _collect(compile_mode.optdb, "optdb", found, False)
    one = found.get(rule, Registered("", rule))
    return one.tags, one.databases


def is_registered_in_place(rule):
    """Return True if a rule is registered at a position at which rules may make Ops overwrite their inputs."""
    db = compile_mode.optdb
    late = [name for name, position in db.__position__.items() if position >= IN_PLACE]
    return any(rule is obj or rule in parts(obj) for name in late for obj in db.__db__[name] if not isinstance(obj, DB))


def partners(rule):
    """Return the rules of each equilibrium database that contains a given rule.

    Such a database applies its rules together, until no rule applies.

    Parameters
    ----------
    rule : LocalOptimizer or Optimizer

    Returns
    -------
    list of list of LocalOptimizer
        One list per equilibrium database. Each list contains `rule`.
    """
    found = []
    for db in lookup(rule)[1]:
        if isinstance(db, EquilibriumDB):
            rules = [rule for rule in db._order if isinstance(rule, LocalOptimizer)]
            found.append(rules)
    return found


def rule_named(name):
    """Return the rule with a given name.

    Raises
    ------
    KeyError
    """
    for one in registered():
        if one.name == name:
            return one.rule
    raise KeyError("no rule is registered under the name %r" % name)
