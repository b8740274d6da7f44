"""Functions that test_pickle.py pickles in one process and unpickles in another."""

import json
import os
import pickle
import shutil
import sys

import numpy as np

import theano_ng as theano
from theano_ng import In, Out
from theano_ng import tensor as T
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.rewriting import Optimizer
from theano_ng.misc import pkl_utils


class Times(Op):
    """An Op in Python that multiplies a vector by k."""

    __props__ = ("k",)

    def __init__(self, k):
        self.k = k

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * self.k


class TimesInC(Times):
    """An Op that computes `Times` in C."""

    def c_code(self, node, name, inputs, outputs, sub):
        return """
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_NewCopy(%(x)s, NPY_CORDER);
            if (!%(z)s) %(fail)s;
            for (npy_intp i = 0; i < PyArray_SIZE(%(z)s); i++) ((double *)PyArray_DATA(%(z)s))[i] *= %(k)s;
        """ % dict(x=inputs[0], z=outputs[0], k=self.k, fail=sub["fail"])

    def c_code_cache_version(self):
        return (1,)


class Counts(Optimizer):
    """An optimizer that counts its runs."""

    runs = 0

    def apply(self, fgraph):
        Counts.runs += 1


MODES = {
    "FAST_RUN": lambda: get_mode("FAST_RUN"),
    "FAST_COMPILE": lambda: get_mode("FAST_COMPILE"),
    "c|py": lambda: Mode("c|py_nogc", "fast_run").excluding("fusion"),
    "NanGuardMode": lambda: get_mode("NanGuardMode"),
    "DebugMode": lambda: DebugMode(stability_patience=2),
}


def make(mode):
    """Return a function with updates, a default update, givens, a default value, state, and outputs by name."""
    x, y, z, q = T.dvector("x"), T.dscalar("y"), T.dvector("z"), T.dscalar("q")
    s, r = theano.shared(np.arange(3.0), name="s"), theano.shared(1.0, name="r")
    r.default_update = r + 1
    return theano.function(
        [x, In(y, value=3.0), In(q, value=0.0, name="state", update=y + q)],
        {"a": TimesInC(3)(z) + s * y + r, "b": Out(Times(2)(x), borrow=True)},
        updates=[(s, s + x)],
        givens={z: x * 2},
        mode=mode.register((Counts(), 2.5)),
        on_unused_input="ignore",
        name="named",
    )


def call(f):
    """Return the results of a call, and the state after it."""
    results = f(np.ones(3))
    return [results["a"].tolist(), results["b"].tolist(), float(f["state"])]


def main():
    command, folder = sys.argv[1:3]
    report = {}
    for i, (name, mode) in enumerate(MODES.items()):
        paths = [os.path.join(folder, "%d.%s" % (i, kind)) for kind in ("plain", "zip", "strip")]
        if command == "dump":
            f = make(mode())
            call(f)
            with open(paths[0], "wb") as file:
                pickle.dump(f, file, protocol=i % 6)
            with open(paths[1], "wb") as file:
                pkl_utils.dump(f, file)
            with open(paths[2], "wb") as file:
                pkl_utils.StripPickler(file).dump(f)
            report[name] = call(f)
        else:
            for path, load in zip(
                paths, (pickle.load, pkl_utils.load, lambda file: pkl_utils.CompatUnpickler(file).load())
            ):
                runs = Counts.runs
                with open(path, "rb") as file:
                    f = load(file)
                report["%s %s" % (name, path[-5:])] = [call(f), Counts.runs - runs, f.name]
    if command == "dump":
        shutil.rmtree(theano.config.compiledir, ignore_errors=True)  # the next process finds no cached files
    print(json.dumps(report))
