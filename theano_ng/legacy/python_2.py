"""Syntax, built-in names, modules, functions and methods that only Python 2 has."""

import re

PYTHON_2 = (
    (r"^\s*print\s+[^\s(=]", "print is a statement"),
    (r"^\s*except\s+[\w., ()]+,\s*\w+\s*:", "except X, name"),
    (r"^\s*raise\s+[\w.]+\s*,", "raise X, value"),
    (r"^\s*exec\s+[^\s(=]", "exec is a statement"),
    (r"\b0[0-7]+[lL]?\b(?!\.)", "octal number without 0o"),
    (r"\b\d+[lL]\b", "long number"),
    (r"<>", "<> for !="),
    (r"`[^`]+`", "`x` for repr(x)"),
    (r"\b[uU][rR]['\"]", "ur'' text"),
    (r"^\s*def\s+\w+\s*\((?:[^()]*,)?\s*\(\s*\w+\s*,", "tuple as parameter"),
    (r"^\s*\S.*\blambda\s*\(\s*\w+\s*,", "tuple as parameter"),
)
"""Pattern of a line that only Python 2 accepts -> a description. Only files that Python 3 cannot parse are searched."""

NAMES_OF_PYTHON_2 = {
    **dict.fromkeys("basestring unicode".split(), "str"),
    **{
        "long": "int",
        "unichr": "chr",
        "xrange": "range",
        "raw_input": "input",
        "file": "open",
        "reduce": "functools.reduce",
    },
    **{
        "cmp": "(a > b) - (a < b)",
        "execfile": "exec(open(path).read())",
        "reload": "importlib.reload",
        "StandardError": "Exception",
    },
    **{"apply": "f(*args, **kwargs)", "coerce": "a type", "intern": "sys.intern", "buffer": "memoryview"},
}
"""Built-in name that only Python 2 has -> its replacement."""

METHODS_OF_PYTHON_2 = {
    **{"iteritems": "items", "iterkeys": "keys", "itervalues": "values", "viewitems": "items", "viewkeys": "keys"},
    **{"viewvalues": "values", "has_key": "in"},
}
"""Method of dictionaries that only Python 2 has -> its replacement."""

MODULES_OF_PYTHON_2 = {
    **{"cPickle": "pickle", "ConfigParser": "configparser", "Queue": "queue", "StringIO": "io", "cStringIO": "io"},
    **{"urllib2": "urllib.request", "urlparse": "urllib.parse", "httplib": "http.client", "HTMLParser": "html.parser"},
    **{"__builtin__": "builtins", "copy_reg": "copyreg", "SocketServer": "socketserver", "Tkinter": "tkinter"},
    **{"thread": "_thread", "commands": "subprocess", "sets": "set", "exceptions": "builtins", "md5": "hashlib"},
    **{
        "BaseHTTPServer": "http.server",
        "SimpleHTTPServer": "http.server",
        "anydbm": "dbm",
        "cookielib": "http.cookiejar",
    },
}
"""Module that only Python 2 has -> the module that replaces it."""

FUNCTIONS_OF_PYTHON_2 = {
    **{"itertools.izip": "zip", "itertools.imap": "map", "itertools.ifilter": "filter"},
    **{"itertools.izip_longest": "itertools.zip_longest", "itertools.ifilterfalse": "itertools.filterfalse"},
    **{"sys.maxint": "sys.maxsize", "sys.setdefaultencoding": "nothing", "os.getcwdu": "os.getcwd"},
    **{"string.letters": "string.ascii_letters", "string.lowercase": "string.ascii_lowercase"},
    **{"string.uppercase": "string.ascii_uppercase", "string.maketrans": "str.maketrans", "string.join": "str.join"},
    **{"urllib.urlopen": "urllib.request.urlopen", "urllib.urlretrieve": "urllib.request.urlretrieve"},
    **{"urllib.quote": "urllib.parse.quote", "urllib.urlencode": "urllib.parse.urlencode"},
    **{
        "types." + name + "Type": "a class"
        for name in "String Unicode List Dict Tuple Int Float Long Boolean None Class Instance".split()
    },
}
"""Function or other name of a module that only Python 2 has -> its replacement."""


def syntax(line):
    """Return the description of the first pattern in `PYTHON_2` that matches a line, or None if no pattern matches."""
    return next((what for pattern, what in PYTHON_2 if re.search(pattern, line)), None)


def masked(text):
    """Return Python code without comments and with blanks in strings. Line breaks and quotes stay.

    The code may be of any version of Python.
    """

    def blank(found):
        inner = found[0]
        if inner.startswith("#"):
            return ""
        quote = inner[:3] if inner[:3] in ('"""', "'''") else inner[0]
        return quote + re.sub(r"[^\n]", " ", inner[len(quote) : -len(quote)]) + quote

    strings = r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*'
    return re.sub(strings, blank, text, flags=re.DOTALL)
