"""Faults planted in FrameView."""

from theano_ng.tests.authors.planted_faults.record import PlantedFault

FAULTS = [
    PlantedFault(
        name="view_not_declared",
        module="frame_view",
        kind="aliasing",
        why="The result is a view, but no view_map declares this: an Op in place may change the input through it.",
        file="frame_view.py",
        old="    view_map = {0: [0]}\n",
        new="",
        witness="""
            x, mode = T.dvector("x"), theano.Mode("cvm", None)
            y = x + 1
            changed, kept = T.inplace.exp_inplace(op.FrameView(2)(y)), y * 2
            for outputs in ([changed, kept], [kept, changed]):
                f = theano.function([x], outputs, mode=mode, accept_inplace=True)
                right = (f(np.zeros(4))[outputs.index(kept)] == 2).all()
                assert right
        """,
    ),
    PlantedFault(
        name="view_of_the_first_call",
        module="frame_view",
        kind="output memory",
        why="An old output of the right shape is filled again, but it is a view of an earlier input and overwrites it.",
        file="frame_view.py",
        old=("            Py_XDECREF(%(y)s);\n            %(y)s = (PyArrayObject *)view;\n"),
        new=(
            "            if (%(y)s != NULL && PyArray_SAMESHAPE(%(y)s, (PyArrayObject *)view)) {\n"
            "                const int failed = PyArray_CopyInto(%(y)s, (PyArrayObject *)view);\n"
            "                Py_DECREF(view);\n"
            "                if (failed) {\n"
            "                    %(fail)s\n"
            "                }\n"
            "            }\n"
            "            else {\n"
            "                Py_XDECREF(%(y)s);\n"
            "                %(y)s = (PyArrayObject *)view;\n"
            "            }\n"
        ),
        witness="""
            from theano_ng.tests.authors.ways import Way
            first, way = np.arange(4.0), Way(op.FrameView(2), T.dvector())
            (y,) = way(first)
            right = (first == np.arange(4)).all()
            way(first + 10, old=[y])
            right = right and (first == np.arange(4)).all()
        """,
    ),
    PlantedFault(
        name="base_never_set",
        module="frame_view",
        kind="references",
        why="The view does not keep its input alive, so it shows other data as soon as the input is freed.",
        file="frame_view.py",
        old=(
            "            Py_INCREF(%(x)s);\n"
            "            if (PyArray_SetBaseObject((PyArrayObject *)view, (PyObject *)%(x)s) < 0) {\n"
            "                Py_DECREF(view);\n"
            "                %(fail)s\n"
            "            }\n"
        ),
        new="",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.FrameView(2), T.dvector())
            x = np.ones(4)
            (y,) = way(x)
            right = np.shares_memory(x, y) and y.base is x
        """,
    ),
    PlantedFault(
        name="base_reference_stolen",
        module="frame_view",
        kind="references",
        why="PyArray_SetBaseObject takes over a reference to the input that the code does not own.",
        file="frame_view.py",
        old="            Py_INCREF(%(x)s);\n",
        new="",
        witness="""
            import sys
            from theano_ng.tests.authors.ways import Way
            way = Way(op.FrameView(2), T.dvector())
            x = np.ones(4)
            keep = [x] * 20  # so that the array is not freed
            before = sys.getrefcount(x)
            for _ in range(5):
                way(x)
            right = sys.getrefcount(x) >= before
        """,
    ),
    PlantedFault(
        name="view_of_read_only_input_is_writeable",
        module="frame_view",
        kind="aliasing",
        why="The view is writeable although the input is not, so an Op in place can overwrite read-only memory.",
        file="frame_view.py",
        old="PyArray_FLAGS(%(x)s) & NPY_ARRAY_WRITEABLE;",
        new="NPY_ARRAY_WRITEABLE;",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, way = np.ones(4), Way(op.FrameView(2), T.dvector())
            flags = [way(x)[0].flags.writeable]
            x.flags.writeable = False
            right = flags + [way(x)[0].flags.writeable] == [True, False]
        """,
    ),
    PlantedFault(
        name="negative_axis_counted_in_output",
        module="frame_view",
        kind="parameter",
        why="A negative axis is counted from the axes of the result, which has one more.",
        file="frame_view.py",
        old="%(params)s->axis + ndim : ",
        new="%(params)s->axis + ndim + 1 : ",
        witness="""
            from theano_ng.tests.authors.test_frame_view import both_ways
            both_ways(op.FrameView(2, axis=1), T.dtensor3())(np.ones((3, 5, 7)))
            both_ways(op.FrameView(2, axis=-2), T.dtensor3())(np.ones((3, 5, 7)))
            right = True
        """,
    ),
    PlantedFault(
        name="last_frame_found_by_item_size",
        module="frame_view",
        kind="layout",
        why="The beginning of the last frame is computed from the size of an element instead of the stride.",
        file="frame_view.py",
        old="first += (length - width) * stride;",
        new="first += (length - width) * PyArray_ITEMSIZE(%(x)s);",
        witness="""
            from theano_ng.tests.authors.test_frame_view import both_ways
            both = both_ways(op.FrameView(2, newest_first=True), T.dvector())
            both(np.arange(5.0))
            both(np.arange(10.0)[::2])
            right = True
        """,
    ),
    PlantedFault(
        name="frames_end_where_the_next_begins",
        module="frame_view",
        kind="length",
        why="The number of frames is the length divided by the step, so a last frame without a gap behind it is lost.",
        file="frame_view.py",
        old="shape[axis] = length < width ? 0 : (length - width) / step + 1;",
        new="shape[axis] = length / step;",
        witness="""
            from theano_ng.tests.authors.test_frame_view import both_ways
            both = both_ways(op.FrameView(2, 1), T.dvector())
            for length in (0, 1, 3, 6, 7, 5):
                both(np.arange(float(length)))
            right = True
        """,
    ),
    PlantedFault(
        name="quotient_rounded_towards_zero",
        module="frame_view",
        kind="bounds",
        why="C rounds -1 / 2 to 0, where Python gives -1: an axis that is too short has a frame beyond its end.",
        file="frame_view.py",
        old="shape[axis] = length < width ? 0 : (length - width) / step + 1;",
        new="shape[axis] = (length - width) / step + 1;",
        witness="""
            from theano_ng.tests.authors.ways import Way, guarded
            way = Way(op.FrameView(3), T.dvector())
            right = [float(way(guarded(np.ones(n)))[0].sum()) for n in (3, 7, 2)] == [3, 6, 0]
        """,
    ),
    PlantedFault(
        name="length_of_more_than_31_bits",
        module="frame_view",
        kind="length",
        why="The length is kept in an int, so an axis of 2**31 elements seems to have a negative length.",
        file="frame_view.py",
        old=("const npy_intp length = PyArray_DIM(%(x)s, axis), stride = PyArray_STRIDE(%(x)s, axis);"),
        new="const int length = PyArray_DIM(%(x)s, axis), stride = PyArray_STRIDE(%(x)s, axis);",
        witness="""
            from theano_ng.tests.authors.ways import Way
            way = Way(op.FrameView(2**30), T.bvector())
            # The elements take no memory.
            right = [way(np.broadcast_to(np.int8(1), n))[0].shape[0] for n in (0, 2**30, 2**31 + 7)] == [0, 1, 2]
        """,
    ),
    PlantedFault(
        name="rank_of_input_accepted_as_axis",
        module="frame_view",
        kind="bounds",
        why="make_node accepts the number of dimensions as an axis: the C code reads a dimension that does not exist.",
        file="frame_view.py",
        old="if not -x.ndim <= self.axis < x.ndim:",
        new="if not -x.ndim <= self.axis <= x.ndim:",
        witness="""
            from theano_ng.tests.authors.ways import assert_raises
            for x in (T.dtensor3(), T.dscalar(), T.dmatrix()):
                assert_raises(ValueError, op.FrameView(2, axis=x.ndim), x)
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_without_gap",
        module="frame_view",
        kind="gradient",
        why="The gradient puts the frames next to each other, which is right only without a gap.",
        file="frame_view.py",
        old="T.arange(self.count(length)) * (self.width + self.gap)",
        new="T.arange(self.count(length)) * self.width",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.FrameView(2), [np.ones((2, 5))])
            utt.verify_grad(op.FrameView(2, 1), [np.ones((2, 5))])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_in_order_of_time",
        module="frame_view",
        kind="gradient",
        why="The gradient of newest_first=True counts from the last complete frame instead of the end of the axis.",
        file="frame_view.py",
        old="starts = length - self.width - starts",
        new="starts = starts[::-1]",
        witness="""
            from theano_ng.tests import unittest_tools as utt
            utt.verify_grad(op.FrameView(2, newest_first=True), [np.ones((2, 4))])
            utt.verify_grad(op.FrameView(2, newest_first=True), [np.ones((2, 5))])
            right = True
        """,
    ),
    PlantedFault(
        name="gradient_of_integers_is_an_integer",
        module="frame_view",
        kind="gradient",
        why="The derivative of an integer input has the dtype of the input instead of a floating point dtype.",
        file="frame_view.py",
        old="return [x.zeros_like(dtype=theano.config.floatX)]",
        new="return [x.zeros_like()]",
        witness="""
            x = T.lvector()
            y = op.FrameView(2)(x)
            (g,) = y.owner.op.grad([x], [T.ones_like(y, dtype="float64")])
            right = g.dtype.startswith("float") and T.grad(y.sum() * 0.5, x).dtype.startswith("float")
        """,
    ),
    PlantedFault(
        name="tangent_in_order_of_time",
        module="frame_view",
        kind="gradient",
        why="R_op builds its Op with three of the four parameters, so it forgets newest_first.",
        file="frame_view.py",
        old="return [self(eval_points[0])]",
        new="return [FrameView(self.width, self.gap, self.axis)(eval_points[0])]",
        witness="""
            x, v = T.dvectors("x", "v")
            products = [T.Rop(op.FrameView(2, newest_first=newest)(x), x, v) for newest in (False, True)]
            one, other = theano.function([x, v], products, on_unused_input="ignore")(np.ones(4), np.arange(4.0))
            right = one.tolist() == [[0, 1], [2, 3]] and other.tolist() == [[2, 3], [0, 1]]
        """,
    ),
    PlantedFault(
        name="shape_with_negative_axis",
        module="frame_view",
        kind="shape",
        why="infer_shape slices the shape at a negative axis: shape[axis + 1:] is the whole shape for the axis -1.",
        file="frame_view.py",
        old="axis = self.axis % node.inputs[0].ndim\n",
        new="axis = self.axis\n",
        witness="""
            from theano_ng.tests.authors.ways import Way
            x, value = T.dmatrix("x"), np.ones((3, 7))
            for axis in (0, 1, -1):
                f = theano.function([x], op.FrameView(2, axis=axis)(x).shape)
                right = tuple(f(value)) == Way(op.FrameView(2, axis=axis), x)(value)[0].shape
                # The shape is known without the computation of the view.
                assert not any(isinstance(node.op, op.FrameView) for node in f.maker.fgraph.toposort())
        """,
    ),
    PlantedFault(
        name="shape_of_incomplete_frame",
        module="frame_view",
        kind="shape",
        why="infer_shape divides the length by the step and rounds up, so it counts a last frame that is incomplete.",
        file="frame_view.py",
        old="return [(*shape[:axis], self.count(shape[axis]), ",
        new="return [(*shape[:axis], -(-shape[axis] // (self.width + self.gap)), ",
        witness="""
            x = T.dvector()
            f = theano.function([x], op.FrameView(3, 1)(x).shape[0])
            right = [int(f(np.ones(n))) for n in (0, 4, 7, 8, 6)] == [0, 1, 2, 2, 1]
        """,
    ),
    PlantedFault(
        name="axis_kept_by_make_node",
        module="frame_view",
        kind="state",
        why="make_node stores the axis that it counted from the first one: an Op that is applied twice uses it again.",
        file="frame_view.py",
        old="        axis, pattern = self.axis % x.ndim, x.broadcastable\n",
        new=("        self.axis %= x.ndim\n        axis, pattern = self.axis, x.broadcastable\n"),
        witness="""
            last = op.FrameView(2)
            x, y = T.dvector("x"), T.dmatrix("y")
            f = theano.function([x, y], [last(x), last(y)])
            right = [one.shape for one in f(np.ones(5), np.ones((4, 7)))] == [(2, 2), (4, 3, 2)]
        """,
    ),
    PlantedFault(
        name="axes_equal_up_to_the_sign",
        module="frame_view",
        kind="declaration",
        why="The author compares the absolute values of the axes, so Ops for the axes 1 and -1 are equal.",
        file="frame_view.py",
        old="    def make_node(self, x):\n",
        new=(
            "    def _key(self):\n"
            "        return self.width, self.gap, abs(self.axis), self.newest_first\n"
            "\n"
            "    def __eq__(self, other):\n"
            "        return type(self) is type(other) and self._key() == other._key()\n"
            "\n"
            "    def __hash__(self):\n"
            "        return hash((type(self), self._key()))\n"
            "\n"
            "    def make_node(self, x):\n"
        ),
        witness="""
            x = T.dtensor3("x")
            f = theano.function([x], [op.FrameView(2, axis=axis)(x) for axis in (1, -1)])
            right = [one.shape for one in f(np.ones((3, 5, 7)))] == [(3, 2, 2, 7), (3, 5, 3, 2)]
        """,
    ),
]
