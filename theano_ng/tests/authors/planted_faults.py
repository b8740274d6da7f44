"""Faults that authors of Ops make, each planted alone in one of the Ops of this folder, with a proof of its effect.

::

    python -m theano_ng.tests.authors.planted_faults [NAME...]

For each fault, the command copies the folder, changes one file of the copy, and runs the witness of the fault in two
processes: with the unchanged module and with the changed module. It prints a line for each fault. The exit status is 1
if a witness does not tell the two modules apart.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))

MODULES = (
    "bent_line",
    "windowed_sum",
    "pad_vector",
    "trimmed_mean",
    "recursive_filter",
    "segment_maximum",
    "ragged_sum",
    "smooth_maximum",
)

KINDS = {
    "parameter": "wrong only for some values of a parameter of the Op, which the cases for the audit do not have",
    "length": "wrong only for some lengths",
    "value": "wrong only for special numbers",
    "dtype": "wrong only for some of the dtypes that the Op accepts",
    "layout": "wrong only for some strides of inputs or of old outputs",
    "aliasing": "memory is shared or overwritten without a declaration",
    "output memory": "results depend on the memory of outputs, or change in later calls",
    "bounds": "reads or writes beyond an array",
    "references": "a reference is missing, or is never released",
    "memory": "allocated memory is never freed",
    "state": "results depend on earlier calls or on other threads",
    "gradient": "wrong derivatives",
    "shape": "wrong or missing shapes of infer_shape",
    "declaration": "equality, hash, pickling, versions, types of outputs or errors are wrong",
    "process": "the process dies or does not end",
}


@dataclass(frozen=True)
class PlantedFault:
    """A fault, described as a change of one file.

    Attributes
    ----------
    name : str
        A unique name.
    module : str
        The module of the Op.
    kind : str
        A key of `KINDS`.
    why : str
        The mistake of the author, and what a user sees.
    file : str
        The file to change, relative to this folder.
    old, new : str
        A text that occurs exactly once in the file, and its replacement.
    witness : str
        Python source that is executed with the names `op` (the module of the Op), `np`, `theano` and `T`. It sets
        `right` to True with the unchanged module. With the changed module, it sets `right` to False, or raises an
        exception, or kills the process, or does not end.
    """

    name: str
    module: str
    kind: str
    why: str
    file: str
    old: str
    new: str
    witness: str


FAULTS = [
    # ---------------------------------------------------------------------------------------------- bent_line
    PlantedFault(
        name="mirror_image_of_linear_part",
        module="bent_line",
        kind="parameter",
        why="The sign is not turned back in the branch of the shape 'linear': mirrored=True gives wrong signs there.",
        file="bent_line.py",
        old="to[i] = sign * (alpha * v);",
        new="to[i] = alpha * v;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x = np.array([1.5, -2.0])
            BothWays(op.BentLine(0.5), T.dvector())(x)
            BothWays(op.BentLine(0.5, mirrored=True), T.dvector())(x)
            right = True
        """,
    ),
    PlantedFault(
        name="negative_alpha_taken_as_size",
        module="bent_line",
        kind="parameter",
        why="The C code assumes that slopes are positive and takes the absolute value of alpha.",
        file="bent_line.py",
        old="(number)%(params)s->alpha;",
        new="(number)std::fabs(%(params)s->alpha);",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.array([-1.0, 2.0]), Way(op.BentLine(-0.5), T.dvector())
            right = way(x)[0].tolist() == [0.5, 2.0]
        """,
    ),
    PlantedFault(
        name="zero_alpha_times_infinity",
        module="bent_line",
        kind="parameter",
        why="Without the case alpha == 0, the flat part is NaN at minus infinity in C, and 0 in Python.",
        file="bent_line.py",
        old="                else if (alpha == 0)\n                    to[i] = sign * (number)0;\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            right = Way(op.BentLine(0), T.dvector())(np.array([-np.inf, 1.0]))[0].tolist() == [0.0, 1.0]
        """,
    ),
    PlantedFault(
        name="exponential_minus_one",
        module="bent_line",
        kind="value",
        why="exp(v) - 1 cancels for small v, so small negative inputs lose most of their digits.",
        file="bent_line.py",
        old="(alpha * std::expm1(v));",
        new="(alpha * (std::exp(v) - 1));",
        witness="""
            from theano_ng.tests.authors.ways import Way
            (y,) = Way(op.BentLine(1, "exponential"), T.dvector())(np.array([-1e-10, -1.0]))
            right = abs(y[0] / -1e-10 - 1) < 1e-9 and abs(y[1] - np.expm1(-1)) < 1e-15
        """,
    ),
    PlantedFault(
        name="saturation_begins_too_early",
        module="bent_line",
        kind="value",
        why="A shortcut for large negative inputs begins at -8, where exp(v) is not yet negligible.",
        file="bent_line.py",
        old="(alpha * std::expm1(v));",
        new="(alpha * (v < -8 ? (number)-1 : std::expm1(v)));",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.BentLine(1, "exponential"), T.dvector(), ulps=4)
            both(np.array([-7.9, -100.0, 3.0]))
            both(np.array([-8.5]))
            right = True
        """,
    ),
    PlantedFault(
        name="logarithm_of_single_precision",
        module="bent_line",
        kind="value",
        why="log1pf computes in single precision, so float64 results have only seven digits.",
        file="bent_line.py",
        old="std::log1p(-v));",
        new="log1pf(-v));",
        witness="""
            from theano_ng.tests.authors.ways import Way
            (y,) = Way(op.BentLine(1, "logarithmic"), T.dvector())(np.array([-0.3]))
            right = abs(y[0] + np.log1p(0.3)) < 1e-14
        """,
    ),
    PlantedFault(
        name="perform_always_returns_float64",
        module="bent_line",
        kind="dtype",
        why="perform converts the result to float64, also for a float32 input.",
        file="bent_line.py",
        old="dtype=node.outputs[0].type.dtype)",
        new='dtype="float64")',
        witness="""
            from theano_ng.tests.authors.ways import Way
            ways = [Way(op.BentLine(0.5), T.vector(dtype=dtype), impl="py") for dtype in ("float64", "float32")]
            right = [way(np.ones(2, way.variables[0].dtype))[0].dtype.name for way in ways] == ["float64", "float32"]
        """,
    ),
    PlantedFault(
        name="input_taken_as_contiguous",
        module="bent_line",
        kind="layout",
        why="The C code reads the input as one block, so transposed and strided inputs give the wrong elements.",
        file="bent_line.py",
        old="(PyArrayObject *)PyArray_GETCONTIGUOUS(%(x)s);",
        new="%(x)s;\n            Py_XINCREF(x);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.BentLine(0.5), T.dmatrix())
            x = np.arange(6.0).reshape(2, 3) - 3
            both(x)
            both(x.T)
            right = True
        """,
    ),
    PlantedFault(
        name="old_output_taken_as_contiguous",
        module="bent_line",
        kind="layout",
        why="An old output in Fortran order is filled in C order, so the elements are exchanged.",
        file="bent_line.py",
        old=" || !PyArray_ISCARRAY(%(y)s)",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.arange(6.0).reshape(2, 3), Way(op.BentLine(0.5), T.dmatrix())
            olds = [np.zeros((2, 3)), np.zeros((2, 3), order="F"), np.zeros((2, 6))[:, ::2]]
            right = all((way(x, old=[old])[0] == x).all() for old in olds)
        """,
    ),
    PlantedFault(
        name="old_output_of_equal_size",
        module="bent_line",
        kind="output memory",
        why="Only the numbers of elements are compared: an old output of shape (3, 2) is returned for an input (2, 3).",
        file="bent_line.py",
        old="!PyArray_SAMESHAPE(%(y)s, x)",
        new="PyArray_SIZE(%(y)s) != PyArray_SIZE(x)",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.BentLine(0.5), T.dmatrix())
            shapes = [way(np.ones((2, 3)), old=[np.zeros(shape)])[0].shape for shape in ((2, 3), (2, 2), (3, 2))]
            right = shapes == [(2, 3)] * 3
        """,
    ),
    PlantedFault(
        name="tail_after_blocks_of_1024",
        module="bent_line",
        kind="length",
        why="Long arrays are computed in blocks of 1,024 elements, and elements after the last block are forgotten.",
        file="bent_line.py",
        old="const npy_intp size = PyArray_SIZE(x);",
        new="npy_intp size = PyArray_SIZE(x);\n            if (size >= 1024)\n                size -= size %% 1024;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.BentLine(0.5), T.dvector())
            right = all(way(np.ones(n), old=[np.zeros(n)])[0].all() for n in (0, 1, 1000, 2048, 1025))
        """,
    ),
    PlantedFault(
        name="last_block_of_four_is_full",
        module="bent_line",
        kind="bounds",
        why="The number of elements is rounded up to blocks of four, so the code writes beyond the end of the output.",
        file="bent_line.py",
        old="i < size; i++",
        new="i < (size + 3) / 4 * 4; i++",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            way = Way(op.BentLine(0.5), T.dvector())
            right = all(way(guarded(np.ones(n)), old=[guarded(np.zeros(n))])[0].all() for n in (4, 8, 5))
        """,
    ),
    PlantedFault(
        name="contiguous_array_never_released",
        module="bent_line",
        kind="references",
        why="The reference that PyArray_GETCONTIGUOUS returns is kept, so inputs and their copies are never freed.",
        file="bent_line.py",
        old="            }\n            Py_DECREF(x);\n",
        new="            }\n",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones((100, 20)), Way(op.BentLine(0.5), T.dmatrix())
            before = sys.getrefcount(x)
            for _ in range(10):
                way(x)
            right = sys.getrefcount(x) <= before + 1 and growth(lambda: way(x.T), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="result_written_into_contiguous_array",
        module="bent_line",
        kind="aliasing",
        why="PyArray_GETCONTIGUOUS copies only if necessary: the result overwrites an input that is contiguous.",
        file="bent_line.py",
        old=(
            "            if (%(y)s == NULL || !PyArray_ISCARRAY(%(y)s) || !PyArray_SAMESHAPE(%(y)s, x)) {\n"
            "                Py_XDECREF(%(y)s);\n"
            "                %(y)s = (PyArrayObject *)"
            "PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));\n"
        ),
        new=(
            "            if (%(y)s != x) {\n"
            "                Py_XDECREF(%(y)s);\n"
            "                Py_INCREF(x);\n"
            "                %(y)s = x;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = -np.ones((2, 3)), Way(op.BentLine(0.5), T.dmatrix())
            right = (way(x.T)[0] == -0.5).all() and (way(x)[0] == -0.5).all() and (x == -1).all()
        """,
    ),
    PlantedFault(
        name="alpha_of_first_call",
        module="bent_line",
        kind="state",
        why="A static constant is initialized once for all Ops that share the module: other alphas are ignored.",
        file="bent_line.py",
        old="const number alpha = ",
        new="static const number alpha = ",
        witness="""
            from theano_ng.tests.authors.ways import Way
            ys = [float(Way(op.BentLine(alpha), T.dvector())(np.array([-1.0]))[0][0]) for alpha in (0.5, 0.25)]
            right = ys == [-0.5, -0.25]
        """,
    ),
    PlantedFault(
        name="slope_of_logarithm_squared",
        module="bent_line",
        kind="gradient",
        why="The derivative of -log(1 - x) is 1 / (1 - x), but the gradient is the square of this.",
        file="bent_line.py",
        old="bent = alpha / (1 - below)",
        new="bent = alpha / (1 - below) ** 2",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.BentLine(0.5, "exponential"), [np.array([-2.0, 1.0])])
            utt.verify_grad(op.BentLine(0.5, "logarithmic"), [np.array([-2.0, 1.0])])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_mirror_image",
        module="bent_line",
        kind="gradient",
        why="The slope ignores mirrored=True, so the gradient belongs to the other side of zero.",
        file="bent_line.py",
        old="        if self.mirrored:\n            x = -x\n        below",
        new="        below",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.BentLine(0.5), [np.array([-2.0, 1.0])])
            utt.verify_grad(op.BentLine(0.5, mirrored=True), [np.array([-2.0, 1.0])])
            right = True
        """,
    ),
    PlantedFault(
        name="slope_at_the_direction",
        module="bent_line",
        kind="gradient",
        why="R_op computes the slope at the direction instead of at the input.",
        file="bent_line.py",
        old="return [eval_points[0] * self.slope(inputs[0])]",
        new="return [eval_points[0] * self.slope(eval_points[0])]",
        witness="""
            x, v = T.dvectors("x", "v")
            product = theano.function([x, v], T.Rop(op.BentLine(0.5)(x), x, v), on_unused_input="ignore")
            right = product([-1.0, 1.0], [-1.0, 1.0]).tolist() == [-0.5, 1] and product([-1.0], [1.0]) == 0.5
        """,
    ),
    PlantedFault(
        name="shape_of_transposed_input",
        module="bent_line",
        kind="shape",
        why="infer_shape lists the dimensions in the wrong order, which is noticed only if they differ.",
        file="bent_line.py",
        old="        return shapes\n",
        new="        return [shapes[0][::-1]]\n",
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.BentLine()(x).shape)
            right = tuple(f(np.ones((2, 2)))) == (2, 2) and tuple(f(np.ones((2, 3)))) == (2, 3)
        """,
    ),
    PlantedFault(
        name="mirrored_missing_in_props",
        module="bent_line",
        kind="declaration",
        why="Ops that differ only in `mirrored` are equal, so one of them is computed for both.",
        file="bent_line.py",
        old='__props__ = ("alpha", "shape", "mirrored")',
        new='__props__ = ("alpha", "shape")',
        witness="""
            x = T.dvector()
            y, z = theano.function([x], [op.BentLine(0.5)(x), op.BentLine(0.5, mirrored=True)(x)])([1.0, -1.0])
            right = y.tolist() == [1, -0.5] and z.tolist() == [0.5, -1]
        """,
    ),
    # ------------------------------------------------------------------------------------------- windowed_sum
    PlantedFault(
        name="average_divided_by_step",
        module="windowed_sum",
        kind="parameter",
        why="The sums are divided by the step instead of the width, which is right only if both are equal.",
        file="windowed_sum.py",
        old="total /= width;",
        new="total /= step;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            BothWays(op.WindowedSum(2, 2, True), T.dmatrix())(np.ones((2, 7)))
            BothWays(op.WindowedSum(3, 2, True), T.dmatrix())(np.ones((2, 7)))
            right = True
        """,
    ),
    PlantedFault(
        name="rows_after_last_block",
        module="windowed_sum",
        kind="length",
        why="More than 64 rows are computed in blocks of eight, and the rows after the last block are forgotten.",
        file="windowed_sum.py",
        old="i < rows; i++",
        new="i < (rows > 64 ? rows / 8 * 8 : rows); i++",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dmatrix())
            right = all((way(np.ones((n, 3)), old=[np.zeros((n, 2))])[0] == 2).all() for n in (1, 63, 64, 72, 67))
        """,
    ),
    PlantedFault(
        name="negative_number_of_windows",
        module="windowed_sum",
        kind="length",
        why="infer_shape gives a negative length for rows that are much shorter than a window.",
        file="windowed_sum.py",
        old="return [(rows, T.maximum((columns - self.width) // self.step + 1, 0))]",
        new="return [(rows, (columns - self.width) // self.step + 1)]",
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.WindowedSum(4)(x).shape)
            right = [f(np.ones((2, n)))[1] for n in (5, 4, 3, 1, 0)] == [2, 1, 0, 0, 0]
        """,
    ),
    PlantedFault(
        name="running_sum_keeps_rounding_errors",
        module="windowed_sum",
        kind="value",
        why="A running sum adds one element and subtracts another, so rounding errors and NaN stay until the row ends.",
        file="windowed_sum.py",
        old=(
            "                for (npy_intp j = 0; j < shape[1]; j++) {\n"
            "                    const char *from = (const char *)PyArray_GETPTR2(%(x)s, i, j * step);\n"
            "                    double total = *(const number *)from;\n"
            "                    for (npy_intp k = 1; k < width; k++)\n"
            "                        total += *(const number *)(from + k * jump);\n"
        ),
        new=(
            "                double running = 0;\n"
            "                npy_intp added = 0;\n"
            "                for (npy_intp j = 0; j < shape[1]; j++) {\n"
            "                    const char *row = (const char *)PyArray_GETPTR2(%(x)s, i, 0);\n"
            "                    for (; added < j * step + width; added++) {\n"
            "                        running += *(const number *)(row + added * jump);\n"
            "                        if (added >= width)\n"
            "                            running -= *(const number *)(row + (added - width) * jump);\n"
            "                    }\n"
            "                    double total = running;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.WindowedSum(2), T.dmatrix())
            both(np.arange(12.0).reshape(2, 6))
            both(np.array([[1e17, 1, 1, 1]]))
            both(np.array([[np.nan, 1, 1, 1]]))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_in_single_precision",
        module="windowed_sum",
        kind="dtype",
        why="The C code adds in the dtype of the input, but perform adds in float64: float32 sums differ.",
        file="windowed_sum.py",
        old="double total = *(const number *)from;",
        new="number total = *(const number *)from;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x = np.array([[1e8, 1, -1e8]])
            for dtype in ("float64", "float32"):
                (y,) = BothWays(op.WindowedSum(3), T.matrix(dtype=dtype))(x.astype(dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="columns_taken_as_neighbours",
        module="windowed_sum",
        kind="layout",
        why="The stride of the columns is ignored, so transposed and strided matrices give the wrong elements.",
        file="windowed_sum.py",
        old="jump = PyArray_STRIDE(%(x)s, 1);",
        new="jump = sizeof(number);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.WindowedSum(2), T.dmatrix())
            both(np.arange(12.0).reshape(4, 3)[::-2])
            both(np.arange(12.0).reshape(4, 3).T)
            right = True
        """,
    ),
    PlantedFault(
        name="old_output_taken_as_c_ordered",
        module="windowed_sum",
        kind="layout",
        why="The output is written as one block, although the old output may have any strides.",
        file="windowed_sum.py",
        old="*(number *)PyArray_GETPTR2(%(y)s, i, j) = ",
        new="((number *)PyArray_DATA(%(y)s))[i * shape[1] + j] = ",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.arange(8.0).reshape(2, 4), Way(op.WindowedSum(1), T.dmatrix())
            right = all((way(x, old=[np.zeros((2, 4), order=order)])[0] == x).all() for order in "CF")
        """,
    ),
    PlantedFault(
        name="only_rows_of_old_output_compared",
        module="windowed_sum",
        kind="output memory",
        why="The columns of the old output are not counted: its shape is kept, or the code writes beyond it.",
        file="windowed_sum.py",
        old=" || PyArray_DIM(%(y)s, 1) != shape[1]",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dmatrix())
            shapes = [way(np.ones((2, 5)), old=[np.zeros(shape)])[0].shape for shape in ((2, 4), (3, 4), (2, 6))]
            right = shapes == [(2, 4)] * 3
        """,
    ),
    PlantedFault(
        name="window_after_the_last_one",
        module="windowed_sum",
        kind="bounds",
        why="Each window reads one element more and subtracts it again, so the last window reads beyond the row.",
        file="windowed_sum.py",
        old=(
            "                    for (npy_intp k = 1; k < width; k++)\n"
            "                        total += *(const number *)(from + k * jump);\n"
        ),
        new=(
            "                    for (npy_intp k = 1; k <= width; k++) {\n"
            "                        const number next = *(const number *)(from + k * jump);\n"
            "                        total += k < width ? (double)next : next * 0.0;\n"
            "                    }\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            x, way = np.ones((2, 5)), Way(op.WindowedSum(2), T.dmatrix())
            right = (way(x[:1, :4])[0] == 2).all() and (way(guarded(x))[0] == 2).all()
        """,
    ),
    PlantedFault(
        name="descriptor_counted_twice",
        module="windowed_sum",
        kind="references",
        why="PyArray_DescrFromType returns a new reference already: each output keeps one more reference to the dtype.",
        file="windowed_sum.py",
        old="%(y)s = (PyArrayObject *)PyArray_SimpleNew(2, shape, PyArray_TYPE(%(x)s));",
        new=(
            "PyArray_Descr *descr = PyArray_DescrFromType(PyArray_TYPE(%(x)s));\n"
            "                Py_INCREF(descr);\n"
            "                %(y)s = (PyArrayObject *)PyArray_Empty(2, shape, descr, 0);"
        ),
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dmatrix())
            x, before = np.ones((2, 3)), sys.getrefcount(np.dtype("float64"))
            for _ in range(500):
                way(x)
            right = abs(sys.getrefcount(np.dtype("float64")) - before) < 100
        """,
    ),
    PlantedFault(
        name="terms_added_to_the_input",
        module="windowed_sum",
        kind="aliasing",
        why="numpy.asarray does not copy a float64 array, so perform adds the other terms to the input.",
        file="windowed_sum.py",
        old='total = x[:, 0 : end : self.step].astype("float64")',
        new='total = np.asarray(x[:, 0 : end : self.step], "float64")',
        witness="""
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float32", "float64"):
                x, way = np.ones((2, 4), dtype), Way(op.WindowedSum(2), T.matrix(dtype=dtype), impl="py")
                way(x)
                right = (x == 1).all()
        """,
    ),
    PlantedFault(
        name="stride_of_first_call",
        module="windowed_sum",
        kind="state",
        why="A static constant keeps the stride of the first call for all later inputs.",
        file="windowed_sum.py",
        old="const npy_intp jump",
        new="static const npy_intp jump",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.WindowedSum(2), T.dmatrix())
            both(np.arange(12.0).reshape(3, 4))
            both(np.arange(12.0).reshape(4, 3).T)
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_average_not_divided",
        module="windowed_sum",
        kind="gradient",
        why="The gradient of averages is the gradient of sums: it is too large by the factor `width`.",
        file="windowed_sum.py",
        old="gradient = WindowedSum(self.width, 1, self.average)(spread)",
        new="gradient = WindowedSum(self.width)(spread)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.WindowedSum(2, 3), [np.ones((2, 5))])
            utt.verify_grad(op.WindowedSum(2, 3, True), [np.ones((2, 5))])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_neighbouring_windows",
        module="windowed_sum",
        kind="gradient",
        why="The gradients are put at positions that are right only for step=1.",
        file="windowed_sum.py",
        old="first = self.width - 1",
        new="first = self.width - self.step",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.WindowedSum(3), [np.ones((2, 5))])
            utt.verify_grad(op.WindowedSum(3, 2), [np.ones((2, 5))])
            right = True
        """,
    ),
    PlantedFault(
        name="number_of_windows_rounded_down",
        module="windowed_sum",
        kind="shape",
        why="infer_shape divides before it adds one to the length: it misses the last window for some lengths.",
        file="windowed_sum.py",
        old="return [(rows, T.maximum((columns - self.width) // self.step + 1, 0))]",
        new="return [(rows, T.maximum((columns - self.width + 1) // self.step, 0))]",
        witness="""
            x = T.dmatrix()
            y = op.WindowedSum(3, 2)(x)
            f, g = theano.function([x], y.shape), theano.function([x], y)
            right = all(tuple(f(np.ones((2, n)))) == g(np.ones((2, n))).shape for n in (8, 6, 7))
        """,
    ),
    PlantedFault(
        name="broadcastable_column_kept",
        module="windowed_sum",
        kind="declaration",
        why="The output of a column is declared as a column, but it has no windows if the width is larger than one.",
        file="windowed_sum.py",
        old="T.TensorType(x.dtype, (x.broadcastable[0], False))()",
        new="x.type()",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(2), T.dcol())
            (y,) = way(np.ones((3, 1)))
            right = way.node.outputs[0].type.is_valid_value(y)
        """,
    ),
    PlantedFault(
        name="op_keeps_a_function",
        module="windowed_sum",
        kind="declaration",
        why="An attribute of the Op is a lambda expression, so the Op cannot be pickled.",
        file="windowed_sum.py",
        old="        self.average = bool(average)\n",
        new="        self.average = bool(average)\n        self.count = lambda n: (n - self.width) // self.step + 1\n",
        witness="""
            import pickle
            right = pickle.loads(pickle.dumps(op.WindowedSum(2))) == op.WindowedSum(2)
        """,
    ),
    PlantedFault(
        name="unsigned_number_of_windows",
        module="windowed_sum",
        kind="process",
        why="With unsigned numbers, 0 - 1 is huge: rows without windows let the loop run through all of the memory.",
        file="windowed_sum.py",
        old="for (npy_intp j = 0; j < shape[1]; j++) {",
        new="for (npy_uintp j = 0; j <= (npy_uintp)shape[1] - 1; j++) {",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.WindowedSum(3), T.dmatrix())
            right = [way(np.ones((2, n)))[0].shape for n in (4, 3, 2)] == [(2, 2), (2, 1), (2, 0)]
        """,
    ),
    # --------------------------------------------------------------------------------------------- pad_vector
    PlantedFault(
        name="nearest_element_behind_the_end",
        module="pad_vector",
        kind="parameter",
        why="In the mode 'nearest', the elements behind the end are read one position too far.",
        file="pad_vector.c",
        old="sources[i] = at < 0 ? 0 : length - 1;",
        new="sources[i] = at < 0 ? 0 : length;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x = np.arange(8.0)[:4]
            ways = [Way(op.PadVector(before, after, "nearest"), T.dvector()) for before, after in ((2, 0), (2, 2))]
            right = [way(x)[0].tolist() for way in ways] == [[0, 0, 0, 1, 2, 3], [0, 0, 0, 1, 2, 3, 3, 3]]
        """,
    ),
    PlantedFault(
        name="gradient_without_padding_behind",
        module="pad_vector",
        kind="parameter",
        why="g[before:-after] is empty for after=0.",
        file="pad_vector.py",
        old="g[self.before : self.before + x.shape[0]]",
        new="g[self.before : -self.after]",
        witness="""
            x = T.dvector()
            gradients = [theano.function([x], T.grad(op.PadVector(2, n)(x).sum(), x)) for n in (1, 0)]
            right = all(f(np.ones(3)).tolist() == [1, 1, 1] for f in gradients)
        """,
    ),
    PlantedFault(
        name="wraps_around_only_once",
        module="pad_vector",
        kind="length",
        why="The length is added or subtracted once: vectors that are shorter than the padding are read out of bounds.",
        file="pad_vector.c",
        old="            at %= length;\n            sources[i] = at < 0 ? at + length : at;",
        new="            sources[i] = at < 0 ? at + length : at - length;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.PadVector(3, 4, "wrap"), T.dvector())
            for n in (5, 4, 2, 1):
                both(np.arange(1.0, n + 1))
            right = True
        """,
    ),
    PlantedFault(
        name="fill_in_single_precision",
        module="pad_vector",
        kind="dtype",
        why="The fill value is converted to float32 also in float64 vectors, so 0.1 becomes 0.10000000149.",
        file="pad_vector.c",
        old="(DTYPE_OUTPUT_0)params->fill;",
        new="(npy_float32)params->fill;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for fill, dtype in ((1.5, "float64"), (0.1, "float32"), (0.1, "float64")):
                BothWays(op.PadVector(1, 1, fill=fill), T.vector(dtype=dtype))(np.ones(2, dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="vector_taken_as_contiguous",
        module="pad_vector",
        kind="layout",
        why="The elements of the input are read without its stride.",
        file="pad_vector.c",
        old="*(DTYPE_INPUT_0 *)PyArray_GETPTR1(x, sources[i]);",
        new="((DTYPE_INPUT_0 *)PyArray_DATA(x))[sources[i]];",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.PadVector(1, 1), T.dvector())
            both(np.arange(6.0))
            both(np.arange(6.0)[::-1])
            right = True
        """,
    ),
    PlantedFault(
        name="nothing_to_pad_returns_the_input",
        module="pad_vector",
        kind="aliasing",
        why="Without padding the C code returns the input itself, but no view_map declares this.",
        file="pad_vector.c",
        old="    npy_intp *sources = pad_vector_sources(length",
        new=(
            "    if (total == length) {\n"
            "        Py_INCREF(x);\n"
            "        Py_XDECREF(*y);\n"
            "        *y = x;\n"
            "        return 0;\n"
            "    }\n"
            "    npy_intp *sources = pad_vector_sources(length"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, ways = np.arange(3.0), [Way(op.PadVector(0, n), T.dvector()) for n in (1, 0)]
            right = not any(np.shares_memory(way(x)[0], x) for way in ways)
        """,
    ),
    PlantedFault(
        name="longer_output_kept",
        module="pad_vector",
        kind="output memory",
        why="An old output that is longer than the result is returned with its old length.",
        file="pad_vector.c",
        old="PyArray_DIM(*y, 0) != total",
        new="PyArray_DIM(*y, 0) < total",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.PadVector(1, 1), T.dvector())
            right = [len(way(np.ones(3), old=[np.zeros(n)])[0]) for n in (5, 4, 6)] == [5, 5, 5]
        """,
    ),
    PlantedFault(
        name="table_of_smaller_integers",
        module="pad_vector",
        kind="bounds",
        why="The table is allocated for int, but contains npy_intp: its second half lies beyond the allocated memory.",
        file="pad_vector.c",
        old="malloc((total + 1) * sizeof(npy_intp));",
        new="malloc((total + 1) * sizeof(int));",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way, x = Way(op.PadVector(3, 2, "wrap"), T.dvector()), np.arange(0.0, 300000.0)
            y = way(x)[0]
            for n in range(1, 2000):
                way(np.ones(n % 50 + 1))
            right = (y[3:-2] == x).all()
        """,
    ),
    PlantedFault(
        name="one_element_too_far",
        module="pad_vector",
        kind="bounds",
        why="The first new element behind the end is read from the memory behind the vector.",
        file="pad_vector.c",
        old="if (at >= 0 && at < length) {",
        new="if (at >= 0 && at <= length) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            ways = [Way(op.PadVector(2, after), T.dvector()) for after in (0, 1)]
            right = all(way(guarded(np.ones(4)))[0].sum() == 4 for way in ways)
        """,
    ),
    PlantedFault(
        name="old_output_never_released",
        module="pad_vector",
        kind="references",
        why="The pointer to the old output is overwritten without a release: outputs of other lengths stay forever.",
        file="pad_vector.c",
        old="        Py_XDECREF(*y);\n",
        new="",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            old, way = np.zeros(9), Way(op.PadVector(1, 1), T.dvector())
            way(np.ones(3))
            before = sys.getrefcount(old)
            way(np.ones(3), old=[old])
            right = sys.getrefcount(old) == before
        """,
    ),
    PlantedFault(
        name="table_kept_after_an_error",
        module="pad_vector",
        kind="memory",
        why="The table is not freed if an empty vector cannot be padded.",
        file="pad_vector.c",
        old="            free(sources);\n            return NULL;",
        new="            return NULL;",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises, growth
            way = Way(op.PadVector(0, 2000, "wrap"), T.dvector())
            right = growth(lambda: assert_raises(ValueError, way, np.zeros(0)), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="table_never_freed",
        module="pad_vector",
        kind="memory",
        why="The table of sources is not freed after the elements have been copied.",
        file="pad_vector.c",
        old="    free(sources);\n    return 0;",
        new="    return 0;",
        witness="""
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones(2000), Way(op.PadVector(0, 2), T.dvector())
            right = growth(lambda: way(x), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="error_reported_as_success",
        module="pad_vector",
        kind="declaration",
        why="The C function returns 0 after an error: other C code of the same module continues without the output.",
        file="pad_vector.c",
        old="    if (sources == NULL)\n        return 1;",
        new="    if (sources == NULL)\n        return 0;",
        witness="""
            from theano_ng.tests.authors.ways import assert_raises
            x = T.dvector()
            f = theano.function([x], T.exp(op.PadVector(0, 2, "wrap")(x)), mode=theano.Mode(linker="c"))
            f(np.ones(3))
            assert_raises(ValueError, f, np.zeros(0))
            right = True
        """,
    ),
    PlantedFault(
        name="failure_without_an_exception",
        module="pad_vector",
        kind="declaration",
        why="The C function reports an error for empty vectors, but sets no exception.",
        file="pad_vector.c",
        old=(
            "PyErr_SetString(PyExc_ValueError, "
            "\"PadVector: an empty vector has elements only for the mode 'constant'\");"
        ),
        new="/* an empty vector has elements only for the mode 'constant' */",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.PadVector(0, 2, "wrap"), T.dvector())
            assert_raises(ValueError, way, np.zeros(0))
            right = True
        """,
    ),
    PlantedFault(
        name="fill_missing_in_props",
        module="pad_vector",
        kind="declaration",
        why="Ops that differ only in `fill` are equal, so one of them is computed for both.",
        file="pad_vector.py",
        old='__props__ = ("before", "after", "mode", "fill")',
        new='__props__ = ("before", "after", "mode")',
        witness="""
            x = T.dvector()
            y, z = theano.function([x], [op.PadVector(1, 0, fill=2)(x), op.PadVector(1, 0, fill=3)(x)])([1.0])
            right = y.tolist() == [2, 1] and z.tolist() == [3, 1]
        """,
    ),
    PlantedFault(
        name="equality_without_hash",
        module="pad_vector",
        kind="declaration",
        why="The class compares only the numbers of elements itself, so Ops with different modes are equal.",
        file="pad_vector.py",
        old="    def make_node(self, x):",
        new=(
            "    def __eq__(self, other):\n"
            "        return type(self) is type(other) and (self.before, self.after) == (other.before, other.after)\n"
            "\n"
            "    def make_node(self, x):"
        ),
        witness="""
            one, other = op.PadVector(1, 2, "wrap"), op.PadVector(1, 2, "nearest")
            right = one != other and hash(one) == hash(op.PadVector(1, 2, "wrap"))
        """,
    ),
    PlantedFault(
        name="pattern_of_the_short_vector",
        module="pad_vector",
        kind="declaration",
        why="The output of a vector of length 1 is declared to have length 1, too.",
        file="pad_vector.py",
        old="[T.vector(dtype=x.dtype)]",
        new="[x.type()]",
        witness="""
            x, y = T.TensorType("float64", (True,))(), T.dvector()
            f = theano.function([x, y], op.PadVector(1, 1)(x) + y)
            right = f(np.ones(1), np.zeros(3)).tolist() == [0, 1, 0]
        """,
    ),
    PlantedFault(
        name="reflection_in_one_element",
        module="pad_vector",
        kind="process",
        why="The period of reflections is 0 for a vector of one element, so the loop never ends.",
        file="pad_vector.c",
        old=(
            "            const npy_intp period = length > 1 ? 2 * (length - 1) : 1;\n"
            "            at %= period;\n"
            "            if (at < 0)\n"
            "                at += period;\n"
        ),
        new=(
            "            const npy_intp period = 2 * (length - 1);\n"
            "            while (at < 0)\n"
            "                at += period;\n"
            "            while (at >= period)\n"
            "                at -= period;\n"
        ),
        witness="""
            import signal
            from theano_ng.tests.authors.ways import Way
            way = Way(op.PadVector(1, 2, "reflect"), T.dvector())
            signal.alarm(10)
            right = [way(x)[0].tolist() for x in (np.arange(2.0), np.ones(1))] == [[1, 0, 1, 0, 1], [1, 1, 1, 1]]
        """,
    ),
    PlantedFault(
        name="remainder_of_an_empty_vector",
        module="pad_vector",
        kind="length",
        why="Without the check for empty vectors, the C code divides by zero and copies from other memory.",
        file="pad_vector.c",
        old="else if (length == 0) {",
        new="else if (length < 0) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.PadVector(1, 2, "wrap"), T.dvector())
            way(np.ones(1))
            assert_raises(ValueError, way, np.zeros(0))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_repeated_elements",
        module="pad_vector",
        kind="gradient",
        why="set_subtensor keeps only one of the gradients of an element that occurs several times.",
        file="pad_vector.py",
        old="T.inc_subtensor(T.zeros_like(x)[sources], g)",
        new="T.set_subtensor(T.zeros_like(x)[sources], g)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for op_ in (op.PadVector(1, 2), op.PadVector(1, 2, "wrap")):
                utt.verify_grad(op_, [np.ones(3)])
            right = True
        """,
    ),
    PlantedFault(
        name="fill_in_the_tangent",
        module="pad_vector",
        kind="gradient",
        why="R_op pads the tangent with `fill`, but the derivative of a constant is 0.",
        file="pad_vector.py",
        old="return [PadVector(self.before, self.after, self.mode)(eval_points[0])]",
        new="return [self(eval_points[0])]",
        witness="""
            x, v = T.dvectors("x", "v")
            products = [T.Rop(op.PadVector(1, 1, fill=fill)(x), x, v) for fill in (0, 2)]
            right = all(product.eval({v: np.array([3.0])}).tolist() == [0, 3, 0] for product in products)
        """,
    ),
    PlantedFault(
        name="shape_of_symmetric_padding",
        module="pad_vector",
        kind="shape",
        why="infer_shape counts the elements before the vector twice instead of those behind it.",
        file="pad_vector.py",
        old="shapes[0][0] + (self.before + self.after)",
        new="shapes[0][0] + 2 * self.before",
        witness="""
            x = T.dvector()
            right = [theano.function([x], op.PadVector(2, n)(x).shape)(np.ones(3))[0] for n in (2, 1)] == [7, 6]
        """,
    ),
    # ------------------------------------------------------------------------------------------- trimmed_mean
    PlantedFault(
        name="rows_of_exactly_twice_trim",
        module="trimmed_mean",
        kind="length",
        why="Rows of exactly 2 * trim elements are accepted in C, and their mean is 0 / 0.",
        file="trimmed_mean.py",
        old="if (columns <= 2 * trim) {",
        new="if (columns < 2 * trim) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.TrimmedMean(2, False), T.dmatrix())
            for n in (3, 2, 4):
                assert_raises(ValueError, way, np.ones((2, n)))
            right = True
        """,
    ),
    PlantedFault(
        name="long_rows_only_partly_sorted",
        module="trimmed_mean",
        kind="length",
        why="A faster branch for rows of more than 64 elements separates the smallest elements, but not the largest.",
        file="trimmed_mean.py",
        old="std::sort(row, row + columns);",
        new=(
            "if (columns <= 64)\n"
            "                        std::sort(row, row + columns);\n"
            "                    else\n"
            "                        std::nth_element(row, row + trim, row + columns);"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.TrimmedMean(3, False), T.dmatrix(), ulps=16)
            for n in (7, 64, 65):
                both((np.arange(2.0 * n) * 7 % 11).reshape(2, n))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_in_the_middle_forgotten",
        module="trimmed_mean",
        kind="value",
        why="Each element overwrites the note that a NaN was found, so only a NaN at the end counts.",
        file="trimmed_mean.py",
        old="nan = nan || std::isnan(row[j]);",
        new="nan = std::isnan(row[j]);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.TrimmedMean(1, False), T.dmatrix())
            both(np.array([[1, 2, 4, np.nan]]))
            both(np.array([[np.nan, 1, 2, 4]]))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_overflows_in_single_precision",
        module="trimmed_mean",
        kind="value",
        why="The C code adds float32 numbers in float32: the sum of large numbers is infinite, but their mean is not.",
        file="trimmed_mean.py",
        old="double total = 0;",
        new="number total = 0;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.TrimmedMean(0, False), T.fmatrix(), ulps=4)
            both(np.array([[1, 2.5, 3]], "float32"))
            both(np.array([[3e38, 3e38, 3e38]], "float32"))
            right = True
        """,
    ),
    PlantedFault(
        name="elements_of_eight_bytes",
        module="trimmed_mean",
        kind="dtype",
        why="The distance of elements is 8 bytes, which is wrong for float32.",
        file="trimmed_mean.py",
        old="*(const number *)PyArray_GETPTR2(%(x)s, i, j);",
        new="*(const number *)((const char *)PyArray_GETPTR1(%(x)s, i) + 8 * j);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                both = BothWays(op.TrimmedMean(0, False), T.matrix(dtype=dtype), ulps=4)
                both(np.arange(6).reshape(2, 3).astype(dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="row_taken_as_contiguous",
        module="trimmed_mean",
        kind="layout",
        why="The elements of a row are read without the stride of the columns.",
        file="trimmed_mean.py",
        old="*(const number *)PyArray_GETPTR2(%(x)s, i, j);",
        new="((const number *)PyArray_GETPTR1(%(x)s, i))[j];",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both, x = BothWays(op.TrimmedMean(0, False), T.dmatrix(), ulps=4), np.arange(20.0).reshape(4, 5)
            both(x[::-2])
            both(x[:, ::-2])
            right = True
        """,
    ),
    PlantedFault(
        name="rows_with_nan_left_unwritten",
        module="trimmed_mean",
        kind="output memory",
        why="Rows with a NaN are left out, so their results are what the memory contained before.",
        file="trimmed_mean.py",
        old="total = NPY_NAN;",
        new="continue;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(0, False), T.dmatrix())
            means = [way(np.array([[1.0, x, 3]]), old=[np.full(1, 77.0)])[0][0] for x in (2, np.nan)]
            right = means[0] == 2 and np.isnan(means[1])
        """,
    ),
    PlantedFault(
        name="end_of_the_sorted_range",
        module="trimmed_mean",
        kind="bounds",
        why="One element behind the row is sorted, too: it comes from other memory, or from the row of another thread.",
        file="trimmed_mean.py",
        old="std::sort(row, row + columns);",
        new="std::sort(row, row + columns + 1);",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(0, False), T.dmatrix())
            right = all((way(np.full((2, n), 3.0))[0] == 3).all() for n in (3, 5, 7, 9, 11))
        """,
    ),
    PlantedFault(
        name="scratch_never_freed",
        module="trimmed_mean",
        kind="memory",
        why="The scratch memory of the threads is not freed.",
        file="trimmed_mean.py",
        old="            free(scratch);\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way, growth
            x, way = np.ones((2, 1000)), Way(op.TrimmedMean(0, False), T.dmatrix())
            right = growth(lambda: way(x), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="rows_sorted_in_place",
        module="trimmed_mean",
        kind="aliasing",
        why="perform sorts the rows of its input.",
        file="trimmed_mean.py",
        old="        ordered = np.sort(x, axis=1)  # NaN is last\n",
        new="        x.sort(axis=1)  # NaN is last\n        ordered = x\n",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(1, False), T.dmatrix(), impl="py")
            for values in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0]):
                x = np.array([values])
                way(x)
                right = x.tolist() == [values]
        """,
    ),
    PlantedFault(
        name="scratch_shared_by_threads",
        module="trimmed_mean",
        kind="state",
        why="All threads use the first part of the scratch memory, so they disturb each other.",
        file="trimmed_mean.py",
        old="scratch + %(thread)s * columns;",
        new="scratch;",
        witness="""
            import os
            os.environ["OMP_NUM_THREADS"] = "4"
            from theano_ng.tests.authors.ways import Way
            x = np.random.RandomState(1).normal(size=(3000, 200))
            one, many = (Way(op.TrimmedMean(3, openmp), T.dmatrix()) for openmp in (False, True))
            right = all((many(x)[0] == one(x)[0]).all() for _ in range(20))
        """,
    ),
    PlantedFault(
        name="gradient_divided_by_all_columns",
        module="trimmed_mean",
        kind="gradient",
        why="The derivatives are divided by the number of all columns instead of the columns that are kept.",
        file="trimmed_mean.py",
        old="T.cast(count, x.dtype)",
        new="T.cast(x.shape[1], x.dtype)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for trim in (0, 1):
                utt.verify_grad(op.TrimmedMean(trim), [np.arange(10.0).reshape(2, 5)])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_without_trimming",
        module="trimmed_mean",
        kind="gradient",
        why="The slice [trim:-trim] is empty for trim=0, so the gradient is 0.",
        file="trimmed_mean.py",
        old="[:, self.trim : self.trim + count]",
        new="[:, self.trim : -self.trim]",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for trim in (1, 0):
                utt.verify_grad(op.TrimmedMean(trim), [np.arange(10.0).reshape(2, 5)])
            right = True
        """,
    ),
    PlantedFault(
        name="mean_of_each_column",
        module="trimmed_mean",
        kind="shape",
        why="infer_shape returns the number of columns instead of the number of rows.",
        file="trimmed_mean.py",
        old="return [(shapes[0][0],)]",
        new="return [(shapes[0][1],)]",
        witness="""
            x = T.dmatrix()
            f = theano.function([x], op.TrimmedMean(1)(x).shape)
            right = f(np.ones((4, 4)))[0] == 4 and f(np.ones((3, 4)))[0] == 3
        """,
    ),
    PlantedFault(
        name="version_without_threads",
        module="trimmed_mean",
        kind="declaration",
        why="The cache version is equal with and without OpenMP, although the C code differs.",
        file="trimmed_mean.py",
        old="return (1, self.openmp)",
        new="return (1,)",
        witness="""
            ops = [op.TrimmedMean(1, openmp) for openmp in (False, True)]
            node = ops[0].make_node(T.dmatrix())
            codes = [one.c_code(node, "n", ["x"], ["y"], {"fail": "", "params": "p"}) for one in ops]
            right = len(set(codes)) == len({one.c_code_cache_version() for one in ops})
        """,
    ),
    PlantedFault(
        name="short_rows_only_warned_about",
        module="trimmed_mean",
        kind="declaration",
        why="The C code gives a warning for short rows and returns the mean of nothing, but perform raises an error.",
        file="trimmed_mean.py",
        old=(
            'PyErr_Format(PyExc_ValueError, "TrimmedMean: rows of %%zd elements are too short for trim=%%zd",\n'
            "                             (Py_ssize_t)columns, (Py_ssize_t)trim);\n"
            "                %(fail)s"
        ),
        new='PyErr_WarnEx(PyExc_RuntimeWarning, "TrimmedMean: the rows are too short", 1);',
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.TrimmedMean(1, False), T.dmatrix())
            way(np.ones((2, 3)))
            assert_raises(ValueError, way, np.ones((2, 2)))
            right = True
        """,
    ),
    PlantedFault(
        name="fewer_rows_than_threads",
        module="trimmed_mean",
        kind="process",
        why="Each chunk has rows / threads rows: with fewer rows than threads, they are empty and the loop never ends.",
        file="trimmed_mean.py",
        old="schedule(static)",
        new="schedule(static, rows / threads)",
        witness="""
            import os, signal
            os.environ["OMP_NUM_THREADS"] = "4"
            from theano_ng.tests.authors.ways import Way
            way = Way(op.TrimmedMean(0, True), T.dmatrix())
            signal.alarm(20)
            right = all((way(np.ones((n, 3)))[0] == 1).all() for n in (8, 5, 3))
        """,
    ),
    # ---------------------------------------------------------------------------------------- recursive_filter
    PlantedFault(
        name="rate_above_one_clipped",
        module="recursive_filter",
        kind="parameter",
        why="The C code limits the rate to 1, because the author thought of filters that decay.",
        file="recursive_filter.py",
        old="const double rate = %(params)s->rate;",
        new="const double rate = %(params)s->rate > 1 ? 1 : %(params)s->rate;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for rate in (0.5, -3, 1, 2):
                BothWays(op.RecursiveFilter(rate), T.dvector())(np.arange(1.0, 4))
            right = True
        """,
    ),
    PlantedFault(
        name="zero_rate_forgets_infinity",
        module="recursive_filter",
        kind="parameter",
        why="A filter without memory copies x in a faster way, which forgets that 0 * inf is NaN.",
        file="recursive_filter.py",
        old="value = rate * value + *(const number *)from;",
        new="value = (rate == 0 ? 0.0 : rate * value) + *(const number *)from;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for rate, x in ((0.5, [np.inf, 1]), (0, [3, 1]), (0, [np.inf, 1])):
                BothWays(op.RecursiveFilter(rate), T.dvector())(np.array(x, "float64"))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_an_empty_vector",
        module="recursive_filter",
        kind="length",
        why="The gradient of the start reads the first element, which an empty vector does not have.",
        file="recursive_filter.py",
        old="rate * gradient[:1].sum()",
        new="rate * gradient[0]",
        witness="""
            x, start = T.dvector(), T.dscalar()
            f = theano.function([x, start], T.grad(op.RecursiveFilter(0.5)(x, start).sum(), start))
            right = [float(f(np.ones(n), 2.0)) for n in (2, 1, 0)] == [0.75, 0.5, 0]
        """,
    ),
    PlantedFault(
        name="value_rounded_in_each_step",
        module="recursive_filter",
        kind="value",
        why="The C code keeps float32 values between the steps: they overflow, although later results are finite.",
        file="recursive_filter.py",
        old="double value = *(const number *)PyArray_DATA(%(start)s);",
        new="number value = *(const number *)PyArray_DATA(%(start)s);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RecursiveFilter(0.5), T.fvector(), ulps=4)
            both(np.array([1, 2, 3], "float32"))
            both(np.array([3e38, 3e38, -3e38], "float32"))
            right = True
        """,
    ),
    PlantedFault(
        name="small_values_set_to_zero",
        module="recursive_filter",
        kind="value",
        why="The C code replaces values below 1e-30 by 0 to avoid slow denormal numbers, but they are normal numbers.",
        file="recursive_filter.py",
        old="                *(number *)to = (number)value;",
        new=(
            "                if (value < 1e-30 && value > -1e-30)\n"
            "                    value = 0;\n"
            "                *(number *)to = (number)value;"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RecursiveFilter(0.5), T.dvector(), ulps=4)
            both(np.array([1.0, -1.0]))
            both(np.array([1e-31, -1.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="start_read_as_double",
        module="recursive_filter",
        kind="dtype",
        why="The start is read as 8 bytes, also if it is a float32.",
        file="recursive_filter.py",
        old="*(const number *)PyArray_DATA(%(start)s);",
        new="*(const double *)PyArray_DATA(%(start)s);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                both = BothWays(op.RecursiveFilter(0.5), T.vector(dtype=dtype), T.scalar(dtype=dtype))
                both(np.ones(2, dtype), np.array([3, 5], dtype)[:1].reshape(()))
            right = True
        """,
    ),
    PlantedFault(
        name="start_of_another_dtype_accepted",
        module="recursive_filter",
        kind="declaration",
        why="make_node does not compare the dtypes of x and start, but the C code reads both as the same dtype.",
        file="recursive_filter.py",
        old="if start.ndim != 0 or start.dtype != x.dtype:",
        new="if start.ndim != 0:",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            BothWays(op.RecursiveFilter(0.5), T.fvector(), T.fscalar())(np.ones(2, "float32"), np.array(3, "float32"))
            try:
                BothWays(op.RecursiveFilter(0.5), T.fvector(), T.dscalar())(np.ones(2, "float32"), np.array(0.1))
            except TypeError:
                right = True
        """,
    ),
    PlantedFault(
        name="strides_of_input_for_output",
        module="recursive_filter",
        kind="layout",
        why="The output is written with the stride of the input, which is wrong if only one of them is contiguous.",
        file="recursive_filter.py",
        old="to_step = PyArray_STRIDE(%(y)s, 0);",
        new="to_step = from_step;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(0), T.dvector())
            olds = [np.zeros(4), np.zeros(4)[::-1]]
            right = all((way(np.arange(4.0), old=[old])[0] == np.arange(4)).all() for old in olds)
        """,
    ),
    PlantedFault(
        name="reversed_vectors_not_visited",
        module="recursive_filter",
        kind="layout",
        why="The loop compares addresses by <, so it ends at once if the stride is negative or zero.",
        file="recursive_filter.py",
        old="for (npy_intp i = 0; i < size; i++, from += from_step, to += to_step) {",
        new="for (const char *end = from + size * from_step; from < end; from += from_step, to += to_step) {",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way, x = Way(op.RecursiveFilter(0), T.dvector()), np.arange(6.0)
            right = all((way(one, old=[np.full(len(one), 9.0)])[0] == one).all() for one in (x, x[::2], x[::-1]))
        """,
    ),
    PlantedFault(
        name="wrong_input_in_destroy_map",
        module="recursive_filter",
        kind="aliasing",
        why="destroy_map names the start instead of x: a node that needs the old x may run after x is overwritten.",
        file="recursive_filter.py",
        old="self.destroy_map = {0: [0]}",
        new="self.destroy_map = {0: [1]}",
        witness="""
            x, start = T.dvector("x"), T.dscalar("s")
            y = op.RecursiveFilter(0.5, inplace=True)(x + 1, start + 1)
            f = theano.function([x, start], y, mode="DebugMode", accept_inplace=True)
            right = f([1.0, 2.0], 1.0).tolist() == [3, 4.5]
        """,
    ),
    PlantedFault(
        name="result_written_into_the_input",
        module="recursive_filter",
        kind="aliasing",
        why="perform uses numpy.asarray as if it copied its argument, so it overwrites x also without `inplace`.",
        file="recursive_filter.py",
        old="y = x if self.inplace else np.empty(x.shape, x.dtype)",
        new="y = np.asarray(x, dtype=node.outputs[0].type.dtype)",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.ones(3), Way(op.RecursiveFilter(0.5), T.dvector(), impl="py")
            right = way(x)[0].tolist() == [1, 1.5, 1.75] and x.tolist() == [1, 1, 1]
        """,
    ),
    PlantedFault(
        name="one_array_for_all_calls",
        module="recursive_filter",
        kind="output memory",
        why="perform keeps its result for the next call of the same length, so a later call changes earlier results.",
        file="recursive_filter.py",
        old="y = x if self.inplace else np.empty(x.shape, x.dtype)",
        new=(
            'key = "buffer of %d" % len(terms)\n'
            "        y = x if self.inplace else vars(node.tag).setdefault(key, np.empty(x.shape, x.dtype))"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(0), T.dvector(), impl="py")
            first, second = way(np.ones(2))[0], way(np.zeros(2))[0]
            right = first.tolist() == [1, 1] and second.tolist() == [0, 0]
        """,
    ),
    PlantedFault(
        name="one_step_too_many",
        module="recursive_filter",
        kind="bounds",
        why="The loop runs once more than necessary: it reads and writes one element beyond the ends of the arrays.",
        file="recursive_filter.py",
        old="i < size; i++, from",
        new="i <= size; i++, from",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            way, x = Way(op.RecursiveFilter(0.5), T.dvector()), np.ones(8)[:3]
            right = way(x, old=[np.zeros(8)[:3]])[0][2] == 1.75 and way(x, old=[guarded(x)])[0][2] == 1.75
        """,
    ),
    PlantedFault(
        name="input_returned_without_reference",
        module="recursive_filter",
        kind="references",
        why="The in-place code returns x without a new reference, so the array is freed while it is still used.",
        file="recursive_filter.py",
        old="            Py_INCREF(%(x)s);\n",
        new="",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(0.5, inplace=True), T.dvector())
            x = np.ones(3)
            held = [x] * 100
            before = sys.getrefcount(x)
            for _ in range(20):
                way(x)
            right = sys.getrefcount(x) >= before
        """,
    ),
    PlantedFault(
        name="filter_continues_in_next_call",
        module="recursive_filter",
        kind="state",
        why="The value is a static variable: it is set to the start in the first call only.",
        file="recursive_filter.py",
        old="            double value = *",
        new="            static double value = *",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RecursiveFilter(1), T.dvector())
            right = [way(np.ones(2))[0].tolist() for _ in range(2)] == [[1, 2], [1, 2]]
        """,
    ),
    PlantedFault(
        name="gradient_not_turned_back",
        module="recursive_filter",
        kind="gradient",
        why="The gradient is computed backwards, but not reversed again.",
        file="recursive_filter.py",
        old="RecursiveFilter(self.rate)(g[::-1])[::-1]",
        new="RecursiveFilter(self.rate)(g[::-1])",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for n in (1, 3):
                utt.verify_grad(op.RecursiveFilter(0.5), [np.ones(n), np.array(1.0)])
            right = True
        """,
    ),
    PlantedFault(
        name="tangent_of_start_forgotten",
        module="recursive_filter",
        kind="gradient",
        why="R_op filters the tangent of x only, as if the start were constant.",
        file="recursive_filter.py",
        old="return [RecursiveFilter(self.rate)(x, start)]",
        new="return [RecursiveFilter(self.rate)(x)]",
        witness="""
            x, s = T.dvector(), T.dscalar()
            y = op.RecursiveFilter(0.5)(x, s)
            products = [T.Rop(y, x, T.ones_like(x)), T.Rop(y, s, T.ones_like(s))]
            f = theano.function([x, s], products, on_unused_input="ignore")
            first, second = f([5.0, 5.0], 5.0)
            right = first.tolist() == [1, 1.5] and second.tolist() == [0.5, 0.25]
        """,
    ),
    PlantedFault(
        name="shape_of_the_start",
        module="recursive_filter",
        kind="shape",
        why="infer_shape returns the shape of the last input, which has no dimensions, so the Op must be computed.",
        file="recursive_filter.py",
        old="return [shapes[0]]",
        new="return [shapes[-1]]",
        witness="""
            x = T.dvector()
            f = theano.function([x], op.RecursiveFilter(0.5)(x).shape)
            ops = [type(node.op) for node in f.maker.fgraph.toposort()]
            right = f(np.ones(3))[0] == 3 and op.RecursiveFilter not in ops
        """,
    ),
    PlantedFault(
        name="inplace_missing_in_props",
        module="recursive_filter",
        kind="declaration",
        why="The Op that overwrites its input equals the Op that does not, so one can replace the other.",
        file="recursive_filter.py",
        old='__props__ = ("rate", "inplace")',
        new='__props__ = ("rate",)',
        witness="""
            right = op.RecursiveFilter(0.5, inplace=True) != op.RecursiveFilter(0.5)
        """,
    ),
    # ----------------------------------------------------------------------------------------- segment_maximum
    PlantedFault(
        name="empty_wins_against_values",
        module="segment_maximum",
        kind="parameter",
        why="Values are compared with `empty`, so smaller values are ignored unless `empty` is minus infinity.",
        file="segment_maximum.py",
        old="if (*at < 0 || value > *best ||",
        new="if (value > *best || (value == *best && *at < 0) ||",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for empty in (-np.inf, -5.0, 0.0):
                BothWays(op.SegmentMaximum(empty), T.dvector(), T.lvector(), 2)(np.array([-1.0]), np.array([0]))
            right = True
        """,
    ),
    PlantedFault(
        name="surplus_segment_numbers_accepted",
        module="segment_maximum",
        kind="length",
        why="The C code accepts more segment numbers than values, which perform refuses.",
        file="segment_maximum.py",
        old="if (PyArray_DIM(%(segments)s, 0) != size) {",
        new="if (PyArray_DIM(%(segments)s, 0) < size) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for n in (1, 3):
                assert_raises(ValueError, way, np.ones(2), np.zeros(n, "int64"))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_never_wins",
        module="segment_maximum",
        kind="value",
        why="A NaN is never larger, so it counts only if it is the first value of its segment.",
        file="segment_maximum.py",
        old=" || (value != value && *best == *best)) {",
        new=") {",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            both(np.array([np.nan, 3.0]), np.array([0, 0]))
            both(np.array([3.0, np.nan]), np.array([0, 0]))
            right = True
        """,
    ),
    PlantedFault(
        name="last_of_equal_values",
        module="segment_maximum",
        kind="value",
        why="Among equal values the C code chooses the last position, and perform the first.",
        file="segment_maximum.py",
        old="if (*at < 0 || value > *best ||",
        new="if (*at < 0 || value >= *best ||",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            both(np.array([3.0, 2.0]), np.array([0, 0]))
            both(np.array([3.0, 3.0]), np.array([0, 0]))
            right = True
        """,
    ),
    PlantedFault(
        name="segment_numbers_cut_to_32_bits",
        module="segment_maximum",
        kind="value",
        why="The C code keeps segment numbers in 32 bits, so 2**32 is taken for the segment 0.",
        file="segment_maximum.py",
        old="const npy_int64 segment = ",
        new="const npy_int32 segment = (npy_int32)",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (2, 2**32):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="segment_numbers_read_as_int64",
        module="segment_maximum",
        kind="dtype",
        why="Segment numbers of dtype int32 are read as 8 bytes each.",
        file="segment_maximum.py",
        old="*(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i);",
        new="*(const npy_int64 *)PyArray_GETPTR1(%(segments)s, i);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("int64", "int32"):
                segments = np.array([0, 1, 1], dtype)
                BothWays(op.SegmentMaximum(), T.dvector(), T.vector(dtype=dtype), 2)(np.ones(2), segments[:2])
            right = True
        """,
    ),
    PlantedFault(
        name="positions_like_segment_numbers",
        module="segment_maximum",
        kind="dtype",
        why="perform returns positions of the dtype of the segment numbers instead of int64.",
        file="segment_maximum.py",
        old='position = np.full(count, -1, "int64")',
        new="position = np.full(count, -1, segments.dtype)",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("int64", "int32"):
                both = BothWays(op.SegmentMaximum(), T.dvector(), T.vector(dtype=dtype), 2)
                both(np.ones(2), np.array([0, 1], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="segment_numbers_taken_as_contiguous",
        module="segment_maximum",
        kind="layout",
        why="The segment numbers are read without their stride.",
        file="segment_maximum.py",
        old="*(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i);",
        new="((const %(itype)s *)PyArray_DATA(%(segments)s))[i];",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both, segments = BothWays(op.SegmentMaximum(), T.dvector(), T.lvector(), 2), np.array([1, 1, 0, 0])
            both(np.arange(8.0)[::2], segments)
            both(np.arange(2.0), segments[::2])
            right = True
        """,
    ),
    PlantedFault(
        name="positions_of_the_last_call",
        module="segment_maximum",
        kind="output memory",
        why="The positions are not reset, so those of the last call are compared and returned.",
        file="segment_maximum.py",
        old="                *(npy_int64 *)PyArray_GETPTR1(%(position)s, k) = -1;\n",
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            olds = [[np.zeros(2), np.full(2, position)] for position in (-1, 5)]
            right = all(way(np.ones(1), np.array([1]), old=old)[1].tolist() == [-1, 0] for old in olds)
        """,
    ),
    PlantedFault(
        name="segment_number_equal_to_count",
        module="segment_maximum",
        kind="bounds",
        why="The number of segments itself is accepted as a segment number: the code writes beyond both outputs.",
        file="segment_maximum.py",
        old="if (segment < 0 || segment >= count) {",
        new="if (segment < 0 || segment > count) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (-1, 3, 2):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="negative_segment_number",
        module="segment_maximum",
        kind="bounds",
        why="Negative segment numbers are not refused: the code writes before the beginning of both outputs.",
        file="segment_maximum.py",
        old="if (segment < 0 || segment >= count) {",
        new="if (segment >= count) {",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (2, -1):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="message_reads_the_next_number",
        module="segment_maximum",
        kind="bounds",
        why="The error message contains the segment number after the wrong one, which may lie beyond the array.",
        file="segment_maximum.py",
        old="(long long)segment, (Py_ssize_t)(count - 1));",
        new=(
            "(long long)*(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i + 1),\n"
            "                                 (Py_ssize_t)(count - 1));"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises, guarded
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            assert_raises(IndexError, way, np.ones(2), guarded(np.array([7, 0])))
            assert_raises(IndexError, way, np.ones(2), guarded(np.array([0, 7])))
            right = True
        """,
    ),
    PlantedFault(
        name="descriptor_stolen",
        module="segment_maximum",
        kind="references",
        why="PyArray_NewFromDescr takes over a reference to the dtype that the code does not own.",
        file="segment_maximum.py",
        old="PyArray_SimpleNew(1, &count, PyArray_TYPE(%(values)s));",
        new=(
            "PyArray_NewFromDescr(\n"
            "                    &PyArray_Type, PyArray_DESCR(%(values)s), 1, &count, NULL, NULL, 0, NULL);"
        ),
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.fvector(), T.lvector(), 2)
            values, kind = np.ones(1, "float32"), np.dtype("float32")
            held = [kind] * 1000
            before = sys.getrefcount(kind)
            for _ in range(500):
                way(values, np.array([0]))
            right = abs(sys.getrefcount(kind) - before) < 100
        """,
    ),
    PlantedFault(
        name="values_declared_disconnected",
        module="segment_maximum",
        kind="gradient",
        why="connection_pattern declares that the maxima do not depend on the values, so the gradient is lost.",
        file="segment_maximum.py",
        old="return [[True, False], [False, False], [False, False]]",
        new="return [[False, False], [False, False], [False, False]]",
        witness="""
            x, s = T.dvector(), T.lvector()
            gradient = T.grad(op.SegmentMaximum()(x, s, 2)[0].sum(), x)
            right = theano.function([x, s], gradient)([1.0, 2.0], [0, 0]).tolist() == [0, 1]
        """,
    ),
    PlantedFault(
        name="gradient_of_empty_segments",
        module="segment_maximum",
        kind="gradient",
        why="The position -1 of an empty segment is used as an index: the last value gets the gradient of the segment.",
        file="segment_maximum.py",
        old="T.zeros_like(values)[position[found]], output_grads[0][found]",
        new="T.zeros_like(values)[position], output_grads[0]",
        witness="""
            x, s, n = T.dvector(), T.lvector(), T.lscalar()
            f = theano.function([x, s, n], T.grad(op.SegmentMaximum(0)(x, s, n)[0].sum(), x))
            right = all(f([2.0, 1.0], [0, 0], count).tolist() == [1, 0] for count in (1, 2))
        """,
    ),
    PlantedFault(
        name="shape_of_the_values",
        module="segment_maximum",
        kind="shape",
        why="infer_shape gives the positions the length of the values instead of the number of segments.",
        file="segment_maximum.py",
        old="return [(node.inputs[2],), (node.inputs[2],)]",
        new="return [(node.inputs[2],), shapes[0]]",
        witness="""
            x, s = T.dvector(), T.lvector()
            maximum, position = op.SegmentMaximum()(x, s, 3)
            f = theano.function([x, s], [maximum.shape, position.shape])
            right = all(f(np.ones(n), np.zeros(n, "int64"))[1][0] == 3 for n in (3, 2))
        """,
    ),
    PlantedFault(
        name="shape_of_one_output_missing",
        module="segment_maximum",
        kind="shape",
        why="infer_shape returns the shape of the maxima only, so the Op must be computed for the other shape.",
        file="segment_maximum.py",
        old="return [(node.inputs[2],), (node.inputs[2],)]",
        new="return [(node.inputs[2],)]",
        witness="""
            x, s = T.dvector(), T.lvector()
            f = theano.function([x, s], op.SegmentMaximum()(x, s, 3)[1].shape, on_unused_input="ignore")
            ops = [type(node.op) for node in f.maker.fgraph.toposort()]
            right = f(np.ones(2), np.zeros(2, "int64"))[0] == 3 and op.SegmentMaximum not in ops
        """,
    ),
    PlantedFault(
        name="positions_declared_like_segments",
        module="segment_maximum",
        kind="declaration",
        why="make_node declares positions of the dtype of the segment numbers, but they are computed as int64.",
        file="segment_maximum.py",
        old="T.lvector()])",
        new="segments.type()])",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("int64", "int32"):
                both = BothWays(op.SegmentMaximum(), T.dvector(), T.vector(dtype=dtype), 2)
                both(np.ones(2), np.array([0, 1], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="number_of_segments_lost",
        module="segment_maximum",
        kind="declaration",
        why="make_node replaces a number of segments that is given as a number by a new variable without value.",
        file="segment_maximum.py",
        old='count = np.asarray(count, "int64")',
        new='count = T.lscalar("count")',
        witness="""
            x, s = T.dvector(), T.lvector()
            f = theano.function([x, s], op.SegmentMaximum(0)(x, s, 2))
            right = f([1.0], [1])[0].tolist() == [0, 1]
        """,
    ),
    PlantedFault(
        name="failure_without_message",
        module="segment_maximum",
        kind="declaration",
        why="The C code fails for a negative number of segments without an exception.",
        file="segment_maximum.py",
        old='PyErr_Format(PyExc_ValueError, "SegmentMaximum: %%zd segments", (Py_ssize_t)count);',
        new="/* the number of segments is negative */",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), T.lscalar())
            assert_raises(ValueError, way, np.ones(0), np.zeros(0, "int64"), np.array(-2))
            right = True
        """,
    ),
    PlantedFault(
        name="error_does_not_leave_the_loop",
        module="segment_maximum",
        kind="declaration",
        why="The C code sets an exception for a wrong segment number, but continues and uses the number as an index.",
        file="segment_maximum.py",
        old="(long long)segment, (Py_ssize_t)(count - 1));\n                    %(fail)s",
        new="(long long)segment, (Py_ssize_t)(count - 1));",
        witness="""
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2)
            for bad in (-1, 2**50):
                assert_raises(IndexError, way, np.ones(1), np.array([bad]))
            right = True
        """,
    ),
    PlantedFault(
        name="positions_remembered_by_count",
        module="segment_maximum",
        kind="state",
        why="perform keeps its array of positions for the next call with the same number of segments, without a reset.",
        file="segment_maximum.py",
        old='position = np.full(count, -1, "int64")',
        new='position = vars(self).setdefault("positions", {}).setdefault(count, np.full(count, -1, "int64"))',
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2, impl="py")
            first = [one.copy() for one in way(np.array([5.0]), np.array([0]))]
            second = way(np.array([3.0]), np.array([1]))
            right = first[1].tolist() == [0, -1] and second[1].tolist() == [-1, 0]
        """,
    ),
    PlantedFault(
        name="result_remembered_by_identity",
        module="segment_maximum",
        kind="state",
        why="perform returns the last result if it gets the same array again, although its content may have changed.",
        file="segment_maximum.py",
        old="        output_storage[0][0], output_storage[1][0] = maximum, position\n",
        new=(
            '        memo = vars(self).setdefault("memo", {})\n'
            "        maximum, position = memo.setdefault((id(inputs[0]), id(segments), count), (maximum, position))\n"
            "        output_storage[0][0], output_storage[1][0] = maximum.copy(), position.copy()\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SegmentMaximum(), T.dvector(), T.lvector(), 2, impl="py")
            values, segments = np.array([5.0]), np.array([0])
            way(values, segments)
            values[0] = 7
            right = way(values, segments)[0][0] == 7
        """,
    ),
    # ---------------------------------------------------------------------------------------------- ragged_sum
    PlantedFault(
        name="first_row_taken_as_longest",
        module="ragged_sum",
        kind="bounds",
        why="Only the first row that is not None determines the length: longer rows are added beyond the sums.",
        file="ragged_sum.py",
        old="if (PySequence_Fast_GET_SIZE(row) > longest)",
        new="if (longest == 0)",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1.0, 2.0), None, [3.0]))
            both(((1.0,), (2.0, 3.0)))
            right = True
        """,
    ),
    PlantedFault(
        name="empty_rows_end_the_sum",
        module="ragged_sum",
        kind="length",
        why="An empty row is taken for the end of the rows, so the rows after it are not added.",
        file="ragged_sum.py",
        old="entry = PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(row));",
        new=(
            "entry = PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(row));\n"
            "                    if (PySequence_Fast_GET_SIZE(row) == 0)\n"
            "                        longest = 0;"
        ),
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1.0, 2.0), None))
            both(((), (2.0,)))
            right = True
        """,
    ),
    PlantedFault(
        name="integers_beyond_64_bits",
        module="ragged_sum",
        kind="value",
        why="Integers are converted to a C long first, so integers from 2**63 on raise an OverflowError.",
        file="ragged_sum.py",
        old="value = PyFloat_AsDouble(item);",
        new="value = PyLong_Check(item) ? (double)PyLong_AsLong(item) : PyFloat_AsDouble(item);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1, -(2**63), 2.5),))
            both(((2**63,),))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_allocated_as_double",
        module="ragged_sum",
        kind="dtype",
        why="The sum is always allocated as float64, but filled with numbers of the dtype of the Op.",
        file="ragged_sum.py",
        old="PyArray_SimpleNew(1, &longest, %(typenum)s);",
        new="PyArray_SimpleNew(1, &longest, NPY_DOUBLE);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                BothWays(op.RaggedSum(dtype), Generic()())(((1.0, 2.0),))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_of_perform_not_rounded",
        module="ragged_sum",
        kind="dtype",
        why="perform returns float64, also for dtype='float32'.",
        file="ragged_sum.py",
        old='np.array(total, "float64").astype(self.dtype)',
        new='np.array(total, "float64")',
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float64", "float32"):
                BothWays(op.RaggedSum(dtype), Generic()())(((1.0, 2.0),))
            right = True
        """,
    ),
    PlantedFault(
        name="scratch_not_cleared",
        module="ragged_sum",
        kind="output memory",
        why="malloc does not clear the sums, so they begin with what the memory contained before.",
        file="ragged_sum.py",
        old="calloc(longest + 1, sizeof(double));",
        new="malloc((longest + 1) * sizeof(double));",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RaggedSum(), Generic()())
            right = all((way(((2.0,) * n,))[0] == 2).all() for n in (1, 5, 20, 100) for _ in range(50))
        """,
    ),
    PlantedFault(
        name="reference_to_none_missing",
        module="ragged_sum",
        kind="references",
        why="PyTuple_SET_ITEM takes over a reference to None that the code does not own.",
        file="ragged_sum.py",
        old="                    Py_INCREF(entry);\n",
        new="",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RaggedSum(), Generic()())
            rows, before = (None, (1.0,)), sys.getrefcount(None)
            for _ in range(100):
                way(rows)
            right = abs(sys.getrefcount(None) - before) < 50
        """,
    ),
    PlantedFault(
        name="old_lengths_never_released",
        module="ragged_sum",
        kind="references",
        why="The pointer to the old tuple of lengths is overwritten without a release.",
        file="ragged_sum.py",
        old="            Py_XDECREF(%(lengths)s);\n",
        new="",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way, old = Way(op.RaggedSum(), Generic()()), tuple([1, 2])
            way((None,), old=[None, old])
            way((None,))
            right = sys.getrefcount(old) == 2
        """,
    ),
    PlantedFault(
        name="number_counted_but_not_released",
        module="ragged_sum",
        kind="references",
        why="Each number gets a new reference that is never released, although the tuple keeps it alive anyway.",
        file="ragged_sum.py",
        old="PyObject *item = PySequence_Fast_GET_ITEM(row, i);",
        new="PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(row, i));",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way, number = Way(op.RaggedSum(), Generic()()), float("2.5")
            rows, before = ((number,),), sys.getrefcount(number)
            for _ in range(10):
                way(rows)
            right = sys.getrefcount(number) == before
        """,
    ),
    PlantedFault(
        name="lengths_kept_after_an_error",
        module="ragged_sum",
        kind="references",
        why="The tuple of lengths is not released if a later item is no number.",
        file="ragged_sum.py",
        old="                if (entry == NULL) {\n                    Py_DECREF(counts);\n",
        new="                if (entry == NULL) {\n",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises, growth
            way, rows = Way(op.RaggedSum(), Generic()()), (None,) * 1000 + ("x",)
            way(rows[:1])
            rows = rows[:1000] + (["x"],)
            right = growth(lambda: assert_raises(TypeError, way, rows), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="reference_of_error_taken_from_row",
        module="ragged_sum",
        kind="references",
        why="After an error the code releases the wrong item, a reference that belongs to the row.",
        file="ragged_sum.py",
        old="                            Py_CLEAR(entry);",
        new="                            Py_CLEAR(entry);\n                            Py_DECREF(item);",
        witness="""
            import sys
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises
            way, bad = Way(op.RaggedSum(), Generic()()), object()
            held = [bad] * 100
            rows, before = ((bad,),), sys.getrefcount(bad)
            for _ in range(10):
                assert_raises(TypeError, way, rows)
            right = sys.getrefcount(bad) == before
        """,
    ),
    PlantedFault(
        name="sums_never_freed",
        module="ragged_sum",
        kind="memory",
        why="The sums are not freed after they have been copied to the output.",
        file="ragged_sum.py",
        old="            free(sums);\n            Py_XDECREF(%(lengths)s);",
        new="            Py_XDECREF(%(lengths)s);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, growth
            way, rows = Way(op.RaggedSum(), Generic()()), ((1.0,) * 1000,)
            right = growth(lambda: way(rows), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="sums_kept_after_an_error",
        module="ragged_sum",
        kind="memory",
        why="The sums are not freed if an item is no number.",
        file="ragged_sum.py",
        old=(
            "                    free(sums);\n"
            "                    %(fail)s\n"
            "                }\n"
            "                PyTuple_SET_ITEM(counts, k, entry);"
        ),
        new="                    %(fail)s\n                }\n                PyTuple_SET_ITEM(counts, k, entry);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises, growth
            way, rows = Way(op.RaggedSum(), Generic()()), ((1.0,) * 1000 + ("x",),)
            right = growth(lambda: assert_raises(TypeError, way, rows), 1000) < 1000
        """,
    ),
    PlantedFault(
        name="wrong_items_count_as_zero",
        module="ragged_sum",
        kind="declaration",
        why="An item that is no number is ignored in C, but perform raises an error.",
        file="ragged_sum.py",
        old="Py_CLEAR(entry);",
        new="PyErr_Clear();",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way, assert_raises
            way = Way(op.RaggedSum(), Generic()())
            way(((1.0,),))
            assert_raises(TypeError, way, ((1.0, "x"),))
            right = True
        """,
    ),
    PlantedFault(
        name="lists_read_as_tuples",
        module="ragged_sum",
        kind="process",
        why="The items of lists are read by the macro for tuples, which reads other memory and kills the process.",
        file="ragged_sum.py",
        old="PySequence_Fast_GET_ITEM(row, i);",
        new="PyTuple_GET_ITEM(row, i);",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.RaggedSum(), Generic()())
            both(((1.0, 2.0),))
            both(([1.0, 2.0, 3.0],))
            right = True
        """,
    ),
    PlantedFault(
        name="longest_row_of_all_calls",
        module="ragged_sum",
        kind="state",
        why="The longest length is a static variable, so results are as long as the longest row of any earlier call.",
        file="ragged_sum.py",
        old="npy_intp longest = 0;",
        new="static npy_intp longest = 0;",
        witness="""
            from theano_ng.gof import Generic
            from theano_ng.tests.authors.ways import Way
            way = Way(op.RaggedSum(), Generic()())
            right = [len(way(((1.0,) * n,))[0]) for n in (2, 3, 1)] == [2, 3, 1]
        """,
    ),
    # ------------------------------------------------------------------------------------------ smooth_maximum
    PlantedFault(
        name="scale_written_with_six_digits",
        module="smooth_maximum",
        kind="parameter",
        why="The scale is written into the C code with six digits, so a scale such as 1 / 3 is rounded.",
        file="smooth_maximum.py",
        old="scale=repr(self.scale)",
        new='scale="%g" % self.scale',
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for scale in (0.5, 2, 1 / 3):
                BothWays(op.smooth_maximum(scale), T.dvector(), T.dvector(), ulps=4)(np.array([1.0]), np.array([1.5]))
            right = True
        """,
    ),
    PlantedFault(
        name="nan_without_smoothing",
        module="smooth_maximum",
        kind="parameter",
        why="A NaN in the first input is lost for scale=0, because comparisons with NaN are false.",
        file="smooth_maximum.py",
        old="            if (x != x || y != y)\n",
        new="            if (y != y)\n",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for scale in (1, 0):
                BothWays(op.smooth_maximum(scale), T.dvector(), T.dvector())(np.array([np.nan]), np.array([1.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="ties_with_scale_one",
        module="smooth_maximum",
        kind="value",
        why="The shortcut for equal inputs adds log(2) without the factor `scale`.",
        file="smooth_maximum.py",
        old="larger + scale * NPY_LOGE2;",
        new="larger + NPY_LOGE2;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.smooth_maximum(0.5), T.dvector(), T.dvector(), ulps=4)
            both(np.array([1.0]), np.array([1.5]))
            both(np.array([1.5]), np.array([1.5]))
            right = True
        """,
    ),
    PlantedFault(
        name="logarithm_of_one_plus",
        module="smooth_maximum",
        kind="value",
        why="log(1 + t) is 0 for small t, so results near 0 lose all digits.",
        file="smooth_maximum.py",
        old="scale * log1p(exp((smaller - larger) / scale));",
        new="scale * log(1 + exp((smaller - larger) / scale));",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.smooth_maximum(1), T.dvector(), T.dvector(), ulps=4)
            both(np.array([1.0]), np.array([1.5]))
            both(np.array([0.0]), np.array([-40.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="exponentials_overflow",
        module="smooth_maximum",
        kind="value",
        why="The exponentials of large inputs are infinite, although the result is finite.",
        file="smooth_maximum.py",
        old="larger + scale * log1p(exp((smaller - larger) / scale));",
        new="scale * log(exp(x / scale) + exp(y / scale));",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.smooth_maximum(1), T.dvector(), T.dvector(), ulps=4)
            both(np.array([1.0]), np.array([1.5]))
            both(np.array([1000.0]), np.array([1001.0]))
            right = True
        """,
    ),
    PlantedFault(
        name="functions_of_single_precision",
        module="smooth_maximum",
        kind="dtype",
        why="expf and log1pf compute in single precision, so float64 results have only seven digits.",
        file="smooth_maximum.py",
        old="log1p(exp((smaller",
        new="log1pf(expf((smaller",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for dtype in ("float32", "float64"):
                both = BothWays(op.smooth_maximum(1), T.vector(dtype=dtype), T.vector(dtype=dtype), ulps=4)
                both(np.array([1], dtype), np.array([1.3], dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="mixed_precision_becomes_single",
        module="smooth_maximum",
        kind="dtype",
        why="The result of a float32 and a float64 input is declared as float32.",
        file="smooth_maximum.py",
        old='all(one.dtype == "float32" for one in types)',
        new='any(one.dtype == "float32" for one in types)',
        witness="""
            dtypes = [("float32", "float32"), ("float64", "float64"), ("float32", "float64")]
            results = [op.smooth_maximum(1)(*(T.vector(dtype=one) for one in pair)).dtype for pair in dtypes]
            right = results == ["float32", "float64", "float64"]
        """,
    ),
    PlantedFault(
        name="gradient_without_scale",
        module="smooth_maximum",
        kind="gradient",
        why="The difference in the gradient is not divided by the scale.",
        file="smooth_maximum.py",
        old="scalar.switch(tie, zero, (x - y) / scale)",
        new="scalar.switch(tie, zero, x - y)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for scale in (1, 0.5):
                utt.verify_grad(op.smooth_maximum(scale), [np.array([1.0]), np.array([1.5])])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_equal_infinite_inputs",
        module="smooth_maximum",
        kind="gradient",
        why="Without the case of equal infinite inputs, their difference is NaN, and so is the gradient.",
        file="smooth_maximum.py",
        old="scalar.switch(tie, zero, (x - y) / scale)",
        new="(x - y) / scale",
        witness="""
            x, y = T.dvectors("x", "y")
            f = theano.function([x, y], T.grad(op.smooth_maximum(1)(x, y).sum(), x))
            right = f([2.0], [2.0])[0] == 0.5 and f([np.inf], [np.inf])[0] == 0.5
        """,
    ),
    PlantedFault(
        name="gradient_of_ties_without_smoothing",
        module="smooth_maximum",
        kind="parameter",
        why="For scale=0, the second of two equal inputs gets the whole gradient instead of a half.",
        file="smooth_maximum.py",
        old="scalar.switch(scalar.gt(x, y), one, scalar.switch(scalar.eq(x, y), half, zero))",
        new="scalar.switch(scalar.gt(x, y), one, zero)",
        witness="""
            x, y = T.dvectors("x", "y")
            gradients = [T.grad(op.smooth_maximum(scale)(x, y).sum(), x) for scale in (1, 0)]
            right = [gradient.eval({x: [2.0], y: [2.0]})[0] for gradient in gradients] == [0.5, 0.5]
        """,
    ),
    PlantedFault(
        name="both_inputs_get_one_share",
        module="smooth_maximum",
        kind="gradient",
        why="The second input gets the share of the first one, instead of what remains.",
        file="smooth_maximum.py",
        old="sigmoid(difference), sigmoid(-difference)",
        new="sigmoid(difference), sigmoid(difference)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for y in (1.0, 1.5):
                utt.verify_grad(op.smooth_maximum(1), [np.array([1.0]), np.array([y])])
            right = True
        """,
    ),
    PlantedFault(
        name="scale_missing_in_props",
        module="smooth_maximum",
        kind="declaration",
        why="Ops with different scales are equal, so one of them is computed for both.",
        file="smooth_maximum.py",
        old='__props__ = ("scale",)',
        new="__props__ = ()",
        witness="""
            x, y = T.dvectors("x", "y")
            one, other = theano.function([x, y], [op.smooth_maximum(0)(x, y), op.smooth_maximum(1)(x, y)])([1.0], [1.0])
            right = one[0] == 1 and abs(other[0] - 1 - np.log(2)) < 1e-15
        """,
    ),
    PlantedFault(
        name="version_without_scale",
        module="smooth_maximum",
        kind="declaration",
        why="The C code contains the scale, but the cache version does not depend on it.",
        file="smooth_maximum.py",
        old="return (1, self.scale)",
        new="return (1,)",
        witness="""
            right = len({op.ScalarSmoothMaximum(scale).c_code_cache_version() for scale in (1, 2)}) == 2
        """,
    ),
]

# Arguments: the folder of the copy, the module, the witness.
PROGRAM = """
import importlib, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
folder, module, witness = sys.argv[1:]
sys.path.insert(0, folder)
import numpy as np
import theano_ng as theano
from theano_ng import tensor as T
names = {"op": importlib.import_module("authors." + module), "np": np, "theano": theano, "T": T}
exec(compile(witness, "witness", "exec"), names)
print("right" if names["right"] else "wrong")
"""


def changed_text(fault):
    """Return the text of the changed file of a fault."""
    with open(os.path.join(FOLDER, fault.file), encoding="utf-8") as file:
        text = file.read()
    if text.count(fault.old) != 1:
        raise ValueError("%s: the old text occurs %d times in %s" % (fault.name, text.count(fault.old), fault.file))
    return text.replace(fault.old, fault.new)


def copy_folder(target, fault=None):
    """Copy the Ops of this folder to a new folder, and plant a fault in the copy.

    Parameters
    ----------
    target : str
        The path of the copy, which must not exist.
    fault : PlantedFault, optional
    """
    shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("__pycache__", "test_*", "planted_faults.py"))
    if fault is not None:
        with open(os.path.join(target, fault.file), "w", encoding="utf-8") as file:
            file.write(changed_text(fault))


def outcome(fault, planted, timeout=120):
    """Run the witness of a fault in a process of its own.

    Parameters
    ----------
    fault : PlantedFault
    planted : bool
        Whether to change the module.
    timeout : float
        The time limit in seconds.

    Returns
    -------
    str
        "right", or a description of the effect of the fault.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy_folder(os.path.join(folder, "authors"), fault if planted else None)
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, folder, fault.module, textwrap.dedent(fault.witness)]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")])))
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return "does not end"
    if done.returncode < 0:
        return "killed by signal %d" % -done.returncode
    if done.returncode == 0:
        return (done.stdout.split() or ["no output"])[-1]
    lines = [line for line in done.stderr.splitlines() if line and line[0] not in " \t"]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "BadDestroyMap"))]
    return "raises %s" % (errors or lines or ["an error"])[-1][:100].rstrip(": ")


def main(names):
    """Print a line for each fault, and return the exit status.

    Parameters
    ----------
    names : list of str
        The names of faults. If it is empty, all faults are tried.
    """
    known = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print("unknown faults: %s" % ", ".join(unknown), file=sys.stderr)
        return 2
    bad = 0
    for fault in [known[name] for name in names] or FAULTS:
        before, after = outcome(fault, False), outcome(fault, True)
        proved = before == "right" and after != "right"
        bad += not proved
        verdict = "ok" if proved else "NOT PROVED (unchanged: %s)" % before
        print("%-13s %-16s %-40s %s: %s" % (fault.kind, fault.module, fault.name, verdict, after), flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
