"""Faults planted in SparseSoftmax."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="maxima_with_positive_scale",
        module="sparse_softmax",
        kind="parameter",
        why="The maxima are computed with the absolute value of the scale: negative scales let exponentials overflow.",
        file="sparse_softmax.py",
        old="np.maximum.at(largest, groups, entries)",
        new="np.maximum.at(largest, groups, y.data * abs(self.scale))",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            x = scipy.sparse.csr_matrix(np.array([[1.0, 2, 3]]))
            for scale in (1.0, 2000.0, -2000.0):
                (y,) = Way(op.SparseSoftmax(1, scale), sparse.csr_matrix(dtype="float64"), impl="py")(x)
                np.testing.assert_allclose(y.toarray().sum(), 1)
            right = True
        """,
    ),
    PlantedFault(
        name="formats_mixed_up",
        module="sparse_softmax",
        kind="layout",
        why="indices are taken for the numbers of rows in both formats: a csr matrix gets the softmax of its columns.",
        file="sparse_softmax.py",
        old='        if (y.format == "csr") == (self.axis == 1):\n',
        new="        if self.axis == 0:\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            x = np.array([[1.0, 2], [3, 4]])
            for format in ("csc", "csr"):
                way = Way(op.SparseSoftmax(), sparse.matrix(format, dtype="float64"), impl="py")
                (y,) = way(scipy.sparse.csr_matrix(x).asformat(format))
                np.testing.assert_allclose(y.toarray().sum(axis=1), 1)
            right = True
        """,
    ),
    PlantedFault(
        name="empty_rows_shift_the_sums",
        module="sparse_softmax",
        kind="length",
        why="numpy.add.reduceat gives an empty row the entry at its position, so empty rows change the sums.",
        file="sparse_softmax.py",
        old="            total = np.bincount(groups, powers, minlength=len(largest))\n",
        new=(
            "            order = np.argsort(groups, kind='stable')\n"
            "            starts = np.searchsorted(groups[order], np.arange(len(largest)))\n"
            "            total = np.add.reduceat(powers[order], starts) if len(powers) else largest\n"
        ),
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for rows in ([[1.0, 2], [3, 4]], [[1.0, 2], [0, 0], [3, 4]], [[1.0, 2], [0, 0]]):
                (y,) = way(scipy.sparse.csr_matrix(np.array(rows)))
                np.testing.assert_allclose(y.toarray().sum(axis=1), np.any(rows, axis=1))
            right = True
        """,
    ),
    PlantedFault(
        name="row_numbers_in_16_bits",
        module="sparse_softmax",
        kind="length",
        why="The numbers of the rows are kept as int16 to save memory: more than 32,768 rows fail or share sums.",
        file="sparse_softmax.py",
        old="np.repeat(np.arange(y.shape[1 - self.axis]), np.diff(y.indptr))",
        new='np.repeat(np.arange(y.shape[1 - self.axis]).astype("int16"), np.diff(y.indptr))',
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            right = all(way(scipy.sparse.csr_matrix(np.ones((n, 1))))[0].sum() == n for n in (0, 1, 32768, 40000))
        """,
    ),
    PlantedFault(
        name="maximum_of_the_whole_matrix",
        module="sparse_softmax",
        kind="value",
        why="One maximum is subtracted from all rows: rows of much smaller numbers are 0 / 0.",
        file="sparse_softmax.py",
        old="            np.maximum.at(largest, groups, entries)\n",
        new="            largest[:] = entries.max(initial=-np.inf)\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for low in (-1.0, -100.0, -1000.0):
                (y,) = way(scipy.sparse.csr_matrix(np.array([[1.0, 2], [low, low]])))
                np.testing.assert_allclose(y.toarray().sum(axis=1), 1)
            right = True
        """,
    ),
    PlantedFault(
        name="maximum_is_at_least_zero",
        module="sparse_softmax",
        kind="value",
        why="The maxima begin with zero, as if the elements that are not stored counted: low rows are 0 / 0.",
        file="sparse_softmax.py",
        old="largest = np.full(y.shape[1 - self.axis], -np.inf)",
        new="largest = np.zeros(y.shape[1 - self.axis])",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for low in (800.0, -100.0, -1000.0):
                (y,) = way(scipy.sparse.csr_matrix(np.array([[low, low]])))
                np.testing.assert_allclose(y.toarray(), 0.5)
            right = True
        """,
    ),
    PlantedFault(
        name="parts_of_an_element_not_added",
        module="sparse_softmax",
        kind="value",
        why="The parts of an element that is stored several times count as several entries.",
        file="sparse_softmax.py",
        old="        y.sum_duplicates()  # also sorts the indices\n",
        new="        y.sort_indices()\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for indices in ([1, 0, 2], [1, 0, 1]):
                x = scipy.sparse.csr_matrix((np.array([1.0, 2, 3]), indices, [0, 3]), (1, 3))
                dense = way(scipy.sparse.csr_matrix(x.toarray()))[0]
                np.testing.assert_allclose(way(x)[0].toarray(), dense.toarray())
            right = True
        """,
    ),
    PlantedFault(
        name="stored_zeros_removed",
        module="sparse_softmax",
        kind="value",
        why="Stored zeros are removed from the matrix, although exp(0) = 1 is a part of the sum.",
        file="sparse_softmax.py",
        old="        y.sum_duplicates()  # also sorts the indices\n",
        new="        y.sum_duplicates()  # also sorts the indices\n        y.eliminate_zeros()\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for first in (1.0, 0.0):
                x = scipy.sparse.csr_matrix((np.array([first, 2, 3]), [0, 1, 2], [0, 3]), (1, 3))
                right = way(x)[0].nnz == 3
        """,
    ),
    PlantedFault(
        name="result_in_double_precision",
        module="sparse_softmax",
        kind="dtype",
        why="The entries of the result stay float64, also if the matrix is float32.",
        file="sparse_softmax.py",
        old="(powers / total[groups]).astype(y.dtype)",
        new="powers / total[groups]",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            for dtype in ("float64", "float32"):
                way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype=dtype), impl="py")
                right = way(scipy.sparse.csr_matrix(np.ones((2, 2), dtype)))[0].dtype == dtype
        """,
    ),
    PlantedFault(
        name="input_sorted_and_summed",
        module="sparse_softmax",
        kind="aliasing",
        why="sum_duplicates works in place: without a copy it changes the structure of the input.",
        file="sparse_softmax.py",
        old="        y = inputs[0].copy()\n        y.sum_duplicates()  # also sorts the indices\n",
        new="        inputs[0].sum_duplicates()  # also sorts the indices\n        y = inputs[0].copy()\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for indices in ([0, 1, 2], [2, 0, 1]):
                x = scipy.sparse.csr_matrix((np.array([1.0, 2, 3]), list(indices), [0, 3]), (1, 3))
                way(x)
                right = x.indices.tolist() == indices and x.data.tolist() == [1, 2, 3]
        """,
    ),
    PlantedFault(
        name="positions_shared_with_the_input",
        module="sparse_softmax",
        kind="aliasing",
        why="The result has the arrays indices and indptr of the input, so a change of one matrix changes the other.",
        file="sparse_softmax.py",
        old="        y = inputs[0].copy()\n",
        new=(
            "        x = inputs[0]\n"
            "        y = type(x)((x.data.copy(), x.indices, x.indptr), x.shape) if x.has_canonical_format else x.copy()\n"
        ),
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for indices in ([2, 0, 1], [0, 1, 2]):
                x = scipy.sparse.csr_matrix((np.array([1.0, 2, 3]), indices, [0, 3]), (1, 3))
                (y,) = way(x)
                right = not np.shares_memory(y.indices, x.indices) and not np.shares_memory(y.indptr, x.indptr)
        """,
    ),
    PlantedFault(
        name="row_numbers_of_an_earlier_matrix",
        module="sparse_softmax",
        kind="state",
        why="The Op keeps the numbers of the rows for matrices with the same shape and the same number of entries.",
        file="sparse_softmax.py",
        old="        with np.errstate(",
        new=(
            "        key = y.shape, y.nnz\n"
            "        if getattr(self, '_key', None) == key:\n"
            "            groups = self._groups\n"
            "        self._key, self._groups = key, groups\n"
            "        with np.errstate("
        ),
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
            for x in ([[1.0, 2], [0, 0]], [[3.0, 4], [0, 0]], [[0.0, 2], [3, 0]]):
                (y,) = way(scipy.sparse.csr_matrix(np.array(x)))
                np.testing.assert_allclose(y.toarray().sum(axis=1), np.any(x, axis=1))
            right = True
        """,
    ),
    PlantedFault(
        name="matrix_of_the_last_call_reused",
        module="sparse_softmax",
        kind="output memory",
        why="If the output cell contains a matrix with as many entries, only its data is replaced.",
        file="sparse_softmax.py",
        old="        output_storage[0][0] = y\n",
        new=(
            "        old = output_storage[0][0]\n"
            "        if old is not None and old.shape == y.shape and old.nnz == y.nnz:\n"
            "            old.data[:] = y.data\n"
            "            y = old\n"
            "        output_storage[0][0] = y\n"
        ),
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            way, old = Way(op.SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py"), None
            for x in ([[1.0, 2], [0, 0]], [[3.0, 4], [0, 0]], [[0.0, 2], [3, 0]]):
                (old,) = way(scipy.sparse.csr_matrix(np.array(x)), old=[old])
                right = ((old.toarray() != 0) == (np.array(x) != 0)).all()
        """,
    ),
    PlantedFault(
        name="gradient_without_factor_scale",
        module="sparse_softmax",
        kind="gradient",
        why="The derivative is not multiplied by the scale.",
        file="sparse_softmax.py",
        old="return sparse.mul(sparse.sub(weighted, by_group(y, sums)), scale)",
        new="return sparse.sub(weighted, by_group(y, sums))",
        witness="""
            from theano_ng.sparse.tests.test_basic import verify_grad_sparse
            from theano_ng.tests.authors.test_sparse_softmax import random_matrix
            x = random_matrix("csr", (3, 4), density=1)
            for scale in (1.0, -0.5):
                verify_grad_sparse(op.SparseSoftmax(1, scale), [x], structured=True, rng=np.random.RandomState(0))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_rows_for_columns",
        module="sparse_softmax",
        kind="gradient",
        why="The sums in the gradient are always those of the rows, also for axis=0.",
        file="sparse_softmax.py",
        old="sparse.sp_sum(weighted, axis=self.axis, sparse_grad=True)",
        new="sparse.sp_sum(weighted, axis=1, sparse_grad=True)",
        witness="""
            from theano_ng.sparse.tests.test_basic import verify_grad_sparse
            from theano_ng.tests.authors.test_sparse_softmax import random_matrix
            x = random_matrix("csr", (3, 3), density=1)
            for axis in (1, 0):
                verify_grad_sparse(op.SparseSoftmax(axis), [x], structured=True, rng=np.random.RandomState(0))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_independent_entries",
        module="sparse_softmax",
        kind="gradient",
        why="The gradient is y * (1 - y) * g, the diagonal of the derivative only.",
        file="sparse_softmax.py",
        old="        return [self.product(outputs[0], output_grads[0])]\n",
        new=("        y = outputs[0]\n        return [sparse.mul(sparse.sub(y, sparse.mul(y, y)), output_grads[0])]\n"),
        witness="""
            import scipy.sparse
            from theano_ng.sparse.tests.test_basic import verify_grad_sparse
            from theano_ng.tests.authors.test_sparse_softmax import random_matrix
            for x in (scipy.sparse.csr_matrix(np.eye(3)), random_matrix("csr", (3, 4), density=1)):
                verify_grad_sparse(op.SparseSoftmax(), [x], structured=True, rng=np.random.RandomState(0))
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_is_dense",
        module="sparse_softmax",
        kind="gradient",
        why="The gradient of a sparse matrix is a dense matrix, which the Ops before this one do not accept.",
        file="sparse_softmax.py",
        old="        return [self.product(outputs[0], output_grads[0])]\n",
        new="        return [sparse.dense_from_sparse(self.product(outputs[0], output_grads[0]))]\n",
        witness="""
            from theano_ng import sparse
            x = sparse.csr_matrix("x", dtype="float64")
            right = T.grad(sparse.sp_sum(op.SparseSoftmax()(x)), x).type == x.type
        """,
    ),
    PlantedFault(
        name="tangent_at_the_input",
        module="sparse_softmax",
        kind="gradient",
        why="R_op uses the input where the derivative contains the output.",
        file="sparse_softmax.py",
        old="return [self.product(self(inputs[0]), eval_points[0])]",
        new="return [self.product(inputs[0], eval_points[0])]",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            x, v = [sparse.csr_matrix(name, dtype="float64") for name in "xv"]
            f = theano.function([x, v], T.Rop(op.SparseSoftmax()(x), x, v), on_unused_input="ignore")
            ones = scipy.sparse.csr_matrix(np.ones((1, 2)))
            right = abs(f(ones / 2, ones)).max() < 1e-12 and abs(f(ones, ones)).max() < 1e-12
        """,
    ),
    PlantedFault(
        name="shape_of_entries",
        module="sparse_softmax",
        kind="shape",
        why="infer_shape adds the number of entries to the shape of the parts, because data is a vector.",
        file="sparse_softmax.py",
        old="        return shapes\n",
        new="        return [(sparse.csm_data(node.inputs[0]).shape[0], shapes[0][1])]\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            x = sparse.csr_matrix("x", dtype="float64")
            f = theano.function([x], op.SparseSoftmax()(x).shape)
            right = [tuple(f(scipy.sparse.csr_matrix(one))) for one in (np.eye(2), np.ones((2, 2)))] == [(2, 2)] * 2
        """,
    ),
    PlantedFault(
        name="result_always_in_rows",
        module="sparse_softmax",
        kind="declaration",
        why="perform converts the result to csr, but make_node declares the format of the input.",
        file="sparse_softmax.py",
        old="        output_storage[0][0] = y\n",
        new="        output_storage[0][0] = y.tocsr()\n",
        witness="""
            import scipy.sparse
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import Way
            for format in ("csr", "csc"):
                way = Way(op.SparseSoftmax(), sparse.matrix(format, dtype="float64"), impl="py")
                (y,) = way(scipy.sparse.csr_matrix(np.eye(2)).asformat(format))
                right = y.format == format
        """,
    ),
    PlantedFault(
        name="scale_hashed_as_text",
        module="sparse_softmax",
        kind="declaration",
        why="The Op is compared by a text with three digits of the scale, so scales that differ little are equal.",
        file="sparse_softmax.py",
        old="    def make_node(self, x):\n",
        new=(
            "    def __str__(self):\n"
            '        return "SparseSoftmax{%d, %.3g}" % (self.axis, self.scale)\n'
            "\n"
            "    def __eq__(self, other):\n"
            "        return type(self) is type(other) and str(self) == str(other)\n"
            "\n"
            "    def __hash__(self):\n"
            "        return hash(str(self))\n"
            "\n"
            "    def make_node(self, x):\n"
        ),
        witness="""
            right = len({op.SparseSoftmax(scale=scale) for scale in (1.0, 1.01, 1.0001)}) == 3
        """,
    ),
    PlantedFault(
        name="integers_declared_as_integers",
        module="sparse_softmax",
        kind="declaration",
        why="make_node accepts integers and declares integers, so the result of perform is rounded to 0 and 1.",
        file="sparse_softmax.py",
        old='if x.dtype not in ("float32", "float64") or x.format',
        new='if x.dtype.startswith("complex") or x.format',
        witness="""
            from theano_ng import sparse
            from theano_ng.tests.authors.ways import assert_raises
            for dtype in ("complex128", "int64"):
                assert_raises(TypeError, op.SparseSoftmax(), sparse.csr_matrix(dtype=dtype))
            right = True
        """,
    ),
]
