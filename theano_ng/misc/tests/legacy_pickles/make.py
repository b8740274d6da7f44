"""Write pickles.tar.xz: objects of Theano 1.0.5, pickled by all protocols of that time, and their results.

Run this script with an interpreter that has Theano; see README. `build` builds the objects; the tests also run it on
this package.
"""

import io
import pickle
import pickletools
import struct
import sys
import tarfile


def build(theano):
    """Return the objects by name.

    Graphs are dictionaries of inputs and outputs. Functions are paired with lists of arguments.

    Parameters
    ----------
    theano : module

    Returns
    -------
    dict
    """
    from importlib import import_module

    import numpy as np

    T = theano.tensor
    nnet, scalar = T.nnet, theano.scalar
    here = {
        name: import_module(theano.__name__ + "." + name)
        for name in ("ifelse", "typed_list", "tensor.slinalg", "tensor.fft")
    }
    slinalg = here["tensor.slinalg"]

    x, y, m, s = T.dvector("x"), T.dvector("y"), T.dmatrix("m"), T.dscalar("s")
    v, i, z = T.ivector("v"), T.iscalar("i"), T.zvector("z")
    w = theano.shared(np.arange(6.0).reshape(3, 2) / 7, "w")
    b = theano.shared(np.ones(2) / 3, "b")
    found = {}

    found["variables"] = [x, T.fmatrix(), T.row("r"), scalar.float32("a"), theano.gof.generic("g")]
    found["constants"] = [
        T.constant(np.arange(3.0)),
        T.constant(3),
        T.constant(np.ones((1, 2), "float32"), name="c"),
        T.constant(np.array([True, False])),
        T.constant(np.array([1 + 2j])),
        T.constant(np.zeros((0, 2), "int8")),
        T.NoneConst,
        scalar.constant(2),
    ]
    found["types"] = [
        T.fmatrix,
        T.TensorType("int8", (True, False)),
        theano.gof.generic,
        scalar.float32,
        scalar.complex128,
        here["typed_list"].TypedListType(T.dvector),
    ]
    found["shared"] = [
        w,
        theano.shared(np.ones((2, 2), "float32"), "f"),
        theano.shared(3.0, "number"),
        theano.shared(np.int8(3), "small"),
        theano.shared({"a": 1}, "anything"),
    ]
    found["scalars"] = scalar.add(scalar.float32("a"), scalar.constant(2.5))
    unary = "exp log log1p expm1 sqrt sqr sin cos tan tanh sinh cosh arcsin arctan floor ceil sgn inv neg abs_ erf erfc gamma gammaln psi"
    found["elementwise"] = dict(
        inputs=[x, y, i],
        outputs=[getattr(T, name)(x) for name in unary.split()]
        + [getattr(T, name)(x) for name in ("isnan", "isinf", "trunc", "deg2rad", "exp2", "log2", "log10")]
        + [getattr(nnet, name)(x) for name in ("sigmoid", "softplus", "relu", "hard_sigmoid", "elu", "softsign")]
        + [
            op(x, y)
            for op in (T.add, T.sub, T.mul, T.true_div, T.maximum, T.minimum, T.pow, T.arctan2, T.mod, T.int_div)
        ]
        + [op(x, y) for op in (T.lt, T.gt, T.le, T.ge, T.eq, T.neq)]
        + [T.switch(x > y, x, y), T.clip(x, 0.1, 0.4), T.cast(x, "float32"), T.cast(x * 9, "int8"), T.fill(x, 2)]
        + [T.and_(i, 1), T.or_(i, 2), T.xor(i, 1), T.invert(i), i // 2, i % 2],
    )
    found["complex"] = dict(
        inputs=[z, x, y], outputs=[T.real(z), T.imag(z), T.conj(z), T.angle(z), T.complex(x, y), abs(z)]
    )
    found["indexing"] = dict(
        inputs=[x, m, v, i],
        outputs=[
            x[i:],
            x[::-1],
            x[0],
            x[-1:],
            m[:, 0],
            m[[0, 1]],
            m[i, :2],
            m[v, 0],
            x[v],
            m[:, None, :],
            m[v, v],
            x[(x > 0.3).nonzero()],
        ]
        + [
            T.inc_subtensor(x[1:], 2.0),
            T.set_subtensor(x[v], 0.0),
            T.inc_subtensor(m[i], x),
            T.set_subtensor(m[v, v], 1.0),
        ]
        + [T.nonzero(m)[0], T.choose(v, [v, v + 1]), T.grad(x[v].sum(), x), T.grad((m[i, 1:] ** 2).sum(), m)],
    )
    found["shapes"] = dict(
        inputs=[x, m, s, i],
        outputs=[
            m.shape,
            m.reshape((1, -1)),
            m.T,
            m.dimshuffle(1, "x", 0),
            m.flatten(),
            T.join(0, m, m),
            T.stack([x, x]),
        ]
        + [
            T.shape_padleft(m),
            T.alloc(s, 3, i),
            T.zeros_like(m),
            T.tile(m, (1, 2)),
            T.repeat(m, 2, 0),
            T.split(x, [1, 2], 2)[1],
        ]
        + [
            T.eye(3),
            T.arange(i),
            T.diag(m),
            T.diag(x),
            T.specify_shape(m, (3, 3)),
            T.as_tensor_variable([s, s]),
            T.roll(x, 1),
        ]
        + [T.tri(3), T.triu(m), T.addbroadcast(x[:1], 0), T.concatenate([m, m], 1), m.diagonal(), T.swapaxes(m, 0, 1)],
    )
    found["reductions"] = dict(
        inputs=[m],
        outputs=[
            m.sum(),
            m.sum(0),
            m.mean(1),
            m.prod(0),
            T.max(m),
            T.max(m, 0),
            T.argmax(m, 1),
            T.min(m),
            m.var(),
            m.std(0),
        ]
        + [
            T.all(m),
            T.any(m, 0),
            T.cumsum(m, 0),
            T.cumprod(m),
            T.max_and_argmax(m, 1)[1],
            T.prod(m, no_zeros_in_input=True),
        ]
        + [
            m.norm(2),
            T.ptp(m),
            T.sum(m, axis=1, keepdims=True),
            T.sum(m, dtype="float32"),
            T.elemwise.CAReduce(scalar.maximum, 0)(m),
        ],
    )
    found["linear algebra"] = dict(
        inputs=[m, x, v],
        outputs=[T.dot(m, m), T.dot(x, m), T.dot(x, x), T.outer(x, x), T.tensordot(m, m, 1), T.batched_dot(m, m)]
        + [T.nlinalg.matrix_inverse(m), T.nlinalg.det(m), T.nlinalg.trace(m), T.nlinalg.pinv(m), T.nlinalg.eigh(m)[0]]
        + [slinalg.cholesky(m), slinalg.solve(m, x), slinalg.expm(m), T.nlinalg.svd(m)[1], T.nlinalg.qr(m)[1]]
        + [T.sort(m, 0), T.argsort(m), T.extra_ops.bincount(v), T.extra_ops.diff(x), T.extra_ops.fill_diagonal(m, 1.0)]
        + [T.extra_ops.Unique(True, True)(v)[0], T.extra_ops.to_one_hot(v, 3), here["tensor.fft"].rfft(m)],
    )
    p = nnet.softmax(T.dot(m, w) + b)
    cost = -T.log(p)[T.arange(v.shape[0]), v].mean() + 0.01 * (w**2).sum()
    loss = nnet.categorical_crossentropy(p, v).mean()
    found["networks"] = dict(
        inputs=[m, v, x],
        outputs=[cost, loss, nnet.logsoftmax(m), nnet.crossentropy_softmax_1hot(m, v)[0], nnet.softmax_with_bias(m, x)]
        + [
            nnet.confusion_matrix(v, v)[0],
            nnet.binary_crossentropy(nnet.sigmoid(m), m * 0.2),
            nnet.prepend_1_to_each_row(m),
        ]
        + T.grad(cost, [w, b])
        + T.grad(loss, [w, b]),
    )
    found["other"] = dict(
        inputs=[s, x],
        outputs=[
            here["ifelse"].ifelse(T.gt(s, 0), s, -s),
            T.opt.Assert("msg")(s, T.gt(s, 0)),
            theano.OpFromGraph([s], [s * 2])(s),
        ]
        + [theano.gradient.disconnected_grad(x), theano.gradient.grad_clip(x, -1, 1), theano.gradient.grad_scale(x, 2)]
        + [
            here["typed_list"].length(here["typed_list"].make_list([x, x])),
            T.grad(theano.OpFromGraph([x], [(x**3).sum()])(x), x),
        ],
    )
    found["ops"] = [
        T.add,
        T.exp,
        T.Sum(0),
        T.Sum(dtype="float32"),
        T.DimShuffle((False, False), (1, 0)),
        T.Dot(),
        T.extra_ops.RepeatOp(0),
        T.extra_ops.CumOp(1, "mul"),
        T.blas.gemm_inplace,
        T.blas.Dot22(),
        T.blas.gemv_inplace,
        T.blas.ger,
        T.subtensor.Subtensor([slice(None)]),
        T.Join(),
        T.Reshape(2),
        T.Rebroadcast((0, True)),
        T.Eye("float32"),
        T.nlinalg.SVD(True, False),
        slinalg.Cholesky(lower=False),
        import_module(theano.__name__ + ".tensor.sort").SortOp("mergesort", None),
        nnet.Softmax(),
        here["ifelse"].IfElse(2),
        T.opt.Assert("said"),
    ]
    found["mode"] = theano.compile.mode.get_mode("FAST_RUN")
    found["updates"] = theano.OrderedUpdates([(w, w + 1), (b, b * 2)])
    found["graph"] = theano.gof.FunctionGraph([x, y], [T.exp(x) + y, x * 2])

    total = theano.shared(np.zeros(3), "total")
    add = theano.function([x], total.sum(), updates=[(total, total + x)], name="add")
    read = theano.function([], total * 2, name="read")
    start = theano.function(
        [theano.In(s, value=2.0, name="k"), theano.In(x, value=np.ones(3), mutable=True, update=x * s)],
        x + s,
        name="start",
    )
    found["functions"] = [
        (theano.function([x, i], [(T.exp(x) * 2 + 1).sum(), x[::-1], x[i]], name="several"), [(np.arange(3.0), 1)] * 2),
        (add, [(np.ones(3),), (np.arange(3.0),)]),
        (read, [()]),
        (start, [(), (3.0,), ()]),
        (
            theano.function([m], {"a": T.dot(m, m), "b": m.sum(0)}, name="names", mode="FAST_COMPILE"),
            [(np.eye(3) * 2,)],
        ),
        (
            theano.function([m, v], [cost, T.grad(cost, w)], updates=[(b, b - 0.5 * T.grad(cost, b))], name="train"),
            [(np.eye(3) * 2, [0, 1, 0])] * 2,
        ),
        (
            theano.function([m], T.tanh(T.dot(m, m)) * 2, name="python", mode=theano.Mode("py", "fast_run")),
            [(np.eye(3) * 2,)],
        ),
        (
            theano.function([x], [], updates=[(total, total * 0)], name="nothing", on_unused_input="ignore"),
            [(np.ones(3),)],
        ),
    ]
    return found


def values():
    """Return a value for each input of the graphs, by name."""
    import numpy as np

    return {
        "x": np.array([0.3, 0.1, 0.7]),
        "y": np.array([0.3, 0.9, 0.2]),
        "m": np.array([[2.0, 0.5, 0.25], [0.5, 3.0, 0.75], [0.25, 0.75, 4.0]]),
        "s": np.array(0.5),
        "v": np.array([0, 1, 1], "int32"),
        "i": np.array(1, "int32"),
        "z": np.array([0.5 + 0.25j, -1 + 1j, 2j]),
    }


def results(theano, found):
    """Return the results of the graphs and functions, as a dict from name to list of arrays."""
    given = values()
    computed = {}
    for name, graph in found.items():
        if isinstance(graph, dict) and "inputs" in graph:
            mode = theano.Mode("py", "fast_compile")
            f = theano.function(graph["inputs"], graph["outputs"], on_unused_input="ignore", mode=mode)
            computed[name] = f(*[given[v.name] for v in graph["inputs"]])
    computed["functions"] = []
    for f, calls in found["functions"]:
        for arguments in calls:
            output = f(*arguments)
            if isinstance(output, dict):
                output = [output[key] for key in sorted(output)]
            computed["functions"] += output if isinstance(output, list) else [output]
    return computed


# ------------------------------------------------------------ strings of Python 2


def as_python2(data):
    """Convert a pickle of protocol 2 from Python 3 to the pickle of Python 2, with byte strings instead of text.

    Python 3 writes bytes as calls of ``_codecs.encode`` on text in latin1, and empty bytes as a call of ``bytes``. Both
    calls are replaced by byte strings, too.
    """
    tokens, ends = [], []
    for op, argument, position in pickletools.genops(data):
        tokens.append((op.name, argument, position))
        ends.append(position)
    ends = ends[1:] + [len(data)]
    texts, left_out, encoders, empties = {}, {}, set(), set()  # keys of dicts, elements of sets: indices in the memo
    out, k = [], 0

    def skip_put(k):
        return (k + 1, tokens[k][1]) if tokens[k][0] in ("BINPUT", "LONG_BINPUT") else (k, None)

    while k < len(tokens):
        name, argument, position = tokens[k]
        after, number = skip_put(k + 1) if k + 1 < len(tokens) else (k + 1, None)
        is_encoder = (
            name == "GLOBAL"
            and argument == "_codecs encode"
            or name in ("BINGET", "LONG_BINGET")
            and argument in encoders
        )
        is_empty = (
            name == "GLOBAL"
            and argument == "__builtin__ bytes"
            or name in ("BINGET", "LONG_BINGET")
            and argument in empties
        )
        if is_encoder:
            encoders.add(number if name == "GLOBAL" else argument)
            assert tokens[after][0] == "BINUNICODE" or tokens[after][0] in ("BINGET", "LONG_BINGET")
            text = tokens[after][1] if tokens[after][0] == "BINUNICODE" else texts[tokens[after][1]]
            after, number = skip_put(after + 1)
            texts[number] = left_out[number] = text
            after, _ = skip_put(after + 1)  # the argument latin1
            assert tokens[after][0] == "TUPLE2"
            after, _ = skip_put(after + 1)
            assert tokens[after][0] == "REDUCE"
            out.append(_string(text.encode("latin1")))
            k = after + 1
        elif is_empty:
            empties.add(number if name == "GLOBAL" else argument)
            assert (tokens[after][0], tokens[after + 1][0]) == ("EMPTY_TUPLE", "REDUCE")
            out.append(_string(b""))
            k = after + 2
        else:
            if name == "BINUNICODE":
                texts[number] = argument
                out.append(_string(argument.encode("ascii")))
            elif name in ("BINGET", "LONG_BINGET") and argument in left_out:
                # This entry of the memo is the text of a converted bytes object. It occurs again as a string, because
                # CPython has only one object for each string of one letter.
                out.append(_string(left_out[argument].encode("ascii")))
            else:
                assert not (name in ("BINGET", "LONG_BINGET") and argument in encoders | empties)
                out.append(data[position : ends[k]])
            k += 1
    return b"".join(out)


def _string(text):
    """Return the opcode of a string of Python 2."""
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text


def main(path):
    import numpy as np
    import theano

    found = build(theano)
    with tarfile.open(path, "w:xz") as archive:

        def write(name, data):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

        for name, value in found.items():
            for protocol in (0, 1, 2):
                write("%s.%d" % (name, protocol), pickle.dumps(value, protocol))
        for name, arrays in results(theano, found).items():
            text = io.BytesIO()
            np.savez(text, *arrays)
            write("%s.npz" % name, text.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
