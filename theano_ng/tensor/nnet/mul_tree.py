"""Products as trees, in which factors can be replaced before the product is built again.

A tree is a pair ``[negative, content]``. `content` is a Variable (a leaf), a list of trees (their product), or None (a
factor that is 1). If `negative` is true, the value is negated.
"""

from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.nnet.sigmoids import sigmoid
from theano_ng.tensor.opt.common import constant_value, in_dtype


def is_neg(var):
    """Return x if `var` is -x or a product of x and -1. Otherwise, return None.

    Also return None for integers, because their negatives may wrap around.
    """
    if var.owner is None or var.dtype[0] not in "fc":
        return None
    if var.owner.op == T.neg:
        return var.owner.inputs[0]
    if var.owner.op == T.mul and len(var.owner.inputs) >= 2:
        for i, factor in enumerate(var.owner.inputs):
            value = constant_value(factor)
            if value is not None and value == -1:
                rest = var.owner.inputs[:i] + var.owner.inputs[i + 1 :]
                x = rest[0] if len(rest) == 1 else in_dtype(T.mul, rest, var.dtype)
                return x if x.dtype[0] in "fc" else T.cast(x, var.dtype)
    return None


def is_exp(var):
    """Return (False, x) if `var` is exp(x), and (True, x) if it is -exp(x). Otherwise, return None."""
    argument = is_neg(var)
    inner = var if argument is None else argument
    if inner.owner is None or inner.owner.op != T.exp:
        return None
    return argument is not None, inner.owner.inputs[0]


def is_mul(var):
    """Return the factors if `var` is a product. Otherwise, return None."""
    return var.owner.inputs if var.owner is not None and var.owner.op == T.mul else None


def factors_in_dtype(v, dtype):
    """Return the factors of `v` if it is a product in `dtype`. Otherwise, return [v].

    A product in a narrower dtype is rounded or wraps around in that dtype. It counts as one factor.
    """
    return is_mul(v) or [v] if v.dtype == dtype else [v]


def partition_num_or_denom(r, f, dtype=None):
    """Apply a function to the factors of a product, and sort the factors by whether the function returns None.

    Parameters
    ----------
    r : Variable
    f : callable
        ``f(factor)`` returns None or a pair (negative, answer).
    dtype : str, optional
        If `r` is a product in this dtype, `f` is applied to its factors, otherwise to `r`. The default is the dtype of
        `r`.

    Returns
    -------
    answers : list
        The second elements of the pairs that `f` returned.
    rest : list of Variable
        The factors for which `f` returned None.
    negative : bool
        Whether an odd number of these pairs has a true first element.
    """
    answers, rest, negative = [], [], False
    for factor in factors_in_dtype(r, dtype or r.dtype):
        found = f(factor)
        if found is None:
            rest.append(factor)
        else:
            negative ^= found[0]
            answers.append(found[1])
    return answers, rest, negative


def parse_mul_tree(root, most=None):
    """Return the tree of a product.

    ::

        x * y         ->  [False, [[False, x], [False, y]]]
        -(x * y)      ->  [True, [[False, x], [False, y]]]
        -x * y        ->  [False, [[True, x], [False, y]]]
        -x            ->  [True, x]
        (x * y) * -z  ->  [False, [[False, [[False, x], [False, y]]], [True, z]]]

    A product in another dtype than the dtype of the root is a leaf. If `most` is given and the tree already has `most`
    factors, a product that has more than one client is a leaf, too. Without this limit, in a chain of such products,
    the tree of each product would contain all earlier products.
    """
    tree = [False, None]
    todo = [(root, tree)]
    count, dtype = 0, root.dtype
    while todo:
        var, node = todo.pop()
        count += 1
        if var.owner is None or (
            most is not None and count + len(todo) > most and var is not root and len(getattr(var, "clients", ())) > 1
        ):
            node[1] = var
            continue
        factors = is_mul(var) if var.dtype == dtype else None
        if factors is not None:
            node[1] = [[False, None] for _ in factors]
            todo.extend(zip(factors, node[1]))
            continue
        argument = is_neg(var)
        if argument is not None:
            node[0] = not node[0]
            todo.append((argument, node))
        else:
            node[1] = var
    return tree


def _children_first(tree):
    """Return the inner nodes of a tree. Each node comes after its children."""
    order, todo = [], [tree]
    while todo:
        node = todo.pop()
        if isinstance(node[1], list):
            order.append(node)
            todo.extend(node[1])
    return reversed(order)


def simplify_mul(tree):
    """Return a tree of equal value that has no factors 1 or -1, and no products of fewer than two factors."""
    done = {}
    for node in _children_first(tree):
        negative, factors = node[0], []
        for child in node[1]:
            child = done.get(id(child), child)
            if child[1] is None:
                negative ^= child[0]
            else:
                factors.append(list(child))
        if not factors:
            done[id(node)] = [negative, None]
        elif len(factors) == 1:
            done[id(node)] = [negative ^ factors[0][0], factors[0][1]]
        else:
            done[id(node)] = [negative, factors]
    return done.get(id(tree), tree)


def compute_mul(tree, dtype=None):
    """Return the Variable that a tree represents. The function is the inverse of `parse_mul_tree`.

    Parameters
    ----------
    tree : list
    dtype : str, optional
        The minimum dtype of products. A product is computed in this dtype if its factors have narrower dtypes.

    Raises
    ------
    AssertionError
        If a factor is 1. `simplify_mul` removes such factors.
    """
    done = {}

    def value(node):
        content = done[id(node)] if isinstance(node[1], list) else node[1]
        if content is None:
            raise AssertionError("compute_mul found a missing leaf; call simplify_mul on the tree first")
        return -content if node[0] else content

    for node in _children_first(tree):
        done[id(node)] = in_dtype(T.mul, [value(child) for child in node[1]], dtype)
    return value(tree)


def _same(a, b):
    """Return True if two variables are identical, or are products of the same factors."""
    return a is b or (
        is_mul(a) is not None
        and is_mul(b) is not None
        and len(is_mul(a)) == len(is_mul(b))
        and all(i is j for i, j in zip(is_mul(a), is_mul(b)))
    )


def _pop_leaf(argument, leaves):
    """Remove the first pair of the list `leaves` whose first element equals `argument`, and return the pair.

    Return None if there is no such pair.
    """
    for i, (other, _) in enumerate(leaves):
        if _same(argument, other):
            return leaves.pop(i)
    return None


def perform_sigm_times_exp(tree, exp_x=None, exp_minus_x=None, sigm_x=None, sigm_minus_x=None):
    """Replace pairs of an exponential and a sigmoid among the factors of a tree, in place.

    exp(x) * sigmoid(-x)  ->  sigmoid(x),  and  exp(-x) * sigmoid(x)  ->  sigmoid(-x)

    Parameters
    ----------
    tree : list
        The tree that is changed: the leaf of the exponential receives the new sigmoid, and the leaf of the sigmoid
        becomes 1.
    exp_x, exp_minus_x, sigm_x, sigm_minus_x : lists of (Variable, tree), optional
        Pairs (x, leaf) for the known factors exp(x), exp(-x), sigmoid(x) and sigmoid(-x). The function adds the factors
        of `tree` that have no partner to these lists.

    Returns
    -------
    bool
        Whether the tree was changed.
    """
    exp_x, exp_minus_x, sigm_x, sigm_minus_x = [
        [] if leaves is None else leaves for leaves in (exp_x, exp_minus_x, sigm_x, sigm_minus_x)
    ]
    changed, todo = False, [tree]
    while todo:
        leaf = todo.pop()
        content = leaf[1]
        if isinstance(content, list):
            todo.extend(reversed(content))
            continue
        if content is None or content.owner is None or content.owner.op not in (T.exp, sigmoid):
            continue
        is_sigmoid = content.owner.op == sigmoid
        argument = content.owner.inputs[0]
        positive = is_neg(argument)
        minus = positive is not None
        x = positive if minus else argument
        partners = (exp_x if minus else exp_minus_x) if is_sigmoid else (sigm_x if minus else sigm_minus_x)
        found = _pop_leaf(x, partners)
        if found is None:
            own = (sigm_minus_x if minus else sigm_x) if is_sigmoid else (exp_minus_x if minus else exp_x)
            own.append((x, leaf))
            continue
        exponential, sig = (found[1], leaf) if is_sigmoid else (leaf, found[1])
        exponential[1] = sigmoid(exponential[1].owner.inputs[0])
        sig[1] = None
        changed = True
    return changed
