"""Topological sorting of the nodes of a graph."""
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject


cdef object ABSENT = object()
# The states of a node. OPEN: its operands are being added to the order. DONE: the node is in the order.
cdef object OPEN = object()
cdef object DONE = object()


cpdef list depth_first_order(inputs, outputs):
    """Return the nodes that compute `outputs` in topological order. The operands of a node are visited from last to
    first.

    Printed graphs in the documentation number their nodes in this order. The sort needs only one pass over the graph.

    Parameters
    ----------
    inputs : set of Variable
    outputs : list or tuple of Variable

    Returns
    -------
    list of Apply

    Raises
    ------
    ValueError
        If the graph contains cycles.
    """
    cdef list order = [], stack = []
    cdef dict states = {}
    cdef PyObject *state
    for i in reversed(outputs):
        owner = i.owner
        if owner is not None and i not in inputs:
            stack.append(owner)
    while PyList_GET_SIZE(stack):
        node = stack[PyList_GET_SIZE(stack) - 1]
        state = PyDict_GetItem(states, node)
        if state is NULL:
            states[node] = OPEN
            for i in node.inputs:
                owner = i.owner
                if owner is None:
                    continue
                state = PyDict_GetItem(states, owner)
                if state is <PyObject *>DONE or i in inputs:
                    continue
                if state is not NULL:       # the node depends on itself
                    raise ValueError("graph contains cycles")
                stack.append(owner)
        else:
            stack.pop()
            if state is <PyObject *>OPEN:
                states[node] = DONE
                order.append(node)
    return order


cpdef list constrained_order(inputs, outputs, dict orderings, dict clients):
    """Return the nodes that compute `outputs` in a topological order that satisfies additional constraints.

    Parameters
    ----------
    inputs : set of Variable
    outputs : list or tuple of Variable
    orderings : dict
        For each Apply, the nodes that have to come before it, in a container with a deterministic order.
    clients : dict or None
        A dict that the function fills: variable or node -> its users.

    Returns
    -------
    list of Apply

    Raises
    ------
    ValueError
        If the graph contains cycles, or if an input has constraints.
    """
    cdef list stack = list(outputs), reachable = [], ready = [], order = [], users
    cdef dict inverse = {}, waiting = {}
    cdef set nodes = set()
    cdef Py_ssize_t done = 0, left
    cdef PyObject *found
    while PyList_GET_SIZE(stack):
        obj = stack.pop()
        if PyDict_GetItem(waiting, obj) is not NULL:
            continue
        reachable.append(obj)
        before = None
        more = orderings.get(obj) if orderings else None
        owner = getattr(obj, "owner", ABSENT)
        if owner is ABSENT:
            nodes.add(obj)
            before = obj.inputs
        elif obj in inputs:
            if more:
                raise ValueError("An input of a graph cannot have ordering constraints: %s" % obj)
        elif owner is not None:
            before = (owner,)
        left = 0
        for other in _both(before, more):
            left += 1
            found = PyDict_GetItem(inverse, other)
            if found is NULL:
                inverse[other] = [obj]
            else:
                (<list>found).append(obj)
            stack.append(other)
        waiting[obj] = left
        if left == 0:
            ready.append(obj)
    if clients is not None:
        clients.update(inverse)
    while done < PyList_GET_SIZE(ready):
        obj = ready[done]
        done += 1
        if obj in nodes:
            order.append(obj)
        found = PyDict_GetItem(inverse, obj)
        if found is not NULL:
            for user in <list>found:
                left = waiting[user] - 1
                waiting[user] = left
                if left == 0:
                    ready.append(user)
    if PyList_GET_SIZE(ready) != PyList_GET_SIZE(reachable):
        raise ValueError("graph contains cycles")
    return order


cdef list _both(before, more):
    cdef list result
    if before is None:
        result = []
    else:
        result = list(before)
    if more:
        result.extend(more)
    return result
