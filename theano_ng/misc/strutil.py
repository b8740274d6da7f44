"""Small functions on strings."""


def render_string(string, sub):
    """Return ``string % sub``. If a key is missing, raise an exception that names it.

    Parameters
    ----------
    string : str
    sub : dict

    Raises
    ------
    KeyError
        If the string uses a key that is not in `sub`. The message shows the text before the key.
    ValueError
        If the string is not a valid template.
    """
    try:
        return string % sub
    except KeyError as failure:
        key = failure.args[0]
        at = string.find("%%(%s)" % key)
        raise KeyError(
            "the template uses %r, which has no value; it comes after %r. Given: %s"
            % (key, string[max(0, at - 60) : at], ", ".join(sorted(str(k) for k in sub)))
        ) from None
    except (TypeError, ValueError) as failure:
        raise ValueError(
            "%s; write %%%% for a percent sign in the template, which is:\n%s" % (failure, string)
        ) from failure


def strip_leading_white_space(line):
    """Return a line without leading blanks and tabs."""
    return line.lstrip(" \t")


def pretty_format(string):
    """Remove leading blanks and tabs of all lines of a text, and empty lines at its beginning and end."""
    lines = [strip_leading_white_space(line) for line in string.split("\n")]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return "\n".join(lines)
