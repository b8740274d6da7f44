"""Single operations compared with NumPy, JAX and PyTorch: ``python benchmarks/ops.py [WORD ...] [options]``.

A row of the table is a graph of one operation, compiled in the default mode. The script measures the CPU time of a call
of the compiled function, which returns a new array. The call takes turns with the equivalent call in NumPy and, if they
are installed, in jitted JAX and in PyTorch. The rows are defined in the files ``ops_<group>.py`` in this folder. Each
file has a function ``rows()`` that yields `Row`s::

    from ops import Row, SIZES, count, layouts

    def rows():
        for n in SIZES:
            for layout, x in layouts(np.random.RandomState(0).rand(*square(n))):
                yield Row("exp %s %s" % (count(n), layout), tensor.exp, np.exp, [x], jax=lambda jnp, x: jnp.exp(x),
                          torch=lambda torch, x: torch.exp(x))

WORDs select rows: a row is selected if each word occurs in its group or its name. If a word is the name of a group,
only the rows of such groups are selected.
"""

import argparse
import importlib
import pathlib
import time
from dataclasses import dataclass
from collections.abc import Callable

import measure  # import this first: BLAS must be limited to one thread before NumPy loads it
import numpy as np

#: The numbers of elements that are tried.
SIZES = (10**3, 10**5, 10**7)


@dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    name : str
    build : callable
        A function from input variables to an output variable or a list of outputs.
    reference : callable
        The same function of arrays, in NumPy. The results are compared before the times are measured.
    values : list of ndarray
        The input arrays.
    jax : callable, optional
        The same function of the module jax.numpy and of arrays.
    torch : callable, optional
        The same function of the module torch and of tensors.
    rtol : float
    """

    name: str
    build: Callable
    reference: Callable
    values: list
    jax: Callable | None = None
    torch: Callable | None = None
    rtol: float = 1e-5


def count(n):
    """Return a number of elements as text: ``1e3`` for 1000."""
    return "1e%d" % round(np.log10(n))


def square(n):
    """Return a shape of two nearly equal lengths with about `n` elements. Neither length is a power of 2."""
    rows = int(n**0.5)
    return rows, n // rows


def layouts(x):
    """Return (name, array) pairs: `x` itself, a Fortran-contiguous copy, and a view of every second column."""
    wide = np.repeat(x, 2, axis=-1)
    return ("C", x), ("F", np.asfortranarray(x)), ("strided", wide[..., ::2])


def groups():
    """Return the names of all groups, which are the parts `<group>` of the file names ``ops_<group>.py``."""
    return sorted(path.stem[4:] for path in pathlib.Path(__file__).parent.glob("ops_*.py"))


def selected(words):
    """Yield (group, Row) for all rows that contain all the words."""
    named = [group for group in groups() if group in words]
    for group in named or groups():
        for row in importlib.import_module("ops_" + group).rows():
            if all(word in "%s %s" % (group, row.name) for word in words):
                yield group, row


def jax_function(row):
    """Return a function that calls the jitted JAX function of a row on its arrays, or None."""
    if row.jax is None:
        return None
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    jitted = jax.jit(lambda *arrays: row.jax(jax.numpy, *arrays))
    arrays = [jax.device_put(v) for v in row.values]
    return lambda: jax.block_until_ready(jitted(*arrays))


def torch_function(row):
    """Return a function that calls the PyTorch function of a row on its tensors, or None."""
    if row.torch is None:
        return None
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    tensors = [torch.as_tensor(v) for v in row.values]
    return lambda: row.torch(torch, *tensors)


def time_row(row, seconds):
    """Return the times in seconds of a call in theano_ng, NumPy, JAX and PyTorch.

    The time of JAX or PyTorch is None if it is not installed, or if the row has no function for it.
    """
    import theano_ng as theano
    from theano_ng import tensor

    types = [tensor.TensorType(str(v.dtype), [n == 1 for n in v.shape]) for v in row.values]
    inputs = [t() for t in types]
    f = theano.function(inputs, row.build(*inputs))
    f.trust_input = True
    found, expected = f(*row.values), row.reference(*row.values)
    several = isinstance(found, list)
    for got, want in zip(found if several else [found], expected if several else [expected]):
        np.testing.assert_allclose(np.asarray(got, want.dtype), want, rtol=row.rtol, atol=row.rtol, err_msg=row.name)
    functions = [lambda: f(*row.values), lambda: row.reference(*row.values), jax_function(row), torch_function(row)]
    times = iter(measure.best(*filter(None, functions), seconds=seconds, clock=time.process_time))
    return [next(times) if function else None for function in functions]


def summarize(results):
    """Print a table with one line for each operation. Rows of a group with the same first word are one operation."""
    table = measure.Table(
        "By operation", "operation", "rows", "time / NumPy: median", "worst", "row", "time / best: worst", "row"
    )
    operations = {}
    for group, row, ours, numpy, best in results:
        operations.setdefault("%s: %s" % (group, row.name.split()[0]), []).append((ours / numpy, ours / best, row.name))
    for operation, rows in operations.items():
        by_numpy, by_best = max(rows), max(rows, key=lambda r: r[1])
        table.row(
            operation,
            "%d" % len(rows),
            *map(measure.show_ratio, (np.median([r[0] for r in rows]), by_numpy[0])),
            by_numpy[2],
            measure.show_ratio(by_best[1]),
            by_best[2],
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument(
        "--seconds", type=float, default=0.15, help="to spend on each row and system (default: %(default)s)"
    )
    parser.add_argument(
        "--slow",
        action="store_true",
        help="print only the rows that are slower than NumPy, or slower than 0.9 of a peer; each of them is measured "
        "again before it is printed",
    )
    parser.add_argument(
        "--summary", action="store_true", help="print a table at the end, with a line for each operation"
    )
    arguments = parser.parse_args()
    table = measure.Table(
        "Single operations", "group", "operation", "theano_ng", "NumPy", "JAX", "PyTorch", "to NumPy", "to the best"
    )
    results, slow = [], 0
    for group, row in selected(arguments.words):
        for _ in range(2):
            ours, numpy, *peers = time_row(row, arguments.seconds)
            best = min(filter(None, [numpy, *peers]))
            # A row is behind if theano_ng takes longer than NumPy, or longer than 1 / 0.9 of the best time. Differences
            # below 5 % count as noise.
            behind = ours > 1.05 * numpy or ours * 0.9 > 1.05 * best
            if not (behind and arguments.slow):
                break
        results.append((group, row, ours, numpy, best))
        slow += behind
        if behind or not arguments.slow:
            table.row(
                group,
                row.name,
                *(measure.show_time(t) if t else "" for t in (ours, numpy, *peers)),
                measure.show_ratio(ours / numpy),
                measure.show_ratio(ours / best),
            )
    if arguments.summary:
        summarize(results)
    print("\n%d rows, %d slower than NumPy or 0.9 of the best peer" % (len(results), slow))


if __name__ == "__main__":
    main()
