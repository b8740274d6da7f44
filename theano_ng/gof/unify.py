"""Unification: find values of variables that make two patterns equal.

Patterns are Python objects. Variables may be free, bound to a value, restricted to some values, or excluded from some
values. Tuples, lists and dicts are unified element by element.
"""

from theano_ng.gof.utils import ANY_TYPE, FALL_THROUGH

__docformat__ = "restructuredtext en"


class Variable:
    """A variable of a pattern.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name="?"):
        self.name = name

    def __str__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % item for item in self.__dict__.items()))

    __repr__ = __str__


class FreeVariable(Variable):
    """A variable that may have any value."""


class BoundVariable(Variable):
    """A variable with a value."""

    def __init__(self, name, value):
        super().__init__(name)
        self.value = value


class OrVariable(Variable):
    """A variable with one of several values.

    Parameters
    ----------
    name : str
    options : list
    """

    def __init__(self, name, options):
        super().__init__(name)
        self.options = options


class NotVariable(Variable):
    """A variable that may have any value except certain values.

    Parameters
    ----------
    name : str
    not_options : list
    """

    def __init__(self, name, not_options):
        super().__init__(name)
        self.not_options = not_options


class VariableInList:
    """A variable that stands for the remaining elements of a list.

    Parameters
    ----------
    variable : Variable
    """

    def __init__(self, variable):
        self.variable = variable


class FVar:
    """A call of `fn` in a pattern. `unify_build` replaces it by the result of `fn` for the values of `args`.

    Parameters
    ----------
    fn : callable
        A function that takes the values of `args`.
    *args : Variable or object
    """

    def __init__(self, fn, *args):
        self.fn = fn
        self.args = args

    def __call__(self, u):
        return self.fn(*[unify_build(arg, u) for arg in self.args])


_variables = {}


def var_lookup(vartype, name, *args, **kwargs):
    """Return the variable with this class and name. Calls with the same class and name return the same object.

    Parameters
    ----------
    vartype : class
    name : str
    *args, **kwargs
        Further arguments of the constructor. They are used only in the first call.
    """
    key = (vartype, name)
    if key not in _variables:
        _variables[key] = vartype(name, *args, **kwargs)
    return _variables[key]


class Unification:
    """The known facts about variables: sets of variables that are equal, and the best description of each variable.

    Parameters
    ----------
    inplace : bool
        Whether `merge` changes this object instead of a copy.
    """

    def __init__(self, inplace=False):
        self.unif = {}
        self.inplace = inplace

    def merge(self, new_best, *vars):
        """Make variables equal, and describe all of them by `new_best`.

        Returns
        -------
        Unification
        """
        if self.inplace:
            U = self
        else:
            # A pool is a dict whose keys are equal variables. All these variables refer to the same dict, so copy each
            # dict only once.
            U = Unification(self.inplace)
            copies = {}
            for variable, (best, pool) in self.unif.items():
                U.unif[variable] = (best, copies.setdefault(id(pool), dict(pool)))
        pool = {new_best: None}
        for variable in vars:
            pool[variable] = None
            if variable in U.unif:
                pool.update(U.unif[variable][1])
        for variable in pool:
            U.unif[variable] = (new_best, pool)
        return U

    def __getitem__(self, v):
        """Return the best description of a variable, or the variable itself if nothing is known."""
        return self.unif[v][0] if v in self.unif else v


def unify_walk(a, b, U):
    """Unify two patterns, given known facts about variables.

    Parameters
    ----------
    a, b : object
    U : Unification

    Returns
    -------
    Unification or False
        `U` with the additional facts that make the patterns equal. False if the patterns cannot be equal.
    """
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if isinstance(a, Variable) and a in U.unif and U[a] is not a:
            pending.append((U[a], b))
        elif isinstance(b, Variable) and b in U.unif and U[b] is not b:
            pending.append((a, U[b]))
        elif isinstance(a, Variable) and isinstance(b, Variable):
            U = _unify_variables(a, b, U, pending)
        elif isinstance(a, Variable):
            U = _unify_value(a, b, U, pending)
        elif isinstance(b, Variable):
            U = _unify_value(b, a, U, pending)
        elif isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            if not _unify_sequences(a, b, pending):
                return False
        elif isinstance(a, dict) and isinstance(b, dict):
            # Ignore the keys that only one of the dicts contains.
            pending.extend((a[key], b[key]) for key in reversed(list(a)) if key in b)
        elif type(a) is not type(b) and not isinstance(a, type(b)) and not isinstance(b, type(a)) or a != b:
            return False
        if U is False:
            return False
    return U


def _unify_variables(a, b, U, pending):
    order = (FreeVariable, NotVariable, OrVariable, BoundVariable)

    def rank(v):
        for i in range(len(order) - 1, -1, -1):
            if isinstance(v, order[i]):
                return i
        return 0

    if rank(a) > rank(b):
        a, b = b, a
    if rank(a) == 0:
        return U.merge(b, a)
    if isinstance(b, BoundVariable):
        return _unify_value(a, b.value, U, pending, b)
    if isinstance(a, NotVariable) and isinstance(b, NotVariable):
        return U.merge(NotVariable("?", [*a.not_options, *(x for x in b.not_options if x not in a.not_options)]), a, b)
    if isinstance(a, NotVariable):
        options = [x for x in b.options if x not in a.not_options]
    else:
        options = [x for x in a.options if x in b.options]
    return _restricted(options, U, a, b)


def _restricted(options, U, *variables):
    if not options:
        return False
    best = BoundVariable("?", options[0]) if len(options) == 1 else OrVariable("?", options)
    return U.merge(best, *variables)


def _unify_value(variable, value, U, pending, *others):
    if isinstance(variable, BoundVariable):
        pending.append((variable.value, value))
        return U.merge(variable, *others) if others else U
    if isinstance(variable, OrVariable) and value not in variable.options:
        return False
    if isinstance(variable, NotVariable) and value in variable.not_options:
        return False
    return U.merge(BoundVariable("?", value), variable, *others)


def _unify_sequences(a, b, pending):
    """Pair the elements of two sequences.

    A VariableInList at the end of one sequence is paired with the remaining elements of the other sequence.
    """
    for x, y in ((a, b), (b, a)):
        if x and isinstance(x[-1], VariableInList):
            head = len(x) - 1
            if len(y) < head:
                return False
            pending.append((x[-1].variable, y[head:]))
            pending.extend(zip(reversed(x[:head]), reversed(y[:head])))
            return True
    if len(a) != len(b):
        return False
    pending.extend(zip(reversed(a), reversed(b)))
    return True


def unify(a, b):
    """Unify two patterns.

    Returns
    -------
    (object, Unification) or (None, False)
        The pattern with the values of its variables, and the known facts about the variables.
    """
    U = unify_walk(a, b, Unification())
    return (None, False) if U is False else (unify_build(a, U), U)


def unify_build(x, U):
    """Return a pattern with its variables replaced by their values in a unification.

    Parameters
    ----------
    x : object
    U : Unification
    """
    if isinstance(x, Variable):
        best = U[x]
        return best.value if isinstance(best, BoundVariable) else best
    if isinstance(x, FVar):
        return x(U)
    if isinstance(x, (tuple, list)):
        built = []
        for element in x:
            if isinstance(element, VariableInList):
                rest = unify_build(element.variable, U)
                built.extend(rest if isinstance(rest, (tuple, list)) else [rest])
            else:
                built.append(unify_build(element, U))
        return type(x)(built)
    if isinstance(x, dict):
        return {key: unify_build(value, U) for key, value in x.items()}
    return x


def unify_merge(a, b, U):
    """Return the pattern to which `a` and `b` become equal with the values in `U`, the unification of `a` and `b`."""
    return unify_build(b if isinstance(a, Variable) and not isinstance(b, Variable) else a, U)


__all__ = [
    "ANY_TYPE",
    "BoundVariable",
    "FALL_THROUGH",
    "FVar",
    "FreeVariable",
    "NotVariable",
    "OrVariable",
    "Unification",
    "Variable",
    "VariableInList",
    "unify",
    "unify_build",
    "unify_merge",
    "unify_walk",
    "var_lookup",
]
