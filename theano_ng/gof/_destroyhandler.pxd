"""Declarations of the compiled classes DynamicOrder and AliasClasses, for other modules."""


cdef class Place:
    cdef readonly object node
    cdef readonly object label          # a Python int: positions may need more than 64 bits
    cdef Place previous, next


cdef class DynamicOrder:
    cdef public object successors, predecessors
    cdef readonly dict places
    cdef readonly long long searched
    cdef Place head

    cpdef place(self, node)
    cpdef remove(self, node)
    cpdef add_edges(self, edges)
    cdef int reorder(self, u, list later, set pending) except -1
    cdef int move(self, list moved, Place after) except -1
    cdef list labels(self, Py_ssize_t count, Place after, Place behind)
    cdef void link(self, list inserted, list labels, Place after) noexcept
    cdef int make_gap(self, Place after, Py_ssize_t room) except -1


cdef class AliasClass:
    cdef readonly object root
    cdef readonly Py_ssize_t size
    cdef readonly dict destroyers       # keys (node, i): input i of the node is a member that the node overwrites
    cdef readonly bint cyclic           # True if views form a cycle: the graph is in a temporary, invalid state


cdef class AliasClasses:
    cdef readonly dict view_i, view_o, destroyed
    cdef dict classes                   # variable -> AliasClass; a missing variable has no alias and is not destroyed

    cpdef root(self, r)
    cpdef destroyers(self, r)
    cpdef list members(self, r)
    cpdef add_view(self, out, viewed)
    cpdef remove_view(self, out)
    cpdef move_view(self, out, viewed)
    cpdef add_destroyer(self, r, app, i)
    cpdef remove_destroyer(self, r, app, i)
    cdef bint is_below(self, r, top)
    cdef int unlink(self, out) except -1
    cdef int join(self, out, viewed) except -1
    cdef int relabel(self, top, without, AliasClass label) except -1
    cdef int part(self, out) except -1
    cdef tuple smaller_part(self, one, other)
    cdef int rebuild(self, AliasClass whole, out) except -1


cdef class Constraints:
    cdef readonly AliasClasses aliases

    cpdef list successors(self, app)
    cpdef list predecessors(self, app)
    cpdef list other_users(self, app, members)
    cpdef list destroyers_of(self, app, variables)


cpdef list destroyed_indices(app)
