"""Databases of optimizations: what is registered under names and tags, and the queries that select from it.

Optimizers are built once per query and database: results are kept until something is registered anywhere. They hold no state of the
functions they are applied to.
"""

import copy
import gc
import importlib
import math
import sys

from theano_ng.configdefaults import config
from theano_ng.gof import rewriting
from theano_ng.gof.utils import integer_types
from theano_ng.lazy import lazy_names

# What the classic module imported for itself.
__getattr__, __dir__, _ = lazy_names(__name__, {"theano_ng.gof": "opt"})

_generation = 0
"""Counts registrations in all databases; results of queries of an older generation are stale (databases contain each other)."""


_loaders = []


def register_loader(module):
    """Have a module imported before the first query of any database, or when a name is not found.

    Rules live above this layer, in modules that take time to import and are not needed before a function is compiled. A chapter names the
    modules of its rules here; its Ops import none of them.

    Parameters
    ----------
    module : str
        Its path.
    """
    _loaders.append(module)


def load():
    """Import the modules that have been registered."""
    if not _loaders:
        return
    while _loaders:
        importlib.import_module(_loaders.pop(0))
    if hasattr(gc, "freeze") and gc.get_freeze_count() == 0:
        # All that has been made stays: the collector may count it among what is old without looking at it first.
        gc.freeze()
        gc.unfreeze()


def _changed(own):
    global _generation, _foreign
    _generation += 1
    _foreign = _foreign or not own


_foreign = False


def has_foreign_rules():
    """Whether anybody but this package has registered something or changed tags: rewriting then depends on more than the package."""
    return _foreign


_decided_by = []


def depends_on(*words):
    """Say what else decides how graphs are rewritten in this process: those on disk are told apart by it.

    Parameters
    ----------
    *words : str
    """
    _decided_by.append(words)


def decided_by():
    """What `depends_on` was told.

    Returns
    -------
    list of tuple of str
    """
    return sorted(set(_decided_by))


class DB(object):
    """Optimizations (or other databases) by name and tags.

    Attributes
    ----------
    name : str or None
        Added as a tag to what is registered. Set when the database itself is registered somewhere.
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
        """Name or tag -> what is registered under it; rules that are loaded on demand are loaded first."""
        load()
        return self._table

    def __hash__(self):
        return id(self) >> 4

    def register(self, name, obj, *tags, own=False, **kwargs):
        """Add an optimizer or a database.

        Parameters
        ----------
        name : str
            Must be new, also among the tags.
        obj : Optimizer, LocalOptimizer or DB
        *tags : str
            Words under which queries find it; its name, the name of its class and the name of this database are added.
        own : bool, keyword
            Whether it is this package that registers. What others register makes functions uncacheable, see `has_foreign_rules`.
        use_db_name_as_tag : bool, keyword
            False: the name of this database is no tag of it, so that a query for this database does not find it.
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
        self._add_tags(name, (obj.__class__.__name__, *tags), own)

    def _one(self, name):
        found = self._table.get(name)
        if not found or len(found) != 1 or name not in self._names:
            raise KeyError("No optimization is registered under the name %r" % (name,))
        (obj,) = found
        return obj

    def add_tags(self, name, *tags):
        """Add tags to the optimization of that name."""
        self._add_tags(name, tags, own=False)

    def switch_on(self, name, *tags):
        """Add tags to an optimization of the package, as a flag or the program asks: graphs that were rewritten without are told from those with."""
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
        """Take tags from the optimization of that name."""
        obj = self._one(name)
        for tag in tags:
            if tag in self._names:
                raise ValueError("%r is a name, not a tag" % (tag,), obj)
            self._table.get(tag, {}).pop(obj, None)
        _changed(own=False)

    def _tags_of(self, obj):
        return sorted(tag for tag, objs in self._table.items() if obj in objs and tag not in self._names)

    def __query__(self, q):
        """The selected objects in the order of registration, databases replaced by what the query makes of them."""
        if not isinstance(q, Query):
            raise TypeError("Expected a Query.", q)
        chosen = set()
        for tag in q.include:
            chosen.update(self._table.get(tag, ()))
        for tag in q.require:
            chosen.intersection_update(self._table.get(tag, ()))
        excluded = set(q.exclude)
        if not config.cxx:
            # Such optimizations introduce operations that exist only in C.
            excluded.add("cxx_only")
        for tag in excluded:
            chosen.difference_update(self._table.get(tag, ()))
        result = []
        for obj in sorted(chosen, key=self._order.__getitem__):
            if isinstance(obj, DB):
                sub = q.subquery.get(obj.name, q)
                if not sub:
                    continue
                replacement = obj.query(sub)
                replacement.name = obj.name
                obj = replacement
            result.append(obj)
        return result

    def _build(self, q):
        """The optimizer that a query gives."""
        raise NotImplementedError("%s does not define what a query gives" % type(self).__name__)

    def query(self, *tags, **kwtags):
        """What is selected, as this kind of database combines it.

        Parameters
        ----------
        *tags : Query, or str
            One `Query`; or tags marked by their first character: ``'+tag'`` include, ``'&tag'`` require, ``'-tag'`` exclude.
        **kwtags
            `include`, `require`, `exclude`, `subquery` as for `Query`, besides tags.
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
        """Write the names and the tags."""
        load()
        print("%s (id %i)" % (self.__class__.__name__, id(self)), file=stream)
        print("  names %s" % (sorted(self._names),), file=stream)
        print(
            "  db %s" % ({tag: sorted(o.name for o in objs) for tag, objs in sorted(self._table.items())},), file=stream
        )


class Query(object):
    """Selects optimizations by tags: in at least one of `include`, in all of `require`, in none of `exclude`.

    Parameters
    ----------
    include : iterable of str
    require, exclude : iterable of str, optional
    subquery : dict, optional
        Name of a contained database to the Query used there; by default the same Query is.
    position_cutoff : float
        Optimizations at this position of a `SequenceDB` or after it are left out. Default: all are in, up to
        `config.optdb.position_cutoff`.
    extra_optimizations : list of (Optimizer, position), optional
        Unregistered optimizers to put in the sequence.
    """

    name = None

    def __init__(
        self, include, require=None, exclude=None, subquery=None, position_cutoff=math.inf, extra_optimizations=None
    ):
        # Insertion-ordered sets: nothing may depend on the hash seed.
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
        """New Query that includes also these tags."""
        return self._refined(include=tags)

    def excluding(self, *tags):
        """New Query that excludes also these tags."""
        return self._refined(exclude=tags)

    def requiring(self, *tags):
        """New Query that requires also these tags."""
        return self._refined(require=tags)

    def register(self, *optimizations):
        """New Query with more unregistered optimizers, given as pairs (optimizer, position)."""
        return self._refined(extra=optimizations)


class _TagSet(dict):
    """Set of tags in the order in which they were given."""

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
    """Database of rules; a query gives an `EquilibriumOptimizer`.

    Parameters
    ----------
    ignore_newtrees : bool
        False: nodes made by a rule are visited at once, not in the next pass.
    tracks_on_change_inputs : bool
        True: nodes whose inputs were changed are visited again in the same pass.
    """

    def __init__(self, ignore_newtrees=True, tracks_on_change_inputs=False):
        super().__init__()
        self.ignore_newtrees = ignore_newtrees
        self.tracks_on_change_inputs = tracks_on_change_inputs
        self.__final__ = {}
        self.__cleanup__ = {}

    def register(self, name, obj, *tags, **kwtags):
        """See `DB.register`.

        Parameters
        ----------
        final_opt : bool, keyword
            Apply this global optimizer at the end of each pass.
        cleanup : bool, keyword
            Apply this global optimizer after each part of a pass that changed the graph.
        """
        final_opt = kwtags.pop("final_opt", False)
        cleanup = kwtags.pop("cleanup", False)
        if final_opt and cleanup:
            raise ValueError("an optimization is either final_opt or cleanup, not both", name)
        super().register(name, obj, *tags, **kwtags)
        self.__final__[name] = final_opt
        self.__cleanup__[name] = cleanup

    def _build(self, q):
        opts = self.__query__(q)
        final_opts = [o for o in opts if self.__final__.get(o.name)]
        cleanup_opts = [o for o in opts if self.__cleanup__.get(o.name)]
        others = [o for o in opts if not self.__final__.get(o.name) and not self.__cleanup__.get(o.name)]
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
    """Database of optimizers with positions; a query gives a `SeqOptimizer` in their order.

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

    def register(self, name, obj, position, *tags, own=False):
        """Add an optimizer or a database at a position; see `DB.register`.

        Parameters
        ----------
        position : int, float or 'last'
            Equal positions are ordered by name. 'last': after what is registered so far.
        """
        if position == "last":
            position = max(self.__position__.values()) + 1 if self.__position__ else 0
        if not isinstance(position, integer_types + (float,)):
            raise TypeError("the position must be a number or 'last', got %r" % (position,), name)
        super().register(name, obj, *tags, own=own)
        self.__position__[name] = position

    def query(self, *tags, **kwtags):
        """See `DB.query`. The keyword `position_cutoff` leaves out what is at this position or after it."""
        # The caller may edit the sequence; the optimizers in it are shared.
        return copy.copy(super().query(*tags, **kwtags))

    def _build(self, q):
        cutoff = min(q.position_cutoff, config.optdb.position_cutoff)
        rows = [(self.__position__[o.name], o.name, o) for o in self.__query__(q)]
        for obj, position in q.extra_optimizations:
            rows.append((position, getattr(obj, "name", None) or str(obj), obj))
        rows = [row for row in rows if row[0] < cutoff]
        rows.sort(key=lambda row: row[:2])
        ret = self.seq_opt([row[2] for row in rows], failure_callback=self.failure_callback)
        ret.name = q.name or self.name
        return ret

    def __query__(self, q):
        if q.extra_optimizations or q.position_cutoff != math.inf:
            # Positions of the outer sequence mean nothing in the sequences inside.
            inner = Query(q.include, q.require, q.exclude, q.subquery)
            return super().__query__(inner)
        return super().__query__(q)

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
    """Database of rules with positions; a query gives one rule, a `LocalOptGroup` of them in their order.

    Parameters
    ----------
    apply_all_opts, profile : bool
        See `LocalOptGroup`.
    local_opt : class
        What a query gives, called as ``local_opt(*rules, apply_all_opts=, profile=)``.
    """

    def __init__(self, apply_all_opts=False, profile=False, local_opt=rewriting.LocalOptGroup):
        super().__init__()
        self.apply_all_opts = apply_all_opts
        self.profile = profile
        self.__position__ = {}
        self.local_opt = local_opt
        self.__name__ = ""

    def register(self, name, obj, *tags, **kwargs):
        """See `DB.register`. The keyword `position` is a number or 'last' (the default)."""
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
    """A database seen through another one: what is registered here is registered in the wrapped database."""

    def __init__(self, db):
        if not isinstance(db, DB):
            raise TypeError("%s wraps a DB, got %r" % (type(self).__name__, db))
        super().__init__()
        self.db = db
        self._table = db._table
        self._names = db._names
        self._order = db._order

    def register(self, name, obj, *tags, **kwargs):
        """Register in the wrapped database."""
        self.db.register(name, obj, *tags, **kwargs)


class TopoDB(_WrapperDB):
    """Wraps a database of rules; a query gives a `TopoOptimizer` over what the wrapped one gives.

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
    """The same database under a second place of a `SequenceDB`; a query is passed on.

    Parameters
    ----------
    db : DB
    """

    def _build(self, q):
        # Both places give their optimizer its own name.
        return copy.copy(self.db.query(q))
