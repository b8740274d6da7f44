"""The Ops of typed lists for the audit: ``theano_ng-audit theano_ng.typed_list.tests.audit_cases``."""

import numpy as np

from theano_ng import tensor as tt
from theano_ng import typed_list as lists
from theano_ng.audit.records import Case
from theano_ng.tensor.type_other import slicetype

V, W = np.array([1.0, -2.0]), np.array([3.0, 4.0, np.nan])
ELEMENTS = lists.TypedListType(tt.dvector)
X = (ELEMENTS, [V, W, V])
NESTED = (lists.TypedListType(tt.dvector, 1), [[V, W], [], [W]])
# Options for Ops that search for an element: the audit generates only lists that contain this element.
FOUND = {"vary": (), "tied": lambda values: any(ELEMENTS.ttype.values_eq(e, values[-1]) for e in values[0])}


def audit_cases():
    """Return the cases of all Ops, including the variants that work in place."""
    table = [
        ("MakeList", lambda *a: lists.make_list(a), [V, W], {}),
        ("GetItem", lists.getitem, [X, np.int64(1)], {"vary": ()}),
        ("GetItem of a slice", lists.getitem, [X, (slicetype, slice(0, 2))], {}),
        ("GetItem of nested lists", lists.getitem, [NESTED, np.int64(-1)], {"vary": ()}),
        ("Length", lists.length, [X], {}),
        ("Count", lists.count, [X, V], {}),
        ("Index", lists.index_, [X, V], FOUND),
    ]
    for inplace in (False, True):
        end = " in place" if inplace else ""
        table += [
            ("Append" + end, lists.Append(inplace), [X, V], {}),
            ("Extend" + end, lists.Extend(inplace), [X, (ELEMENTS, [W])], {}),
            ("Insert" + end, lists.Insert(inplace), [X, np.int64(1), V], {}),
            ("Remove" + end, lists.Remove(inplace), [X, V], FOUND),
            ("Reverse" + end, lists.Reverse(inplace), [NESTED], {}),
        ]
    return [Case(op, inputs, name=name, **more) for name, op, inputs, more in table]
