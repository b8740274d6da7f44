"""Sphinx configuration of the manual. Run ``make doc``, or ``python -m sphinx -W -b html doc doc/_build/html``."""

import doctest
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# These folders contain the package of this checkout, the extensions below, and modules that tutorial pages import.
sys.path[:0] = [os.path.dirname(HERE), HERE, os.path.join(HERE, "tutorial", "code")]

from theano_ng.version import short_version  # noqa: E402, found by the path above

project = "theano_ng"
version = release = short_version
copyright = "the theano_ng developers"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "numpydoc",
    "live_tables",
    "markdown_pages",
]
exclude_patterns = ["_build"]
root_doc = "index"
default_role = "code"
# Every reference must have a target, except references to Python and NumPy objects in docstrings.
nitpicky = True
nitpick_ignore_regex = [("py:class", r"numpy\..*|v, remove specified key.*|None\.  (Update|Remove) .*")]

autosummary_generate = False
autodoc_typehints = "none"  # docstrings describe the types of parameters
numpydoc_show_class_members = False
# These options are also used in theano_ng/tests/test_doc.py.
doctest_default_flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
doctest_global_setup = "import numpy as np"

html_theme = "alabaster"
html_theme_options = {
    "description": "Theano 1.0 for today's Python",
    "page_width": "1200px",
    "body_max_width": "920px",
    "sidebar_width": "240px",
    "code_font_size": "0.82em",
}
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_show_sourcelink = False
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html", "localtoc.html"]}
toc_object_entries = False
html_copy_source = False
