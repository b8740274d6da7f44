"""Decorators that put rewriting rules into the phases of `optdb`.

Each decorator takes a rule. It may also be called with tags, and then returns a decorator::

    @register_specialize
    @register_canonicalize("fast_compile")
    @local_optimizer([T.neg])
    def local_neg_neg(node):
        ...

The rule is registered under its ``__name__`` (or the keyword `name`), with the tag ``fast_run`` and the given tags.
Each decorator returns the rule.
"""

from theano_ng.compile import mode

REGISTERS_FOR_CALLERS = True
"""See `gof.provenance.is_registered_by_package`."""


def _register(database, lopt, tags, kwargs):
    if isinstance(lopt, str):

        def decorator(rule):
            return _register(database, rule, (lopt,) + tags, kwargs)

        return decorator
    kwargs = dict(kwargs)
    name = kwargs.pop("name", None) or lopt.__name__
    database.register(name, lopt, "fast_run", *tags, **kwargs)
    return lopt


def ignores_nonfinite(lopt):
    """Mark a rule that need not preserve NaN and infinities. All other rules must preserve NaN and infinities.

    For example, the replacement may be finite where the old expression is NaN. For a marked rule, DebugMode does not
    compare old and new values where NaN or infinities occur.
    """
    lopt.ignores_nonfinite = True
    return lopt


def register_useless(lopt, *tags, **kwargs):
    """Register a rule that removes useless nodes. The rule is applied once, before canonicalization."""
    return _register(mode.local_useless, lopt, tags, kwargs)


def register_canonicalize(lopt, *tags, **kwargs):
    """Register a rule of the phase `canonicalize`, which makes the canonical forms that other rules expect."""
    return _register(mode.optdb["canonicalize"], lopt, tags, kwargs)


def register_stabilize(lopt, *tags, **kwargs):
    """Register a rule of the phase `stabilize`, which replaces expressions by numerically more stable ones."""
    return _register(mode.optdb["stabilize"], lopt, tags, kwargs)


def register_specialize(lopt, *tags, **kwargs):
    """Register a rule of the phase `specialize`, which introduces special operations for special cases."""
    return _register(mode.optdb["specialize"], lopt, tags, kwargs)


def register_uncanonicalize(lopt, *tags, **kwargs):
    """Register a rule of the phase `uncanonicalize`, which makes forms that are cheaper than the canonical forms."""
    return _register(mode.optdb["uncanonicalize"], lopt, tags, kwargs)


def register_specialize_device(lopt, *tags, **kwargs):
    """Register a rule of the phase `specialize_device`, which runs after graphs were moved to their device."""
    return _register(mode.optdb["specialize_device"], lopt, tags, kwargs)
