"""The modes and flags with which programs are compiled and run."""

from dataclasses import dataclass

from theano_ng.audit.rewrites import accepted
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.configdefaults import config


@dataclass(frozen=True)
class Configuration:
    """A mode and flags for compilation.

    Attributes
    ----------
    name : str
    mode : str
    flags : tuple of (str, object)
    without : tuple of str
        Names of rules that are not applied.
    linker : str
        If this is not "", programs are compiled with this linker and the rules of FAST_RUN, and `mode` is ignored.
    share : float
        The share of programs that are run in this configuration. If the configuration has a family, the share of
        programs with loops is three times as large. A program that runs in a configuration with a family does not run
        in the configuration ``interpreted``.
    rewritten : bool
        Whether the graph is rewritten.
    family : str
        The family of the configuration. The results of all configurations of a family must be equal bit by bit.
    seconds : float
        The limit in seconds of processor time for compiling and calling a program. Most programs take less than a tenth
        of a second.
    """

    name: str
    mode: str
    flags: tuple = ()
    share: float = 1.0
    without: tuple = ()
    linker: str = ""
    rewritten: bool = True
    family: str = ""
    seconds: float = 10.0

    def make_mode(self):
        if self.mode == "python":
            return Mode("py", None)
        if self.mode == "device":
            from theano_ng.gpuarray.tests.device import context

            context()
            return get_mode("FAST_RUN").including("gpuarray")
        if self.linker:
            return Mode(self.linker, "fast_run")
        if self.without:
            return get_mode(self.mode).excluding(*self.without)
        return self.mode

    def applied(self):
        """Return a context manager that sets the flags for compilation."""
        return config.change_flags(dict(self.flags, on_unused_input="ignore", on_opt_error="raise"))


NO_COMPILER = ("cxx", "")
# The rules that may remove operations which raise errors. The rules of convolutions are not in this list, because
# convolutions have no implementation without these rules.
REMOVING_ERRORS = tuple(
    sorted(
        {
            name
            for row in accepted.TABLE
            for name in row.rules
            if "lost error" in row.kinds and not name.startswith(("local_conv", "local_abstractconv"))
        }
    )
)
CONFIGURATIONS = {
    one.name: one
    for one in (
        Configuration("interpreted", "FAST_RUN", (NO_COMPILER,)),
        Configuration("python", "python", (NO_COMPILER,), 0.1, rewritten=False),
        Configuration("FAST_COMPILE", "FAST_COMPILE", (NO_COMPILER,), 0.1),
        Configuration("tiered=auto", "FAST_RUN", (("tiered", "auto"),), 0.12, family="FAST_RUN"),
        Configuration("tiered=on", "FAST_RUN", (("tiered", "on"),), 0.03, family="FAST_RUN"),
        Configuration("tiered=off", "FAST_RUN", (("tiered", "off"),), 0.02, family="FAST_RUN"),
        # With allow_gc=False, a function keeps the storage of intermediate results, and reuses it at the next call.
        Configuration("allow_gc=False", "FAST_RUN", (("allow_gc", False),), 0.03, family="FAST_RUN"),
        Configuration("linker=c|py", "FAST_RUN", (("tiered", "auto"),), 0.02, linker="c|py"),
        Configuration("linker=vm", "FAST_RUN", (NO_COMPILER,), 0.03, linker="vm"),
        Configuration("openmp", "FAST_RUN", (("openmp", True), ("openmp_elemwise_minsize", 2), NO_COMPILER), 0.05),
        # The time limit is long, because DebugMode runs each node several times in each step of a loop.
        Configuration("DebugMode", "DebugMode", (("DebugMode.check_finite", False),), 0.002, seconds=100.0),
        Configuration("device", "device", (NO_COMPILER,), 0.0007),  # fifty times as slow as other configurations
        # Only `lengths` uses this configuration. Its share is zero, so that `Session` never draws it.
        Configuration("all errors", "FAST_RUN", (NO_COMPILER,), 0.0, without=REMOVING_ERRORS),
    )
}
