"""Nodes with an inner graph (loops of every form, OpFromGraph), and conditionals that compute only one branch."""

from dataclasses import dataclass

from theano_ng.tests.programs.operations import Operation, Pick, booleans, both, dense, floats, register
from theano_ng.tests.programs.records import Body

LOOPS, BUILDERS, CONDITIONS = "loops", "OpFromGraph", "conditions"
TAPS = ((-1,), (-1,), (-1,), (-2,), (-1, -2), (-3, -1))


def _whole(v):
    """Return True for a nonempty float array without broadcastable axes, so that all its rows have the same type."""
    return floats(v) and not any(v.broadcastable) and 0 not in v.array.shape


def _indented(lines):
    return ["    " + line for line in lines]


@dataclass(frozen=True)
class WithBody(Operation):
    """An operation with an inner graph, which is a Python function in the source code of the graph and of the twin."""

    def function_lines(self, node, render, returned):
        inside = [line for inner in node.body.nodes for line in render.lines(inner)]
        head = "def %s(%s):" % (self.function_name(node), ", ".join(node.body.inputs))
        return [head, *_indented([*inside, "return " + returned])]

    @staticmethod
    def function_name(node):
        return "step_" + node.name


class Loop(WithBody):
    """``theano.scan``. Its parameters define which operands are sequences, states and other values of the step, and
    their taps.

    Parameters of a node: ``sequences`` and ``states`` are tuples of (index of an operand, taps). ``others`` is a tuple
    of indices of operands. ``more`` is the number of outputs that are not states. ``until`` is None or a bound: the
    loop ends after a step if the sum of its last output exceeds the bound.
    """

    def _settings(self, node):
        return dict(node.parameters), lambda k: node.operands[k]

    def graph_lines(self, node, render):
        settings, operand = self._settings(node)
        returned = "[%s]" % ", ".join(node.body.outputs)
        if settings["until"] is not None:
            returned += ", theano.scan_module.until(%s.sum() > %r)" % (node.body.outputs[-1], settings["until"])
        sequences = ["dict(input=%s, taps=%r)" % (operand(k), list(taps)) for k, taps in settings["sequences"]]
        states = [
            "dict(initial=%s%s, taps=%r)" % (operand(k), "" if taps == (-1,) else "[:%d]" % -min(taps), list(taps))
            for k, taps in settings["states"]
        ]
        call = (
            "theano.scan(%s, sequences=[%s], outputs_info=[%s], non_sequences=[%s], n_steps=%r, go_backwards=%r, truncate_gradient=%r, return_list=True)"
            % (
                self.function_name(node),
                ", ".join(sequences),
                ", ".join([*states, *["None"] * settings["more"]]),
                ", ".join([operand(k) for k in settings["others"]]),
                settings["n_steps"],
                settings["backwards"],
                settings["truncate"],
            )
        )
        return [*self.function_lines(node, render, returned), "%s = %s[0]" % (node.name, call)]

    def twin_lines(self, node, render):
        settings, operand = self._settings(node)
        stop = "False"
        if settings["until"] is not None:
            stop = "np.sum(%s) > %r" % (node.body.outputs[-1], settings["until"])
        call = "loop(%s, [%s], [%s], [%s], %r, %r)" % (
            self.function_name(node),
            ", ".join(["(%s, %r)" % (operand(k), taps) for k, taps in settings["sequences"]]),
            ", ".join(["(%s, %r)" % (operand(k), taps) for k, taps in settings["states"]]),
            ", ".join([operand(k) for k in settings["others"]]),
            settings["n_steps"],
            settings["backwards"],
        )
        returned = "[%s], %s" % (", ".join(node.body.outputs), stop)
        return [*self.function_lines(node, render, returned), "%s = %s" % (node.name, call)]

    def pick(self, draw):
        operands, rows = [], []
        sequences = self._sequences(draw, operands, rows)
        states, wanted = self._states(draw, operands, rows)
        if not sequences and not states:
            return None
        others = self._others(draw, operands, rows)
        inner = draw.inside(rows)
        for _ in range(draw.integer(1, 4)):
            inner.grow(loops=True)
        outputs = [inner.like(*row) for row in wanted]
        more = inner.computed()
        more = [draw.choice(more)] if more and (not states or draw.chance(0.4)) else []
        if None in outputs or not outputs + more:
            return None
        until = draw.choice((0.3, 1.0, 2.5)) if draw.chance(0.1) and floats(([*outputs, *more])[-1]) else None
        length = min([len(operands[k].array) - max(0, *taps) + min(0, *taps) for k, taps in sequences], default=None)
        if length is not None and length < 1:
            return None
        n_steps = draw.integer(1, 5) if length is None else draw.choice((None, None, None, draw.integer(1, length)))
        parameters = dict(
            sequences=sequences,
            states=states,
            others=others,
            more=len(more),
            until=until,
            n_steps=n_steps,
            backwards=bool(sequences) and draw.chance(0.2),
            truncate=draw.choice((-1,) * 9 + (2,)),
        )
        return Pick(operands, parameters, inner.body([*outputs, *more]))

    def _sequences(self, draw, operands, rows):
        found = []
        for _ in range(draw.choice((0, 1, 1, 1, 2))):
            value = draw.value(both(_whole, lambda v: v.array.ndim >= 1))
            if value is not None:
                taps = draw.varied(((0,), (0,), (0,), (0, 1), (-1, 0), (0, -2)))
                if len(value.array) < max(0, *taps) - min(0, *taps) + 1:
                    taps = (0,)
                found.append((len(operands), taps))
                operands.append(value)
                rows.extend([(value, tap - min(0, *taps)) for tap in taps])
        return tuple(found)

    def _states(self, draw, operands, rows):
        found, wanted = [], []
        for _ in range(draw.choice((0, 1, 1, 1, 2))):
            taps = draw.varied(TAPS)
            lead = 0 if taps == (-1,) else -min(taps)
            value = draw.value(both(_whole, lambda v: not lead or v.array.ndim >= 1 and len(v.array) >= lead))
            if value is not None:
                found.append((len(operands), taps))
                operands.append(value)
                read = [lead + tap if lead else None for tap in taps]
                rows.extend([(value, k) for k in read])
                wanted.append((value, read[0]))
        return tuple(found), wanted

    def _others(self, draw, operands, rows):
        value = draw.value(floats) if draw.chance(0.5) else None
        if value is None:
            return ()
        operands.append(value)
        rows.append((value, None))
        return (len(operands) - 1,)


class Builder(WithBody):
    """``OpFromGraph`` with one or two operands."""

    def graph_lines(self, node, render):
        parameters, operands = "parameters_" + node.name, ", ".join(node.operands)
        return [
            *self.function_lines(node, render, "[%s]" % ", ".join(node.body.outputs)),
            "%s = [v.type() for v in [%s]]" % (parameters, operands),
            "%s = theano.compile.builders.OpFromGraph(%s, %s(*%s), inline=%r, on_unused_input='ignore')(%s, return_list=True)"
            % (node.name, parameters, self.function_name(node), parameters, dict(node.parameters)["inline"], operands),
        ]

    def twin_lines(self, node, render):
        call = "%s = %s(%s)" % (node.name, self.function_name(node), ", ".join(node.operands))
        return [*self.function_lines(node, render, "[%s]" % ", ".join(node.body.outputs)), call]

    def pick(self, draw):
        operands = [draw.value(dense) for _ in range(draw.integer(1, 2))]
        if None in operands:
            return None
        inner = draw.inside([(value, None) for value in operands])
        for _ in range(draw.integer(1, 4)):
            inner.grow()
        outputs = inner.computed()
        if not outputs:
            return None
        outputs = [draw.choice(outputs) for _ in range(draw.integer(1, 2))]
        return Pick(operands, dict(inline=draw.chance(0.3)), inner.body(outputs))


def body(inputs, nodes, outputs):
    """Return the Body of some nodes. Nodes that no output needs are left out."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted.update(node.operands)
    return Body(tuple(inputs), tuple(reversed(kept)), tuple(outputs))


register(Loop("loop", LOOPS, "", "", weight=12))
register(Builder("op_from_graph", BUILDERS, "", "", weight=4))
register(
    Operation(
        "ifelse",
        CONDITIONS,
        "ifelse({0}.sum() > {bound!r}, {1}, {2})",
        "({1} if np.sum({0}) > {bound!r} else {2})",
        (floats, dense, dense),
        lambda c, a, b: (
            a.array.dtype == b.array.dtype and a.array.ndim == b.array.ndim and a.broadcastable == b.broadcastable
        ),
        parameters=lambda draw, *_: dict(bound=draw.choice((-1.0, 0.0, 1.0))),
        exact=True,
        weight=4,
    )
)
register(
    Operation(
        "ifelse_of_variable",
        CONDITIONS,
        "ifelse({0}, {1}, {2})",
        "({1} if {0} else {2})",
        (both(booleans, lambda v: v.array.ndim == 0), dense, dense),
        lambda c, a, b: (
            a.array.dtype == b.array.dtype and a.array.ndim == b.array.ndim and a.broadcastable == b.broadcastable
        ),
        exact=True,
        weight=2,
    )
)
_ROWS = both(_whole, lambda v: v.array.ndim >= 1 and float(abs(v.array).max()) < 50)
register(
    Operation(
        "map", LOOPS, "theano.map(lambda a: T.tanh(a) + a, {0})[0]", "np.tanh({0}) + {0}", (_ROWS,), ulps=8, weight=2
    )
)
# A step adds a term between -1 and 1 to an element. If both cancel, the rounding error is relative to `scale`,
# not to their sum.
_FOLDED = dict(ulps=64, scale="np.max(np.abs({0}), axis=0) + 1")
for _name, _backwards in (("foldl", False), ("foldr", True)):
    register(
        Operation(
            _name,
            LOOPS,
            "theano.%s(lambda a, p: T.tanh(a * p) + a, {0}, T.ones_like({0}[0]))[0]" % _name,
            "folded({0}, %r)" % _backwards,
            (_ROWS,),
            weight=2,
            **_FOLDED,
        )
    )
register(
    Operation(
        "scan_checkpoints",
        LOOPS,
        "theano.scan_checkpoints(lambda a, p: T.tanh(a * p) + a, {0}, T.ones_like({0}[0]), save_every_N={every})[0]",
        "kept({0}, {every})",
        (_ROWS,),
        parameters=lambda draw, x: dict(every=draw.integer(1, 4)),
        weight=1.5,
        **_FOLDED,
    )
)
