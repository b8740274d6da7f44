"""Databases of optimizations, which are registered under names and tags, and queries that select optimizations.

A database builds the optimizer for a query once, and caches this optimizer until the next registration in any
database. All functions share the optimizer, which is possible because it holds no state of a function.
"""

import copy
import gc
import importlib
import math
import sys

from theano_ng.configdefaults import config
from theano_ng.gof import rewriting
from theano_ng.gof.provenance import is_registered_by_package
from theano_ng.gof.utils import integer_types
from theano_ng.lazy import lazy_names

# The module `optdb` of Theano 1.0 imports `opt`, so existing programs may read the attribute `optdb.opt`. Provide it.
__getattr__, __dir__, _ = lazy_names(__name__, {"theano_ng.gof": "opt"})

REGISTERS_FOR_CALLERS = True
"""See `provenance.is_registered_by_package`."""

_generation = 0
"""The number of registrations in all databases.

Results of queries from an older generation are stale, because databases contain each other.
"""


_loaders = []


def register_loader(module, *names):
    """Register a module of rules. The first query, or a request for one of `names`, imports the module.

    Rewriting rules live in higher layers. Their modules take time to import, and are not needed before a function is
    compiled. Code that defines Ops registers the modules of their rules here instead of importing them.

    Parameters
    ----------
    module : str
        The path of the module.
    *names : str
        Names that the module registers. `DB.selects` imports the module if it is asked for one of these names.
    """
    _loaders.append((module, names))


def load():
    """Import the registered modules."""
    if not _loaders:
        return
    while _loaders:
        importlib.import_module(_loaders.pop(0)[0])
    if hasattr(gc, "freeze") and gc.get_freeze_count() == 0:
        # The objects that exist now are long-lived, so young collections need not scan them. The calls of freeze and
        # unfreeze move these objects to the oldest generation without a collection.
        gc.freeze()
        gc.unfreeze()


def _changed(own):
    global _generation, _foreign
    _generation += 1
    _foreign = _foreign or not own


_foreign = False


def has_foreign_rules():
    """Return True if code outside this package registered optimizations or changed tags.

    The result of rewriting then depends on code outside this package, so it must not be cached on disk.
    """
    return _foreign


_decided_by = []


def depends_on(*words):
    """Declare a fact that influences rewriting in this process.

    The fact becomes part of the keys of graphs in the disk cache.

    Parameters
    ----------
    *words : str
        The fact, for example the name of an optimization and the tags that were added to it.
    """
    _decided_by.append(words)


def decided_by():
    """Return the sorted arguments of all calls of `depends_on`.

    Returns
    -------
    list of tuple of str
    """
    return sorted(set(_decided_by))


_answers = {}  # (question, arguments) -> latest answer


def consult(question, *arguments):
    """Return ``question(*arguments)``, an answer that influences rewriting.

    The answer depends on more than the graph and the flags, for example on whether a library can be used on a device, and
    may be different in another process. The disk cache of graphs stores the answers. It uses an entry only if the
    questions, asked again, still have the same answers.

    Parameters
    ----------
    question : function
        A function of a module, so that it can be pickled.
    *arguments : hashable objects

    Returns
    -------
    object
        The answer.
    """
    answer = _answers[question, arguments] = question(*arguments)
    return answer


def answers():
    """Return the answers of this process.

    Returns
    -------
    list of tuple (question, arguments, answer)
    """
    return [(*asked, answer) for asked, answer in list(_answers.items())]


class DB:
    """A database that contains optimizations (or other databases) under a name and tags.

    Attributes
    ----------
    name : str or None
        The name of the database. It is a tag of each registered object. The name is set when this database is
        registered in another database.
    """

    def __init__(self):
        self._table = {}
        self._names = set()
        self._order = {}
        self.name = None
        self._cache = {}
        self._cache_generation = -1

    @property
    def __db__(self):
        """A dict: name or tag -> the objects that are registered under it.

        An access first imports the modules that were passed to `register_loader`.
        """
        load()
        return self._table

    def __hash__(self):
        return id(self) >> 4

    def register(self, name, obj, *tags, **kwargs):
        """Register an optimizer or a database.

        After a registration by code outside this package, results of rewriting are not cached on disk, see
        `has_foreign_rules`.

        Parameters
        ----------
        name : str
            A name that is not yet a name or a tag of the database.
        obj : Optimizer, LocalOptimizer or DB
        *tags : str
            Tags for queries. The name of the object's class and the name of this database are added.
        use_db_name_as_tag : bool, keyword
            If False, the name of this database is not added as a tag. A query for the name of the database then does
            not find the object.
        """
        use_db_name_as_tag = kwargs.pop("use_db_name_as_tag", True)
        if kwargs:
            raise TypeError("register got unknown arguments %s" % sorted(kwargs))
        if not isinstance(obj, (DB, rewriting.Optimizer, rewriting.LocalOptimizer)):
            raise TypeError(
                "Object cannot be registered in OptDB: expected a DB, an Optimizer or a LocalOptimizer", obj
            )
        if name in self._table:
            raise ValueError(
                "The tag of the object collides with a name or a tag of the database: choose another name.", name, obj
            )
        if use_db_name_as_tag and self.name is not None:
            tags = tags + (self.name,)
        obj.name = name
        self._table[name] = {obj: None}
        self._names.add(name)
        self._order[obj] = len(self._order)
        self._add_tags(name, (obj.__class__.__name__, *tags), is_registered_by_package())

    def _one(self, name):
        found = self._table.get(name)
        if not found or len(found) != 1 or name not in self._names:
            raise KeyError("No optimization is registered under the name %r" % (name,))
        (obj,) = found
        return obj

    def add_tags(self, name, *tags):
        """Add tags to the optimization `name`."""
        self._add_tags(name, tags, own=False)

    def switch_on(self, name, *tags):
        """Add tags to an optimization of this package because a flag or a function call enables the optimization.

        The tags become part of the keys of the graph cache.
        """
        self._add_tags(name, tags, own=True)
        depends_on(name, *tags)

    def _add_tags(self, name, tags, own):
        obj = self._one(name)
        for tag in tags:
            if tag in self._names:
                if tag == name:
                    continue
                raise ValueError("The tag %r collides with the name of an optimization" % (tag,), obj)
            self._table.setdefault(tag, {})[obj] = None
        _changed(own)

    def remove_tags(self, name, *tags):
        """Remove tags from the optimization `name`."""
        obj = self._one(name)
        for tag in tags:
            if tag in self._names:
                raise ValueError("%r is a name, not a tag" % (tag,), obj)
            self._table.get(tag, {}).pop(obj, None)
        _changed(own=False)

    def _tags_of(self, obj):
        return sorted(tag for tag, objs in self._table.items() if obj in objs and tag not in self._names)

    def __query__(self, q):
        """Return the selected objects in the order of registration.

        A database is replaced by the result of its query.
        """
        return self._expanded(self._selected(q), q)

    @staticmethod
    def _expanded(selected, q):
        """Return a list of objects, in which each database is replaced by the result of its query."""
        result = []
        for obj in selected:
            if isinstance(obj, DB):
                replacement = obj.query(q.subquery.get(obj.name, q))
                replacement.name = obj.name
                obj = replacement
            result.append(obj)
        return result

    def _selected(self, q):
        """Return the objects that a query selects, in the order of registration."""
        if not isinstance(q, Query):
            raise TypeError("Expected a Query.", q)
        chosen = set()
        for tag in q.include:
            chosen.update(self._table.get(tag, ()))
        for tag in q.require:
            chosen.intersection_update(self._table.get(tag, ()))
        excluded = set(q.exclude)
        if not config.cxx:
            # Optimizations with the tag cxx_only introduce Ops that have only C code. Without a compiler, exclude them.
            excluded.add("cxx_only")
        for tag in excluded:
            chosen.difference_update(self._table.get(tag, ()))
        # If `q.subquery` maps the name of a nested database to None, leave out this database.
        chosen = [obj for obj in chosen if not isinstance(obj, DB) or q.subquery.get(obj.name, q)]
        return sorted(chosen, key=self._order.__getitem__)

    def selects(self, name, q):
        """Return True if a query selects the optimization `name`. No optimizer is built.

        Parameters
        ----------
        name : str
            A name that is registered, or a name that was passed to `register_loader`.
        q : Query
        """
        if any(name in names for _, names in _loaders):
            load()
        return name in self._names and self._one(name) in self._selected(q)

    def _build(self, q):
        """Build the optimizer for a query."""
        raise NotImplementedError("%s must define query" % type(self).__name__)

    def query(self, *tags, **kwtags):
        """Return an optimizer that consists of the selected optimizations.

        The class of the database determines the class of the optimizer.

        Parameters
        ----------
        *tags : Query, or str
            Either one `Query`, or tags with a prefix: ``'+tag'`` to include, ``'&tag'`` to require, ``'-tag'`` to
            exclude.
        **kwtags
            `include`, `require`, `exclude` and `subquery` as for `Query`. They are not allowed together with a `Query`.
        """
        if tags and isinstance(tags[0], Query):
            if len(tags) > 1 or kwtags:
                raise TypeError(
                    "If the first argument to query is a Query, there should be no other arguments.", tags, kwtags
                )
            q = tags[0]
        else:
            options = {k: kwtags.pop(k) for k in ("position_cutoff",) if k in kwtags}
            include = list(kwtags.pop("include", None) or ()) + [t[1:] for t in tags if t.startswith("+")]
            require = list(kwtags.pop("require", None) or ()) + [t[1:] for t in tags if t.startswith("&")]
            exclude = list(kwtags.pop("exclude", None) or ()) + [t[1:] for t in tags if t.startswith("-")]
            subquery = kwtags.pop("subquery", None)
            wrong = [t for t in tags if t[:1] not in ("+", "&", "-")]
            if wrong or kwtags:
                raise TypeError(
                    "query takes a Query, or tags that start with '+' (include), '&' (require) or '-' (exclude), "
                    "got %s" % (wrong or sorted(kwtags))
                )
            q = Query(include, require, exclude, subquery, **options)
        load()
        if self._cache_generation != _generation:
            self._cache.clear()
            self._cache_generation = _generation
        key = (q._key(), bool(config.cxx), config.optdb.max_use_ratio, config.optdb.position_cutoff)
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._build(q)
        return found

    def __getitem__(self, name):
        if name not in self._names:
            load()
        return self._one(name)

    def __contains__(self, name):
        return name in self._names

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_cache"] = {}
        state["_cache_generation"] = -1
        return state

    def print_summary(self, stream=sys.stdout):
        """Write the names and the tags to `stream`."""
        load()
        print("%s (id %i)" % (self.__class__.__name__, id(self)), file=stream)
        print("  names %s" % (sorted(self._names),), file=stream)
        print(
            "  db %s" % ({tag: sorted(o.name for o in objs) for tag, objs in sorted(self._table.items())},), file=stream
        )


class Query:
    """A selection of optimizations by tags.

    An optimization is selected if it has at least one tag in `include`, all tags in `require`, and no tag in `exclude`.

    Parameters
    ----------
    include : iterable of str
    require, exclude : iterable of str, optional
    subquery : dict, optional
        Name of a contained database -> the Query to use in it. By default, this Query is used.
    position_cutoff : float
        Optimizations of a `SequenceDB` at this position or a later position are excluded. By default, only
        `config.optdb.position_cutoff` applies.
    extra_optimizations : list of (Optimizer, position), optional
        Unregistered optimizers to add to the sequence.
    """

    name = None

    def __init__(
        self, include, require=None, exclude=None, subquery=None, position_cutoff=math.inf, extra_optimizations=None
    ):
        # Insertion-ordered sets: the result must not depend on the hash seed.
        self.include = _TagSet.fromkeys(include or ())
        self.require = _TagSet.fromkeys(require or ())
        self.exclude = _TagSet.fromkeys(exclude or ())
        self.subquery = dict(subquery or {})
        self.position_cutoff = position_cutoff
        self.extra_optimizations = list(extra_optimizations or ())

    def _key(self):
        return (
            frozenset(self.include),
            frozenset(self.require),
            frozenset(self.exclude),
            tuple(sorted((k, v._key() if v else None) for k, v in self.subquery.items())) if self.subquery else (),
            self.position_cutoff,
            tuple(self.extra_optimizations),
            self.name,
        )

    def __str__(self):
        return "Query{inc=%s,ex=%s,require=%s,subquery=%s,position_cutoff=%s,extra_opts=%s}" % (
            list(self.include),
            list(self.exclude),
            list(self.require),
            self.subquery,
            self.position_cutoff,
            self.extra_optimizations,
        )

    __repr__ = __str__

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__.setdefault("extra_optimizations", [])

    def _refined(self, include=(), require=(), exclude=(), extra=()):
        return Query(
            list(self.include) + list(include),
            list(self.require) + list(require),
            list(self.exclude) + list(exclude),
            self.subquery,
            self.position_cutoff,
            self.extra_optimizations + list(extra),
        )

    def including(self, *tags):
        """Return a new Query that also includes these tags."""
        return self._refined(include=tags)

    def excluding(self, *tags):
        """Return a new Query that also excludes these tags."""
        return self._refined(exclude=tags)

    def requiring(self, *tags):
        """Return a new Query that also requires these tags."""
        return self._refined(require=tags)

    def register(self, *optimizations):
        """Return a new Query with additional unregistered optimizers: pairs (optimizer, position)."""
        return self._refined(extra=optimizations)


class _TagSet(dict):
    """A set of tags in insertion order."""

    def add(self, tag):
        self[tag] = None

    def discard(self, tag):
        self.pop(tag, None)

    def __eq__(self, other):
        return set(self) == set(other)

    __hash__ = None

    def __repr__(self):
        return repr(list(self))


class EquilibriumDB(DB):
    """A database of rules. A query returns an `EquilibriumOptimizer`.

    Parameters
    ----------
    ignore_newtrees : bool
        If False, nodes that a rule creates are visited in the same pass. If True, they are visited in the next pass.
    tracks_on_change_inputs : bool
        If True, nodes whose inputs were changed are visited again in the same pass.
    """

    def __init__(self, ignore_newtrees=True, tracks_on_change_inputs=False):
        super().__init__()
        self.ignore_newtrees = ignore_newtrees
        self.tracks_on_change_inputs = tracks_on_change_inputs
        self.__final__ = set()
        self.__cleanup__ = set()

    def register(self, name, obj, *tags, **kwtags):
        """Register a rule or an optimizer; see `DB.register`.

        Parameters
        ----------
        final_opt : bool, keyword
            Whether this is a global optimizer that runs at the end of each pass.
        cleanup : bool, keyword
            Whether this is a global optimizer that runs after each part of a pass that changed the graph.
        """
        final_opt = kwtags.pop("final_opt", False)
        cleanup = kwtags.pop("cleanup", False)
        if final_opt and cleanup:
            raise ValueError("an optimization can be final_opt or cleanup, not both", name)
        super().register(name, obj, *tags, **kwtags)
        if final_opt:
            self.__final__.add(name)
        if cleanup:
            self.__cleanup__.add(name)

    def _build(self, q):
        opts = self.__query__(q)
        final_opts = [o for o in opts if o.name in self.__final__]
        cleanup_opts = [o for o in opts if o.name in self.__cleanup__]
        others = [o for o in opts if o.name not in self.__final__ and o.name not in self.__cleanup__]
        ret = rewriting.EquilibriumOptimizer(
            others,
            max_use_ratio=config.optdb.max_use_ratio,
            ignore_newtrees=self.ignore_newtrees,
            tracks_on_change_inputs=self.tracks_on_change_inputs,
            failure_callback=rewriting.NavigatorOptimizer.warn_inplace,
            final_optimizers=final_opts,
            cleanup_optimizers=cleanup_opts,
        )
        ret.name = self.name
        return ret


class SequenceDB(DB):
    """A database of optimizers with positions.

    A query returns a `SeqOptimizer` that applies the selected optimizers in the order of their positions.

    Parameters
    ----------
    failure_callback : callable
        See `SeqOptimizer`.
    """

    seq_opt = rewriting.SeqOptimizer

    def __init__(self, failure_callback=rewriting.SeqOptimizer.warn):
        super().__init__()
        self.__position__ = {}
        self.failure_callback = failure_callback

    def register(self, name, obj, position, *tags):
        """Register an optimizer or a database at a position; see `DB.register`.

        Parameters
        ----------
        position : int, float or 'last'
            Optimizers with equal positions are ordered by name. 'last' means after all objects registered so far.
        """
        if position == "last":
            position = max(self.__position__.values()) + 1 if self.__position__ else 0
        if not isinstance(position, integer_types + (float,)):
            raise TypeError("the position must be a number or 'last', got %r" % (position,), name)
        super().register(name, obj, *tags)
        self.__position__[name] = position

    def query(self, *tags, **kwtags):
        """Return the `SeqOptimizer` for a query; see `DB.query`.

        The keyword `position_cutoff` excludes optimizers at this position or a later position.
        """
        # Return a copy, because the caller may edit the sequence. The optimizers in it are shared.
        return copy.copy(super().query(*tags, **kwtags))

    def _build(self, q):
        rows = [(self.__position__[o.name], o.name, o) for o in self.__query__(q)]
        for obj, position in q.extra_optimizations:
            if position < self._cutoff(q):
                rows.append((position, getattr(obj, "name", None) or str(obj), obj))
        rows.sort(key=lambda row: row[:2])
        ret = self.seq_opt([row[2] for row in rows], failure_callback=self.failure_callback)
        ret.name = q.name or self.name
        return ret

    @staticmethod
    def _cutoff(q):
        return min(q.position_cutoff, config.optdb.position_cutoff)

    def _selected(self, q):
        cutoff = self._cutoff(q)
        return [obj for obj in super()._selected(q) if self.__position__[obj.name] < cutoff]

    def __query__(self, q):
        # Positions refer to this sequence only. So omit the cutoff and the extra optimizers, which have positions, from
        # the query of contained databases.
        return self._expanded(self._selected(q), Query(q.include, q.require, q.exclude, q.subquery))

    def print_summary(self, stream=sys.stdout):
        load()
        print(self.__class__.__name__ + " (id %i)" % id(self), file=stream)
        positions = sorted(self.__position__.items(), key=lambda item: (item[1], item[0]))
        print("  position %s" % (positions,), file=stream)
        print("  names %s" % (sorted(self._names),), file=stream)
        print(
            "  db %s" % ({tag: sorted(o.name for o in objs) for tag, objs in sorted(self._table.items())},), file=stream
        )

    def __str__(self):
        import io

        sio = io.StringIO()
        self.print_summary(sio)
        return sio.getvalue()


class LocalGroupDB(DB):
    """A database of rules with positions. A query returns one rule: a `LocalOptGroup` of the selected rules.

    The rules in the group are in the order of their positions.

    Parameters
    ----------
    apply_all_opts, profile : bool
        See `LocalOptGroup`.
    local_opt : class
        The class of a query's result, called as ``local_opt(*rules, apply_all_opts=, profile=)``.
    """

    def __init__(self, apply_all_opts=False, profile=False, local_opt=rewriting.LocalOptGroup):
        super().__init__()
        self.apply_all_opts = apply_all_opts
        self.profile = profile
        self.__position__ = {}
        self.local_opt = local_opt
        self.__name__ = ""

    def register(self, name, obj, *tags, **kwargs):
        """Register a rule; see `DB.register`. The keyword `position` is a number or 'last' (the default)."""
        position = kwargs.pop("position", "last")
        if position == "last":
            position = max(self.__position__.values()) + 1 if self.__position__ else 0
        if not isinstance(position, integer_types + (float,)):
            raise TypeError("the position must be a number or 'last', got %r" % (position,), name)
        super().register(name, obj, *tags, **kwargs)
        self.__position__[name] = position

    def _build(self, q):
        opts = sorted(self.__query__(q), key=lambda o: (self.__position__[o.name], o.name))
        ret = self.local_opt(*opts, apply_all_opts=self.apply_all_opts, profile=self.profile)
        ret.name = self.name
        return ret


class _WrapperDB(DB):
    """A database that wraps another database. Registrations are made in the wrapped database."""

    def __init__(self, db):
        if not isinstance(db, DB):
            raise TypeError("%s expected a DB that it wraps, got %r" % (type(self).__name__, db))
        super().__init__()
        self.db = db
        self._table = db._table
        self._names = db._names
        self._order = db._order

    def register(self, name, obj, *tags, **kwargs):
        """Register in the wrapped database."""
        self.db.register(name, obj, *tags, **kwargs)


class TopoDB(_WrapperDB):
    """A database that wraps a database of rules. A query returns a `TopoOptimizer`, which applies the rule that the
    wrapped database returns for the query.

    Parameters
    ----------
    db : DB
    order, ignore_newtrees, failure_callback
        See `TopoOptimizer`.
    """

    def __init__(self, db, order="in_to_out", ignore_newtrees=False, failure_callback=None):
        super().__init__(db)
        self.order = order
        self.ignore_newtrees = ignore_newtrees
        self.failure_callback = failure_callback

    def _build(self, q):
        ret = rewriting.TopoOptimizer(
            self.db.query(q),
            order=self.order,
            ignore_newtrees=self.ignore_newtrees,
            failure_callback=self.failure_callback,
        )
        ret.name = self.name
        return ret


class ProxyDB(_WrapperDB):
    """A database that passes queries to the database `db`, and thus gives `db` a second position in a `SequenceDB`.

    Parameters
    ----------
    db : DB
    """

    def _build(self, q):
        # Return a copy: `DB.query` names its result after the database, and this database and `self.db` have different
        # names.
        return copy.copy(self.db.query(q))
