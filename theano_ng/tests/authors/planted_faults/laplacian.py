"""Faults planted in Laplacian."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="weight_of_the_axis_before",
        module="laplacian",
        kind="parameter",
        why="The last axis gets the weight of the second one, which is noticed only if the two differ.",
        file="laplacian.py",
        old="{%(params)s->weight0, %(params)s->weight1, %(params)s->weight2};",
        new="{%(params)s->weight0, %(params)s->weight1, %(params)s->weight1};",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x = np.arange(24.0).reshape(2, 3, 4) ** 2
            BothWays(op.Laplacian((2, 1, 1)), T.dtensor3())(x)
            BothWays(op.Laplacian((1, 1, 2)), T.dtensor3())(x)
            right = True
        """,
    ),
    PlantedFault(
        name="neighbours_of_zero_left_out",
        module="laplacian",
        kind="parameter",
        why="A neighbour without a value is left out in the mode 'zero', as if the boundary were insulated.",
        file="laplacian.py",
        old="differences += (next < 0 ? 0.0 : (double)*(const number *)place) - centre;",
        new="differences += next < 0 ? 0.0 : (double)*(const number *)place - centre;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for boundary in ("periodic", "insulated", "zero"):
                BothWays(op.Laplacian(boundary=boundary), T.dtensor3())(np.ones((3, 3, 3)))
            right = True
        """,
    ),
    PlantedFault(
        name="sum_shared_by_threads",
        module="laplacian",
        kind="state",
        why="The variable for the sum is declared outside of the parallel loop, so all threads add to it.",
        file="laplacian.py",
        old=(
            "            %(parallel)s\n"
            "            for (npy_intp i = 0; i < shape[0]; i++) {\n"
            "                for (npy_intp j = 0; j < shape[1]; j++) {\n"
            "                    for (npy_intp k = 0; k < shape[2]; k++) {\n"
            "                        const npy_intp at[3] = {i, j, k};\n"
            "                        const char *point = (const char *)PyArray_GETPTR3(%(x)s, i, j, k);\n"
            "                        const double centre = *(const number *)point;\n"
            "                        double total = 0;\n"
        ),
        new=(
            "            volatile double total;\n"
            "            %(parallel)s\n"
            "            for (npy_intp i = 0; i < shape[0]; i++) {\n"
            "                for (npy_intp j = 0; j < shape[1]; j++) {\n"
            "                    for (npy_intp k = 0; k < shape[2]; k++) {\n"
            "                        const npy_intp at[3] = {i, j, k};\n"
            "                        const char *point = (const char *)PyArray_GETPTR3(%(x)s, i, j, k);\n"
            "                        const double centre = *(const number *)point;\n"
            "                        total = 0;\n"
        ),
        witness="""
            import os
            os.environ["OMP_NUM_THREADS"] = "4"
            from theano_ng.tests.authors.ways import Way
            x = np.random.RandomState(1).normal(size=(64, 300, 300))
            one, many = (Way(op.Laplacian(openmp=openmp), T.dtensor3()) for openmp in (False, True))
            right = all((many(x)[0] == one(x)[0]).all() for _ in range(4))
        """,
    ),
    PlantedFault(
        name="slabs_after_the_last_chunk",
        module="laplacian",
        kind="length",
        why="The slabs are divided into chunks for eight threads, and the slabs after the last chunk are forgotten.",
        file="laplacian.py",
        old="i < shape[0]; i++",
        new="i < (shape[0] < 8 ? shape[0] : shape[0] / 8 * 8); i++",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.Laplacian(), T.dtensor3())
            olds = [np.full((n, 1, 1), 77.0) for n in (1, 7, 8, 16, 19)]
            right = all((way(np.ones(old.shape), old=[old])[0] != 77).all() for old in olds)
        """,
    ),
    PlantedFault(
        name="differences_times_zero_skipped",
        module="laplacian",
        kind="value",
        why="The C code skips axes with the weight 0 to save time, but the product of 0 and infinity is NaN in Python.",
        file="laplacian.py",
        old="                            double differences = 0;\n",
        new=(
            "                            if (weights[axis] == 0)\n"
            "                                continue;\n"
            "                            double differences = 0;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.Laplacian((1, 0, 1), "periodic"), T.dtensor3())
            both(np.ones((2, 3, 4)))
            both(np.array([1.5e308, -1.5e308]).reshape(1, 2, 1))
            right = True
        """,
    ),
    PlantedFault(
        name="six_neighbours_minus_six_centres",
        module="laplacian",
        kind="value",
        why="The neighbours are added first, so the sum of large numbers is infinite, although the differences are not.",
        file="laplacian.py",
        old=(
            "                                differences += "
            "(next < 0 ? 0.0 : (double)*(const number *)place) - centre;\n"
            "                            }\n"
        ),
        new=(
            "                                differences += (next < 0 ? 0.0 : (double)*(const number *)place);\n"
            "                            }\n"
            "                            differences -= 2 * centre;\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.Laplacian(boundary="periodic"), T.dtensor3())
            both(np.ones((2, 3, 4)))
            both(np.full((2, 3, 4), 1e308))
            right = True
        """,
    ),
    PlantedFault(
        name="differences_in_single_precision",
        module="laplacian",
        kind="dtype",
        why="The differences are added in the dtype of the grid, and perform adds them in float64.",
        file="laplacian.py",
        old="double differences = 0;",
        new="number differences = 0;",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            x = np.array([1, 1e-4, 3, 1e8, 7]).reshape(1, 1, 5)
            for dtype in ("float64", "float32"):
                BothWays(op.Laplacian(), T.tensor3(dtype=dtype))(x.astype(dtype))
            right = True
        """,
    ),
    PlantedFault(
        name="last_axis_taken_as_contiguous",
        module="laplacian",
        kind="layout",
        why="The step along the last axis is the size of an element, also in strided and transposed arrays.",
        file="laplacian.py",
        old="(next - at[axis]) * strides[axis];",
        new="(next - at[axis]) * (axis == 2 ? (npy_intp)sizeof(number) : strides[axis]);",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            both = BothWays(op.Laplacian(), T.dtensor3())
            both(np.arange(24.0).reshape(2, 3, 4))
            both(np.arange(24.0).reshape(4, 3, 2).transpose(2, 1, 0) ** 2)
            right = True
        """,
    ),
    PlantedFault(
        name="points_without_differences_unwritten",
        module="laplacian",
        kind="output memory",
        why="A sum of zero is not stored, because the author thinks that new memory contains zeros.",
        file="laplacian.py",
        old="                        *(number *)PyArray_GETPTR3(%(y)s, i, j, k) = (number)total;",
        new=(
            "                        if (total != 0)\n"
            "                            *(number *)PyArray_GETPTR3(%(y)s, i, j, k) = (number)total;"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.Laplacian(boundary="insulated"), T.dtensor3())
            for x in (np.arange(8.0).reshape(2, 2, 2), np.ones((2, 2, 2))):
                right = (way(x, old=[np.full(x.shape, 77.0)])[0] != 77).all()
        """,
    ),
    PlantedFault(
        name="remainder_of_negative_position",
        module="laplacian",
        kind="parameter",
        why="-1 % n is -1 in C and not n - 1: the periodic neighbour of the first point counts as zero.",
        file="laplacian.py",
        old="return i < 0 ? length - 1 : 0;\n            return",
        new="return i % length;\n            return",
        witness="""
            from theano_ng.tests.authors.ways import BothWays
            for boundary in ("zero", "insulated", "periodic"):
                BothWays(op.Laplacian(boundary=boundary), T.dtensor3())(np.ones((2, 3, 4)))
            right = True
        """,
    ),
    PlantedFault(
        name="insulated_end_one_too_far",
        module="laplacian",
        kind="bounds",
        why="Positions behind the end are limited to the length instead of the last position.",
        file="laplacian.py",
        old="return i < 0 ? 0 : length - 1;",
        new="return i < 0 ? 0 : length;",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            for boundary in ("zero", "periodic", "insulated"):
                way = Way(op.Laplacian((1, 1, 1), boundary, openmp=False), T.dtensor3())
                (y,) = way(guarded(np.ones((2, 3, 4))))
                right = boundary == "zero" or (y == 0).all()
        """,
    ),
    PlantedFault(
        name="zero_weights_clear_the_input",
        module="laplacian",
        kind="aliasing",
        why="For weights of zero, perform clears its array, which is the input itself if that is float64.",
        file="laplacian.py",
        old='        x = inputs[0].astype("float64")\n',
        new=(
            '        x = inputs[0].astype("float64", copy=False)\n'
            "        if not any(self.weights):\n"
            "            x -= x\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            for weights in ((1, 1, 1), (0, 0, 0)):
                x = np.ones((2, 3, 4))
                Way(op.Laplacian(weights), T.dtensor3(), impl="py")(x)
                right = (x == 1).all()
        """,
    ),
    PlantedFault(
        name="gradient_of_zero_boundary",
        module="laplacian",
        kind="gradient",
        why="The boundary is not passed to the Op of the gradient, which always has the default.",
        file="laplacian.py",
        old="return Laplacian(self.weights, self.boundary, self.openmp)(v)",
        new="return Laplacian(self.weights, openmp=self.openmp)(v)",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            for boundary in ("zero", "insulated"):
                utt.verify_grad(op.Laplacian(boundary=boundary), [np.ones((2, 1, 2))])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_with_changed_sign",
        module="laplacian",
        kind="gradient",
        why="The author moves one derivative to the other factor and changes the sign, as for a first derivative.",
        file="laplacian.py",
        old="return [self.product(output_grads[0])]",
        new="return [-self.product(output_grads[0])]",
        witness="""
            x = T.dtensor3()
            f = theano.function([x], T.grad(op.Laplacian()(x).sum(), x))
            right = f(np.zeros((1, 1, 1))) == -6
        """,
    ),
    PlantedFault(
        name="shape_of_inner_points",
        module="laplacian",
        kind="shape",
        why="infer_shape counts only points with neighbours on both sides, as without a rule for the boundary.",
        file="laplacian.py",
        old="    def infer_shape(self, node, shapes):\n        return shapes\n",
        new=(
            "    def infer_shape(self, node, shapes):\n"
            "        if self.boundary == 'zero':\n"
            "            return [tuple(T.maximum(n - 2, 0) for n in shapes[0])]\n"
            "        return shapes\n"
        ),
        witness="""
            x = T.dtensor3()
            for boundary in ("periodic", "insulated", "zero"):
                f = theano.function([x], op.Laplacian(boundary=boundary)(x).shape)
                right = tuple(f(np.ones((2, 3, 4)))) == (2, 3, 4)
        """,
    ),
    PlantedFault(
        name="weights_kept_as_given",
        module="laplacian",
        kind="declaration",
        why="A list of weights is kept as it is, so that the Op cannot be hashed.",
        file="laplacian.py",
        old="self.weights = tuple(float(one) + 0.0 for one in weights)",
        new="self.weights = weights",
        witness="""
            ops = [op.Laplacian((1.0, 2.0, 3.0)), op.Laplacian([1.0, 2.0, 3.0])]
            right = ops[0] == ops[1] and hash(ops[0]) == hash(ops[1])
        """,
    ),
    PlantedFault(
        name="version_of_each_call",
        module="laplacian",
        kind="declaration",
        why="The cache version contains a counter, so the code is compiled again in each process and each function.",
        file="laplacian.py",
        old="        return (1, self.openmp)\n",
        new="        self.calls = getattr(self, 'calls', 0) + 1\n        return (1, self.openmp, self.calls)\n",
        witness="""
            one = op.Laplacian()
            right = one.c_code_cache_version() == one.c_code_cache_version()
        """,
    ),
    PlantedFault(
        name="remainder_for_an_empty_axis",
        module="laplacian",
        kind="process",
        why="A start value in front of the loops is a remainder by the length: an empty axis ends the process.",
        file="laplacian.py",
        old="            %(parallel)s\n",
        new=(
            "            volatile npy_intp last[3];\n"
            "            for (int axis = 0; axis < 3; axis++)\n"
            "                last[axis] = (2 * shape[axis] - 1) %% shape[axis];\n"
            "            %(parallel)s\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.Laplacian(), T.dtensor3())
            right = [way(np.ones((1, n, 2)))[0].shape[1] for n in (3, 1, 0)] == [3, 1, 0]
        """,
    ),
]
