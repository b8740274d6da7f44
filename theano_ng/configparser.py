"""The flag system: typed and documented flags.

The value of a flag comes from the first of these sources that exists: an assignment in code, the setting in
THEANO_FLAGS, the setting in .theanorc, the default.

Values are stored in the instance dictionary of the section that owns the flags, so that reading ``config.floatX`` costs
one attribute access. At the first read of a flag, `TheanoConfigParser.__getattr__` finds, checks and stores its value.

Flags of other packages
-----------------------
A package defines its flags with `AddConfigVar`, in a section with the name of the package:
``AddConfigVar("mypackage.verbose", "...", BoolParam(False))``. THEANO_FLAGS and the configuration files may then
contain ``mypackage.verbose``, although the flag is defined only when ``mypackage`` is imported. If the section of an
unknown name is an importable package outside of the standard library, the setting is kept. It is checked when the
package defines the flag. For any other unknown name, importing theano_ng raises an error, so that misspelled names are
noticed.
"""

import functools
import logging
import os
import sys

from theano_ng._flag_block import FlagBlock
from theano_ng.digests import blake2b

_logger = logging.getLogger("theano_ng.configparser")


class TheanoConfigWarning(Warning):
    """The warning for an accepted setting that is probably a mistake."""

    @classmethod
    def warn(cls, message, stacklevel=0):
        import warnings

        warnings.warn(message, cls, stacklevel=stacklevel + 3)


class TheanoConfigError(ValueError):
    """The exception for a flag that does not exist, or for a value that a flag does not accept."""


def parse_config_string(config_string, issue_warnings=True):
    """Parse ``"name=value,name=value"``. If a name occurs several times, the last value counts.

    Parameters
    ----------
    config_string : str
        The settings. Values with commas are quoted: ``gcc.cxxflags='-Wl,-z,now'``. Blanks around names and values are
        ignored.
    issue_warnings : bool
        If True, raise an error for an item that is not ``name=value``. If False, ignore such items.

    Returns
    -------
    dict of str to str

    Raises
    ------
    TheanoConfigError
    """
    if any(c in config_string for c in "'\"\\"):
        import shlex

        splitter = shlex.shlex(config_string, posix=True)
        splitter.whitespace, splitter.whitespace_split, splitter.commenters = ",", True, ""
        if sys.platform == "win32":
            splitter.escape = ""  # on Windows, a backslash separates the folders of a path
        try:
            items = list(splitter)
        except ValueError as failure:
            raise TheanoConfigError(
                "THEANO_FLAGS: %s in %r; write a backslash before a quote or backslash in a value"
                % (str(failure).lower(), config_string)
            ) from failure
    else:
        items = config_string.split(",")
    flags = {}
    for item in items:
        name, equals, value = item.strip().partition("=")
        name, value = name.strip(), value.strip()
        if equals and name:
            flags[name] = value
        elif (name or equals) and issue_warnings:
            raise TheanoConfigError(
                "THEANO_FLAGS: %r is not of the form name=value (in %r)%s" % (item, config_string, nearest_flags(name))
            )
    return flags


def config_files_from_theanorc():
    """Return the paths in THEANORC, with ~ and variables expanded. By default, the path is ~/.theanorc."""
    if sys.platform == "win32":
        default = os.pathsep.join(("~/.theanorc", "~/.theanorc.txt"))
    else:
        default = "~/.theanorc"
    paths = os.getenv("THEANORC", default).split(os.pathsep)
    return [os.path.expanduser(os.path.expandvars(path)) for path in paths if path]


def _read_theanorc():
    """Return a dict of all flags in the configuration files. A key is ``section.name``, or ``name`` in [global].

    A later file overrides an earlier file. Within a file, the last definition counts. `_file_of` records the file of
    each flag for messages.
    """
    flags = {}
    for path in config_files_from_theanorc():
        if not os.path.isfile(path):
            continue
        import configparser

        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str
        try:
            with open(path, encoding="utf-8") as file:
                parser.read_file(file, path)
        except OSError as failure:
            TheanoConfigWarning.warn("%s is ignored, it cannot be read: %s" % (path, failure.strerror))
            continue
        except (configparser.Error, UnicodeDecodeError) as failure:
            raise TheanoConfigError("%s cannot be read: %s" % (path, str(failure).replace("\n", " "))) from failure
        for section in parser.sections():
            for name, value in parser.items(section):
                name = name if section == "global" else "%s.%s" % (section, name)
                flags[name] = value
                _file_of[name] = path
    return flags


THEANO_FLAGS = os.getenv("THEANO_FLAGS", "")
THEANO_FLAGS_DICT = {}
theano_raw_cfg = {}
_file_of = {}  # flag -> the configuration file that sets it
_config_var_list = []
_config_vars = {}


def fetch_val_for_key(key, delete_key=False):
    """Return the text to which THEANO_FLAGS or a configuration file sets a flag. THEANO_FLAGS has precedence.

    Raises
    ------
    KeyError
        If neither sets the flag.
    """
    if key in THEANO_FLAGS_DICT:
        return THEANO_FLAGS_DICT.pop(key) if delete_key else THEANO_FLAGS_DICT[key]
    return theano_raw_cfg[key]


def _source_of(name):
    """Return the source of the text for a flag: THEANO_FLAGS or a configuration file."""
    return "THEANO_FLAGS" if name in THEANO_FLAGS_DICT else _file_of.get(name, ".theanorc")


def nearest_flags(name):
    """Return the end of an error message: a question with flags of similar names. Return '' if there are none."""
    import difflib

    known = list(_config_vars)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    last = name.rpartition(".")[2].lower()
    close += [flag for flag in known if flag.rpartition(".")[2].lower() == last and flag not in close]
    return ". Did you mean %s?" % ", ".join(close) if close else ""


def check_unknown_flags():
    """Raise an error if THEANO_FLAGS or a configuration file sets a flag that is not defined.

    A flag in the section of another package is permitted, because that package may define the flag later.

    Raises
    ------
    TheanoConfigError
    """
    for name in (*THEANO_FLAGS_DICT, *theano_raw_cfg):
        if name not in _config_vars and not _of_other_package(name):
            raise TheanoConfigError("%s: there is no flag %r%s" % (_source_of(name), name, nearest_flags(name)))


def _of_other_package(name):
    """Return True if the section of a flag is the name of a package that may define the flag later."""
    package, dot, rest = name.partition(".")
    if not (dot and rest and package.isidentifier()) or package in config._sections or package in config._params:
        return False
    if package in sys.modules:
        return package not in sys.stdlib_module_names
    if package in sys.stdlib_module_names:
        return False
    import importlib.util

    return importlib.util.find_spec(package) is not None


class ConfigParam:
    """One flag: its default, conversion and check.

    Parameters
    ----------
    default : object or callable
        The default value, or a function that computes it. If the flag has no setting, the first read of the flag calls
        the function.
    filter : callable, optional
        A function that converts a text or a value. It raises ValueError if the text or value is invalid.
    allow_override : bool
        If False, a program cannot assign the flag.
    accepts : object, optional
        A description of the accepted values, for ``print(config)``.
    """

    def __init__(self, default, filter=None, allow_override=True, accepts="any value"):
        self.default = default
        self.filter = filter
        self.allow_override = allow_override
        self.accepts = accepts
        self.fullname = self.section = self.doc = None
        self.in_c_key = True
        self.is_default = True

    def convert(self, value):
        """Return the converted and checked value. The error for an invalid value contains the name of the flag."""
        if self.filter is None:
            return value
        try:
            return self.filter(value)
        except TheanoConfigError:
            raise
        except (ValueError, TypeError) as failure:
            raise TheanoConfigError("flag %s: %s" % (self.fullname, failure)) from failure

    def first_value(self):
        """Return the value from THEANO_FLAGS, from a configuration file or from the default."""
        try:
            text = fetch_val_for_key(self.fullname)
        except KeyError:
            return self.convert(self.default() if callable(self.default) else self.default)
        self.is_default = False
        try:
            return self.convert(text)
        except TheanoConfigError as failure:
            raise TheanoConfigError("%s: %s" % (_source_of(self.fullname), failure)) from failure

    def allowed(self):
        """Return a description of the accepted values, for ``print(config)``."""
        return self.accepts

    def __get__(self, instance, owner=None):
        """Return the value of the flag, for programs that read all flags by the descriptor protocol."""
        return self if instance is None else _value_of(self)

    def __set__(self, instance, value):
        """Assign the flag, for programs that use the descriptor protocol."""
        setattr(self.section, self.fullname.rpartition(".")[2], value)


class EnumStr(ConfigParam):
    """A flag whose value is one of a few strings."""

    def __init__(self, default, *options, **kwargs):
        self.all = (default,) + options
        for option in self.all:
            if not isinstance(option, str):
                raise TypeError("EnumStr options are strings, not %r" % (option,))
        super().__init__(default, self._filter, **kwargs)

    def _filter(self, value):
        if value in self.all:
            return value
        raise ValueError("%r is not one of %s" % (value, ", ".join(map(repr, self.all))))

    def allowed(self):
        return self.all

    def __str__(self):
        return "%s (%s) " % (self.fullname, self.all)


class TypedParam(ConfigParam):
    """A flag whose value has a given type, with an optional check."""

    def __init__(self, default, mytype, is_valid=None, allow_override=True):
        self.mytype = mytype
        self.is_valid = is_valid
        super().__init__(default, self._filter, allow_override)

    def _filter(self, value):
        try:
            converted = self.mytype(value)
            if self.mytype is int and not isinstance(value, str) and converted != value:
                raise ValueError("it has a fraction")
        except (ValueError, TypeError, OverflowError) as failure:
            raise ValueError("%r cannot be converted to %s: %s" % (value, self.allowed(), failure)) from failure
        if self.is_valid is not None and not self.is_valid(converted):
            raise ValueError("this flag does not accept the value %r" % (value,))
        return converted

    def allowed(self):
        return getattr(self.mytype, "__name__", self.mytype)

    def __str__(self):
        return "%s (%s) " % (self.fullname, self.mytype)


def _flag_maker(name, convert, description):
    """Return a function that creates flags. `convert` converts texts to values of these flags."""

    def make(default, is_valid=None, allow_override=True):
        return TypedParam(default, convert, is_valid, allow_override)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = description
    return make


StrParam = _flag_maker("StrParam", str, "A flag whose value is a string (which `is_valid` accepts).")
IntParam = _flag_maker("IntParam", int, "A flag whose value is an integer.")
FloatParam = _flag_maker("FloatParam", float, "A flag whose value is a float.")


def _as_bool(value):
    if value in (True, 1, "True", "true", "1", "yes", "on"):
        return True
    if value in (False, 0, "False", "false", "0", "no", "off"):
        return False
    raise ValueError("expected True or False")


_as_bool.__name__ = "bool"


def BoolParam(default, is_valid=None, allow_override=True):
    """Return a flag whose value is True or False (also 1, 0, yes, no ...)."""
    return TypedParam(default, _as_bool, is_valid, allow_override=allow_override)


class TheanoConfigParser:
    """A section of flags. The root section is ``theano_ng.config``.

    Raises
    ------
    AttributeError
        If a flag that does not exist is read or assigned. The message contains the most similar names.
    TheanoConfigError
        If a value is not accepted.
    """

    def __init__(self, prefix="", root=None):
        self.__dict__["_prefix"] = prefix
        self.__dict__["_root"] = self if root is None else root
        self.__dict__["_params"] = {}
        self.__dict__["_sections"] = {}

    def __getattr__(self, name):
        if name.startswith("_"):  # no flag begins with _, and `self._params` does not exist before `__init__` has run
            raise AttributeError("there is no flag %r" % name)
        param = self._params.get(name)
        if param is None:
            raise AttributeError("there is no flag %r%s" % (self._prefix + name, nearest_flags(self._prefix + name)))
        value = self.__dict__[name] = param.first_value()
        return value

    def __setattr__(self, name, value):
        param = self._params.get(name)
        if param is None:
            if name in self._sections:
                raise AttributeError(
                    "%r is a section of flags, not a flag%s" % (self._prefix + name, nearest_flags(self._prefix + name))
                )
            raise AttributeError("there is no flag %r%s" % (self._prefix + name, nearest_flags(self._prefix + name)))
        _refuse_immutable(param)
        self.__dict__[name] = param.convert(value)
        param.is_default = False

    def __delattr__(self, name):
        """Delete an assigned value. The next read returns the setting in THEANO_FLAGS or a file, or the default."""
        param = self._params.get(name)
        if param is None:
            raise AttributeError("there is no flag %r%s" % (self._prefix + name, nearest_flags(self._prefix + name)))
        _refuse_immutable(param)
        self.__dict__.pop(name, None)
        param.is_default = True

    # Flags belong to the process: the copy of a section is the section itself, and its pickle contains no flag values.

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        if self._root is not config:
            raise TypeError("only theano.config and its sections can be pickled")
        return _section_named, (self._prefix,)

    def __dir__(self):
        return sorted([*self._params, *self._sections])

    def __str__(self):
        import io

        buffer = io.StringIO()
        _config_print(self, buffer)
        return buffer.getvalue()

    def _section(self, name):
        section = self._sections.get(name)
        if section is None:
            if name in self._params:
                raise AttributeError("%s%s is a flag, not a section" % (self._prefix, name))
            section = self._sections[name] = self.__dict__[name] = TheanoConfigParser(
                "%s%s." % (self._prefix, name), self._root
            )
        return section


_ConfigParser = TheanoConfigParser


def _refuse_immutable(param):
    if not param.allow_override:
        raise TheanoConfigError(
            "Can't change the value of this config parameter after initialization! %s is set in THEANO_FLAGS or a configuration file, "
            "before theano_ng is imported" % param.fullname
        )


class TheanoRootConfig(TheanoConfigParser):
    """The root section, with the functions that programs use as attributes of ``theano.config``."""

    def change_flags(self, args=(), **kwargs):
        return change_flags(args, **kwargs)


config = TheanoRootConfig()


def _section_named(prefix):
    """Return the section of `config` whose flags have the given prefix, such as ``"gcc."``. For '' return `config`."""
    return functools.reduce(getattr, prefix.split(".")[:-1], config)


def AddConfigVar(name, doc, configparam, root=config, in_c_key=True):
    """Define a flag. A setting in THEANO_FLAGS or in a configuration file is checked at once.

    Parameters
    ----------
    name : str
        The dotted name. Sections are created as needed. Other packages use a section with the name of the package:
        otherwise no setting can contain the flag (see the docstring of this module).
    doc : str
        The documentation of the flag. ``print(config)`` prints it.
    configparam : ConfigParam
    root : TheanoConfigParser
        The section to which `name` is relative.
    in_c_key : bool
        If True, compiled C code depends on the value, and `get_config_hash` includes the value.

    Raises
    ------
    AttributeError
        If the flag already exists.
    TheanoConfigError
        If the flag does not accept its setting in THEANO_FLAGS or a configuration file. The flag is then not defined.
    """
    if not isinstance(configparam, ConfigParam):
        raise TypeError("AddConfigVar needs a ConfigParam, not %r" % (configparam,))
    if not all(part.isidentifier() and not part.startswith("_") for part in name.split(".")):
        raise ValueError("the name of a flag consists of identifiers with dots between them, but %r does not" % (name,))
    section = root
    *path, last = name.split(".")
    for part in path:
        section = section._section(part)
    if last in section.__dict__ or last in section._params or hasattr(type(section), last):
        raise AttributeError("This name is already taken: %s" % name)
    configparam.fullname = section._prefix + last
    configparam.section, configparam.doc, configparam.in_c_key = section, doc, in_c_key
    # Convert a setting now, so that an invalid setting raises an error. The first read computes a callable default.
    if (
        not callable(configparam.default)
        or configparam.fullname in THEANO_FLAGS_DICT
        or configparam.fullname in theano_raw_cfg
    ):
        section.__dict__[last] = configparam.first_value()
    section._params[last] = configparam
    if section._root is config:
        _config_var_list.append(configparam)
        _config_vars[configparam.fullname] = configparam


def _value_of(param):
    return getattr(param.section, param.fullname.rpartition(".")[2])


def _config_print(thing, buf, print_doc=True):
    """Write every flag of a section and its subsections, with its allowed values, documentation and value."""
    if thing is config:
        params = _config_var_list  # in the order of definition
    else:
        params, todo = [], [thing]
        while todo:
            section = todo.pop()
            params += section._params.values()
            todo += reversed(section._sections.values())
    for param in params:
        print("%s (%s) " % (param.fullname, param.allowed()), file=buf)
        if print_doc:
            print("    Doc: ", param.doc, file=buf)
        print("    Value: ", _value_of(param), file=buf)
        print("", file=buf)


def get_config_hash():
    """Return a hash of the values of all flags on which compiled C code depends."""
    lines = [
        "%s = %s" % (p.fullname, _value_of(p)) for p in sorted(_config_var_list, key=lambda p: p.fullname) if p.in_c_key
    ]
    return blake2b("\n".join(lines).encode()).hexdigest()


def flags_in_effect():
    """Return the names and values of the flags that THEANO_FLAGS, a configuration file or code has set.

    Flags that only select folders, the compiler or profiling are omitted.

    Returns
    -------
    list of (str, str)
    """
    found = []
    for param in _config_var_list:
        name = param.fullname
        if name in ("base_compiledir", "compiledir", "compiledir_format", "profile", "cxx"):
            continue
        if not param.is_default or name in THEANO_FLAGS_DICT or name in theano_raw_cfg:
            found.append((name, str(_value_of(param))))
    return found


class change_flags(FlagBlock):
    """A context manager and decorator that sets flags, and restores them at the end, also after an exception.

    Blocks may be nested, and one instance may be entered several times. In a decorated generator or coroutine, the
    flags are set only while its code runs, not while the code that consumes the generator runs.

    Parameters
    ----------
    args : dict or sequence of (name, value)
        Flags with dotted names, and their values.
    **kwargs
        Flags whose names have no dot, and their values.

    Raises
    ------
    AttributeError
        If a flag does not exist.
    TheanoConfigError
        If a flag cannot be changed while the program runs, or if it does not accept the value. The error for a value is
        raised on entry, and then no flag is changed.

    Examples
    --------
    >>> with change_flags(floatX="float32"):
    ...     pass
    """

    def __init__(self, args=(), **kwargs):
        wanted = dict(args)
        wanted.update(kwargs)
        for name in wanted:
            if name not in _config_vars:
                raise AttributeError("there is no flag %r%s" % (name, nearest_flags(name)))
            _refuse_immutable(_config_vars[name])
        self.confs = wanted

    def __call__(self, f):
        flags = getattr(getattr(f, "__code__", None), "co_flags", 0)
        if flags & 0x20 or flags & 0x80:  # inspect.CO_GENERATOR, inspect.CO_COROUTINE, without importing inspect

            def with_flags(*args, **kwargs):
                return (yield from _drive(change_flags(self.confs), f(*args, **kwargs)))

            if flags & 0x80:
                import types

                with_flags = types.coroutine(with_flags)
        else:

            def with_flags(*args, **kwargs):
                with change_flags(self.confs):
                    return f(*args, **kwargs)

        return functools.wraps(f)(with_flags)

    def changes(self):
        """Return the changes of flags for the block; see `FlagBlock`."""
        made = []
        for name, value in self.confs.items():
            param, last = _config_vars[name], name.rpartition(".")[2]
            getattr(param.section, last)  # computes the default value, if the flag has no value yet
            made.append((param.section.__dict__, last, param, param.convert(value)))
        return made


def _drive(flags, inner):
    """Run a generator or coroutine. `flags` are set only while its code runs."""
    resume, argument = inner.send, None
    try:
        while True:
            with flags:
                try:
                    item = resume(argument)
                except StopIteration as end:
                    return end.value
            try:
                resume, argument = inner.send, (yield item)
            except GeneratorExit:
                raise
            except BaseException as thrown:
                resume, argument = inner.throw, thrown
    finally:
        with flags:
            inner.close()


THEANO_FLAGS_DICT.update(parse_config_string(THEANO_FLAGS))
theano_raw_cfg.update(_read_theanorc())
