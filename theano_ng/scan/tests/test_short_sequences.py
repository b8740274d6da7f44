"""Loops over sequences of random lengths give the same results, or raise an error, before and after rewriting."""

import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T

VIEWS = {
    "x": lambda x: x,
    "x[::-1]": lambda x: x[::-1],
    "x[1:]": lambda x: x[1:],
    "x[:-1]": lambda x: x[:-1],
    "2 * x": lambda x: 2 * x,
    "dot(x, x.T)[0]": lambda x: T.dot(x.dimshuffle(0, "x"), x.dimshuffle("x", 0))[0],
    "dot(x, M)": lambda x: T.dot(x, T.ones((x.shape[0], 3))),
}
TAPS = [[0], [0], [0], [0, 1], [-1, 0], [1], [0, 2]]
OPERATIONS = {
    "minimum": T.minimum,
    "maximum": T.maximum,
    "sub": T.sub,
    "add": T.add,
    "mul": T.mul,
    "smaller": lambda a, b: T.switch(T.lt(a, b), a, b),
}


class Program:
    """A random loop over vectors. The loop depends only on a seed.

    A result reads each tap of each sequence, because rules may remove sequences that no result reads.
    """

    def __init__(self, seed):
        draw = random.Random(seed)
        self.vectors = [T.dvector("x%d" % i) for i in range(draw.randint(1, 3))]
        self.text = []
        sequences = [self._sequence(draw, x) for x in self.vectors]
        n_steps = self._number(draw, draw.randint(0, 2)) if draw.random() < 0.75 else None
        reads = list(range(sum(len(s["taps"]) for s in sequences)))
        terms = [draw.sample(reads, draw.randint(1, min(2, len(reads)))) for _ in range(draw.randint(1, 3))]
        terms[0] = list(dict.fromkeys(terms[0] + reads))
        recurrent = [draw.random() < 0.3 for _ in terms]
        last = [draw.random() < 0.3 for _ in terms]

        def step(*rows):
            states = list(rows[len(reads) :])
            results = [sum(rows[i] * (i + 1.0) for i in several) for several in terms]
            return [r + states.pop(0) if c else r for r, c in zip(results, recurrent)]

        backwards = draw.random() < 0.25
        outputs, _ = theano.scan(
            step,
            sequences=sequences,
            outputs_info=[T.zeros((), "float64") if c else None for c in recurrent],
            n_steps=n_steps,
            go_backwards=backwards,
            return_list=True,
        )
        self.outputs = [out[-1] if of_last else out for out, of_last in zip(outputs, last)]
        self.text += [
            "n_steps = %s" % (n_steps if n_steps is None else theano.pprint(n_steps)),
            "terms %s, recurrent %s, last %s, backwards %s" % (terms, recurrent, last, backwards),
        ]
        if len(self.vectors) > 1 and draw.random() < 0.3:
            self.lengths = [[draw.randint(1, 5)] * len(self.vectors) for _ in range(6)]
        else:
            self.lengths = [[draw.randrange(5) for _ in self.vectors] for _ in range(6)]

    def _sequence(self, draw, x):
        view, taps = draw.choice(list(VIEWS)), draw.choice(TAPS)
        self.text.append("%s: %s, taps %s" % (x, view, taps))
        return {"input": VIEWS[view](x), "taps": taps}

    def _number(self, draw, depth):
        if not depth or draw.random() < 0.2:
            return draw.choice([*[x.shape[0] for x in self.vectors], T.constant(draw.randrange(4), dtype="int64")])
        name = draw.choice(list(OPERATIONS))
        a, b = self._number(draw, depth - 1), self._number(draw, depth - 1)
        if draw.random() < 0.3:
            b = T.constant(draw.randint(1, 2), dtype="int64")
        return OPERATIONS[name](a, b)

    def results(self, mode):
        """Return for each of `lengths` a list of arrays, or the name of an error."""
        fn = theano.function(self.vectors, self.outputs, mode=mode)
        found = []
        for lengths in self.lengths:
            try:
                found.append([r.tolist() for r in fn(*[np.arange(1.0, n + 1) * (-1) ** n for n in lengths])])
            except (ValueError, IndexError, AssertionError) as error:
                found.append(type(error).__name__)
        return found


class TestShortSequences(unittest.TestCase):
    def check(self, seeds):
        raised = returned = 0
        for seed in seeds:
            try:
                program = Program(seed)
            except ValueError as error:  # the program has a constant, negative number of steps
                self.assertIn("negative numbers of steps", str(error))
                continue
            plain = theano.compile.get_mode("FAST_COMPILE")
            for lengths, wanted, found in zip(
                program.lengths, program.results(plain), program.results(theano.compile.get_mode("FAST_RUN"))
            ):
                fails = isinstance(wanted, str)
                raised, returned = raised + fails, returned + (not fails)
                if isinstance(found, str) != fails or not fails and found != wanted:
                    self.fail(
                        "seed %d, %s, lengths %s: %s instead of %s"
                        % (seed, "; ".join(program.text), lengths, found, wanted)
                    )
        self.assertGreater(raised, len(seeds))
        self.assertGreater(returned, len(seeds))

    def test_generated_loops(self):
        self.check(range(60))

    def test_results_of_one_sequence(self):
        """If one of two sequences is too short, a function raises an error instead of returning fewer rows."""
        x, y = T.dvectors("x", "y")
        for n_steps in (
            T.maximum(x.shape[0], y.shape[0]),
            x.shape[0] + y.shape[0] - 1,
            x.shape[0] - (1 - y.shape[0]),
            T.constant(3),
            T.switch(T.gt(x.shape[0], y.shape[0]), x.shape[0], y.shape[0]),
        ):
            outputs, _ = theano.scan(lambda a, b: [a * 2, b + 1], sequences=[x, y], n_steps=n_steps)
            fn = theano.function([x, y], outputs, mode=theano.compile.get_mode("FAST_RUN"))
            with self.subTest(n_steps=theano.pprint(n_steps)), self.assertRaisesRegex(AssertionError, "shorter than"):
                fn(np.ones(3), np.ones(1))

    def test_no_checks_where_none_are_needed(self):
        """The rewritten graph has no Assert if the number of steps never exceeds the lengths of the sequences."""
        x, y, n = T.dvector("x"), T.dvector("y"), T.iscalar("n")
        for sequences, n_steps in (
            ([x, y], None),
            ([x, y], T.minimum(y.shape[0], x.shape[0])),
            ([x, x[::-1]], x.shape[0]),
            ([x, T.arange(n)], None),
            ([x, T.arange(x.shape[0])], None),
            ([{"input": x, "taps": [-1, 0]}], None),
            ([{"input": x, "taps": [0, 2]}, y], None),
        ):
            last, _ = theano.scan(
                lambda a, *others: a * sum(others), sequences, T.zeros((), "float64"), n_steps=n_steps
            )
            each, _ = theano.scan(lambda a, *others: a * sum(others), sequences, n_steps=n_steps)
            for out in (last, each, T.grad(last.sum(), x), T.grad(each.sum(), x)):
                fn = theano.function([x, y, n], out, mode=theano.compile.get_mode("FAST_RUN"), on_unused_input="ignore")
                ops = [type(node.op).__name__ for node in fn.maker.fgraph.toposort()]
                with self.subTest(sequences=sequences, n_steps=n_steps):
                    self.assertNotIn("Assert", ops)


if __name__ == "__main__":
    unittest.main()
