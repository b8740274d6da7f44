"""A Type that bundles several params of an Op: an object with attributes in Python, a struct in C."""

from theano_ng.digests import blake2b
from theano_ng.gof.type import EnumType, Type
from theano_ng.gof.utils import MethodNotDefined

# Names that C++ does not allow for struct members.
_c_keywords = frozenset(
    """
asm auto break case catch char class const const_cast continue default delete do double dynamic_cast else enum explicit export extern
false float for friend goto if inline int long mutable namespace new operator private protected public register reinterpret_cast return
short signed sizeof static static_cast struct switch template this throw true try typedef typeid typename union unsigned using virtual
void volatile wchar_t while alignas alignof char16_t char32_t constexpr decltype noexcept nullptr static_assert thread_local and and_eq
bitand bitor compl not not_eq or or_eq xor xor_eq
""".split()
)


class Params(dict):
    """A value of a ParamsType: a dict of the fields, which are also attributes.

    Parameters
    ----------
    params_type : ParamsType
    **kwargs
        The values of all fields. Other keyword arguments are ignored.

    Raises
    ------
    TypeError
        If a field has no value.

    Notes
    -----
    The hash is computed from the hashable signatures that the types provide for the values. The values themselves may
    be unhashable.
    """

    def __init__(self, params_type, **kwargs):
        if not isinstance(params_type, ParamsType):
            raise TypeError("Params: 1st constructor argument should be a ParamsType, not %r" % (params_type,))
        for field in params_type.fields:
            if field not in kwargs:
                raise TypeError('Params: ParamsType attribute "%s" not in Params args.' % field)
        values = {field: kwargs[field] for field in params_type.fields}
        super().__init__(values)
        # Store the fields as instance attributes. These hide methods, so a field may have the name of a method of dict.
        self.__dict__.update(values, __params_type__=params_type, __signatures__=None)

    def __repr__(self):
        return "Params(%s)" % ", ".join("%s:%s:%s" % (k, type(self[k]).__name__, self[k]) for k in sorted(self))

    def __getattr__(self, key):
        # Python calls this only if the attribute does not exist. The constants of enums among the fields are attributes,
        # too, as in C.
        params_type = self.__dict__.get("__params_type__")
        if params_type is not None and params_type.has_constant(key):
            return getattr(params_type, key)
        raise AttributeError('Params: attribute "%s" does not exist. Fields: %s.' % (key, ", ".join(self)))

    def _immutable(self, *args, **kwargs):
        raise NotImplementedError("Params is immutable")

    __setattr__ = __delattr__ = __setitem__ = __delitem__ = __ior__ = _immutable
    update = clear = pop = popitem = setdefault = _immutable

    def __reduce__(self):
        return _rebuild_params, (self.__dict__["__params_type__"], dict(self))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        from copy import deepcopy

        return _rebuild_params(self.__dict__["__params_type__"], {k: deepcopy(v, memo) for k, v in dict.items(self)})

    def _signatures(self):
        if self.__dict__["__signatures__"] is None:
            params_type = self.__dict__["__params_type__"]
            # A constant's signature is hashable even if its data is not.
            self.__dict__["__signatures__"] = tuple(
                params_type.types[i].make_constant(self[params_type.fields[i]]).signature()
                for i in range(params_type.length)
            )
        return self.__dict__["__signatures__"]

    def __hash__(self):
        return hash((type(self).__name__, self.__dict__["__params_type__"], self._signatures()))

    def __eq__(self, other):
        return (
            type(self) is type(other)
            and self.__dict__["__params_type__"] == other.__dict__["__params_type__"]
            and self._signatures() == other._signatures()
        )

    def __ne__(self, other):
        return not self == other


def _rebuild_params(params_type, values):
    return Params(params_type, **values)


class ParamsType(Type):
    """A type for a struct of op params.

    Parameters
    ----------
    **kwargs
        ``field=Type``. The field name must be a C identifier, but not a C++ keyword.

    Raises
    ------
    ValueError, TypeError, SyntaxError, AttributeError
        If there is no field, if a value is not a Type, if a name is a C++ keyword or another invalid name, or if
        different enums share a constant or an alias.

    Notes
    -----
    An Op with a ParamsType as its `params_type` needs no `get_params` if it has an attribute for each field. The
    constants of enums among the fields are attributes of the ParamsType.
    """

    def __init__(self, **kwargs):
        if not kwargs:
            raise ValueError("Cannot create ParamsType from empty data.")
        for name, kind in kwargs.items():
            if not (name.isascii() and name.isidentifier()):
                raise AttributeError('ParamsType: attribute "%s" should be a valid identifier.' % name)
            if name in _c_keywords:
                raise SyntaxError(
                    'ParamsType: "%s" is a potential C/C++ keyword and should not be used as attribute name.' % name
                )
            if not isinstance(kind, Type):
                raise TypeError(
                    'ParamsType: attribute "%s" should inherit from the class Type, got "%s".'
                    % (name, type(kind).__name__)
                )
        self.length = len(kwargs)
        self.fields = tuple(sorted(kwargs))
        self.types = tuple(kwargs[field] for field in self.fields)
        self.__const_to_enum = {}
        self.__alias_to_enum = {}
        enums = dict.fromkeys(
            kind for kind in self.types if isinstance(kind, EnumType)
        )  # several fields may have the same enum
        for enum in enums:
            for constant in enum:
                if constant in self.__const_to_enum:
                    raise AttributeError(
                        "ParamsType: found different enum types with common constants names: %s is in %s and %s"
                        % (constant, self.__const_to_enum[constant], enum)
                    )
                self.__const_to_enum[constant] = enum
            for alias in enum.aliases:
                if alias in self.__alias_to_enum:
                    raise AttributeError(
                        "ParamsType: found different enum types with common constants aliases: %s is in %s and %s"
                        % (alias, self.__alias_to_enum[alias], enum)
                    )
                self.__alias_to_enum[alias] = enum

    def has_constant(self, key):
        """Return True if an enum among the fields has a constant with this name."""
        return key in self.__dict__.get("_ParamsType__const_to_enum", {})

    def __getattr__(self, key):
        """Return the value of an enum constant among the fields."""
        # Python calls this only if the attribute does not exist. Unpickling calls it on an object without any
        # attributes.
        enums = self.__dict__.get("_ParamsType__const_to_enum", {})
        if key in enums:
            return enums[key][key]
        raise AttributeError(
            "'%s' object has no attribute '%s'%s"
            % (
                self.__class__.__name__,
                key,
                "; the constants of its enums are %s" % ", ".join(sorted(enums)) if enums else "",
            )
        )

    @property
    def name(self):
        """The name of the C struct."""
        if "_name" not in self.__dict__:  # computed on demand, because most ParamsTypes are never compiled to C
            self._name = self.generate_struct_name()
        return self._name

    def __repr__(self):
        return "ParamsType<%s>" % ", ".join("%s:%s" % pair for pair in zip(self.fields, self.types))

    __str__ = __repr__

    def __eq__(self, other):
        return self is other or (
            type(self) is type(other) and self.fields == other.fields and self.types == other.types
        )

    def __hash__(self):
        return hash((type(self).__name__, self.fields, self.types))

    def generate_struct_name(self):
        """Return a name for the C struct that is equal in all processes. Different structs have different names."""
        # Do not use the text of a Type: it may contain an address, or equal the text of another Type. Use its C code
        # instead.
        texts = [
            (field, type(kind).__module__, type(kind).__qualname__, *self._field_code(field, kind))
            for field, kind in zip(self.fields, self.types)
        ]
        return "_Params_%s" % blake2b(repr(texts).encode(), 16).hexdigest()

    @staticmethod
    def _field_code(field, kind):
        """Return the C code that declares, initializes, extracts and cleans up a field.

        Return an empty tuple if the field's Type has no C code.
        """
        sub = {"fail": "{this->setErrorOccurred(); return;}"}
        try:
            return (
                kind.c_declare(field, sub),
                kind.c_init(field, sub),
                kind.c_extract(field, sub),
                kind.c_cleanup(field, sub),
            )
        except MethodNotDefined:
            return ()

    def has_type(self, theano_type):
        """Return True if a field has this Type."""
        return theano_type in self.types

    def get_type(self, field_name):
        """Return the Type of a field. Raise ValueError if the field does not exist."""
        if field_name not in self.fields:
            raise ValueError("ParamsType: no field %s; fields: %s" % (field_name, ", ".join(self.fields)))
        return self.types[self.fields.index(field_name)]

    def get_field(self, theano_type):
        """Return the first field, in lexicographic order, that has this Type. Raise ValueError if no field has it."""
        if theano_type not in self.types:
            raise ValueError(
                "ParamsType: no field of type %s; types: %s"
                % (theano_type, ", ".join(str(kind) for kind in self.types))
            )
        return self.fields[self.types.index(theano_type)]

    def get_enum(self, key):
        """Return the value of an enum constant. Raise KeyError if no enum among the fields has the constant.

        Examples
        --------
        >>> from theano_ng.gof.type import EnumType
        >>> ParamsType(letters=EnumType(A=1, B=('beta', 2))).get_enum('B')
        2
        """
        if key not in self.__const_to_enum:
            raise KeyError(
                "ParamsType: no enum constant %r; constants: %s"
                % (key, ", ".join(sorted(self.__const_to_enum)) or "none")
            )
        return self.__const_to_enum[key][key]

    def enum_from_alias(self, alias):
        """Return the value of the enum constant with this alias or, if there is none, of the constant with this name.

        Raise KeyError if no constant has this alias or this name.

        Examples
        --------
        >>> from theano_ng.gof.type import EnumList, EnumType
        >>> wrapper = ParamsType(letters=EnumType(A=('alpha', 1), C=3), digits=EnumList(('ZERO', 'nothing'), 'ONE'))
        >>> wrapper.enum_from_alias('alpha'), wrapper.enum_from_alias('nothing'), wrapper.enum_from_alias('C')
        (1, 0, 3)
        """
        if alias in self.__alias_to_enum:
            return self.__alias_to_enum[alias].fromalias(alias)
        if alias not in self.__const_to_enum:
            raise KeyError(
                "ParamsType: no enum constant has the alias or name %r; aliases: %s; constants: %s"
                % (
                    alias,
                    ", ".join(sorted(self.__alias_to_enum)) or "none",
                    ", ".join(sorted(self.__const_to_enum)) or "none",
                )
            )
        return self.get_enum(alias)

    def get_params(self, *objects, **kwargs):
        """Return a Params of this type.

        Parameters
        ----------
        *objects
            Objects whose attributes are the values of fields. Later objects have priority.
        **kwargs
            Values of fields. They have priority over objects.

        Returns
        -------
        Params
            The values, filtered (and converted where needed) by the fields' types.

        Raises
        ------
        TypeError
            If a field has no value, or a value that its Type refuses, or if a keyword is not a field.
        """
        unknown = sorted(set(kwargs) - set(self.fields))
        if unknown:
            raise TypeError("ParamsType: no field %s; fields: %s" % (", ".join(unknown), ", ".join(self.fields)))
        values = dict(kwargs)
        for field in self.fields:
            if field not in values:
                for obj in reversed(objects):
                    try:
                        values[field] = getattr(obj, field)
                    except AttributeError:
                        continue
                    break
        return self.filter(Params(self, **values), strict=False, allow_downcast=True)

    def extended(self, **kwargs):
        """Return a ParamsType with additional fields.

        Parameters
        ----------
        **kwargs
            ``field=Type``, as in the constructor.
        """
        fields = dict(zip(self.fields, self.types))
        fields.update(kwargs)
        return ParamsType(**fields)

    def filter(self, data, strict=False, allow_downcast=None):
        """Return `data` as a Params of this type.

        Parameters
        ----------
        data : Params, or an object with the fields as attributes
        strict : bool
            If True, accept only a Params of this type whose values the fields' types accept strictly.
        allow_downcast : bool, optional
            The argument of the same name for the fields' types.

        Returns
        -------
        Params
            `data` itself if no value had to be converted.

        Raises
        ------
        TypeError
            If the value of a field is missing or is refused by the field's type. The message names the field.
        """
        is_params = isinstance(data, Params)
        if strict and not is_params:
            raise TypeError("%s: expected a Params (strict), got %r" % (self, data))
        if strict and data.__dict__["__params_type__"] != self:
            raise TypeError(
                "expected Params of the type %s, got Params of the type %s" % (self, data.__dict__["__params_type__"])
            )
        filtered = {}
        changed = not is_params or data.__dict__["__params_type__"] is not self
        for field, kind in zip(self.fields, self.types):
            if is_params and field not in data or not is_params and not hasattr(data, field):
                raise TypeError("%s: %s has no value for the field %s" % (self, type(data).__name__, field))
            value = data[field] if is_params else getattr(data, field)
            try:
                filtered[field] = kind.filter(value, strict, allow_downcast)
            except (TypeError, ValueError) as refused:
                raise TypeError(
                    "ParamsType: the field %s (%s) does not accept %r (%s): %s"
                    % (field, kind, value, type(value).__name__, refused.args[0] if refused.args else refused)
                ) from refused
            changed = changed or filtered[field] is not value
        return Params(self, **filtered) if changed and not strict else data

    def values_eq(self, a, b):
        return all(kind.values_eq(a[field], b[field]) for field, kind in zip(self.fields, self.types))

    def values_eq_approx(self, a, b):
        return all(kind.values_eq_approx(a[field], b[field]) for field, kind in zip(self.fields, self.types))

    # ------------------------------------------------------------ C code: the fields' code and arguments, joined

    def _collect(self, method, c_compiler=None):
        """Join the lists that a method of the fields' types returns, without repetitions."""
        found = []
        for kind in self.types:
            try:
                try:
                    part = getattr(kind, method)(c_compiler)
                except TypeError:
                    part = getattr(kind, method)()
            except MethodNotDefined:
                continue
            found += [part] if isinstance(part, str) else list(part)
        return list(dict.fromkeys(found))

    def c_compile_args(self, c_compiler):
        return self._collect("c_compile_args", c_compiler)

    def c_no_compile_args(self, c_compiler):
        return self._collect("c_no_compile_args", c_compiler)

    def c_headers(self, c_compiler):
        return self._collect("c_headers", c_compiler)

    def c_libraries(self, c_compiler):
        return self._collect("c_libraries", c_compiler)

    def c_header_dirs(self):
        return self._collect("c_header_dirs")

    def c_lib_dirs(self):
        return self._collect("c_lib_dirs")

    def c_init_code(self):
        return self._collect("c_init_code")

    def c_support_code(self):
        """Return the support code of the fields, and a C struct with methods that read Python objects and clean up."""
        declarations, inits, cleanups, extracts, cases = [], [], [], [], []
        for i, (field, kind) in enumerate(zip(self.fields, self.types)):
            code = self._field_code(field, kind)
            if not code:
                return []  # c_declare raises an error that names the field
            declarations.append(code[0])
            inits.append(code[1])
            cleanups.append(code[3])
            extracts.append(
                """
            void extract_%(field)s(PyObject* py_%(field)s) {
                %(extract)s
            }
            """
                % dict(field=field, extract=code[2])
            )
            cases.append("            case %d: extract_%s(object); break;" % (i, field))
        struct = """
        #ifndef %(guard)s
        #define %(guard)s
        struct %(name)s {
            int %(name)s_error;
            %(declarations)s
            %(name)s() {
                %(name)s_error = 0;
                %(inits)s
            }
            ~%(name)s() {
                cleanup();
            }
            void setErrorOccurred() {
                %(name)s_error = 1;
            }
            int errorOccurred() {
                return %(name)s_error;
            }
            void cleanup() {
                %(cleanups)s
            }
            %(extracts)s
            void extract(PyObject* object, int field_pos) {
                switch (field_pos) {
%(cases)s
                    default:
                        PyErr_Format(PyExc_TypeError, "ParamsType: no extraction defined for a field %%d.", field_pos);
                        this->setErrorOccurred();
                        break;
                }
            }
        };
        #endif
        """ % dict(
            guard=self.name.upper(),
            name=self.name,
            declarations="\n".join(declarations),
            inits="\n".join(inits),
            cleanups="\n".join(cleanups),
            extracts="\n".join(extracts),
            cases="\n".join(cases),
        )
        # If cmodule.debug is set, the code of each enum defines a function whose name contains the enum's cname. Omit
        # these functions for enums that share a cname: two functions of the same name do not compile.
        cnames = [kind.cname for kind in dict.fromkeys(self.types) if isinstance(kind, EnumType)]
        ambiguous = {
            kind.c_to_string() for kind in self.types if isinstance(kind, EnumType) and cnames.count(kind.cname) > 1
        }
        support = self._collect("c_support_code")
        for text in ambiguous:
            support = [part.replace(text, "") for part in support]
        return [*support, struct]

    def c_code_cache_version(self):
        versions = [kind.c_code_cache_version() for kind in self.types]
        if not all(versions):
            # If the type of a field has no version, the code cannot be cached across processes.
            return ()
        return ((4,), self.fields, tuple(versions))

    def c_declare(self, name, sub, check_input=True):
        for field, kind in zip(self.fields, self.types):
            if not self._field_code(field, kind):
                raise MethodNotDefined(
                    "c_declare", type(self), "the field %s has the type %s, which has no C code" % (field, kind)
                )
        return "\n        %s* %s;\n        " % (self.name, name)

    def c_init(self, name, sub):
        return "\n        %s = NULL;\n        " % name

    def c_cleanup(self, name, sub):
        return "\n        delete %s;\n        %s = NULL;\n        " % (name, name)

    def c_extract(self, name, sub, check_input=True):
        # Params is a dict. Read its items by key, because attributes of the class may hide fields.
        return """
        %(name)s = new %(struct)s();
        {
            const char* fields_%(name)s[] = {%(fields)s};
            if (py_%(name)s == Py_None || !PyDict_Check(py_%(name)s)) {
                PyErr_SetString(PyExc_ValueError, "ParamsType: expected a Params object.");
                %(fail)s
            }
            for (int i = 0; i < %(length)d; ++i) {
                PyObject* o = PyDict_GetItemString(py_%(name)s, fields_%(name)s[i]);
                if (o == NULL) {
                    PyErr_Format(PyExc_TypeError, "ParamsType: missing expected attribute \\"%%s\\" in object.", fields_%(name)s[i]);
                    %(fail)s
                }
                %(name)s->extract(o, i);
                if (%(name)s->errorOccurred()) {
                    %(fail)s
                }
            }
        }
        """ % dict(
            name=name,
            struct=self.name,
            length=self.length,
            fail=sub["fail"],
            fields=", ".join('"%s"' % field for field in self.fields),
        )

    def c_sync(self, name, sub):
        # Params are inputs only, so nothing is written back.
        return ""


__all__ = ["Params", "ParamsType"]
