# make lab      open the course in JupyterLab (make lab BROWSER=none PORT=8899 prints the address instead)
# make test     every check of a push     make test-all   deep checks of a larger change
# make release  what takes hours, before a release: a page of every check (PYTHONS="..." names interpreters)
# make bench    speed against peers       make pins       renew the exact versions in binder/
# make site     the whole course as pages to read, in build/site (docs/site.md)
PYTHON ?= python3
VENV ?= .venv
PORT ?= 8888
# One more than the cores of a small machine: many tests wait for a browser, a kernel or a judge.
JOBS ?= 3
EXTRAS ?= lab,mpi

PY := $(VENV)/bin/python
PINS := binder/requirements.txt binder/dev.txt
# Both names: older pip reads the first for build tools too, newer pip the second.
PIP = PIP_CONSTRAINT="$(PINS)" PIP_BUILD_CONSTRAINT=binder/dev.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(PY) -m pip install -q
# A long silence looks like a program that hangs. This says every 15 s that work goes on, until the recipe's line ends.
SIGN_OF_LIFE = { while sleep 15 >/dev/null 2>&1; do echo "Still installing; $(VENV) holds $$(du -sm $(VENV) | cut -f1) MB."; done & \
  trap "kill $$! 2>/dev/null" EXIT; }
SETTINGS := $(VENV)/share/jupyter/lab/settings
# JupyterLab asks nobody for news, and a kernel prints errors only (not that it runs over TCP on this machine).
# A saved notebook keeps pictures in place of live views, which would not open without their kernel.
QUIET = mkdir -p $(SETTINGS) $(VENV)/etc/ipython $(VENV)/etc/jupyter && cp binder/overrides.json $(SETTINGS)/ && \
  cp binder/jupyter_server_config.py $(VENV)/etc/jupyter/ && \
  echo '{"IPKernelApp": {"log_level": 40}}' > $(VENV)/etc/ipython/ipython_kernel_config.json
# Compiled once, so that no cell waits for a compiler and tests of packets are quick: half a minute. Without numba it
# says so and goes on. After a change of the kernels the first run of the packet engine compiles in the background.
COMPILE = echo "Compiling the packet engine; half a minute more." && $(PY) -m fabriclab.compiled
# A student's file of an exercise stops where the student is to write; its source runs to the end.
NOTEBOOKS := $(wildcard notebooks/*.ipynb solutions/*.ipynb)
# A notebook that measures this machine runs alone; the others run side by side.
ALONE := $(if $(NOTEBOOKS),$(shell grep -l 'measure\.' $(NOTEBOOKS)))
BESIDE := $(filter-out $(ALONE),$(NOTEBOOKS))
# A learner works in copies, so that what is saved there never stands in the way of git pull.
# make lab WORK=notebooks opens the lessons themselves, to change them.
WORK ?= work/notebooks
PROGRESS := $(CURDIR)/build/progress-of-tests.json
# nbval keeps what the lessons showed, and the gates of tests/lessons read it.
EXECUTED := FABRICLAB_EXECUTED="$(CURDIR)/build/executed"
NBVAL = rm -f "$(PROGRESS)"; $(EXECUTED) FABRICLAB_REVEAL=1 FABRICLAB_PROGRESS="$(PROGRESS)" \
  PYTHONPATH="$(CURDIR)/tests/guard:$(CURDIR)/tests:$(CURDIR)/tools" \
  $(PY) -m pytest -p no:cacheprovider -p support.nbval_runs --nbval-lax --nbval-cell-timeout=120
# Examples in docstrings are tests, too; only the files that have some are read.
UNIT = $(EXECUTED) $(PY) -m pytest -n $(JOBS) --dist worksteal --doctest-modules tests $(shell grep -rl --include='*.py' '>>> ' fabriclab) -m
# Tests that time something are marked alone and run with nothing beside them. Only their files are read.
TIMED = $(EXECUTED) $(PY) -m pytest $(shell grep -rl --include='test_*.py' 'mark\.alone' tests) -m
# A check starts hundreds of Python processes, kernels and judges among them. Where the machine forbids Python to keep
# what it compiled, each would compile the whole package anew: a third of all the time.
test test-all release lint unit deep notebooks: export PYTHONDONTWRITEBYTECODE =
# A push allows three times what is promised to be quick (tests/support/budgets.py); these hold what is promised.
deep timed: export FABRICLAB_BUDGETS = strict

.PHONY: help lab copies test test-all release bench lint unit deep suite timed marked notebooks pins clean
help:
	@sed -n '1,5s/^# //p' Makefile

# ERROR: the address and what fails are printed, and nothing else. Lessons and exercises share one file of progress. Which
# files are open is kept here, too, or JupyterLab would open what its user had open in another folder.
lab: $(VENV)/.lab copies
	@$(QUIET)
	@FABRICLAB_PROGRESS="$${FABRICLAB_PROGRESS:-$(abspath $(WORK))/fabriclab-progress.json}" JUPYTERLAB_WORKSPACES_DIR="$(abspath $(VENV))/workspaces" \
	  $(PY) -m jupyter lab --log-level=ERROR --LabApp.log_level=ERROR --LabApp.extension_manager=readonly --ServerApp.port=$(PORT) $(if $(filter none,$(BROWSER)),--no-browser) \
	  $(if $(filter 0,$(shell id -u)),--allow-root) --ServerApp.root_dir=$(dir $(WORK)) --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb

# What is new or has changed is copied; of a copy that the learner changed, the old one is kept beside it. The list of
# lessons shows the pictures of docs/img/, so they are copied, too.
copies:
ifneq ($(WORK),notebooks)
	@mkdir -p $(WORK)/.last/img $(WORK)/img $(dir $(WORK))exercises/.last $(dir $(WORK))docs/.last/img $(dir $(WORK))docs/img && echo '*' > $(dir $(WORK)).gitignore
	@for new in $(wildcard notebooks/*.ipynb notebooks/*.md notebooks/img/* exercises/*.ipynb docs/img/*); do \
	  file="$${new#*/}" folder="$(dir $(WORK))$${new%%/*}"; mine="$$folder/$$file" last="$$folder/.last/$$file"; \
	  if [ -e "$$mine" ] && cmp -s "$$new" "$$last"; then continue; fi; \
	  if [ -e "$$mine" ] && ! cmp -s "$$mine" "$$last" && ! cmp -s "$$mine" "$$new"; then \
	    kept="$${mine%.*}-mine-$$(date +%Y%m%d-%H%M%S).$${mine##*.}"; mv "$$mine" "$$kept"; \
	    echo "$$file has changed. Your copy is kept as $$kept."; fi; \
	  cp "$$new" "$$mine" && cp "$$new" "$$last" || exit 1; \
	done
	@progress=fabriclab-progress.json; [ -e $(WORK)/$$progress ] || [ ! -e notebooks/$$progress ] || cp notebooks/$$progress $(WORK)/
endif

test: lint-and-notebooks unit

test-all: lint-and-notebooks deep

# Every check goes on after one that fails, and the page at the end has a line for each. STEPS= chooses some by name,
# RESUME=1 keeps the green lines of the same commit.
release: $(VENV)/.dev
	@$(PY) tools/release/release.py $(if $(PYTHONS),--python $(PYTHONS)) $(if $(STEPS),--only $(STEPS)) $(if $(RESUME),--resume)

bench: $(VENV)/.dev
	@$(PIP) -e '.[$(EXTRAS),dev,bench]'
	$(PY) tools/benchmarks/run.py

lint: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

unit: $(VENV)/.dev
	$(UNIT) "not slow and not release and not alone"
	$(TIMED) "not slow and not release and alone"

deep: $(VENV)/.dev
	$(UNIT) "not release and not alone" --hypothesis-profile=deep
	$(TIMED) "not release and alone"

# The parts of make release that are tests. TESTS= names files of those that are marked release; pytest's status 5 says
# that none of a kind are in them.
suite: $(VENV)/.dev
	$(UNIT) "not alone and not release" --hypothesis-profile=release

timed: $(VENV)/.dev
	$(TIMED) "alone and not release"

TESTS ?= tests
marked: $(VENV)/.dev
	$(EXECUTED) $(PY) -m pytest -n $(JOBS) --dist worksteal $(TESTS) -m "release and not alone" || [ $$? -eq 5 ]
	$(EXECUTED) $(PY) -m pytest $(TESTS) -m "release and alone" || [ $$? -eq 5 ]

# The list of lessons, in the README and as a notebook, from the headers of the lessons; the pages of words and of
# errata from their tables; in the lessons, the links to both.
.PHONY: index
index: $(VENV)/.dev
	$(PY) tools/lesson_index.py

# The students' files, from solutions/.
.PHONY: exercises
exercises: $(VENV)/.dev
	$(PY) tools/student_files.py solutions exercises

# The pages to read without installing anything. KEPT=build/executed takes what make notebooks has kept.
# ONLY="00 21" runs these lessons alone; the pages of the others then have no outputs.
.PHONY: site
site: $(VENV)/.site
	@PYTHONPATH="$(CURDIR):$(CURDIR)/tools" $(PY) -m website.build --jobs $(JOBS) $(if $(KEPT),--kept $(KEPT)) $(if $(ONLY),--only $(ONLY))

notebooks: $(VENV)/.dev
	@$(MAKE) --no-print-directory notebooks-beside
	@$(MAKE) --no-print-directory notebooks-alone

# mypy takes half a minute of a single core, so lint runs beside the notebooks that measure nothing.
.PHONY: lint-and-notebooks notebooks-beside notebooks-alone
lint-and-notebooks: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 lint notebooks-beside
	@$(MAKE) --no-print-directory notebooks-alone

notebooks-beside: $(VENV)/.dev
	@mkdir -p build
	$(if $(BESIDE),$(NBVAL) -n $(JOBS) --dist loadfile $(BESIDE))

notebooks-alone: $(VENV)/.dev
	@mkdir -p build
	$(if $(ALONE),$(NBVAL) $(ALONE))

# The environment: made once, filled again only when what it is made from has changed.
$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "fabriclab needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	    "Name one that fits: make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no module venv. On Debian and Ubuntu: sudo apt install python3-venv; then run make again." >&2; exit 1; }
	@echo "Making $(VENV), an environment of its own for the course."
	@$(PYTHON) -m venv $(VENV) || { rm -f $@; exit 1; }

$(VENV)/.lab: pyproject.toml $(PINS) | $(VENV)/pyvenv.cfg
	@echo "Installing the course into $(VENV), about 800 MB: one to three minutes the first time, longer on a busy machine."
	@$(SIGN_OF_LIFE); $(PIP) -e '.[$(EXTRAS)]' || { echo "The exact versions do not fit this machine; trying the ranges." >&2; \
	  $(PY) -m pip install -q -e '.[$(EXTRAS)]'; }
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: pyproject.toml $(PINS) | $(VENV)/pyvenv.cfg
	@echo "Installing the course and its checks into $(VENV), about 1,250 MB: one to three minutes the first time, longer on a busy machine."
	@$(SIGN_OF_LIFE); $(PIP) -e '.[$(EXTRAS),dev]'
	@$(COMPILE)
	@touch $@ $(VENV)/.lab

$(VENV)/.site: $(VENV)/.lab
	@echo "Installing what makes the site into $(VENV)."
	@$(PIP) -e '.[$(EXTRAS),site]'
	@touch $@

# Run it with the oldest Python 3.11 at hand: a version that needs a newer patch level (3.11.5, say) is then left out.
pins:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	build/pins/bin/pip install -q '.[lab,mpi]'
	{ echo "# Exact versions for Binder and CI, made by make pins with Python 3.11; dev.txt adds the tools."; \
	  build/pins/bin/pip freeze --exclude fabriclab; } > build/pins/requirements.txt
	build/pins/bin/pip install -q '.[lab,mpi,dev,bench]' && build/pins/bin/pip check
	{ echo "# Exact versions of the tools for building and testing; made by make pins."; \
	  build/pins/bin/pip freeze --exclude fabriclab | grep -vxFf build/pins/requirements.txt; } > binder/dev.txt
	mv build/pins/requirements.txt binder/requirements.txt && rm -rf build/pins

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
