"""Generated collective operations. All members of a group, in threads or processes, draw the same cases and the same
arrays of all members, so that each can compare its result with that of NumPy.
"""

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray as pygpu

OPERATIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
SYNONYMS = {"sum": ("sum", "+", "add"), "prod": ("prod", "*"), "max": ("max", "Maximum"), "min": ("min", "MIN")}
CALLS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
DTYPES = "bool int8 uint8 int16 int32 uint32 int64 uint64 float16 float32 float64".split()


def draw(rng, size):
    """Return a random case: a dict of the arguments of `check`."""
    call = str(rng.choice(CALLS))
    shape = [int(rng.choice((0, 1, 2, 3, 5), p=(0.05, 0.15, 0.3, 0.3, 0.2))) for _ in range(rng.integers(0, 4))]
    if call == "reduce_scatter":
        shape = [size * int(rng.integers(1, 4)), *shape[:2]]
    nd_up = int(rng.integers(0 if shape else 1, 3))
    return {
        "call": call,
        "op": str(rng.choice(sorted(OPERATIONS))),
        "dtype": str(rng.choice(DTYPES)),
        "shape": tuple(shape),
        "root": int(rng.integers(size)),
        "nd_up": nd_up,
        "dest": str(rng.choice(("new", "given", "strided", "in place"))),
        "layouts": [str(rng.choice(("C", "strided", "F"))) for _ in range(size)],
        "seed": int(rng.integers(1 << 30)),
    }


def values_of(case, size):
    """Return the arrays of all members. Sums and products of them are exact, so that the order of terms does not matter."""
    rng, dtype = np.random.default_rng(case["seed"]), np.dtype(case["dtype"])
    if dtype.kind == "f":
        return [(rng.integers(-4, 5, case["shape"]) / 2).astype(dtype) for _ in range(size)]
    return [rng.integers(0, 2 if dtype.kind == "b" else 50, case["shape"]).astype(dtype) for _ in range(size)]


def expected(case, values, rank):
    """Return the result of a member; None for no result."""
    call, size = case["call"], len(values)
    if call == "broadcast":
        return values[case["root"]]
    if call == "all_gather":
        if case["nd_up"] == 0:
            return np.concatenate(values)
        return np.stack(values).reshape((1,) * (case["nd_up"] - 1) + (size, *case["shape"]))
    if call == "reduce" and rank != case["root"]:
        return None
    result = values[0]
    for one in values[1:]:
        result = OPERATIONS[case["op"]](result, one)
    return np.split(result, size)[rank] if call == "reduce_scatter" else result


def placed(value, layout, context):
    """Return a device array with this value, in one of the layouts "C", "F" and "strided"."""
    if layout == "C" or value.ndim == 0 or value.size == 0:
        return pygpu.array(value, context=context)
    if layout == "F":
        return pygpu.array(np.ascontiguousarray(value.T), context=context).T
    larger = np.zeros([2 * n + 1 for n in value.shape], value.dtype)
    index = tuple(slice(2 * n - 1, None, -2) for n in value.shape)
    larger[index] = value
    return pygpu.array(larger, context=context)[index]


def check(comm, case, has_kernels):
    """Run one case as a member of a group, and compare the result with NumPy's.

    Parameters
    ----------
    comm : GpuComm
    case : dict
    has_kernels : bool
        Whether the device runs kernels. The fake driver does not: then all arrays are in C order.
    """
    rank, values = comm.rank, values_of(case, comm.count)
    layout = case["layouts"][rank] if has_kernels else "C"
    src = placed(values[rank], layout, comm.context)
    result = expected(case, values, rank)
    call, arguments, dest = case["call"], {}, None
    if call == "broadcast":
        arguments["root"] = case["root"] if case["root"] != rank or case["seed"] % 2 else -1
    elif result is not None and case["dest"] != "new":
        kind = case["dest"] if has_kernels or case["dest"] == "in place" else "given"
        in_place = kind == "in place" and call in ("all_reduce", "reduce")
        dest = src if in_place else placed(np.zeros_like(result), "strided" if kind == "strided" else "C", comm.context)
        arguments["dest"] = dest
    if call == "reduce":
        arguments["root"] = case["root"] if case["root"] != rank or case["seed"] % 2 else -1
    if call == "all_gather":
        arguments["nd_up"] = case["nd_up"]
    if call in ("all_reduce", "reduce", "reduce_scatter"):
        names = SYNONYMS[case["op"]]
        arguments["op"] = names[case["seed"] % len(names)]
    found = getattr(comm, call)(src, **arguments)
    assert dest is None or found is dest, case
    if result is None:
        assert found is None, case
        return
    assert found.dtype == result.dtype and found.context is comm.context, case
    np.testing.assert_array_equal(np.asarray(found), result, err_msg=str((case, rank)))
    if dest is not src and call != "broadcast":
        np.testing.assert_array_equal(np.asarray(src), values[rank], err_msg="source of %s" % case)


def run(comm, seed, count, has_kernels=True):
    """Run `count` random cases as a member of a group. All members pass the same seed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        check(comm, draw(rng, comm.count), has_kernels)
