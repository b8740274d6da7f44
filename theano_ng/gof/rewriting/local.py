"""Rules on one node: the base class, rules made from functions, groups of rules, and the index that finds the rules for an op."""

import sys
import time

from theano_ng.configdefaults import config
from theano_ng.gof import graph
from theano_ng.gof import op as op_module
from theano_ng.gof import ports
from theano_ng.gof.rewriting.base import Numbered, attach_destroy_handler, merge_dict, requirement_functions
from theano_ng.gof.utils import MethodNotDefined


class LocalOptimizer(Numbered):
    """A rewriting rule on one node.

    Subclasses define `transform`, and `tracks` so that the engine calls it only where it may apply.

    Attributes
    ----------
    when : callable or None
        Of an Op that is tracked: whether its nodes may be rewritten. The engine asks once for each Op.
    """

    name = None
    when = None

    def tracks(self):
        """Op classes and op instances to which this rule applies; None or an empty list for every op.

        A class stands for its direct instances, not for subclasses, when the rule is in an `EquilibriumOptimizer` or a `LocalOptGroup`.
        """
        return None

    def transform(self, node):
        """Say by what the outputs of `node` should be replaced.

        Returns
        -------
        False, list or dict
            False: nothing to do. A list: one variable per output; None for an output without clients. A dict: variables (of
            any node of the graph) to their replacements; the key ``"remove"`` may list variables that must leave the graph.
        """
        raise MethodNotDefined("transform", type(self), self.__class__.__name__)

    def add_requirements(self, fgraph):
        """Attach the features that the rule needs; nothing by default."""

    def print_summary(self, stream=sys.stdout, level=0, depth=-1):
        print("%s%s id=%i" % (" " * level, self.__class__.__name__, id(self)), file=stream)


class FromFunctionLocalOptimizer(LocalOptimizer):
    """Rule whose `transform` is a function of the node; see `local_optimizer`."""

    def __init__(self, fn, tracks=None, requirements=(), when=None):
        self.fn = fn
        tracks = None if tracks is None else list(tracks)
        self._tracks = tracks
        # A tuple compares by identity first: a dict would call __hash__ and __eq__ of the op each time.
        self._ops = tuple([t for t in tracks or () if not isinstance(t, type)])
        self._classes = tuple([t for t in tracks if isinstance(t, type)]) if tracks else object
        self.requirements = requirement_functions(requirements)
        self.when = when
        self.__name__ = getattr(fn, "__name__", None)
        self.__doc__ = getattr(fn, "__doc__", None)

    def add_requirements(self, fgraph):
        for requirement in self.requirements:
            requirement(fgraph)

    def tracks(self):
        return self._tracks

    def transform(self, node, *more):
        """What the function says of `node`; False for an op that is not tracked, subclasses of tracked classes included.

        So no function has to ask for the op of its node. With more arguments `node` is the op itself (`GraphToGPULocalOptGroup`).
        """
        op = node if more else node.op
        if (op in self._ops or isinstance(op, self._classes)) and (self.when is None or self.when(op)):
            return self.fn(node, *more)
        return False

    def __str__(self):
        return getattr(self, "__name__", None) or "<FromFunctionLocalOptimizer instance>"

    def __repr__(self):
        return str(self)

    def print_summary(self, stream=sys.stdout, level=0, depth=-1):
        print("%s%s id=%i" % (" " * level, self.fn if self.__name__ is None else self.__name__, id(self)), file=stream)


def local_optimizer(tracks, inplace=False, requirements=(), when=None):
    """Return a decorator that makes a `LocalOptimizer` from ``f(node)``.

    Parameters
    ----------
    tracks : iterable or None
        Op classes and Ops to which the rule applies: ``f`` is only called with nodes of these, even if a caller of `transform` passes other
        nodes. None: ``f`` is called with every node, which is slow.
    inplace : bool
        The rule introduces operations that work in place: the destroy handler is attached before it runs.
    requirements : sequence of callables
        Called with the graph before the rule is used, to attach features.
    when : callable, optional
        Of an Op that is tracked: whether ``f`` is called with its nodes. The answer may depend on nothing but the Op.

    Raises
    ------
    ValueError
        When `tracks` is empty, or holds something that is neither an op nor an op class.
    """
    if tracks is not None:
        tracks = list(tracks)
        if not tracks:
            raise ValueError("Use None instead of an empty list to apply to all nodes.", None, tracks)
        for t in tracks:
            if not isinstance(t, op_module.PureOp) and not (isinstance(t, type) and issubclass(t, op_module.PureOp)):
                raise ValueError("Tracks are op classes or instances", t)

    def decorator(f):
        reqs = tuple(requirements)
        if inplace:
            reqs = (attach_destroy_handler,) + reqs
        rval = FromFunctionLocalOptimizer(f, tracks, reqs, when)
        rval.__name__ = f.__name__
        return rval

    return decorator


class RuleIndex(object):
    """Finds the rules that track an op, in the order: rules that name the op, rules that name its class, rules for every op.

    Parameters
    ----------
    rules : iterable of LocalOptimizer
        Within each of the three groups their order is kept.
    """

    def __init__(self, rules=()):
        self._by_op, self._by_class, self._everywhere = {}, {}, []
        self._class_decides, self._classes_with_ops = True, set()
        self._cache = {}
        self.rules, self._known = [], set()
        for rule in rules:
            self.add(rule)

    def add(self, rule):
        """Append `rule`; adding it twice has no effect."""
        if rule in self._known:
            return
        self._known.add(rule)
        self.rules.append(rule)
        self._cache.clear()
        tracks = rule.tracks()
        if not tracks:
            self._everywhere.append(rule)
            self._class_decides = self._class_decides and rule.when is None
            return
        for track in tracks:
            if isinstance(track, type):
                rows = self._by_class.setdefault(track, [])
                if rule.when is not None:
                    self._classes_with_ops.add(track)
            else:
                rows = self._by_op.setdefault(track, [])
                self._classes_with_ops.add(type(track))
            # Where it stands already it stands last.
            if not rows or rows[-1] is not rule:
                rows.append(rule)

    def rules_for(self, op):
        """Tuple of the rules to try on a node of `op`."""
        return self._found_for(op)[0]

    def transforms_for(self, op):
        """Tuple of these rules, each with what its `transform` calls with a node of `op`: what tracks the op need not ask for it again."""
        return self._found_for(op)[1]

    def _found_for(self, op):
        # An op for which its class decides is looked up by class, which spares its __hash__.
        cls = type(op)
        key = cls if self._class_decides and cls not in self._classes_with_ops else op
        found = self._cache.get(key)
        if found is None:
            rows = list(self._by_op.get(op, ())) if key is op else []
            for rule in self._by_class.get(cls, ()):
                if rule not in rows:
                    rows.append(rule)
            rows.extend(self._everywhere)
            rows = [rule for rule in rows if rule.when is None or rule.when(op)]
            found = tuple(rows), tuple([(rule, _call_of(rule)) for rule in rows])
            if len(self._cache) < 4096:
                self._cache[key] = found
        return found


def _call_of(rule):
    return rule.fn if type(rule) is FromFunctionLocalOptimizer else rule.transform


class LocalOptGroup(LocalOptimizer):
    """Rules tried one after the other on the same node.

    Parameters
    ----------
    *optimizers : LocalOptimizer
    apply_all_opts : bool, keyword
        False: the result of the first rule that applies is returned. True: the rules are tried again on the result, until none
        applies.
    profile : bool, keyword
        Count and time the rules.
    """

    def __init__(self, *optimizers, **kwargs):
        if len(optimizers) == 1 and isinstance(optimizers[0], list):
            optimizers = tuple(optimizers[0])
        self.opts = optimizers
        self.apply_all_opts = kwargs.pop("apply_all_opts", False)
        self.profile = kwargs.pop("profile", False)
        if kwargs:
            raise TypeError(
                "LocalOptGroup got unknown arguments %s; it takes apply_all_opts and profile" % sorted(kwargs)
            )
        self.reentrant = any(getattr(opt, "reentrant", True) for opt in optimizers)
        self.retains_inputs = all(getattr(opt, "retains_inputs", False) for opt in optimizers)
        self.index = RuleIndex(optimizers)
        self.time_opts = {}
        self.process_count = {}
        self.applied_true = {}
        self.node_created = {}
        if self.profile:
            for opt in optimizers:
                self.time_opts[opt] = 0.0
                self.process_count[opt] = 0
                self.applied_true[opt] = 0
                self.node_created[opt] = 0

    def __str__(self):
        return getattr(self, "__name__", None) or "LocalOptGroup(%s)" % ",".join(str(o) for o in self.opts)

    def tracks(self):
        tracks = []
        for opt in self.opts:
            t = opt.tracks()
            if not t:
                return None
            tracks.extend(t)
        return tracks

    def transform(self, node):
        original = node
        replacement = False
        # A pair of rules that undo each other must not loop here forever.
        for _ in range(1 + 8 * len(self.opts)):
            new_repl = self._first_match(node)
            if not new_repl:
                return replacement
            replacement = new_repl
            if not self.apply_all_opts or isinstance(replacement, dict):
                return replacement
            owners = {}
            for variable in replacement:
                if variable is not None and variable.owner is not None:
                    owners[variable.owner] = None
            # Going on needs one node with the outputs in the original order.
            if len(owners) != 1:
                return replacement
            (node,) = owners
            if node is original or list(node.outputs) != list(replacement):
                return replacement
        return replacement

    def _first_match(self, node):
        for opt in self.index.rules_for(node.op):
            if not self.profile:
                new_repl = opt.transform(node)
            else:
                t0 = time.perf_counter()
                new_repl = opt.transform(node)
                self.time_opts[opt] += time.perf_counter() - t0
                self.process_count[opt] += 1
            if not new_repl:
                continue
            values = new_repl.values() if isinstance(new_repl, dict) else new_repl
            values = [v for v in values if hasattr(v, "owner")]
            if self.profile:
                self.applied_true[opt] += 1
                self.node_created[opt] += len({v.owner for v in values if v.owner is not None and v.owner is not node})
            if config.optimizer_verbose:
                print("LocalOptGroup: %s applied to %s" % (opt, node))
            return new_repl
        return False

    def add_requirements(self, fgraph):
        for opt in self.opts:
            opt.add_requirements(fgraph)

    def print_summary(self, stream=sys.stdout, level=0, depth=-1):
        print("%s%s id=%i" % (" " * level, self.__class__.__name__, id(self)), file=stream)
        if depth != 0:
            for opt in self.opts:
                opt.print_summary(stream, level=level + 2, depth=depth - 1)

    @staticmethod
    def print_profile(stream, prof, level=0):
        (time_opts, process_count, applied_true, node_created, profile) = prof
        if not profile:
            return
        blanc = "    " * level
        print("%sLocalOptGroup" % blanc, file=stream)
        print("%s---------------------" % blanc, file=stream)
        used = [opt for opt in time_opts if applied_true.get(opt)]
        unused = [opt for opt in time_opts if not applied_true.get(opt)]
        if used:
            print("%s  time taken - times applied - times tried - name - node_created:" % blanc, file=stream)
            for opt in sorted(used, key=lambda o: (-time_opts[o], str(o))):
                print(
                    "%s  %.3fs - %d - %d - %s - %d"
                    % (blanc, time_opts[opt], applied_true[opt], process_count[opt], opt, node_created[opt]),
                    file=stream,
                )
        if unused:
            print(
                "%s  %.3fs - in %d optimization that were not used (display those with runtime greater than 0)"
                % (blanc, sum(time_opts[o] for o in unused), len(unused)),
                file=stream,
            )
            for opt in sorted(unused, key=lambda o: (-time_opts[o], str(o))):
                if time_opts[opt] > 0:
                    print("%s    %.3fs - %s" % (blanc, time_opts[opt], opt), file=stream)

    @staticmethod
    def merge_profile(prof1, prof2):
        """Add two profiles."""
        return tuple(merge_dict(a, b) for a, b in zip(prof1[:4], prof2[:4])) + (prof1[4] or prof2[4],)


class GraphToGPULocalOptGroup(LocalOptGroup):
    """Group of the rules that lift one op to the GPU; ``transform(op, context_name, inputs, outputs)``, first match only."""

    def __init__(self, *optimizers, **kwargs):
        super().__init__(*optimizers, **kwargs)
        if self.apply_all_opts:
            raise ValueError(
                "GraphToGPULocalOptGroup stops at the first rule that applies; apply_all_opts=True is not supported"
            )

    def transform(self, op, context_name, inputs, outputs):
        for opt in self.index.rules_for(op):
            new_repl = opt.transform(op, context_name, inputs, outputs)
            if new_repl:
                return new_repl
        return False


class LocalMetaOptimizerSkipAssertionError(AssertionError):
    """The inputs of a node do not suit one of the rules; the `LocalMetaOptimizer` goes to the next one."""


class LocalMetaOptimizer(LocalOptimizer):
    """Tries several rules on a node, times what each makes of it, and keeps the fastest.

    Rules are added by `register`; which are tried follows `config.metaopt.optimizer_including` and `_excluding`. Subclasses define
    `provide_inputs` to give inputs for the measurement where the test values do not suffice.
    """

    def __init__(self):
        self.verbose = config.metaopt.verbose
        self.track_dict = {}
        self.tag_dict = {}
        self._tracks = []
        self.optimizers = []

    def register(self, optimizer, tag_list):
        """Add a rule under tags."""
        self.optimizers.append(optimizer)
        for track in optimizer.tracks() or ():
            self.track_dict.setdefault(track, []).append(optimizer)
            if track not in self._tracks:
                self._tracks.append(track)
        for tag in tag_list:
            self.tag_dict.setdefault(tag, []).append(optimizer)

    def tracks(self):
        return list(self._tracks)

    def get_opts(self, node):
        """The rules to time on `node`."""
        excluded = [t for t in config.metaopt.optimizer_excluding.split(":") if t]
        included = [t for t in config.metaopt.optimizer_including.split(":") if t]
        drop = {opt for tag in excluded for opt in self.tag_dict.get(tag, ())}
        keep = {opt for tag in included for opt in self.tag_dict.get(tag, ())}
        rows = list(self.track_dict.get(type(node.op), ())) + list(self.track_dict.get(node.op, ()))
        return [opt for opt in rows if opt not in drop and (not keep or opt in keep)]

    def provide_inputs(self, node, inputs):
        """Map some of `inputs` to shared variables or constants used in the measurement; none by default."""
        return {}

    def time_call(self, fn):
        """Seconds that one call of `fn` takes."""
        start = time.perf_counter()
        fn()
        return time.perf_counter() - start

    def transform(self, node):
        if self.verbose > 1:
            print("LocalMetaOptimizer: testing %s" % node)
        givens, missing = {}, []
        for variable in node.inputs:
            if isinstance(variable, graph.Constant):
                continue
            if hasattr(variable, "get_value"):
                givens[variable] = ports.shared(
                    variable.get_value(borrow=False), variable.name, broadcastable=variable.broadcastable, borrow=True
                )
            elif hasattr(variable.tag, "test_value"):
                givens[variable] = ports.shared(
                    variable.type.filter(variable.tag.test_value),
                    variable.name,
                    broadcastable=variable.broadcastable,
                    borrow=True,
                )
            else:
                missing.append(variable)
        if missing:
            try:
                givens.update(self.provide_inputs(node, missing))
            except LocalMetaOptimizerSkipAssertionError:
                pass
            missing = [v for v in missing if v not in givens]
        if missing:
            if self.verbose > 0:
                print(
                    "%s cannot meta-optimize %s, %d of %d input shapes unknown"
                    % (self.__class__.__name__, node, len(missing), len(node.inputs))
                )
            return False
        timings = []
        for opt in self.get_opts(node):
            try:
                outputs = opt.transform(node)
            except LocalMetaOptimizerSkipAssertionError:
                continue
            if not outputs:
                continue
            try:
                fn = ports.compile_function([], outputs, givens=givens, on_unused_input="ignore")
                fn.trust_input = True
                timing = min(self.time_call(fn) for _ in range(2))
            except Exception as e:
                # A candidate that does not compile or run here is simply not a candidate.
                if self.verbose > 0:
                    print("* %s: exception %s" % (opt, e))
                continue
            if self.verbose > 1:
                print("* %s: %.5g sec" % (opt, timing))
            timings.append((timing, len(timings), outputs, opt))
        if not timings:
            if self.verbose > 0:
                print("%s: no rule works for %s" % (self.__class__.__name__, node))
            return False
        timing, _, outputs, opt = min(timings, key=lambda row: row[:2])
        if self.verbose > 1:
            print("= %s" % opt)
        return outputs
