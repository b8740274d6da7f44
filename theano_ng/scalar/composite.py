"""Composite: a scalar op that computes a graph of scalar ops.

A Composite stores its ops as a flat program. Each value has a slot number. The inputs have the first numbers. Constants
and results follow in the order of their use. Comparison, C code, evaluation and pickling use the program.

The classic attributes ``fgraph``, ``inputs`` and ``outputs`` contain a graph of variables. This graph is built from the
program when one of the attributes is first read.
"""

import re

import numpy as np

from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import reads_raw_float16
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.contraction import contracted
from theano_ng.scalar.divisors import divides, divisions
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import ScalarOp, zeros_for
from theano_ng.scalar.ops_arith import Add, IntDiv, Mod, Mul, Pow, RealDivision, Sub, TrueDiv
from theano_ng.scalar.ops_complex import Cast
from theano_ng.scalar.ops_unary import Neg
from theano_ng.scalar.program import Instruction, Program, constant_key
from theano_ng.scalar.types import Scalar, c_literal, c_type, get_scalar_type
from theano_ng.scalar.variables import ScalarConstant

# These ops are printed as operators inside a Composite. All other ops are printed as calls.
_OPERATORS = {Add: "+", Mul: "*", Sub: "-", TrueDiv: "/", IntDiv: "//", Pow: "**", Mod: "%"}

# A sub-expression gets a name and is printed once if its text is longer than _LONGEST_TEXT. For a sub-expression that
# is used several times, the limit is _LONGEST_SHARED_TEXT.
_LONGEST_SHARED_TEXT = 200
_LONGEST_TEXT = 4000

_PLACEHOLDER = r"__tng_([a-z]+[0-9]*)__"


class Composite(ScalarOp):
    """A scalar op that computes a graph of scalar ops. Elementwise fusion creates such ops.

    Parameters
    ----------
    inputs, outputs : list of scalar variables
        The graph between them may contain only `ScalarOp` applications and constants. Nested Composites are flattened,
        and equal sub-expressions are merged.

    Raises
    ------
    ValueError
        If the graph contains an op of another kind, or a variable that is not computed and is neither an input nor a
        constant.

    Examples
    --------
    >>> from theano_ng.scalar import Composite, float64
    >>> x, y = float64('x'), float64('y')
    >>> print(Composite([x, y], [(x + y) * x]))
    Composite{((i0 + i1) * i0)}
    """

    def __init__(self, inputs, outputs):
        self._set_program(Program(list(inputs), list(outputs)))

    def _set_program(self, program):
        self._program = program
        self.nin = len(program.input_types)
        self.nout = len(program.outputs)
        self.inputs_type = program.input_types
        self.outputs_type = program.output_types
        self._key = self._hash = self._name = self._graph = self._fgraph = self._steps = self._c_code_template = None
        self._ops = self._lowered = None

    # Identity

    def _identity(self):
        if self._key is None:
            self._key = (type(self), self._program.key())
        return self._key

    def __eq__(self, other):
        return self is other or (
            type(self) is type(other) and hash(self) == hash(other) and self._identity() == other._identity()
        )

    def __hash__(self):
        if self._hash is None:
            program = self._program
            self._hash = hash(
                (type(self).__qualname__, program.input_types, program.outputs)
                + tuple((i.op, i.args) for i in program.instructions)
                + tuple(constant_key(*c) for c in program.constants.values())
            )
        return self._hash

    def __getstate__(self):
        program = self._program
        return {
            "input_types": program.input_types,
            "output_types": program.output_types,
            "instructions": [tuple(i) for i in program.instructions],
            "constants": program.constants,
            "outputs": program.outputs,
        }

    def __setstate__(self, state):
        if "instructions" not in state:  # The state was pickled by Theano and contains the graph.
            self.__init__(state["inputs"], state["outputs"])
            return
        program = Program.__new__(Program)
        program.input_types = state["input_types"]
        program.output_types = state["output_types"]
        program.instructions = [Instruction(*i) for i in state["instructions"]]
        program.constants = state["constants"]
        program.outputs = state["outputs"]
        self._set_program(program)

    # The graph behind the classic attributes

    def _ensure_graph(self):
        if self._graph is None:
            inputs = [t.make_variable() for t in self._program.input_types]
            values, nodes = self._program.build(inputs)
            self._graph = (inputs, [values[o] for o in self._program.outputs], nodes)
        return self._graph

    @property
    def inputs(self):
        """The input variables of the inner graph."""
        return self._ensure_graph()[0]

    @property
    def outputs(self):
        """The output variables of the inner graph, computed from `inputs`."""
        return self._ensure_graph()[1]

    @property
    def fgraph(self):
        """The inner graph as a FunctionGraph. It shares no variables with `inputs` and `outputs`."""
        if self._fgraph is None:
            self.init_fgraph()
        return self._fgraph

    def init_fgraph(self):
        """Build the FunctionGraph of the inner graph."""
        inputs = [t.make_variable() for t in self._program.input_types]
        values, _ = self._program.build(inputs)
        self._fgraph = FunctionGraph(inputs, [values[o] for o in self._program.outputs], clone=False)

    # Names

    @property
    def name(self):
        """The printed form of the op, for example ``Composite{((i0 + i1) * i0)}``."""
        if self._name is None:
            self.init_name()
        return self._name

    @name.setter
    def name(self, value):
        self._name = value

    def init_name(self):
        """Build the printed form from the inner expressions."""
        program = self._program
        uses = {}
        for instruction in program.instructions:
            for a in instruction.args:
                uses[a] = uses.get(a, 0) + 1
        for o in program.outputs:
            uses[o] = uses.get(o, 0) + 1
        texts = {k: "i%d" % k for k in range(self.nin)}
        for slot, (type_, data) in program.constants.items():
            texts[slot] = str(ScalarConstant(type_, data))
        definitions = []
        for op, args, outs, _ in program.instructions:
            operands = [texts[a] for a in args]
            operator = _OPERATORS.get(type(op))
            if operator is not None and len(operands) > 1:
                text = "(%s)" % (" %s " % operator).join(operands)
            elif type(op) is Neg:
                text = "(-%s)" % operands[0]
            else:
                text = "%s(%s)" % (op, ", ".join(operands))
            for k, o in enumerate(outs):
                part = text if len(outs) == 1 else "%s.%d" % (text, k)
                if len(part) > _LONGEST_TEXT or (len(part) > _LONGEST_SHARED_TEXT and uses.get(o, 0) > 1):
                    texts[o] = "t%d" % len(definitions)
                    definitions.append("%s = %s" % (texts[o], part))
                else:
                    texts[o] = part
        self._name = "Composite{%s}" % ", ".join(definitions + [texts[o] for o in program.outputs])

    @property
    def n_operations(self):
        """The number of scalar ops that are applied."""
        return len(self._program.instructions)

    def __str__(self):
        return self.name

    def make_new_inplace(self, output_types_preference=None, name=None):
        """Return an equal op. The inner graph determines the types, so `output_types_preference` has no effect."""
        op = Composite.__new__(type(self))
        op._set_program(self._program)
        if name:
            op.name = name
        return op

    # Types

    def output_types(self, input_types):
        if tuple(input_types) != self.inputs_type:
            raise TypeError("Wrong types for Composite. Expected %s, got %s." % (self.inputs_type, tuple(input_types)))
        return self.outputs_type

    def make_node(self, *inputs):
        """Apply the op.

        If the types of `inputs` are not the input types of this Composite, make a Composite of the same inner ops for
        the types of `inputs`, and apply this new Composite.
        """
        inputs = [ops.as_scalar(i) for i in inputs]
        if len(inputs) != self.nin:
            raise TypeError(
                "Wrong number of inputs for %s.make_node (got %d, expected %d)" % (self, len(inputs), self.nin)
            )
        types = tuple(i.type for i in inputs)
        if types == self.inputs_type:
            return Apply(self, inputs, [t.make_variable() for t in self.outputs_type])
        fresh = [t.make_variable() for t in types]
        values = dict(enumerate(fresh))
        for slot, (type_, data) in self._program.constants.items():
            values[slot] = ScalarConstant(type_, data)
        for op, args, outs, _ in self._program.instructions:
            values.update(zip(outs, op.make_node(*[values[a] for a in args]).outputs))
        return Composite(fresh, [values[o] for o in self._program.outputs]).make_node(*inputs)

    def clone_float32(self):
        """Return a Composite that computes in float32 wherever this op computes in float16."""
        fresh = [_wide(t).make_variable() for t in self.inputs_type]
        values = dict(enumerate(fresh))
        for slot, (type_, data) in self._program.constants.items():
            values[slot] = ScalarConstant(_wide(type_), _wide(type_).filter(data, allow_downcast=True))
        for op, args, outs, _ in self._program.instructions:
            if isinstance(op, Cast):
                op = op.clone_float32()
            values.update(zip(outs, op.make_node(*[values[a] for a in args]).outputs))
        return Composite(fresh, [values[o] for o in self._program.outputs])

    # Evaluation

    def init_py_impls(self):
        """Prepare evaluation in Python: one step per inner op."""
        self._steps = [
            (op.impl, args, outs, [t.dtype for t in types]) for op, args, outs, types in self._program.instructions
        ]

    def impl(self, *inputs):
        if len(inputs) != self.nin:
            raise TypeError("%s expected %d inputs, got %d" % (self, self.nin, len(inputs)))
        if self._steps is None:
            self.init_py_impls()
        values = dict(enumerate(inputs))
        for slot, (_, data) in self._program.constants.items():
            values[slot] = data
        for impl, args, outs, dtypes in self._steps:
            result = impl(*[values[a] for a in args])
            if len(outs) == 1:
                result = (result,)
            for slot, value, dtype in zip(outs, result, dtypes):
                values[slot] = self._cast(value, dtype)
        results = tuple(values[o] for o in self._program.outputs)
        return results[0] if self.nout == 1 else results

    def prepare_node(self, node, storage_map, compute_map, impl):
        """Prepare the inner ops for the implementation `impl`, 'c' or 'py'."""
        if impl == "py":
            self.init_py_impls()
        for inner in self._ensure_graph()[2]:
            inner.op.prepare_node(inner, None, None, impl)

    def L_op(self, inputs, outputs, output_grads):
        """Return the gradients. They are computed by the chain rule through the inner ops."""
        program = self._program
        values = dict(enumerate(inputs))
        for slot, (type_, data) in program.constants.items():
            values[slot] = ScalarConstant(type_, data)
        nodes = []
        for op, args, outs, _ in program.instructions:
            node = op.make_node(*[values[a] for a in args])
            nodes.append(node)
            values.update(zip(outs, node.outputs))
        grads = {}

        def accumulate(slot, gradient):
            if isinstance(gradient.type, Scalar):
                grads[slot] = ops.add(grads[slot], gradient) if slot in grads else gradient

        for slot, gradient in zip(program.outputs, output_grads):
            accumulate(slot, gradient)
        for (op, args, outs, _), node in zip(reversed(program.instructions), reversed(nodes)):
            if not any(o in grads for o in outs):
                continue
            cotangents = [grads[o] if o in grads else v.zeros_like() for o, v in zip(outs, node.outputs)]
            for slot, gradient in zip(args, op.L_op(node.inputs, node.outputs, cotangents)):
                if slot not in program.constants:
                    accumulate(slot, gradient)
        return [grads[k] if k in grads else zeros_for([x])[0] for k, x in enumerate(inputs)]

    def grad(self, inputs, output_grads):
        return self.L_op(inputs, self.make_node(*inputs).outputs, output_grads)

    # C

    @property
    def lowered(self):
        """The program from which the C code is generated: `contracted` has combined its products with sums."""
        if self._lowered is None:
            self._lowered = contracted(self._program)
        return self._lowered

    def _lowered_nodes(self):
        return self.lowered.build([t.make_variable() for t in self._program.input_types])[1]

    def init_c_code(self):
        """Build the C template, which contains the names ``%(i0)s``, ``%(o0)s`` and ``%(nodename)s_tmp0``."""
        self._c_code_template = self._make_template(wide=False, sub={})

    def _make_template(self, wide, sub):
        """Return the C template.

        Parameters
        ----------
        wide : bool
            If True, float16 values are held in float32 variables, as in `c_code_wide`.
        sub : dict
            The dict may contain the item "zeros"; see `RealDivision`.
        """
        program = self.lowered
        unsafe = set()
        if divides(self):
            found, _ = divisions(self, [t.dtype for t in self.inputs_type], self.outputs_type[0].dtype)
            unsafe = {self._program.instructions[division.instruction].outs for division in found}
        types = program.slot_types()
        names = {k: "__tng_i%d__" % k for k in range(self.nin)}
        lines, body = [], []
        for slot, (type_, data) in program.constants.items():
            if type_.dtype != "float16":
                names[slot] = c_literal(type_.dtype, data)
            elif wide:
                names[slot] = c_literal("float32", data)
            else:
                # In C, a float16 is an integer that contains the bits of the value.
                names[slot] = "((npy_float16)%d)" % int(np.asarray(data, dtype="float16").view("uint16"))
        count = 0
        for k, (instruction, node) in enumerate(zip(program.instructions, self._lowered_nodes())):
            for o in instruction.outs:
                names[o] = "__tng_nodename___tmp%d" % count
                count += 1
                lines.append("%s %s;" % (c_type(_wide(types[o]).dtype if wide else types[o].dtype), names[o]))
            inner_sub = {"fail": "__tng_fail__", "id": "__tng_id___%d" % k}
            is_unsafe = instruction.outs in unsafe
            if isinstance(instruction.op, RealDivision) and not (is_unsafe and "zeros" not in sub):
                inner_sub["zeros"] = sub["zeros"] if is_unsafe else None
            body.append(
                (instruction.op.c_code_wide if wide else instruction.op.c_code)(
                    node,
                    "__tng_nodename___subnode%d" % k,
                    [names[a] for a in instruction.args],
                    [names[o] for o in instruction.outs],
                    inner_sub,
                )
            )
            if wide:
                body.extend(
                    "%s = tng_round_to_half(%s);" % (names[o], names[o])
                    for o in instruction.outs
                    if types[o].dtype == "float16"
                )
        # Assign the outputs last, because an output may share memory with an input.
        for k, o in enumerate(program.outputs):
            body.append("__tng_o%d__ = %s;" % (k, names[o]))
        text = "{\n" + "\n".join(lines + body) + "\n}\n"
        return re.sub(_PLACEHOLDER, r"%(\1)s", text.replace("%", "%%"))

    @property
    def _c_code(self):
        if self._c_code_template is None:
            self.init_c_code()
        return self._c_code_template

    @property
    def _f16_ok(self):
        """True if every inner op that has float16 operands supports float16 in its C code."""
        return not any(reads_raw_float16(node) for node in self._ensure_graph()[2])

    def c_code(self, node, nodename, inames, onames, sub):
        template = self._make_template(wide=False, sub=sub) if "zeros" in sub and divides(self) else self._c_code
        return self._fill(template, nodename, inames, onames, sub)

    def c_code_wide(self, node, nodename, inames, onames, sub):
        return self._fill(self._make_template(wide=True, sub=sub), nodename, inames, onames, sub)

    @staticmethod
    def _fill(template, nodename, inames, onames, sub):
        names = {"i%d" % k: n for k, n in enumerate(inames)}
        names.update(("o%d" % k, n) for k, n in enumerate(onames))
        names.update(nodename=nodename, fail=sub["fail"], id=sub.get("id", nodename))
        return template % names

    def _gather(self, method, *args):
        """Call a method such as `c_headers` of all inner ops, and join the lists without duplicates."""
        found = []
        undefined = getattr(ScalarOp, method)
        for op in self._inner_ops():
            if getattr(type(op), method) is undefined:
                continue
            try:
                found.extend(getattr(op, method)(*args))
            except MethodNotDefined:
                continue
        return list(dict.fromkeys(found))

    def _inner_ops(self):
        if self._ops is None:
            self._ops = list(dict.fromkeys(i.op for i in self.lowered.instructions))
        return self._ops

    def c_support_code(self):
        return "\n".join(dict.fromkeys(text for text in map(_support_code, self._inner_ops()) if text))

    def c_support_code_apply(self, node, name):
        texts = [super().c_support_code_apply(node, name)]
        for k, inner in enumerate(self._lowered_nodes()):
            try:
                texts.append(inner.op.c_support_code_apply(inner, "%s_subnode%d" % (name, k)))
            except MethodNotDefined:
                continue
        return "\n".join(dict.fromkeys(t for t in texts if t))

    @property
    def c_code_is_own(self):
        """True if the `c_code` of all inner ops belongs to this package."""
        return all(getattr(op, "c_code_is_own", False) for op in self._inner_ops())

    @property
    def c_support_is_c(self):
        """True if the support code of all inner ops is plain C."""
        return all(getattr(op, "c_support_is_c", False) for op in self._inner_ops())

    def c_headers(self):
        return self._gather("c_headers")

    def c_header_dirs(self):
        return self._gather("c_header_dirs")

    def c_libraries(self):
        return self._gather("c_libraries")

    def c_lib_dirs(self):
        return self._gather("c_lib_dirs")

    def c_compile_args(self):
        return self._gather("c_compile_args")

    def c_no_compile_args(self):
        return self._gather("c_no_compile_args")

    def c_code_cache_version(self):
        versions = [(2,)]
        for op in self._inner_ops():
            version = op.c_code_cache_version()
            if not version:
                return ()
            versions.append(version)
        return tuple(versions)


def _support_code(op):
    try:
        return op.c_support_code()
    except MethodNotDefined:
        return ""


def _wide(type_):
    return get_scalar_type("float32") if type_.dtype == "float16" else type_


def handle_cast(node, mapping):
    """Convert a cast for `Compositef32`: replace a cast to float16 by a cast to float32."""
    value = mapping[node.inputs[0]]
    op = node.op.clone_float32()
    result = value if value.type == op.o_type else op(value)
    mapping[node.outputs[0]] = result


def handle_composite(node, mapping):
    """Convert a nested Composite to float32 for `Compositef32`."""
    op = node.op.clone_float32()
    for old, new in zip(node.outputs, op.make_node(*[mapping[i] for i in node.inputs]).outputs):
        mapping[old] = new


class Compositef32:
    """A converter of scalar graphs from float16 to float32.

    The dict ``special`` maps an op class to the function that converts its nodes.
    """

    special = {Cast: handle_cast, Composite: handle_composite}

    def apply(self, fgraph):
        """Return a new FunctionGraph with float32 instead of float16.

        Parameters
        ----------
        fgraph : FunctionGraph
        """
        mapping = {i: _wide(i.type).make_variable(name=i.name) for i in fgraph.inputs}
        for node in fgraph.toposort():
            for i in node.inputs:
                if i not in mapping:
                    type_ = _wide(i.type)
                    mapping[i] = ScalarConstant(type_, type_.filter(i.data, allow_downcast=True), name=i.name)
            rule = self.special.get(type(node.op))
            if rule is not None:
                rule(node, mapping)
                continue
            for old, new in zip(node.outputs, node.op.make_node(*[mapping[i] for i in node.inputs]).outputs):
                mapping[old] = new
        outputs = [mapping.get(o, o) for o in fgraph.outputs]
        return FunctionGraph([mapping[i] for i in fgraph.inputs], outputs, clone=False)


composite_f32 = Compositef32()
