"""Virtual machines that run a graph's thunks.

`VM_Linker` makes a `Program` (`gof.program`) and chooses the virtual machine that runs it: the compiled `CVM` or a
Python machine. `Loop` and `LoopGC` run every node in order. `Stack` runs nodes on demand: it supports lazy nodes,
subsets of the outputs, callbacks and memory profiles. The class method `of` makes a machine from a program. The
constructors of the machines still accept the same arguments as in earlier versions. A cell is a list with one element,
for example the value of a variable.
"""

import time

from theano_ng.configdefaults import config
from theano_ng.gof import link, progress
from theano_ng.gof._cvm import CLazyLinker, checked_request
from theano_ng.gof._native import CThunk, NativeThunk
from theano_ng.gof.destroy.inplace_order import (
    lazy_prerequisites,
    needed_before_overwriting,
    overwrite_last,
    send_first,
    wait_last,
)
from theano_ng.gof.program import Program


def calculate_reallocate_info(order, fgraph, storage_map, compute_map_re, dependencies):
    """Return pairs of variables such that the second variable can use the first variable's memory.

    Parameters
    ----------
    order : list of Apply
        Nodes in the order in which they run.
    fgraph : FunctionGraph
    storage_map : dict
    compute_map_re : dict
        Variable -> [True if the variable has been computed so far]. The function changes this dict in place.
    dependencies : dict
        Variable -> the variables that are computed from it (`VM_Linker.compute_gc_dependencies`).

    Returns
    -------
    dict
        Second variable -> ``[first variable, second variable]``. Only 0-d values are paired, because their sizes are
        known to be equal. Two variables are paired only if the first variable is no longer used when the node of the
        second starts, and if neither can have an alias.

    Notes
    -----
    The function visits each node once. Variables that are no longer used are kept in a pool, grouped by type, until a
    later output can use their memory.
    """
    reallocated = {}
    viewed = set()
    for node in order:
        for table in (getattr(node.op, "view_map", None) or {}, getattr(node.op, "destroy_map", None) or {}):
            for o, positions in table.items():
                viewed.add(node.outputs[o])
                viewed.update(node.inputs[i] for i in positions)
    kept = set(fgraph.outputs) | set(fgraph.inputs)
    pool = {}

    def free_to_share(r):
        return (
            r.owner is not None
            and r not in kept
            and r not in viewed
            and getattr(r.type, "ndim", None) == 0
            and storage_map[r][0] is None
        )

    for node in order:
        for r in node.outputs:
            compute_map_re[r][0] = True
            dead = pool.get(r.type) if free_to_share(r) else None
            if dead:
                reallocated[r] = [dead.pop(), r]
        for r in dict.fromkeys(node.inputs):
            if free_to_share(r) and all(compute_map_re[other][0] for other in dependencies.get(r, ())):
                pool.setdefault(r.type, []).append(r)
    return reallocated


class VM:
    """A base class of virtual machines.

    Parameters
    ----------
    nodes : list of Apply
    thunks : list of callable
    pre_call_clear : list of cells
        Cells to empty at the start of each run.

    Attributes
    ----------
    call_times, call_counts : list
        The time and the number of calls of each node. They are filled if `time_thunks` is True.
    position_of_error : int
        The index of the node that failed.
    need_update_inputs : bool
        If True, the Function performs the updates. If False, the machine performs them.
    program : Program or None
        The program from which the class method `of` made the machine. Such a machine also has the attributes
        `storage_map`, `compute_map` and `updated_vars`. None: the caller used the constructor.
    """

    need_update_inputs = True
    program = None

    def __init__(self, nodes, thunks, pre_call_clear):
        if len(nodes) != len(thunks):
            raise ValueError("%d nodes, but %d thunks" % (len(nodes), len(thunks)))
        self.nodes = nodes
        self.thunks = thunks
        self.pre_call_clear = pre_call_clear
        self.call_counts = [0] * len(nodes)
        self.call_times = [0.0] * len(nodes)
        self.time_thunks = False
        self.position_of_error = -1

    @classmethod
    def of(cls, program):
        """Return a machine that runs a program.

        Parameters
        ----------
        program : Program
        """
        raise NotImplementedError("%s must define of" % cls.__name__)

    def _keep(self, program):
        """Store the program and its maps in the machine, and return the machine."""
        self.program = program
        self.storage_map, self.compute_map = program.storage_map, program.compute_map
        self.updated_vars = {update.destination: update.source for update in program.updates}
        return self

    def __call__(self):
        """Run the program once. The thunks read the inputs from cells and store the results in cells."""
        raise NotImplementedError("%s must define __call__" % type(self).__name__)

    def clear_storage(self):
        """Empty the cells of all variables that the nodes compute."""
        for node in self.nodes:
            for r in node.outputs:
                self.storage_map[r][0] = None

    def reset_timing(self):
        """Set the nodes' times and counts to zero."""
        self.call_times = [0.0] * len(self.nodes)
        self.call_counts = [0] * len(self.nodes)

    def update_profile(self, profile):
        """Add the nodes' times and counts to a profile. Then set these times and counts to zero.

        Parameters
        ----------
        profile : ProfileStats
        """
        for node, thunk, seconds, count in zip(self.nodes, self.thunks, self.call_times, self.call_counts):
            profile.apply_time[node] = profile.apply_time.get(node, 0.0) + seconds
            profile.apply_callcount[node] = profile.apply_callcount.get(node, 0) + count
            profile.apply_cimpl[node] = hasattr(thunk, "cthunk") or isinstance(thunk, CThunk)
            if isinstance(thunk, NativeThunk) and thunk.interprets():
                profile.apply_interpreted[node] = profile.apply_interpreted.get(node, 0) + count
        for name in ("variable_shape", "variable_strides", "variable_offset"):
            if hasattr(self, name):
                setattr(profile, name, getattr(self, name).copy())
        if hasattr(self, "node_executed_order"):
            profile.node_executed_order = self.node_executed_order[:]
            profile.node_cleared_order = self.node_cleared_order[:]
        if hasattr(self, "dependencies"):
            profile.dependencies = self.dependencies
        self.reset_timing()


class Loop(VM):
    """A machine that runs every node in order and keeps all values."""

    allow_gc = False

    @classmethod
    def of(cls, program):
        """Return a machine that runs a program; see `VM.of`."""
        return cls(list(program.nodes), list(program.thunks), program.cells(program.clear_before))._keep(program)

    def __call__(self):
        self.position_of_error = -1
        for cell in self.pre_call_clear:
            cell[0] = None
        i = -1
        try:
            if self.time_thunks:
                for i, thunk in enumerate(self.thunks):
                    start = time.perf_counter()
                    thunk()
                    self.call_times[i] += time.perf_counter() - start
                    self.call_counts[i] += 1
            else:
                for i, thunk in enumerate(self.thunks):  # noqa: B007, the handler reads `i`
                    thunk()
        except BaseException:
            self.position_of_error = i
            raise


class LoopGC(VM):
    """A machine that runs every node in order and frees values after their last use.

    Parameters
    ----------
    post_thunk_clear : list of list of cells
        For each node, the cells to empty after the node has run.
    """

    allow_gc = True

    def __init__(self, nodes, thunks, pre_call_clear, post_thunk_clear):
        super().__init__(nodes, thunks, pre_call_clear)
        self.post_thunk_clear = post_thunk_clear
        if len(nodes) != len(post_thunk_clear):
            raise ValueError("got %d nodes, but %d lists of cells to clear" % (len(nodes), len(post_thunk_clear)))

    @classmethod
    def of(cls, program):
        """Return a machine that runs a program; see `VM.of`."""
        cells = program.cells(program.clear_before)
        return cls(list(program.nodes), list(program.thunks), cells, program.cells_to_clear())._keep(program)

    def __call__(self):
        self.position_of_error = -1
        for cell in self.pre_call_clear:
            cell[0] = None
        i = -1
        try:
            for i, (thunk, old) in enumerate(zip(self.thunks, self.post_thunk_clear)):
                if self.time_thunks:
                    start = time.perf_counter()
                    thunk()
                    self.call_times[i] += time.perf_counter() - start
                    self.call_counts[i] += 1
                else:
                    thunk()
                for cell in old:
                    cell[0] = None
        except BaseException:
            self.position_of_error = i
            raise


class Stack(VM):
    """A machine that runs only the nodes on which the outputs depend. Lazy nodes request inputs while they run.

    Parameters
    ----------
    nodes, thunks, pre_call_clear
        The parameters of `VM`.
    storage_map, compute_map : dict
        Variable -> cell. A compute_map cell holds 0 (not computed), 1 (computed) or 2 (computed and freed).
    fgraph : FunctionGraph
    allow_gc : bool
        Whether to free values after their last use.
    n_updates : int
        The number of updates. The new values of the updates are the last outputs of the graph, and every run computes
        these outputs.
    dependencies : dict, optional
        Variable -> the variables that are computed from it. It is required if `allow_gc` is true.
    callback : callable, optional
        ``callback(node=..., thunk=..., storage_map=..., compute_map=...)`` is called after each node.
    callback_input : callable, optional
        ``callback_input(variable, value)`` is called for each input and constant at the start of each run.
    """

    def __init__(
        self,
        nodes,
        thunks,
        pre_call_clear,
        storage_map,
        compute_map,
        fgraph,
        allow_gc,
        n_updates,
        dependencies=None,
        callback=None,
        callback_input=None,
    ):
        if allow_gc and dependencies is None:
            raise ValueError("Must set dependencies when using GC")
        super().__init__(nodes, thunks, pre_call_clear)
        prerequisites, first = demanded_variables(fgraph, nodes, thunks, thunks, {})
        outputs = fgraph.outputs
        program = Program(
            fgraph,
            tuple(nodes),
            tuple(thunks),
            storage_map,
            compute_map,
            tuple([storage_map[r] for r in fgraph.inputs]),
            tuple([storage_map[r] for r in outputs]),
            prerequisites=prerequisites,
            first=tuple(first),
            lazy=True,
        )
        always = range(len(outputs) - n_updates, len(outputs))
        self._set_up(program.completed(allow_gc), always, dependencies or {}, callback, callback_input)

    @classmethod
    def of(cls, program, dependencies=None, callback=None, callback_input=None):
        """Return a machine that runs a program; see `VM.of`. For the other arguments, see `Stack`."""
        if program.allow_gc and dependencies is None:
            raise ValueError("Must set dependencies when using GC")
        machine = cls.__new__(cls)
        VM.__init__(machine, list(program.nodes), list(program.thunks), program.cells(program.clear_before))
        sources = {update.source for update in program.updates}
        always = [i for i, r in enumerate(program.fgraph.outputs) if r in sources]
        machine._set_up(program, always, dependencies or {}, callback, callback_input)
        return machine._keep(program)

    def _set_up(self, program, always, dependencies, callback, callback_input):
        """Prepare the tables for runs.

        Parameters
        ----------
        program : Program
            If its `lazy` is False, all inputs of lazy nodes are computed before the nodes run.
        always : sequence of int
            The indices of the outputs that every run computes.
        dependencies, callback, callback_input
            The parameters of the constructor.
        """
        fgraph, prerequisites = program.fgraph, program.prerequisites
        self.storage_map, self.compute_map = program.storage_map, program.compute_map
        self.fgraph = fgraph
        self.outputs = fgraph.outputs
        self.allow_gc = program.allow_gc
        self.n_updates = len(always)
        self.dependencies = dependencies
        self.callback = callback
        self.callback_input = callback_input
        self.node_idx = {node: i for i, node in enumerate(self.nodes)}
        self.message = ""
        self.base_apply_stack = [r.owner for r in fgraph.outputs if r.owner]
        self.memory_profile = config.profile_memory
        if self.memory_profile:
            self._forget_memory()
        self.lazy = program.lazy
        self.first = list(program.first)
        self.node_prereqs = {
            node: [r for other in prerequisites.get(node, ()) for r in other.outputs] for node in self.nodes
        }
        self._always = set(always)
        # Request the outputs in the order of the nodes that compute them. The linker may have put nodes that overwrite
        # state last (see `inplace_order.overwrite_last`), and this order must be kept.
        self._output_order = sorted(
            range(len(self.outputs)), key=[self.node_idx.get(r.owner, -1) for r in self.outputs].__getitem__
        )
        self._computed_outputs = [r for node in self.nodes for r in node.outputs]
        self._kept = set(self.outputs)
        # Variable that may be freed -> number of nodes that read this variable.
        self._users = {
            r: len({user.owner for user in users}) for r, users in dependencies.items() if r.owner is not None
        }

    def _forget_memory(self):
        self.variable_shape, self.variable_strides, self.variable_offset = {}, {}, {}
        self.node_executed_order, self.node_cleared_order = [], []

    def run_thunk_of_node(self, node):
        """Run one node's thunk and measure its time. Then call the callback.

        Returns
        -------
        list of int or None
            The indices of the inputs that a lazy node still needs.
        """
        i = self.node_idx[node]
        thunk = self.thunks[i]
        start = time.perf_counter() if self.time_thunks else 0
        needed = thunk()
        if self.time_thunks:
            self.call_times[i] += time.perf_counter() - start
        if not getattr(thunk, "lazy", False) or not needed:
            needed = None
            self.call_counts[i] += self.time_thunks
            for r in node.outputs:
                self.compute_map[r][0] = 1
            if self.callback:
                self.callback(node=node, thunk=thunk, storage_map=self.storage_map, compute_map=self.compute_map)
        return needed

    def __call__(self, output_subset=None):
        """Run the program once.

        Parameters
        ----------
        output_subset : list of int, optional
            The indices of outputs. Only these outputs and the updates are computed.
        """
        self._begin()
        wanted = None if output_subset is None else self._always.union(output_subset)
        users_left = self._users.copy()
        for r in self.first:
            self._compute(r, users_left)
        for k in self._output_order:
            if wanted is None or k in wanted:
                self._compute(self.outputs[k], users_left)
        if self.allow_gc:
            # Free the values that are still stored because some of the nodes that read them did not run.
            for r in self._computed_outputs:
                if r not in self._kept:
                    self.storage_map[r][0] = None
        if wanted is not None:
            # Clear outputs that this run did not compute, because they hold results of an earlier run.
            for r in self.outputs:
                if not self.compute_map[r][0]:
                    self.storage_map[r][0] = None

    def _begin(self):
        """Reset the state of the previous run. Pass the inputs to the callback and to the memory profile."""
        self.position_of_error = -1
        for cell in self.pre_call_clear:
            cell[0] = None
        given = []
        for r, flag in self.compute_map.items():
            flag[0] = int(r.owner is None)
            if flag[0]:
                given.append(r)
        if self.callback_input:
            for r in given:
                self.callback_input(r, self.storage_map[r][0])
        if self.memory_profile:
            self._forget_memory()
            for r in given:
                self._note_memory(r)

    def _compute(self, output, users_left):
        """Compute a variable and all variables that it needs, depth first.

        Parameters
        ----------
        output : Variable
        users_left : dict
            Variable -> number of nodes that have not read it yet. The method changes this dict in place.
        """
        compute_map, thunks, node_idx, node_prereqs = self.compute_map, self.thunks, self.node_idx, self.node_prereqs
        stack = [output]
        while stack:
            r = stack[-1]
            if compute_map[r][0]:
                stack.pop()
                continue
            node = r.owner
            lazy = self.lazy and getattr(thunks[node_idx[node]], "lazy", False)
            required = node_prereqs[node] if lazy else [*node.inputs, *node_prereqs[node]]
            missing = [other for other in required if not compute_map[other][0]] or self._run(node)
            if missing:
                stack.extend(reversed(missing))
                continue
            cleared = self._free(node, users_left) if self.allow_gc else []
            if self.memory_profile:
                self.node_executed_order.append(node)
                self.node_cleared_order.append(cleared)
            stack.pop()

    def _run(self, node):
        """Run a node.

        If the node is lazy and needs more inputs, return the inputs that it requests. Otherwise return None.
        """
        try:
            needed = self.run_thunk_of_node(node)
            if needed:
                needed = [node.inputs[k] for k in checked_request(node, needed, len(node.inputs))]
                needed = [r for r in needed if not self.compute_map[r][0]]
                if not needed:
                    raise RuntimeError("the lazy thunk of %s asks for inputs that are already computed" % node)
                return needed
        except BaseException:
            self.position_of_error = self.node_idx[node]
            raise
        if self.memory_profile:
            for r in node.outputs:
                self._note_memory(r)
        return None

    def _free(self, node, users_left):
        """Free those inputs and outputs of `node` that no later node reads. Return these variables."""
        read = dict.fromkeys(node.inputs)
        for r in read:
            if r in users_left:
                users_left[r] -= 1
        compute_map, freed = self.compute_map, []
        for r in (*read, *node.outputs):
            if users_left.get(r) == 0 and compute_map[r][0] and r not in self._kept:
                self.storage_map[r][0] = None
                compute_map[r][0] = 2
                freed.append(r)
        return freed

    def _note_memory(self, r):
        value = self.storage_map[r][0]
        try:
            self.variable_shape[r] = r.type.get_shape_info(value)
        except Exception:
            self.variable_shape[r] = "input no shape"  # the Type does not report shapes
        self.variable_strides[r] = getattr(value, "strides", "input no strides")
        if hasattr(value, "__array_interface__") and getattr(value, "base", None) is not None:
            base = value
            while getattr(base, "base", None) is not None and hasattr(base.base, "__array_interface__"):
                base = base.base
            self.variable_offset[r] = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        else:
            self.variable_offset[r] = 0


class CVM(CLazyLinker, VM):
    """The compiled machine. See `gof._cvm.CLazyLinker` for the arguments."""

    need_update_inputs = False

    def __init__(self, *args, **kwargs):
        CLazyLinker.__init__(self, *args, **kwargs)

    @classmethod
    def of(cls, program):
        """Return a machine that runs a program; see `VM.of`."""
        return cls(program)._keep(program)


def demanded_variables(fgraph, nodes, thunks, asked, updated_vars):
    """Return the variables that evaluation on demand computes in addition to the inputs of nodes.

    Parameters
    ----------
    fgraph : FunctionGraph
    nodes, thunks : sequence
        Nodes and their thunks in the order in which they run.
    asked : sequence of callable
        The thunks that may request inputs: `thunks`, or an empty sequence if all inputs of lazy nodes are computed in
        any case.
    updated_vars : dict
        Input variable -> output variable.

    Returns
    -------
    prerequisites : dict
    first : list of Variable
        See the attributes of `Program`.
    """
    orderings = fgraph.orderings() if hasattr(fgraph, "orderings") else {}
    prerequisites = lazy_prerequisites(nodes, asked, orderings, fgraph.outputs)
    return prerequisites, needed_before_overwriting(nodes, thunks, prerequisites, updated_vars)


class VM_Linker(link.LocalLinker):
    """A linker that makes a thunk for each node and a machine that runs the thunks.

    Parameters
    ----------
    allow_gc : bool, optional
        Whether to free intermediate values after their last use. None: config.allow_gc. If False, values are kept and
        reused as output buffers.
    use_cloop : bool
        Whether to use the compiled machine (CVM) if it supports the options.
    callback : callable, optional
        A function that is called after each node: ``callback(node=..., thunk=..., storage_map=..., compute_map=...)``.
        It requires the Stack machine.
    callback_input : callable, optional
        A function that is called for each input and constant at the start of a run:
        ``callback_input(variable, value)``. It requires the Stack machine.
    lazy : bool, optional
        Whether lazy nodes are evaluated on demand. If False, all their inputs are computed. None: config.vm.lazy. If
        that flag is None, too, nodes are evaluated on demand only if some node is lazy.
    schedule : callable, optional
        ``schedule(fgraph)`` returns the nodes in order.
    c_thunks : bool, optional
        Whether to use C code. None: use C code if a compiler exists (config.cxx), or if the code needs no compiler.
    allow_partial_eval : bool, optional
        Whether a call of the Function that requests a subset of the outputs computes only this subset. If False, such
        a call computes all outputs and returns the subset. None: True for the compiled machine, and for Stack if other
        options require Stack. If True, and `use_cloop` is False, the linker chooses Stack.
    """

    def __init__(
        self,
        allow_gc=None,
        use_cloop=False,
        callback=None,
        callback_input=None,
        lazy=None,
        schedule=None,
        c_thunks=None,
        allow_partial_eval=None,
    ):
        self.allow_gc = allow_gc
        self.fgraph = None
        self.use_cloop = use_cloop
        self.callback = callback
        self.callback_input = callback_input
        self.lazy = lazy
        self.c_thunks = c_thunks
        self.allow_partial_eval = allow_partial_eval
        self.updated_vars = {}
        self.profile = None
        if schedule is not None:
            self.schedule = schedule

    @property
    def calls_back(self):
        """True if the linker has callbacks."""
        return bool(self.callback or self.callback_input)

    def accept(self, fgraph, no_recycling=None, profile=None):
        if self.fgraph is not None and self.fgraph is not fgraph:
            return self.clone().accept(fgraph, no_recycling, profile)
        self.fgraph = fgraph
        self.no_recycling = [] if no_recycling is None else no_recycling
        self.profile = profile
        self.updated_vars = {}
        return self

    def accept_var_updates(self, updated_vars):
        """Set the updates: the inputs that get the value of an output after a run.

        Parameters
        ----------
        updated_vars : dict
            Input variable -> output variable.
        """
        self.updated_vars = updated_vars

    def compute_gc_dependencies(self, variables):
        """Return, for each variable, the variables that are computed from it.

        When all these variables are computed, the variable can be freed.

        Parameters
        ----------
        variables : iterable of Variable

        Returns
        -------
        dict
            Variable -> list of Variable, for the variables that are computed in the graph.
        """
        dependencies = {}
        for r in variables:
            if r.owner is not None:
                users = dict.fromkeys(client for client, _ in r.clients if client != "output")
                dependencies[r] = [out for user in users for out in user.outputs]
        return dependencies

    def machine_class(self, lazy):
        """Return the class of the machine that runs a program.

        Parameters
        ----------
        lazy : bool
            Whether nodes are evaluated on demand.

        Returns
        -------
        class
        """
        if (
            self.calls_back
            or (config.profile_memory and (config.profile or self.profile is not None))
            or (not self.use_cloop and (lazy or self.allow_partial_eval))
        ):
            return Stack
        if self.use_cloop:
            return CVM
        return LoopGC if self.allow_gc else Loop

    def machine(self, program):
        """Return the machine for a program of this linker.

        Parameters
        ----------
        program : Program

        Returns
        -------
        VM
        """
        kind = self.machine_class(program.lazy)
        if kind is Stack:
            vm = Stack.of(
                program, self.compute_gc_dependencies(program.storage_map), self.callback, self.callback_input
            )
        else:
            vm = kind.of(program)
        vm.allow_partial_eval = kind in (Stack, CVM) and self.allow_partial_eval is not False
        return vm

    def _with_options(self, program, updated_vars):
        """Return a copy of a program, changed according to the options of the linker.

        Parameters
        ----------
        program : Program
            A program without updates, and without variables to clear.
        updated_vars : dict
            Input variable -> output variable.

        Returns
        -------
        Program
        """
        thunks = program.thunks
        lazy = config.vm.lazy if self.lazy is None else self.lazy
        if lazy is None:
            lazy = any(getattr(thunk, "lazy", False) for thunk in thunks)
        lazy = bool(lazy)
        kind = self.machine_class(lazy)
        prerequisites, first = {}, ()
        if kind not in (Loop, LoopGC):
            # If `lazy` is False, a Stack computes all inputs of lazy nodes, so no thunk requests inputs. Lazy thunks of
            # the compiled machine still request inputs if the caller wants only some of the outputs.
            asked = thunks if lazy or kind is CVM else ()
            prerequisites, first = demanded_variables(self.fgraph, program.nodes, thunks, asked, updated_vars)
        if not lazy:
            # All nodes run in order. Mark every variable as computed, so that lazy thunks do not request inputs.
            for flag in program.compute_map.values():
                flag[0] = True
        return program.completed(
            self.allow_gc, self.no_recycling, updated_vars, prerequisites=prerequisites, first=tuple(first), lazy=lazy
        )

    def make_vm(
        self,
        nodes,
        thunks,
        input_storage,
        output_storage,
        storage_map,
        post_thunk_clear,
        computed,
        compute_map,
        updated_vars,
    ):
        """Return a machine for thunks that the caller has made.

        Parameters
        ----------
        nodes, thunks : list
        input_storage, output_storage : list of cells
        storage_map, compute_map : dict
        post_thunk_clear : list of list of cells
            For each node, the cells to empty after the node has run. The lists are used only if `allow_gc` is true.
        computed : set of Variable
            The variables that the nodes compute. Before each run, the machine may empty the cells of those computed
            variables that are in the attribute `no_recycling` of the linker.
        updated_vars : dict
            Input variable -> output variable.

        Returns
        -------
        VM
        """
        cells = tuple(input_storage), tuple(output_storage)
        program = Program(self.fgraph, tuple(nodes), tuple(thunks), storage_map, compute_map, *cells)
        program = self._with_options(program, updated_vars)
        variables = {id(cell): r for r, cell in storage_map.items()}
        return self.machine(
            program.with_parts(
                clear_before=tuple(r for r in program.clear_before if r in computed),
                clear_after=tuple(tuple(variables[id(cell)] for cell in cells) for cells in post_thunk_clear)
                if self.allow_gc
                else None,
            )
        )

    def make_program(self, input_storage=None, output_storage=None, storage_map=None):
        """Return the program of the graph: thunks for all nodes, bound to cells.

        Parameters
        ----------
        input_storage, output_storage : list of cells, optional
        storage_map : dict, optional
            See `link.map_storage`. Missing cells are created.

        Returns
        -------
        Program
        """
        fgraph = self.fgraph
        order = self.schedule(fgraph)
        if self.updated_vars:
            order = overwrite_last(order, fgraph.orderings(), self.updated_vars)
        order = send_first(wait_last(order, fgraph.orderings()), fgraph.orderings())
        input_storage, output_storage, storage_map = link.map_storage(
            fgraph, order, input_storage, output_storage, storage_map
        )
        compute_map = {r: [r.owner is None] for r in storage_map}

        start = time.perf_counter()
        impl = "py" if self.c_thunks is False else None
        thunks = []
        with link.native_kernels(order if impl is None else ()):
            for i, node in enumerate(order):
                before = time.perf_counter()
                progress.task.linking(i + 1, order)
                thunks.append(link.make_node_thunk(node, storage_map, compute_map, self.no_recycling, impl))
                if self.profile is not None:
                    self.profile.linker_make_thunk_time[node] = time.perf_counter() - before
        if self.profile is not None:
            self.profile.linker_node_make_thunks += time.perf_counter() - start
        cells = tuple(input_storage), tuple(output_storage)
        program = Program(fgraph, tuple(order), tuple(thunks), storage_map, compute_map, *cells)
        return self._with_options(program, self.updated_vars)

    def make_all(self, profiler=None, input_storage=None, output_storage=None, storage_map=None):
        program = self.make_program(input_storage, output_storage, storage_map)
        return (self.machine(program), *link.program_containers(program), list(program.thunks), list(program.nodes))

    def __getstate__(self):
        # Do not pickle the profile, which belongs to the graph that the linker accepted in this process.
        state = self.__dict__.copy()
        state["profile"] = None
        return state
