"""The script of `original` that runs in the interpreter of Theano 1.0.5. It uses Python 3.8 and imports nothing from
this package.

Each line of standard input is a JSON object with the source code of a program. The answer is a line with a pickle in
base64. The pickle contains the results, or the text of an exception.
"""

import base64
import json
import pickle
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")


def names():
    import theano
    import theano.sandbox.rng_mrg
    import theano.sparse
    import theano.tensor.nlinalg
    import theano.tensor.nnet
    import theano.tensor.shared_randomstreams
    import theano.tensor.signal.pool
    import theano.tensor.slinalg
    from theano.ifelse import ifelse

    def weights(shape, dtype="float64"):
        return np.cos(np.arange(1, 1 + int(np.prod(shape)))).reshape(shape).astype(dtype)

    return dict(theano=theano, T=theano.tensor, np=np, ifelse=ifelse, nan=np.nan, inf=np.inf, weights=weights)


def array(given):
    values, dtype, shape = given
    return np.array([complex(*v) if isinstance(v, list) else v for v in values], dtype).reshape(shape)


def answer(asked, known):
    scope = dict(known)
    exec("\n".join(asked["lines"]), scope)
    theano = known["theano"]
    derived = [d for d in scope["derived"] if d is not None] if asked["derived"] else []
    function = theano.function(
        [scope[name] for name, _ in asked["arguments"]],
        [scope[name] for name in asked["outputs"]] + derived,
        updates=[(scope[shared], scope[new]) for shared, new in asked["updates"]],
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )
    found = []
    for _ in range(asked["calls"]):
        found.append([np.array(r) for r in function(*[array(value) for _, value in asked["arguments"]])])
    found.append([np.array(scope[shared].get_value()) for shared, _ in asked["updates"]])
    return found, len(derived)


def main():
    known = names()
    output, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            result = answer(json.loads(line), known)
        except Exception as error:
            result = "%s: %s" % (type(error).__name__, str(error).strip()[:300])
        output.write(base64.b64encode(pickle.dumps(result, 2)).decode() + "\n")
        output.flush()


if __name__ == "__main__":
    main()
