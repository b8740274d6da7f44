"""The context of a check: its target, its examples, and functions that make its verdict."""

import time

from theano_ng.audit import generate
from theano_ng.audit.problems import Problem, Reject
from theano_ng.audit.processes import in_child, step
from theano_ng.audit.records import Finding, Verdict
from theano_ng.audit.runners import Unbuildable, make_runner
from theano_ng.audit.running import reference, run_or_error


class Context:
    """The context of one check of one case.

    Parameters
    ----------
    target : Target
    check : str
    max_examples, seed : int
    limit : float or None
        Time limit in seconds.
    apart : bool
        If True, each example runs in a separate process. This is necessary if an example kills its process.

    Attributes
    ----------
    case : Case
    op : Op
    node : Apply
        The node for the types of the example inputs. ``target.built`` has the nodes for other types.
    """

    def __init__(self, target, check, max_examples=50, seed=0, limit=None, apart=False):
        self.target, self.check, self.max_examples, self.seed, self.apart = target, check, max_examples, seed, apart
        self.case, self.op, self.node = target.case, target.op, target.base.node
        self._end = None if limit is None else time.perf_counter() + limit
        self._start = time.perf_counter()
        self._runners = {}

    def seconds_left(self):
        """Return the time in seconds that is left for the check. It is infinite without a limit."""
        return float("inf") if self._end is None else self._end - time.perf_counter()

    # -- verdicts --------------------------------------------------------------------------------------------------

    def ok(self, examples=0):
        """Return the verdict of a check that found nothing. `examples` is the number of examples that it tried."""
        return Verdict(self.check, "ok", examples, time.perf_counter() - self._start)

    def skipped(self, reason):
        """Return the verdict of a check that does not apply."""
        return Verdict(self.check, "skipped", 0, time.perf_counter() - self._start, reason=reason)

    def failed(self, findings, examples=0):
        """Return the verdict of a check that found errors. `examples` is the number of examples that it tried."""
        return Verdict(self.check, "failed", examples, time.perf_counter() - self._start, tuple(findings))

    def finding(self, problem, example=None):
        """Return the `Finding` for a `Problem` that an example shows."""
        return Finding(
            self.check,
            problem.error,
            problem.message,
            () if example is None else example.describe(),
            problem.evidence,
            problem.location,
            "" if example is None else example.built.change,
        )

    def verdict(self, problems, examples=0):
        """Return the verdict for a list of problems, each a `Problem` or a pair (Problem, Example)."""
        pairs = [p if isinstance(p, tuple) else (p, None) for p in problems]
        if not pairs:
            return self.ok(examples)
        return self.failed([self.finding(problem, example) for problem, example in pairs], examples)

    # -- examples --------------------------------------------------------------------------------------------------

    def find(self, attempt, stages=None, **limits):
        """Try examples, and shrink the examples that fail.

        Parameters
        ----------
        attempt : callable
            ``attempt(example)`` raises `Problem` if it detects an error, and `Reject` if the example does not apply.
        stages : list of generate.Stage, optional
            Default: all stages of the target.
        **limits
            Arguments of `generate.stages`.

        Returns
        -------
        Verdict
            Its status is skipped if all examples were rejected.
        """
        if stages is None:
            stages = generate.stages(self.target, self.max_examples, **limits)
        stages = self._usable(stages)
        search = generate.Search(self._isolated(attempt) if self.apart else attempt, self.seed, self.seconds_left)
        found = search.run(self.target, stages)
        if not found and not search.accepted:
            return self.skipped("the Op accepted none of the inputs that were tried")
        return self.verdict(found, search.accepted)

    def _isolated(self, attempt):
        """Return a function that calls `attempt` in a forked process, and raises `Problem` if this process dies."""

        def forked(example):
            def quiet():
                try:
                    attempt(example)
                except (Problem, Reject) as outcome:
                    return type(outcome), outcome.args
                return None, ()

            ending = in_child(quiet, steps=1)
            if ending.how != "ended":
                raise Problem(
                    "EndlessLoop" if ending.endless else "Crash",
                    "the process died: %s" % ending.how,
                    ending.stack,
                    self.target.place_in(ending.stack),
                )
            kind, arguments = ending.answer
            if kind is not None:
                raise kind(*arguments)

        return forked

    def examples(self, count=20, valid=True, **limits):
        """Return a list of examples, drawn by the same stages as in `find`.

        Parameters
        ----------
        count : int
            The maximum number of examples.
        valid : bool
            If True, leave out examples that the Op refuses.
        """
        found = []

        def collect(example):
            if len(found) >= count:
                raise Reject()
            if valid:
                reference(self, example)
            found.append(example)

        search = generate.Search(collect, self.seed, lambda: count - len(found))
        search.run(self.target, self._usable(generate.stages(self.target, self.max_examples, **limits)))
        step(tuple)  # from now on, the check itself chooses the examples
        return found

    def _usable(self, stages):
        """Leave out the stages for neighbours of the Op that refuse the example inputs.

        Such a neighbour has an argument that is not valid for these inputs. A constructor need not notice this.
        """
        accepted = {}
        for built in self.target.neighbours:
            accepted[built.index] = self._accepts(built)
        return [stage for stage in stages if accepted.get(stage.built.index, True)]

    def _accepts(self, built):
        """Return True if the Op of a node accepts the example inputs, or if it kills the process that computes them."""
        example = generate.given_example(self.target, built)

        def accepts():
            try:
                return not isinstance(run_or_error(self, "any", example, plain=True), Exception)
            except Reject:
                return False

        return accepts() if not self.apart else in_child(accepts, steps=1).answer is not False

    # -- implementations -------------------------------------------------------------------------------------------

    def runner(self, built, kind):
        """Return the runner for a node and an implementation, from a cache.

        Parameters
        ----------
        built : targets.Built
            The node.
        kind : str
            The implementation; see `runners.make_runner`.

        Returns
        -------
        runners.Runner or None
            None if the implementation does not exist.

        Raises
        ------
        Problem
            If the runner cannot be built. The problem has the name CompileError, BadCacheVersion or BadThunkOutput.
        """
        if (built.index, kind) not in self._runners:
            step()
            try:
                self._runners[built.index, kind] = make_runner(built, kind)
            except Unbuildable as failure:
                self._runners[built.index, kind] = failure
        found = self._runners[built.index, kind]
        if isinstance(found, Unbuildable):
            raise Problem(found.error, found.message, found.evidence, self.target.location(found.method))
        return found
