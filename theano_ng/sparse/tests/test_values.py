"""Tests of sparse types, their values, constants, shared variables, and functions of sparse values."""

import pickle
import unittest

import numpy as np
import scipy.sparse as sp

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import sparse
from theano_ng.compile.nanguardmode import NanGuardMode
from theano_ng.gof.graph import Constant
from theano_ng.ifelse import ifelse
from theano_ng.sparse.values import check_pattern

A = sp.csr_matrix(np.array([[1.0, 0, 2], [0, 0, 3]]))


class TestType(unittest.TestCase):
    def test_equality_and_text(self):
        one, other = sparse.SparseType("csr", "float64"), sparse.SparseType(dtype="float64", format="csr")
        self.assertEqual(one, other)
        self.assertEqual(hash(one), hash(other))
        self.assertEqual(str(one), "Sparse[float64, csr]")
        for different in (sparse.SparseType("csc", "float64"), sparse.SparseType("csr", "float32"), T.dmatrix):
            self.assertNotEqual(one, different)
        self.assertEqual(pickle.loads(pickle.dumps(one)), one)
        self.assertEqual(one.ndim, 2)
        self.assertEqual(one.clone(dtype="int8"), sparse.SparseType("csr", "int8"))

    def test_what_there_is_not(self):
        for format, dtype in (("coo", "float64"), ("csr", "float16"), ("csr", "bool"), (None, "float64")):
            with self.assertRaises(NotImplementedError):
                sparse.SparseType(format, dtype)

    def test_dtypes(self):
        expected = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
        self.assertEqual(set(sparse.all_dtypes), set(expected))
        self.assertEqual(
            sorted([*sparse.float_dtypes, *sparse.complex_dtypes, *sparse.integer_dtypes]), sorted(expected)
        )

    def test_filter(self):
        type_ = sparse.csr_dmatrix
        self.assertIs(type_.filter(A), A)
        self.assertIs(type_.filter(A, strict=True), A)
        for value in (A.tocsc(), A.tocoo(), A.tolil(), A.tobsr(), A.toarray(), A.toarray().tolist()):
            result = type_.filter(value)
            self.assertIsInstance(result, sp.csr_matrix)
            np.testing.assert_array_equal(result.toarray(), A.toarray())
        for value in (A.tocsc(), A.toarray(), A.astype("float32")):
            with self.assertRaises(TypeError):
                type_.filter(value, strict=True)
        for value in (A.astype("float32"), A.astype("int64"), A.astype(bool)):
            with self.assertRaisesRegex(NotImplementedError, "Expected float64 dtype but got"):
                type_.filter(value)
            self.assertEqual(type_.filter(value, allow_downcast=True).dtype, np.float64)
        for value in ("abc", sparse.csr_matrix("x"), np.ones((2, 2, 2))):
            with self.assertRaises((TypeError, ValueError)):
                type_.filter(value)

    def test_sparse_arrays(self):
        """SciPy's sparse arrays are converted to sparse matrices, which share memory with the arrays."""
        for array in (sp.csr_array(A), sp.csc_array(A)):
            x = sparse.matrix(array.format, dtype="float64")
            result = x.type.filter(array)
            self.assertIsInstance(result, sp.spmatrix)
            self.assertTrue(np.shares_memory(result.data, array.data))
            found = theano.function([x], [x * x, sparse.structured_dot(x, x.T), x.T])(array)
            self.assertEqual([type(v) for v in found[:2]], [type(result)] * 2)
            np.testing.assert_array_equal(found[0].toarray(), A.toarray() ** 2)
            np.testing.assert_array_equal(found[1].toarray(), (A @ A.T).toarray())
        np.testing.assert_array_equal(sparse.constant(sp.csr_array(A)).data.toarray(), A.toarray())
        self.assertEqual(theano.shared(sp.csc_array(A)).type, sparse.csc_dmatrix)

    def test_values_eq(self):
        type_ = sparse.csr_dmatrix
        unsorted = A.copy()
        unsorted.indices[:2] = unsorted.indices[:2][::-1]
        unsorted.data[:2] = unsorted.data[:2][::-1]
        twice = sp.csr_matrix((np.array([0.5, 2, 0.5, 3]), np.array([0, 2, 0, 2]), np.array([0, 3, 4])), shape=(2, 3))
        for equal in (
            A.copy(),
            unsorted,
            twice,
            sp.csr_matrix((np.r_[A.data, 0], np.r_[A.indices, 0], np.array([0, 2, 4])), shape=(2, 3)),
        ):
            self.assertTrue(type_.values_eq(A, equal))
            self.assertTrue(type_.values_eq_approx(A, equal))
        nan = A * np.nan
        self.assertTrue(type_.values_eq(nan, nan.copy()))
        self.assertTrue(type_.values_eq_approx(nan, nan.copy()))
        self.assertTrue(type_.values_eq_approx(A, A * (1 + 1e-12)))
        self.assertFalse(type_.values_eq(A, A * (1 + 1e-12)))
        for different in (
            A * 2,
            A.T.tocsr(),
            A.tocsc(),
            A.astype("float32"),
            nan,
            A.toarray(),
            sp.csr_matrix((2, 3)),
            None,
        ):
            self.assertFalse(type_.values_eq(A, different))
            self.assertFalse(type_.values_eq_approx(A, different))

    def test_sharing_and_size(self):
        shares = sparse.csr_dmatrix.may_share_memory
        self.assertTrue(shares(A, A) and shares(A, A.T) and shares(A, A.data) and shares(A.indices, A))
        self.assertTrue(shares(A, sp.csr_matrix((A.data.copy(), A.indices, A.indptr.copy()), shape=(2, 3))))
        self.assertFalse(shares(A, A.copy()) or shares(A, A.data.copy()) or shares(A, None))
        self.assertEqual(sparse.csr_dmatrix.get_size(sparse.csr_dmatrix.get_shape_info(A)), 48)

    def test_is_valid_value(self):
        self.assertTrue(sparse.csr_dmatrix.is_valid_value(A))
        for value in (A.tocsc(), A.toarray(), A.astype("float32"), None):
            self.assertFalse(sparse.csr_dmatrix.is_valid_value(value))

    def test_in_classic_c_code(self):
        """The linker `c|py` compiles a graph with a sparse product."""
        x, y = sparse.csr_dmatrix(), T.dmatrix()
        f = theano.function([x, y], sparse.structured_dot(x, y), mode=theano.Mode("c|py", "fast_run"))
        np.testing.assert_allclose(f(A, np.ones((3, 2))), A @ np.ones((3, 2)))


class TestPatterns(unittest.TestCase):
    """Matrices with indices out of bounds are refused before their elements are read."""

    def broken(self):
        for part, index, value in (
            ("indices", 0, 3),
            ("indices", 1, -1),
            ("indptr", 0, 1),
            ("indptr", 1, 9),
            ("indptr", 2, 4),
            ("indptr", 1, -2),
        ):
            matrix = A.copy()
            getattr(matrix, part)[index] = value
            yield "%s[%d] = %d" % (part, index, value), matrix
        short = A.copy()
        short.indptr = short.indptr[:2]
        yield "short indptr", short
        empty = A.copy()
        empty.data = empty.data[:1]
        yield "short data", empty
        floats = A.copy()
        floats.indices = floats.indices.astype(float)
        yield "indices that are no integers", floats

    def test_values(self):
        x = sparse.csr_dmatrix()
        f = theano.function([x], sparse.sp_sum(x))
        for what, matrix in self.broken():
            with self.subTest(what):
                with self.assertRaises(ValueError):
                    check_pattern(matrix)
                with self.assertRaises((ValueError, TypeError)):
                    f(matrix)
                self.assertFalse(x.type.is_valid_value(matrix))

    def test_parts(self):
        """Ops with the inputs data, indices and indptr check these arrays, because no sparse type has checked them."""
        data, indices, indptr, d, v = T.dvector(), T.ivector(), T.ivector(), T.dmatrix(), T.dvector()
        m = sparse.CSR(data, indices, indptr, [2, 3])
        results = {
            "matrix": m,
            "csr_by_dense": sparse.opt.sd_csr(data, indices, indptr, d),
            "csc_by_dense": sparse.opt.sd_csc(data, indices, indptr, 3, d.T[:2]),
            "usmm": sparse.opt.usmm_csc_dense(T.constant([[2.0]]), data, indices, indptr, 3, d.T[:2], d),
            "dot_grad": sparse.sdg_csr(indices, indptr, d, d[:2]),
            "mul_s_d": sparse.opt.mul_s_d_csr(data, indices, indptr, d.T[:2]),
            "mul_s_v": sparse.opt.mul_s_v_csr(data, indices, indptr, v),
            "add_s_v": sparse.opt.structured_add_s_v_csr(data, indices, indptr, v),
            "add_s_d": sparse.opt.AddSD_ccode("csr")(data, indices, indptr, d.T[:2]),
            "sampling_dot": sparse.opt.sampling_dot_csr(d[:2], d, data, indices, indptr, 3)[0],
            "csm_grad": sparse.opt.csm_grad_c(data, indices, indptr, [2, 3], data, [0, 2, 2], [0, 2, 3], [2, 3]),
            "csm_grad other": sparse.opt.csm_grad_c(A.data, A.indices, A.indptr, [2, 3], data, indices, indptr, [2, 3]),
        }
        for name, result in results.items():
            for mode in (theano.Mode("cvm", None), theano.Mode("py", None)):
                f = theano.function([data, indices, indptr, d, v], result, mode=mode, on_unused_input="ignore")
                args = np.ones((3, 3)), np.ones(3)
                good = A.data, A.indices.astype("int32"), A.indptr.astype("int32")
                f(*good, *args)
                for what, matrix in self.broken():
                    if matrix.indices.dtype.kind == "f" or what == "short indptr":
                        continue
                    with self.subTest(name, what=what, mode=str(mode)), self.assertRaises((ValueError, IndexError)):
                        if what == "short data" and name == "dot_grad":
                            raise ValueError("it has no data")
                        f(matrix.data, matrix.indices.astype("int32"), matrix.indptr.astype("int32"), *args)
                with self.subTest(name), self.assertRaises(ValueError):
                    f(*good[:2], np.zeros(0, "int32"), *args)

    def test_int64(self):
        """Indices that SciPy stores as int64 are accepted."""
        wide = A.copy()
        wide.indices, wide.indptr = wide.indices.astype("int64"), wide.indptr.astype("int64")
        x = sparse.csr_dmatrix()
        g = theano.function([x], [sparse.structured_dot(x, x.T.toarray()), sparse.sin(x), sparse.csm_indices(x)])
        found = g(wide)
        np.testing.assert_allclose(found[0], (A @ A.T).toarray())
        np.testing.assert_allclose(found[1].toarray(), np.sin(A.toarray()))
        self.assertEqual(found[2].dtype, np.int32)
        too_wide = sp.csr_matrix(
            (np.ones(1), np.array([2**33], dtype="int64"), np.array([0, 1], dtype="int64")), shape=(1, 2**34)
        )
        with self.assertRaisesRegex(ValueError, "too large for int32"):
            theano.function([x], sparse.csm_indices(x))(too_wide)
        self.assertEqual(theano.function([x], sparse.sp_sum(x))(too_wide), 1)


class TestVariables(unittest.TestCase):
    def test_constructors(self):
        for make, format in ((sparse.csr_matrix, "csr"), (sparse.csc_matrix, "csc"), (sparse.bsr_matrix, "bsr")):
            x = make("x", "float32")
            self.assertEqual((x.name, x.format, x.dtype, x.ndim), ("x", format, "float32", 2))
            self.assertEqual(make().dtype, theano.config.floatX)
            self.assertEqual(str(x), "SparseVariable{%s,float32}" % format)
        for name in ("csr_fmatrix", "csr_dmatrix", "csc_fmatrix", "csc_dmatrix", "bsr_fmatrix", "bsr_dmatrix"):
            x = getattr(sparse, name)("q")
            self.assertEqual((x.format, x.name, x.dtype), (name[:3], "q", {"f": "float32", "d": "float64"}[name[4]]))

    def test_as_sparse(self):
        x = sparse.csr_dmatrix("x")
        self.assertIs(sparse.as_sparse(x), x)
        transposed = x.T
        self.assertIs(sparse.as_sparse_variable(transposed.owner), transposed)
        constant = sparse.as_sparse(A, "name")
        self.assertIsInstance(constant, Constant)
        self.assertEqual((constant.name, constant.type), ("name", sparse.csr_dmatrix))
        self.assertEqual(str(constant), "SparseConstant{csr,float64,shape=(2, 3),nnz=3}")
        with self.assertRaisesRegex(TypeError, "must be a SparseType"):
            sparse.as_sparse(T.dmatrix())
        with self.assertRaisesRegex(TypeError, "Cannot convert"):
            sparse.as_sparse(np.ones((2, 2)))
        with self.assertRaisesRegex(ValueError, "ambiguous"):
            sparse.as_sparse(sparse.csm_properties(x)[0].owner)
        with self.assertRaises(NotImplementedError):
            sparse.as_sparse(A.tocoo())
        d = T.dmatrix()
        self.assertIs(sparse.as_sparse_or_tensor_variable(d), d)
        self.assertEqual(sparse.as_sparse_or_tensor_variable(np.ones(2)).type, T.dvector)
        with self.assertRaises(TypeError):
            sparse.as_sparse_or_tensor_variable("abc")
        self.assertTrue(sparse.basic._is_sparse_variable(x) and sparse.basic._is_dense_variable(d))
        self.assertTrue(sparse.basic._is_sparse(A) and sparse.basic._is_dense(A.toarray()))
        for function in (
            sparse.basic._is_sparse_variable,
            sparse.basic._is_dense_variable,
            sparse.basic._is_sparse,
            sparse.basic._is_dense,
        ):
            with self.assertRaises(NotImplementedError):
                function(3)

    def test_constants_are_merged(self):
        first, second = sparse.constant(A), sparse.constant(A.copy())
        self.assertEqual(first.signature(), second.signature())
        self.assertEqual(hash(first.signature()), hash(second.signature()))
        self.assertEqual(first.signature().theano_hash(), sparse.hash_from_sparse(A))
        self.assertNotEqual(first.signature(), sparse.constant(A * 2).signature())
        f = theano.function([], (first * 2) + (second * 2))
        np.testing.assert_array_equal(f().toarray(), A.toarray() * 4)
        A_copy = A.copy()
        constant = sparse.constant(A_copy)
        A_copy.data[:] = 7
        np.testing.assert_array_equal(constant.data.toarray(), A.toarray())

    def test_operators_with_what_is_no_matrix(self):
        x, v, s = sparse.csr_dmatrix(), T.dvector(), T.dscalar()
        for wrong in (
            lambda: x + v,
            lambda: x + 1,
            lambda: x * v,
            lambda: x < 1,
            lambda: x + T.dtensor3(),
            lambda: 1 - x,
            lambda: v * x,
        ):
            with self.assertRaises(TypeError):
                wrong()
        self.assertEqual((x * s).type, x.type)
        self.assertEqual((2 * x).type, x.type)
        self.assertEqual((sparse.csr_fmatrix() * 2.0).dtype, "float32")
        for wrong in (sparse.add, sparse.mul, sparse.dot, sparse.true_dot, sparse.structured_dot, sparse.eq):
            with self.assertRaises(TypeError):
                wrong(T.dmatrix(), T.dmatrix())

    def test_indexing(self):
        x = sparse.csr_dmatrix()
        i, places = T.lscalar(), T.lvector()
        f = theano.function([x, i, places], [x[i, -1], x[i:, ::-1], x[places], x[places, places], x[[1, 0]], x[1:]])
        found = f(A, 1, [1, 0])
        dense = A.toarray()
        expected = [dense[1, -1], dense[1:, ::-1], dense[[1, 0]], dense[[1, 0], [1, 0]], dense[[1, 0]], dense[1:]]
        for value, wanted in zip(found, expected):
            np.testing.assert_array_equal(value.toarray() if sp.issparse(value) else value, wanted)
        for index in (0, (0, slice(1)), (slice(1), 0)):
            with self.assertRaisesRegex(NotImplementedError, "no sparse vector"):
                x[index]
        for index in (None, Ellipsis, 0.5, T.dvector(), (slice(T.fscalar(), None),), (slice(None, None, 0),)):
            with self.assertRaises(ValueError):
                x[index]
        for index in ((), (0, 1, 2)):
            with self.assertRaises(IndexError):
                x[index]
        for wrong in (x[2, 0], x[0, -4], x[[2]], x[[0, 0], [0, 3]]):
            with self.assertRaisesRegex(IndexError, "out of range"):
                wrong.eval({x: A})

    def test_bsr(self):
        """Few operations support format bsr; the others raise an error."""
        x, d = sparse.bsr_dmatrix(), T.dmatrix()
        b = sp.bsr_matrix(np.arange(16.0).reshape(4, 4), blocksize=(2, 2))
        f = theano.function([x, d], [x.toarray(), sparse.structured_dot(x, d), sparse.dot(x, d)])
        for value in f(b, np.ones((4, 2)))[1:]:
            np.testing.assert_array_equal(value, b.toarray() @ np.ones((4, 2)))
        for wrong in (
            lambda: x + x,
            lambda: x * x,
            lambda: -x,
            lambda: x.T,
            lambda: x[0, 0],
            lambda: sparse.csm_properties(x),
        ):
            with self.assertRaisesRegex(TypeError, "csr or csc"):
                wrong()
        wrong = b.copy()
        wrong.indices[0] = 2
        with self.assertRaises(ValueError):
            f(wrong, np.ones((4, 2)))


class TestFunctions(unittest.TestCase):
    def test_tutorial(self):
        x = sparse.csc_matrix(name="x", dtype="float32")
        g = theano.function([x], sparse.csc_from_dense(sparse.dense_from_sparse(x)))
        self.assertEqual(
            g(sp.csc_matrix(np.array([[0, 1], [2, 0]], dtype="float32"))).toarray().tolist(), [[0, 1], [2, 0]]
        )
        x = sparse.csc_matrix(name="x", dtype="int64")
        f = theano.function([x], sparse.CSR(*sparse.csm_properties(x)))
        a = sp.csc_matrix(np.asarray([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
        self.assertEqual(f(a).toarray().tolist(), [[0, 0, 1], [1, 0, 0], [1, 0, 0]])
        x = sparse.csc_matrix(name="x", dtype="float32")
        f = theano.function([x], sparse.structured_add(x, 2))
        a = sp.csc_matrix(np.asarray([[0, 0, -1], [0, -2, 1], [3, 0, 0]], dtype="float32"))
        self.assertEqual(f(a).toarray().tolist(), [[0, 0, 1], [0, 0, 3], [5, 0, 0]])

    def test_values_of_others_stay(self):
        x = sparse.csr_dmatrix()
        value = A.copy()
        for result in (
            x,
            x.T,
            sparse.csm_data(x),
            x[:, :],
            x[0:1],
            sparse.remove0(x),
            sparse.clean(x),
            sparse.as_format(x, "csr"),
            x.astype("float64"),
        ):
            found = theano.function([x], result)(value)
            self.assertFalse(sparse.csr_dmatrix.may_share_memory(found, value))
        mode = theano.Mode("cvm", "fast_run")
        found = theano.function([theano.In(x, borrow=True)], theano.Out(x.T, borrow=True), mode=mode)(value)
        self.assertTrue(np.shares_memory(found.data, value.data))

    def test_shared(self):
        w = theano.shared(A, "w")
        self.assertIsInstance(w, sparse.sharedvar.SparseTensorSharedVariable)
        self.assertEqual((w.type, w.format, w.name), (sparse.csr_dmatrix, "csr", "w"))
        self.assertFalse(np.shares_memory(w.get_value(borrow=True).data, A.data))
        mine = A.copy()
        self.assertTrue(np.shares_memory(sparse.shared(mine, borrow=True).get_value(borrow=True).data, mine.data))
        self.assertEqual(sparse.shared(A, format="csc").type, sparse.csc_dmatrix)
        with self.assertRaises(TypeError):
            sparse.shared(A.toarray())
        with self.assertRaises(NotImplementedError):
            theano.shared(A.tocoo())
        f = theano.function([], sparse.sp_sum(w), updates=[(w, w * 2)])
        self.assertEqual([f(), f(), f()], [6, 12, 24])
        np.testing.assert_array_equal(w.get_value().toarray(), A.toarray() * 8)
        w.set_value(A.tocsc())
        self.assertEqual(w.get_value().format, "csr")
        x = sparse.csr_dmatrix()
        np.testing.assert_array_equal(theano.function([], x.T, givens={x: w})().toarray(), A.toarray().T)
        twin = pickle.loads(pickle.dumps(w))
        np.testing.assert_array_equal(twin.get_value().toarray(), A.toarray())

    def test_gradient_descent_in_place(self):
        rng = np.random.RandomState(0)
        x, w = sparse.csr_dmatrix(), theano.shared(rng.randn(3, 2))
        start = w.get_value()
        cost = 0.5 * T.sqr(sparse.structured_dot(x, w)).sum()
        f = theano.function([x], cost, updates=[(w, w - 0.1 * theano.grad(cost, w))])
        f(A)
        np.testing.assert_allclose(w.get_value(), start - 0.1 * (A.T @ (A @ start)))
        c = sparse.csc_dmatrix()
        d = T.dmatrix()
        f = theano.function([c, d], updates=[(w, w - 0.5 * sparse.dot(c, d))])
        names = [str(node.op) for node in f.maker.fgraph.toposort()]
        if theano.config.mode not in ("FAST_COMPILE", "DebugMode"):
            self.assertIn("UsmmCscDense{inplace}", names)
        before = w.get_value()
        f(A.T.tocsc(), np.ones((2, 2)))
        np.testing.assert_allclose(w.get_value(), before - 0.5 * (A.T @ np.ones((2, 2))))

    def test_pickled_function(self):
        x, d = sparse.csr_dmatrix(), T.dmatrix()
        f = pickle.loads(pickle.dumps(theano.function([x, d], sparse.structured_dot(x, d) + d.sum())))
        np.testing.assert_allclose(f(A, np.ones((3, 2))), A @ np.ones((3, 2)) + 6)

    def test_conditions_and_loops(self):
        x, y, b = sparse.csr_dmatrix(), sparse.csr_dmatrix(), T.bscalar()
        f = theano.function([x, y, b], ifelse(b, x, y) * 2)
        np.testing.assert_array_equal(f(A, A * 3, 1).toarray(), A.toarray() * 2)
        np.testing.assert_array_equal(f(A, A * 3, 0).toarray(), A.toarray() * 6)
        v = T.dvector()
        states, _ = theano.scan(lambda state, m: sparse.dot(m, state), outputs_info=v, non_sequences=x, n_steps=3)
        square = sp.csr_matrix(np.array([[0, 2.0], [1, 0]]))
        gradient = theano.grad(states[-1].sum(), v)
        by_matrix = theano.grad(states[-1].sum(), x)
        found, slope, of_matrix = theano.function([x, v], [states, gradient, by_matrix])(square, [1.0, 2.0])
        step, start = square.toarray(), np.array([1.0, 2.0])
        expected = sum(
            np.outer(np.ones(2) @ np.linalg.matrix_power(step, 2 - k), np.linalg.matrix_power(step, k) @ start)
            for k in range(3)
        )
        np.testing.assert_allclose(of_matrix, expected)
        np.testing.assert_array_equal(found, [[4, 1], [2, 4], [8, 2]])
        np.testing.assert_array_equal(slope, np.ones(2) @ np.linalg.matrix_power(square.toarray(), 3))

    def test_nan_guard(self):
        x = sparse.csr_dmatrix()
        f = theano.function([x], x * 2, mode=NanGuardMode(True, True, True))
        np.testing.assert_array_equal(f(A).toarray(), A.toarray() * 2)
        with self.assertRaises(AssertionError):
            f(A * np.nan)

    def test_sparse_grad(self):
        w, places = theano.shared(np.arange(8.0).reshape(4, 2)), T.lvector()
        rows = theano.sparse_grad(w[places])
        gradient = theano.grad(T.sqr(rows).sum(), w)
        self.assertIsInstance(gradient.type, sparse.SparseType)
        found = theano.function([places], gradient)([1, 3, 1])
        expected = np.zeros((4, 2))
        np.add.at(expected, [1, 3, 1], 2 * w.get_value()[[1, 3, 1]])
        np.testing.assert_array_equal(found.toarray(), expected)
        f = theano.function([places], updates=[(w, w - 0.1 * gradient)])
        before = w.get_value()
        f([1, 3, 1])
        np.testing.assert_allclose(w.get_value(), before - 0.1 * expected)

    def test_rop_of_rows(self):
        y, z, places = T.dmatrix(), T.dmatrix(), T.lvector()
        result = theano.Rop(sparse.construct_sparse_from_list(np.array([4, 2]), y, places), y, z)
        found = theano.function([z, places], result)(np.ones((2, 2)), [1, 1])
        np.testing.assert_array_equal(found.toarray(), [[0, 0], [2, 2], [0, 0], [0, 0]])
        for wrong, error in (([1, 4], IndexError), ([1], ValueError)):
            with self.assertRaises(error):
                theano.function([z, places], result)(np.ones((2, 2)), wrong)


class TestShapes(unittest.TestCase):
    """Operands with mismatched shapes raise an error whose message contains the shapes, in Python and in C."""

    def test_mismatch(self):
        x, c, d, v = sparse.csr_dmatrix(), sparse.csc_dmatrix(), T.dmatrix(), T.dvector()
        square, two = np.ones((3, 3)), np.ones((2, 2))
        cases = {
            "dot": ([x, d], sparse.dot(x, d), (A, two)),
            "dot from the left": ([x, d], sparse.dot(d, x), (A, square)),
            "structured_dot": ([x, d], sparse.structured_dot(x, d), (A, two)),
            "structured_dot csc": ([c, d], sparse.structured_dot(c, d), (A.tocsc(), two)),
            "structured_dot wide": ([x, d], sparse.structured_dot(x, d), (A, np.ones((4, 2)))),
            "structured_dot s s": ([x, c], sparse.structured_dot(x, c), (A, A.tocsc())),
            "true_dot": ([x, d], sparse.true_dot(x, d), (A, two)),
            "add_s_d": ([x, d], x + d, (A, square)),
            "add_s_d rows": ([c, d], c + d, (A.tocsc(), np.ones((1, 3)))),
            "add_s_s": ([x, c], x + c, (A, A.T.tocsc())),
            "add_s_s_data": ([x, c], sparse.add_s_s_data(x, c.T), (A, sp.csc_matrix((3, 2)))),
            "mul_s_d": ([x, d], x * d, (A, square)),
            "mul_s_d csc": ([c, d], c * d, (A.tocsc(), np.ones((2, 4)))),
            "mul_s_s": ([x, c], x * c, (A, sp.csc_matrix((1, 3)))),
            "mul_s_v": ([x, v], sparse.mul_s_v(x, v), (A, np.ones(4))),
            "structured_add_s_v": ([x, v], sparse.structured_add_s_v(x, v), (A, np.ones(2))),
            "col_scale": ([x, v], sparse.col_scale(x, v), (A, np.ones(2))),
            "row_scale": ([x, v], sparse.row_scale(x, v), (A, np.ones(3))),
            "hstack": ([x, c], sparse.hstack([x, c]), (A, sp.csc_matrix((3, 3)))),
            "vstack": ([x, c], sparse.vstack([x, c]), (A, sp.csc_matrix((3, 4)))),
            "diag": ([x], sparse.diag(x), (A,)),
            "eq": ([x, d], sparse.eq(x, d), (A, square)),
            "le": ([x, c], x <= c, (A, A.T.tocsc())),
            "sampling_dot": ([x, d], sparse.sampling_dot(d, d, x), (A, np.ones((2, 2)))),
            "sampling_dot inner": ([x, d], sparse.sampling_dot(d, d.T, x), (A, np.ones((2, 3)))),
            "usmm": ([c, d], sparse.usmm(T.constant([[2.0]]), c, d, d), (A.tocsc(), square)),
            "usmm inner": ([c, d], sparse.usmm(T.constant([[2.0]]), c, d, d), (A.tocsc(), two)),
            "elements": ([x], sparse.get_item_2lists(x, [0, 1], [0]), (A,)),
        }
        for name, (inputs, result, values) in cases.items():
            for mode in (theano.Mode("py", None), theano.Mode("cvm", "fast_run")):
                f = theano.function(inputs, result, mode=mode)
                with self.subTest(name, mode=str(mode)), self.assertRaises(ValueError):
                    f(*values)

    def test_parts_that_make_no_matrix(self):
        data, indices, indptr, shape = T.dvector(), T.ivector(), T.ivector(), T.ivector()
        for format in ("csr", "csc"):
            f = theano.function([data, indices, indptr, shape], sparse.CSM(format)(data, indices, indptr, shape))
            good = [1.0, 2.0], [0, 1], [0, 1, 2], [2, 2]
            f(*good)
            for place, wrong in (
                (1, [0, 2]),
                (1, [0]),
                (2, [0, 1, 3]),
                (2, [0, 2]),
                (3, [2, 2, 2]),
                (3, [3, 3]),
                (3, [-1, 2]),
            ):
                values = list(good)
                values[place] = wrong
                with self.subTest(format, wrong=wrong), self.assertRaises(ValueError):
                    f(*values)
        for wrong in (
            (T.dmatrix(), indices, indptr, shape),
            (data, T.dvector(), indptr, shape),
            (data, indices, indptr, T.dvector()),
        ):
            with self.assertRaises(TypeError):
                sparse.CSR(*wrong)
        with self.assertRaisesRegex(ValueError, "format must be one of"):
            sparse.CSM("coo")
        with self.assertRaisesRegex(Exception, "kmap"):
            sparse.CSM("csr", kmap=[0])


class TestRules(unittest.TestCase):
    """Rewritten graphs give the values of the original graphs, also for arrays with odd memory layouts."""

    def test_usmm(self):
        rng = np.random.RandomState(1)
        for x in (sparse.csc_dmatrix(), sparse.csr_dmatrix(), sparse.csc_fmatrix()):
            d, z, a = T.dmatrix(), T.dmatrix(), T.dscalar()
            for result in (z - a * sparse.dot(x, d), sparse.dot(x, d) * a + z, z + 2 * sparse.dot(x, d)):
                f = theano.function([x, d, z, a], result, mode=theano.Mode("cvm", "fast_run"), on_unused_input="ignore")
                names = [type(node.op).__name__ for node in f.maker.fgraph.toposort()]
                self.assertNotIn("Dot", names)
                g = theano.function([x, d, z, a], result, mode=theano.Mode("py", None), on_unused_input="ignore")
                value = sp.random(4, 3, 0.5, format=x.format, random_state=rng).astype(x.dtype)
                for b in (
                    rng.randn(3, 5),
                    np.asfortranarray(rng.randn(3, 5)),
                    rng.randn(5, 3).T[::-1],
                    rng.randn(3, 10)[:, ::2],
                ):
                    for to in (rng.randn(4, 5), np.asfortranarray(rng.randn(4, 5)), rng.randn(8, 10)[::-2, ::2]):
                        kept = to.copy()
                        np.testing.assert_allclose(f(value, b, to, 0.5), g(value, b, to, 0.5))
                        np.testing.assert_array_equal(to, kept)

    def test_usmm_takes_away_unsigned_multiples(self):
        x, d, z = sparse.csc_dmatrix(), T.dmatrix(), T.dmatrix()
        value, ones = sp.csc_matrix(np.diag([2.0, 3.0])), np.ones((2, 2))
        for dtype, number in (("bool", True), ("uint8", 3), ("uint64", 2), ("int8", -128)):
            a = T.scalar(dtype=dtype)
            f = theano.function([x, d, z, a], z - a * sparse.dot(x, d), mode=theano.Mode("cvm", "fast_run"))
            expected = ones - float(number) * value.toarray().dot(ones)
            np.testing.assert_array_equal(f(value, ones, ones, number), expected)

    def test_usmm_adds_products_that_are_not_broadcast(self):
        x, column, z = sparse.csc_dmatrix(), T.dcol(), T.dmatrix()
        f = theano.function([x, column, z], z - 2.0 * sparse.dot(x, column))
        value, ones = sp.csc_matrix(np.diag([2.0, 3.0])), np.ones((2, 3))
        expected = ones - 2 * value.toarray().dot(np.ones((2, 1)))
        np.testing.assert_array_equal(f(value, np.ones((2, 1)), ones), expected)

    def test_usmm_by_numbers_of_every_rank(self):
        for x in (sparse.csc_dmatrix(), sparse.csr_dmatrix()):
            value, ones = sp.csc_matrix(np.diag([2.0, 3.0])).asformat(x.format), np.ones((2, 2))
            for rank in range(3):
                a, d, z = T.TensorType("float64", (True,) * rank)(), T.dmatrix(), T.dmatrix()
                f = theano.function([a, x, d, z], sparse.usmm(a, x, d, z))
                product = f(np.full((1,) * rank, 2.0), value, ones, ones)
                np.testing.assert_array_equal(product, 2 * value.toarray().dot(ones) + ones)

    def test_products_in_odd_memory(self):
        rng = np.random.RandomState(1)
        for x in (sparse.csr_dmatrix(), sparse.csc_dmatrix()):
            d = T.dmatrix()
            f = theano.function(
                [x, d],
                [
                    sparse.structured_dot(x, d),
                    theano.grad(T.sqr(sparse.structured_dot(x, d)).sum(), x),
                    sparse.dot(d.T, x.T),
                ],
            )
            for columns in (1, 2, 7, 8, 9, 16, 33, 64, 72, 100):
                value = sp.random(9, 6, 0.4, format=x.format, random_state=rng)
                wide = rng.randn(12, 2 * columns)
                for b in (
                    wide[:6, :columns],
                    wide[::2, ::2],
                    wide[5::-1, -columns:],
                    np.asfortranarray(wide[:6, :columns]),
                    wide[:6, columns - 1 :: -1],
                ):
                    product, gradient, left = f(value, b)
                    np.testing.assert_allclose(product, value @ b, atol=1e-12)
                    np.testing.assert_allclose(left, b.T @ value.T, atol=1e-12)
                    pattern = value.copy()
                    pattern.data[:] = 1
                    np.testing.assert_allclose(
                        gradient.toarray(), pattern.multiply(2 * (value @ b) @ b.T).toarray(), atol=1e-12
                    )

    def test_mixed_dtypes(self):
        d = T.dmatrix()
        for x in (sparse.csr_fmatrix(), sparse.csc_matrix(dtype="int16")):
            f = theano.function([x, d], [sparse.structured_dot(x, d), x + d.T, x * d.T, sparse.dot(x, d)])
            value = sp.random(4, 3, 0.5, format=x.format, random_state=0).multiply(9).astype(x.dtype).asformat(x.format)
            b = np.random.RandomState(0).randn(3, 4)
            product, total, elementwise, other = f(value, b)
            for found, expected in (
                (product, value @ b),
                (total, value.toarray() + b.T),
                (elementwise.toarray(), value.toarray() * b.T),
                (other, value @ b),
            ):
                self.assertEqual(found.dtype, np.float64)
                np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_remove0_in_place(self):
        x = sparse.csr_dmatrix()
        f = theano.function([x], [sparse.remove0(x * 0), sparse.remove0(x)], mode=theano.Mode("cvm", "fast_run"))
        self.assertIn("Remove0{inplace}", [str(node.op) for node in f.maker.fgraph.toposort()])
        value = A.copy()
        value.data[0] = 0
        found = f(value)
        self.assertEqual([v.nnz for v in (*found, value)], [0, 2, 3])

    def test_regular_gradients_of_sums_are_not_dense(self):
        """The gradient with respect to a matrix of 1e9 elements, of which three are stored, needs no dense matrix."""
        x, y = sparse.csr_dmatrix(), sparse.csc_dmatrix()
        big = sp.csr_matrix((np.arange(1.0, 4), ([0, 5, 31000], [7, 0, 40])), shape=(32000, 32000))
        mode = theano.Mode("cvm", "fast_run")
        for cost, expected in (
            (sparse.sp_sum(x * y), lambda v: v),
            (sparse.sp_sum(sparse.sin(x) * y), lambda v: np.cos(v) * v),
            (sparse.sp_sum(sparse.sqr(x)), lambda v: 2 * v),
        ):
            gradient = theano.grad(cost, x)
            f = theano.function([x, y], gradient, mode=mode, on_unused_input="ignore")
            self.assertNotIn("SparseFromDense", [type(node.op).__name__ for node in f.maker.fgraph.toposort()])
            found = f(big, big.tocsc())
            self.assertEqual(found.shape, big.shape)
            np.testing.assert_allclose(found.tocsr().data, expected(big.data))

    def test_a_state_stays_when_a_call_fails(self):
        w, x, d = theano.shared(np.ones((2, 2))), sparse.csc_dmatrix(), T.dmatrix()
        f = theano.function([x, d], updates=[(w, w - 0.5 * sparse.dot(x, d))])
        with self.assertRaises(ValueError):
            f(A.tocsc(), np.ones((2, 2)))
        np.testing.assert_array_equal(w.get_value(), np.ones((2, 2)))


if __name__ == "__main__":
    unittest.main()
