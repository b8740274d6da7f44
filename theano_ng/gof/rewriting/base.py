"""Global optimizers: the base class, optimizers that consist of a function, and sequences of optimizers."""

from __future__ import annotations

import itertools
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from theano_ng.configdefaults import config
from theano_ng.gof import progress, toolbox
from theano_ng.gof.destroy import handler as destroyhandler

if TYPE_CHECKING:
    from theano_ng.gof.fg import FunctionGraph

_logger = logging.getLogger("theano_ng.gof.opt")

_numbers = itertools.count(1)


def next_index() -> int:
    """Return a number that is unique among the optimizers of the process.

    Optimizers use this number as their hash, so that hashes do not depend on memory addresses.
    """
    return next(_numbers)


class Numbered:
    """A base class of objects that equal only themselves.

    The hash of an object is the number that `next_index` returns when the hash is first requested.
    """

    _optimizer_idx: int

    def __hash__(self) -> int:
        try:
            return self._optimizer_idx
        except AttributeError:
            self._optimizer_idx = next_index()
            return self._optimizer_idx

    def __eq__(self, other: object) -> bool:
        return self is other


def report_failure(what: object, exc: Exception, details: Iterable[str] = ()) -> None:
    """Handle an exception of an optimizer as the flag `on_opt_error` specifies.

    The caller must be inside the ``except`` block. If the flag is 'warn', assertion errors still propagate: they show
    that an invariant is violated, not that a rule does not apply.

    Parameters
    ----------
    what : str
        The optimizer, as shown to the user.
    exc : Exception
    details : sequence of str
        Lines that help to locate the failure. They are logged before the traceback.
    """
    policy = config.on_opt_error
    if policy == "ignore":
        return
    _logger.error("Optimization failure due to: %s", what)
    for line in details:
        _logger.error("%s", line)
    _logger.error("TRACEBACK:")
    _logger.error("%s", traceback.format_exc())
    if policy == "pdb":
        import pdb

        pdb.post_mortem(sys.exc_info()[2])
    elif isinstance(exc, AssertionError) or policy == "raise":
        raise exc


constant_makers: list[Any] = []
"""Functions that may return the same Constant twice if their attribute `enable` is true.

A graph must not share its constants with other graphs, so `enable` is false while optimizers run.
"""


class Optimizer(Numbered):
    """A graph transformation: it takes a `FunctionGraph` and replaces variables in it.

    Subclasses define `apply`, and `add_requirements` if they need features of the graph.
    """

    name = None

    def apply(self, fgraph: FunctionGraph) -> Any:
        """Transform `fgraph`. Return profile data whose first item is this optimizer, or None."""

    def optimize(self, fgraph: FunctionGraph, *args: Any, **kwargs: Any) -> Any:
        """Attach the required features, then call `apply`. This is the entry point for callers."""
        changed = [(make, make.enable) for make in constant_makers]
        changing_back = iter(changed)  # created now, because memory may be exhausted at the end
        try:
            for make, _ in changed:
                make.enable = False
            self.add_requirements(fgraph)
            return self.apply(fgraph, *args, **kwargs)
        finally:
            for make, enable in changing_back:
                make.enable = enable

    def __call__(self, fgraph: FunctionGraph) -> Any:
        return self.optimize(fgraph)

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        """Attach the features that `apply` needs. By default, attach none."""

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        """Write one line that names this optimizer. Subclasses write more lines."""
        name = getattr(self, "name", None)
        print("%s%s %s id=%i" % (" " * level, self.__class__.__name__, name, id(self)), file=stream)

    @staticmethod
    def print_profile(stream: TextIO, prof: Any, level: int = 0) -> None:
        """Write the profile data that `apply` returned, if there is any."""
        if prof is not None:
            raise TypeError(
                "%s returned profile data but defines no print_profile; "
                "return None from apply or define print_profile(stream, prof, level)" % (prof[0],)
            )


def requirement_functions(requirements: Iterable[Any]) -> tuple[Callable[[FunctionGraph], Any], ...]:
    """Return the argument `requirements` of a decorator as a tuple, after a check that its elements are callable."""
    requirements = tuple(requirements)
    for requirement in requirements:
        if not callable(requirement):
            raise TypeError("requirements must be functions that take a FunctionGraph, got %r" % (requirement,))
    return requirements


class FromFunctionOptimizer(Optimizer):
    """An optimizer whose `apply` is a function of the graph.

    Parameters
    ----------
    fn : callable
        ``fn(fgraph)``.
    requirements : sequence of callables
        Functions that are called with the graph before `fn`, to attach features.
    """

    def __init__(self, fn: Callable[..., Any], requirements: Iterable[Callable[[FunctionGraph], Any]] = ()) -> None:
        self.fn = fn
        self.requirements = requirement_functions(requirements)
        self.__name__ = getattr(fn, "__name__", None)
        self.__doc__ = getattr(fn, "__doc__", None)

    def apply(self, fgraph: FunctionGraph, *args: Any, **kwargs: Any) -> None:
        self.fn(fgraph, *args, **kwargs)

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        for requirement in self.requirements:
            requirement(fgraph)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        print(
            "%s%s id=%i" % (" " * level, self.apply if self.__name__ is None else self.__name__, id(self)), file=stream
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __str__(self) -> str:
        return self.__name__ or self.__class__.__name__


def optimizer(f: Callable[..., Any]) -> FromFunctionOptimizer:
    """Return an optimizer whose `apply` is ``f(fgraph)``. This is a decorator.

    The function can change the graph by ``replace_validate``.
    """
    rval = FromFunctionOptimizer(f, (attach_replace_validate,))
    rval.__name__ = f.__name__
    return rval


def inplace_optimizer(f: Callable[..., Any]) -> FromFunctionOptimizer:
    """Return an optimizer whose `apply` is ``f(fgraph)``. This is a decorator.

    The function can change the graph by ``replace_validate`` and introduce in-place operations.
    """
    rval = FromFunctionOptimizer(f, (attach_replace_validate, attach_destroy_handler))
    rval.__name__ = f.__name__
    return rval


def attach_replace_validate(fgraph: FunctionGraph) -> None:
    """Attach `ReplaceValidate`, unless it is attached already."""
    fgraph.attach_feature(toolbox.ReplaceValidate())


def attach_destroy_handler(fgraph: FunctionGraph) -> None:
    """Attach `DestroyHandler`, unless it is attached already."""
    fgraph.attach_feature(destroyhandler.DestroyHandler())


class SeqOptimizer(Optimizer, list):
    """An optimizer that applies several optimizers one after the other.

    Parameters
    ----------
    *opts : Optimizer
        The optimizers, or one list or tuple of optimizers.
    name : str, optional
    failure_callback : callable, optional
        ``failure_callback(exc, seqoptimizer, optimizer)`` is called if an optimizer raises an error. Without it, the
        exception propagates.
    """

    @staticmethod
    def warn(exc: Exception, self: SeqOptimizer, optimizer: Optimizer) -> None:
        """Handle an exception as the flag `on_opt_error` specifies. This is a failure callback."""
        report_failure("SeqOptimizer apply %s" % optimizer, exc)

    def __init__(self, *opts: Any, **kw: Any) -> None:
        failure_callback = kw.pop("failure_callback", None)
        name = kw.pop("name", None)
        if kw:
            raise TypeError("SeqOptimizer got unknown arguments %s; it takes name and failure_callback" % sorted(kw))
        if len(opts) == 1 and isinstance(opts[0], (list, tuple)):
            opts = tuple(opts[0])
        list.__init__(self, opts)
        self.failure_callback = failure_callback
        if name is not None:
            self.name = name

    __hash__ = Optimizer.__hash__  # type: ignore[assignment]
    __eq__ = Optimizer.__eq__
    __ne__ = Optimizer.__ne__

    def apply(self, fgraph: FunctionGraph) -> Any:
        """Apply all optimizers. Return profile data for `print_profile`."""
        profile = getattr(fgraph, "profile", None)
        callbacks_before = dict(getattr(fgraph, "execute_callbacks_times", ()))
        callback_before = getattr(fgraph, "execute_callbacks_time", 0.0)
        validate_before = profile.validate_time if profile else None
        nb_node_before = len(fgraph.apply_nodes)
        times, sub_profs, nb_nodes, sub_validate = [], [], [], []
        try:
            for opt in self:
                nb_before = len(fgraph.apply_nodes)
                v0 = profile.validate_time if profile else 0.0
                t0 = time.perf_counter()
                progress.task.rewriting(fgraph, opt)
                sub_prof = None
                try:
                    sub_prof = opt.optimize(fgraph)
                except (AssertionError, MemoryError):  # after a MemoryError, the graph may be half rewritten
                    raise
                except Exception as e:
                    if self.failure_callback is None:
                        raise
                    self.failure_callback(e, self, opt)
                times.append(time.perf_counter() - t0)
                sub_profs.append(sub_prof)
                nb_nodes.append((nb_before, len(fgraph.apply_nodes)))
                sub_validate.append((profile.validate_time if profile else 0.0) - v0)
        finally:
            validate_time = profile.validate_time - validate_before if profile else None
            callback_time = getattr(fgraph, "execute_callbacks_time", 0.0) - callback_before
            callbacks_time = {
                k: v - callbacks_before.get(k, 0.0)
                for k, v in dict(getattr(fgraph, "execute_callbacks_times", ())).items()
                if v > callbacks_before.get(k, 0.0)
            }
        return (
            self,
            times,
            validate_time,
            callback_time,
            nb_node_before,
            len(fgraph.apply_nodes),
            sub_profs,
            sub_validate,
            nb_nodes,
            callbacks_time,
        )

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        # Do nothing: when `apply` calls `optimize` of an optimizer, `optimize` attaches the features that it needs.
        pass

    def __str__(self) -> str:
        return "SeqOpt(%s)" % list.__str__(self)

    def __repr__(self) -> str:
        return list.__repr__(self)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        name = getattr(self, "name", None)
        print("%s%s %s id=%i" % (" " * level, self.__class__.__name__, name, id(self)), file=stream)
        if depth != 0:
            for opt in self:
                opt.print_summary(stream, level=level + 2, depth=depth - 1)

    @staticmethod
    def print_profile(stream: TextIO, prof: Any, level: int = 0) -> None:
        (
            opts,
            times,
            validate_time,
            callback_time,
            nb_node_before,
            nb_node_after,
            sub_profs,
            sub_validate,
            nb_nodes,
            callbacks_time,
        ) = prof
        blanc = "    " * level
        print(
            "%sSeqOptimizer      %s  time %.3fs for %d/%d nodes before/after optimization"
            % (blanc, getattr(opts, "name", None) or "", sum(times), nb_node_before, nb_node_after),
            file=stream,
        )
        print("%s  %.3fs for fgraph.validate()" % (blanc, validate_time or 0.0), file=stream)
        print("%s  %.3fs for callback" % (blanc, callback_time), file=stream)
        for name, t in sorted(callbacks_time.items(), key=lambda item: (-item[1], str(item[0]))):
            if t > 0.001:
                print("%s      %s, %.3fs" % (blanc, name, t), file=stream)
        if level == 0:
            print("%stime      - (name, class, index) - validate time" % blanc, file=stream)
        rows = []
        for index, (t, opt) in enumerate(zip(times, opts)):
            rows.append((t, sub_validate[index], opt.name or str(opt), type(opt).__name__, index, sub_profs[index]))
        rows.sort(key=lambda row: (-row[0], row[4]))
        for t, v, name, cls, index, sub_prof in rows:
            if t == 0:
                continue
            print("%s  %.6fs - %r - %.3fs" % (blanc, t, (name, cls, index), v), file=stream)
            if sub_prof is not None and opts[index].print_profile is not Optimizer.print_profile:
                opts[index].print_profile(stream, sub_prof, level=level + 1)

    @staticmethod
    def merge_profile(prof1: Any, prof2: Any) -> Any:
        """Add two profiles of one sequence, or of two sequences that share optimizers."""
        merged = {}
        order = []
        for prof in (prof1, prof2):
            for opt, t, sub_prof, validate, nb in zip(prof[0], prof[1], prof[6], prof[7], prof[8]):
                if opt not in merged:
                    merged[opt] = [t, sub_prof, validate, nb]
                    order.append(opt)
                    continue
                row = merged[opt]
                row[0] += t
                row[2] += validate
                row[3] = (row[3][0] + nb[0], row[3][1] + nb[1])
                if row[1] is None:
                    row[1] = sub_prof
                elif sub_prof is not None and hasattr(opt, "merge_profile"):
                    row[1] = opt.merge_profile(row[1], sub_prof)
        seq = SeqOptimizer(order)
        seq.name = getattr(prof1[0], "name", None)
        validate = None
        if prof1[2] is not None or prof2[2] is not None:
            validate = (prof1[2] or 0.0) + (prof2[2] or 0.0)
        rows = [merged[opt] for opt in order]
        return (
            seq,
            [r[0] for r in rows],
            validate,
            prof1[3] + prof2[3],
            prof1[4] + prof2[4],
            prof1[5] + prof2[5],
            [r[1] for r in rows],
            [r[2] for r in rows],
            [r[3] for r in rows],
            merge_dict(prof1[9], prof2[9]),
        )


def merge_dict(d1: Mapping[Any, Any], d2: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a new dict with the keys of both dicts. The values of common keys are added."""
    d = dict(d1)
    for k, v in d2.items():
        d[k] = d[k] + v if k in d else v
    return d
