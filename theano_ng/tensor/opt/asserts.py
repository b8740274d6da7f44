"""Rules that remove assertions, and the registration of Assert with the optimizer that merges nodes."""

from theano_ng.compile.mode import local_useless, optdb
from theano_ng.gof.rewriting import register_assert_op
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.opt.common import MAX_SHARED, constant_value
from theano_ng.tensor.opt.patterns import Rest, names, rule, terms
from theano_ng.tensor.opt.registration import register_specialize

(x,), conditions, (asserted,) = names("x"), Rest("conditions"), terms(Assert)

# Register Assert with MergeOptimizer, which merges nodes whose inputs differ only in Asserts.
register_assert_op(Assert)


def _checked_before(node):
    """Return the conditions that the chain of Asserts before a node checks.

    At most `MAX_SHARED` Asserts are examined.
    """
    checked, before = set(), node.inputs[0].owner
    for _ in range(MAX_SHARED):
        if before is None or not isinstance(before.op, Assert):
            break
        checked.update(before.inputs[1:])
        before = before.inputs[0].owner
    return checked


@register_specialize
@rule(asserted(x, conditions))
def local_remove_useless_assert(x, conditions, op, node):
    """Remove conditions that are known to be true, or that were checked before.

    Assert()(x, True, s > 0, s > 0)  ->  Assert()(x, s > 0)          [specialize, fast_run]
    Assert()(x, True)  ->  x
    Assert('again')(Assert('once')(x, s > 0), a > 0, s > 0)  ->  Assert('again')(Assert('once')(x, s > 0), a > 0)
    """
    checked = _checked_before(node)
    left = []
    for c in conditions:
        value = constant_value(c)
        if c not in checked and (value is None or value == 0):
            checked.add(c)
            left.append(c)
    if not left:
        return x
    return op(x, *left) if len(left) < len(conditions) else None


@rule((asserted(x, conditions), x))
def local_remove_all_assert():
    """Remove all assertions, for users who are sure that the assertions hold.

    Assert()(x, s > 0)  ->  x          [unsafe]

    The rule is used with ``optimizer_including=local_remove_all_assert`` or with
    ``optimizer=unsafe``.
    """


# The names of the databases must not be tags of this rule. For example, a query for "canonicalize" must not return it.
for _db in (optdb["canonicalize"], optdb["stabilize"], optdb["specialize"], local_useless):
    _db.register("local_remove_all_assert", local_remove_all_assert, "unsafe", use_db_name_as_tag=False)
del _db
