# make demo: train on handwritten digits.  make test: run the tests.  Each makes its own virtual environment.

PYTHON ?= python3
VENV ?= .venv
STAMP = $(VENV)/.built
SOURCES = setup.py pyproject.toml $(shell find theano_ng -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' 2>/dev/null)

.PHONY: demo test test-all doc wheel clean

demo: $(STAMP)
	$(VENV)/bin/python examples/digits.py

test: $(STAMP)
	$(VENV)/bin/theano_ng-nose --theano

doc: $(STAMP)
	$(VENV)/bin/pip install --quiet --editable '.[doc]'
	$(VENV)/bin/python -m sphinx -W -b html doc doc/_build/html

wheel: $(STAMP)
	$(VENV)/bin/pip install --quiet build
	$(VENV)/bin/python -m build

$(STAMP): $(SOURCES)
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip setuptools wheel
	$(VENV)/bin/pip install --quiet --editable '.[viz,test]'
	touch $@

clean:
	rm -rf build dist $(VENV) theano_ng.egg-info doc/_build examples/output
	find theano_ng -name '*.so' -delete
