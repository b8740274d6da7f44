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
    share : float
        The share of programs that are run in this configuration. In a configuration with a family, the share of
        programs with loops is three times as large. A program that runs in a configuration with a family does not run
        in ``interpreted``.
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
        if self.without:
            return get_mode(self.mode).excluding(*self.without)
        return self.mode

    def applied(self):
        """Return a context manager that sets the flags for compilation."""
        return config.change_flags(dict(self.flags, on_unused_input="ignore", on_opt_error="raise"))


NO_COMPILER = ("cxx", "")
# The rules that may remove operations which raise errors, except for the rules of convolutions. Without these rules,
# convolutions have no implementation.
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
        # In each step of a loop, DebugMode runs each node several times.
        Configuration("DebugMode", "DebugMode", (("DebugMode.check_finite", False),), 0.002, seconds=100.0),
        Configuration("device", "device", (NO_COMPILER,), 0.0007),  # fifty times as slow as other configurations
        # A configuration that only `lengths` uses. It is not drawn for programs.
        Configuration("all errors", "FAST_RUN", (NO_COMPILER,), 0.0, without=REMOVING_ERRORS),
    )
}
