"""COp: an Op whose C code is in separate files."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.gof.graph import NoParams
from theano_ng.gof.op.base import Op
from theano_ng.gof.type import Generic
from theano_ng.gof.utils import MethodNotDefined, comment_text, hash_from_code

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply

_END = "// end of section"  # the end of a section; `modulecode.locate_file` searches for it


def simple_meth(tag: str) -> Callable[..., Any]:
    """Return a method `c_<tag>` that returns the text of a section as a list of one string.

    Parameters
    ----------
    tag : str
    """

    def f(self: Any) -> Any:
        if tag in self.code_sections:
            return [self.code_sections[tag]]
        return getattr(super(COp, self), "c_" + tag)()

    f.__name__ = "c_" + tag
    f.__doc__ = "The section %s of the C files." % tag
    return f


def apply_meth(tag: str) -> Callable[..., Any]:
    """Return a method ``c_<tag>(node, name)`` that returns the text of a section.

    The macros of the node are defined before the text and undefined after it.

    Parameters
    ----------
    tag : str
    """

    def f(self: Any, node: Apply, name: str) -> str:
        if tag not in self.code_sections:
            return getattr(super(COp, self), "c_" + tag)(node, name)
        define_macros, undef_macros = self.get_c_macros(node, name)
        return "\n".join(["", define_macros, self.code_sections[tag], _END, undef_macros])

    f.__name__ = "c_" + tag
    f.__doc__ = "The section %s of the C files, with the macros of the node." % tag
    return f


class COp(Op):
    """An Op whose C code is read from files.

    Parameters
    ----------
    func_files : str or list of str
        Paths of the C files. Relative paths are relative to the directory of the Python file that defines the subclass.
    func_name : str, optional
        The C function that computes the outputs: ``int f(inputs..., outputs *..., [PARAMS_TYPE *params])``. It returns
        zero on success. The name may be a use of a macro, such as ``APPLY_SPECIFIC(f)``. Without `func_name`, the files
        must contain a section `code`.

    Notes
    -----
    Lines ``#section <tag>`` divide the files. The method ``c_<tag>`` returns the text of a tag from all files in order.
    The code can use these macros:

    * Everywhere except in `init_code` and `support_code`: ``APPLY_SPECIFIC(str)``, ``DTYPE_INPUT_i``,
      ``TYPENUM_INPUT_i``, ``ITEMSIZE_INPUT_i``, the same three macros for ``OUTPUT``, ``PARAMS_TYPE``, and
      ``DTYPE_PARAM_<field>`` for the fields of a ParamsType that have elements (`c_element_type`).
    * In `init_code_struct`, `code` and `code_cleanup`: ``FAIL`` and ``PARAMS``.
    * In `code` and `code_cleanup`: ``INPUT_i`` and ``OUTPUT_i``.

    Raises
    ------
    ValueError
        For an unknown tag, text before the first tag of a file, a file without tag, or both a section `code` and
        `func_name`.
    """

    section_re = r"(?m)^#section ([a-zA-Z0-9_]+)$"
    backward_re = r"(?m)^THEANO_(APPLY|SUPPORT)_CODE_SECTION$"
    # The tags of the sections, each of which becomes a method ``c_<tag>``. Subclasses add tags.
    SECTIONS = {
        "init_code",
        "init_code_apply",
        "init_code_struct",
        "support_code",
        "support_code_apply",
        "support_code_struct",
        "cleanup_code_struct",
        "code",
        "code_cleanup",
    }
    # The default for an Op that inherits from COp but has no C files (DimShuffle and other native Ops).
    code_sections: dict[str, str] = {}

    @classmethod
    def get_path(cls, f: str) -> str:
        """Return the absolute path of a C file. A relative path starts at the directory of the class's Python file.

        Parameters
        ----------
        f : str
        """
        if not os.path.isabs(f):
            class_file = inspect.getfile(cls)
            f = os.path.realpath(os.path.join(os.path.dirname(class_file), f))
        return f

    def __init__(self, func_files: str | list[str] | tuple[str, ...], func_name: str | None = None) -> None:
        func_files = list(func_files) if isinstance(func_files, (list, tuple)) else [func_files]
        self.func_name = func_name
        self.func_files = [self.get_path(f) for f in func_files]
        self.load_c_code(func_files)
        if not self.code_sections:
            raise ValueError("%s has no sections: its C files need lines '#section <tag>'" % type(self).__name__)
        if self.func_name is not None and "code" in self.code_sections:
            raise ValueError(
                '%s has a section "code" in its C files %s and a func_name, %r: give only one of them, because each '
                "computes the outputs" % (type(self).__name__, ", ".join(func_files), self.func_name)
            )

    def load_c_code(self, func_files: Sequence[str]) -> None:
        """Read the C files and divide them into sections.

        Parameters
        ----------
        func_files : list of str
        """
        self.func_codes = []
        for func_file in func_files:
            # Call get_path of the subclass: the path depends on the Python file that defines the subclass.
            path = self.get_path(func_file)
            try:
                with open(path, encoding="utf-8") as f:
                    self.func_codes.append(f.read())
            except OSError as error:
                raise type(error)(
                    error.errno,
                    "%s: cannot read the C file %r of %s (relative paths start in the directory of the Python file that "
                    "defines the class)" % (error.strerror, func_file, type(self).__name__),
                    path,
                ) from None
        # A file in the old format contains the markers THEANO_..._CODE_SECTION instead of `#section` lines.
        if any(re.search(self.backward_re, code) for code in self.func_codes):
            if len(self.func_codes) != 1:
                raise ValueError(
                    "If a C file uses THEANO_APPLY_CODE_SECTION or THEANO_SUPPORT_CODE_SECTION, it has to be the only file;"
                    " use #section instead"
                )
            warnings.warn(
                "THEANO_APPLY_CODE_SECTION and THEANO_SUPPORT_CODE_SECTION are deprecated, use #section support_code_apply and"
                " #section support_code",
                stacklevel=3,
            )
            names = {"APPLY": "support_code_apply", "SUPPORT": "support_code"}
            parts = re.split(self.backward_re, self.func_codes[0])
        else:
            names, parts = {}, None
        self.code_sections = {}
        if parts is not None:
            if parts[0].strip():
                self.code_sections["support_code"] = parts[0]
            for tag, text in zip(parts[1::2], parts[2::2]):
                self.code_sections[names[tag]] = self.code_sections.get(names[tag], "") + text
            return
        for i, code in enumerate(self.func_codes):
            # The line where each section starts: `modulecode.locate_file` uses it to map a line of a generated module
            # to the file.
            starts = [code.count("\n", 0, match.start()) + 1 for match in re.finditer(self.section_re, code)]
            parts = re.split(self.section_re, code)
            if len(parts) == 1:
                raise ValueError("C file %s has no line '#section <tag>'" % func_files[i])
            if parts[0].strip():
                raise ValueError(
                    "Stray code before first #section statement (in file %s): %s"
                    % (func_files[i], parts[0].strip()[:200])
                )
            for tag, text, line in zip(parts[1::2], parts[2::2], starts):
                if tag not in self.SECTIONS:
                    raise ValueError(
                        "Unknown section type (in file %s, line %d): %s; known are %s"
                        % (func_files[i], line, tag, ", ".join(sorted(self.SECTIONS)))
                    )
                text = "// #section %s, line %d of %s%s" % (
                    tag,
                    line,
                    comment_text(os.path.basename(func_files[i])),
                    text,
                )
                before = self.code_sections.get(tag, "")
                self.code_sections[tag] = before + ("" if before.endswith("\n") or not before else "\n") + text

    def c_code_cache_version(self) -> tuple[Any, ...]:
        """Return a version that contains a hash of the files' content."""
        version = [hash_from_code("\n".join(self.func_codes)), self.func_name]
        params_type = getattr(self, "params_type", None)
        if params_type is not None:
            version.append(params_type.c_code_cache_version())
        return tuple(version)

    c_init_code = simple_meth("init_code")
    c_support_code = simple_meth("support_code")
    c_support_code_apply = apply_meth("support_code_apply")
    c_support_code_struct = apply_meth("support_code_struct")
    c_cleanup_code_struct = apply_meth("cleanup_code_struct")
    c_init_code_apply = apply_meth("init_code_apply")

    def format_c_function_args(self, inp: list[str], out: list[str]) -> str:
        """Return the arguments of the call of `func_name`. A missing argument is NULL.

        Parameters
        ----------
        inp, out : list of str
        """
        inp, out = list(inp), ["&%s" % o for o in out]
        inp += ["NULL"] * (getattr(self, "_cop_num_inputs", len(inp)) - len(inp))
        out += ["NULL"] * (getattr(self, "_cop_num_outputs", len(out)) - len(out))
        return ", ".join(inp + out)

    def get_c_macros(self, node: Apply, name: str, check_input: bool | None = None) -> tuple[str, str]:
        """Return the lines that define and undefine the macros of a node.

        Parameters
        ----------
        node : Apply
        name : str
        check_input : bool, optional
            Whether to define macros for the inputs. By default, the Op's `check_input`.

        Returns
        -------
        (str, str)
        """
        define_template = "#define %s %s"
        undef_template = "#undef %s"
        define_macros = []
        undef_macros = []

        def define(macro: str, value: object, parameters: str = "") -> None:
            define_macros.append(define_template % (macro + parameters, value))
            undef_macros.append(undef_template % macro)

        if check_input is None:
            check_input = getattr(self, "check_input", True)
        variables = [("OUTPUT_%i" % i, out) for i, out in enumerate(node.outputs)]
        if check_input:
            variables = [("INPUT_%i" % i, inp) for i, inp in enumerate(node.inputs)] + variables
        for vname, v in variables:
            if not hasattr(v.type, "dtype"):
                continue
            dtype = np.dtype(v.type.dtype)
            if hasattr(v.type, "dtype_specs"):
                _, ctype, typenum = v.type.dtype_specs()
            else:
                ctype, typenum = "npy_" + dtype.name, "NPY_" + dtype.name.upper()
            define("DTYPE_" + vname, ctype)
            define("TYPENUM_" + vname, typenum)
            define("ITEMSIZE_" + vname, dtype.itemsize)  # a number, so that ``#if`` can use it
        params_type = self._params_c_type()
        if params_type is not None:
            define("PARAMS_TYPE", params_type)
        bundle = getattr(self, "params_type", None)
        for field, kind in zip(getattr(bundle, "fields", ()), getattr(bundle, "types", ())):
            try:
                define("DTYPE_PARAM_" + field, kind.c_element_type())
            except MethodNotDefined:
                continue  # this Type has no element type
        define("APPLY_SPECIFIC", "str##_%s" % name, "(str)")
        return "\n".join(define_macros), "\n".join(undef_macros)

    def _params_c_type(self) -> str | None:
        """Return the value of ``PARAMS_TYPE``. Return None if the Op has no params.

        The C code gets the params as a pointer to a value of this type. If the Type of the params is a Scalar or an
        enum, the C code gets the value itself.
        """
        kind = getattr(self, "params_type", None)
        if kind is None:
            return None
        if hasattr(kind, "fields"):
            return kind.name
        if hasattr(kind, "ctype"):
            return kind.ctype.strip().rstrip("*").strip()
        if hasattr(kind, "dtype_specs"):
            return "PyArrayObject" if hasattr(kind, "broadcastable") else kind.dtype_specs()[1]
        return "PyObject" if isinstance(kind, Generic) else None

    @staticmethod
    def _lquote_macro(txt: str) -> str:
        """Return a text of several lines as the value of a macro."""
        return " \\\n".join(txt.split("\n"))

    def get_sub_macros(self, sub: dict[str, str]) -> tuple[str, str]:
        """Return the lines that define and undefine FAIL and PARAMS.

        Parameters
        ----------
        sub : dict
        """
        define_macros = ["#define FAIL %s" % self._lquote_macro(sub["fail"])]
        undef_macros = ["#undef FAIL"]
        if "params" in sub:
            define_macros.append("#define PARAMS %s" % sub["params"])
            undef_macros.append("#undef PARAMS")
        return "\n".join(define_macros), "\n".join(undef_macros)

    def get_io_macros(self, inputs: list[str], outputs: list[str]) -> tuple[str, str]:
        """Return the lines that define and undefine INPUT_i and OUTPUT_i.

        Parameters
        ----------
        inputs, outputs : list of str
        """
        names = [("INPUT_%d" % i, name) for i, name in enumerate(inputs)] + [
            ("OUTPUT_%d" % i, name) for i, name in enumerate(outputs)
        ]
        return "\n".join("#define %s %s" % pair for pair in names), "\n".join("#undef %s" % macro for macro, _ in names)

    def c_init_code_struct(self, node: Apply, name: str, sub: dict[str, str]) -> str:
        """Return the section `init_code_struct` of the C files, with macros."""
        if "init_code_struct" not in self.code_sections:
            return super().c_init_code_struct(node, name, sub)
        def_macros, undef_macros = self.get_c_macros(node, name)
        def_sub, undef_sub = self.get_sub_macros(sub)
        return "\n".join(
            ["", def_macros, def_sub, self.code_sections["init_code_struct"], _END, undef_sub, undef_macros]
        )

    def c_code(self, node: Apply, name: str, inp: list[str], out: list[str], sub: dict[str, str]) -> str:
        """Return a call of the function `func_name`, or without a `func_name`, the section `code` of the C files."""
        if self.func_name is not None:
            define_macros, undef_macros = self.get_c_macros(node, name, check_input=False)
            params = ", %s" % sub["params"] if "params" in sub and self._has_params(node) else ""
            return """
                %(define_macros)s
                {
                  if (%(func_name)s(%(func_args)s%(params)s) != 0) {
                    %(fail)s
                  }
                }
                %(undef_macros)s
                """ % dict(
                func_name=self.func_name,
                fail=sub["fail"],
                params=params,
                define_macros=define_macros,
                undef_macros=undef_macros,
                func_args=self.format_c_function_args(inp, out),
            )
        if "code" in self.code_sections:
            return self._with_all_macros("code", node, name, inp, out, sub)
        raise MethodNotDefined("c_code", type(self), type(self).__name__)

    @staticmethod
    def _has_params(node: Apply) -> bool:
        return node.run_params() is not NoParams

    def _with_all_macros(
        self, tag: str, node: Apply, name: str, inputs: list[str], outputs: list[str], sub: dict[str, str]
    ) -> str:
        def_macros, undef_macros = self.get_c_macros(node, name)
        def_sub, undef_sub = self.get_sub_macros(sub)
        def_io, undef_io = self.get_io_macros(inputs, outputs)
        return "\n".join(
            [def_macros, def_sub, def_io, "{", self.code_sections[tag], _END, "}", undef_io, undef_sub, undef_macros]
        )

    def c_code_cleanup(self, node: Apply, name: str, inputs: list[str], outputs: list[str], sub: dict[str, str]) -> str:
        """Return the section `code_cleanup` of the C files, with macros."""
        if "code_cleanup" in self.code_sections:
            return self._with_all_macros("code_cleanup", node, name, inputs, outputs, sub)
        return super().c_code_cleanup(node, name, inputs, outputs, sub)
