# Everything a person types. `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
IN_PARALLEL := --numprocesses logical
# Tests on the lab wait most of the time. With more processes than this, two cores are too few for its nodes.
ON_THE_LAB := --numprocesses 3 --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help check test test-fast prove-vllm demo demo-down lock lock-vllm schema oracle oracle-sglang vllm-facts sglang-facts aws-instances accuracy dashboard-picture aiconfigurator bench-planner bench-preview bench-scale bench-stager fuzz-stager fuzz-fleet lab lab-down format

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "Python's venv module is needed: apt-get install python3-venv"; exit 1; }
	@test ! -L .venv || { echo ".venv is a link, and would be emptied where it leads: remove the link"; exit 1; }
	@echo "setting up .venv from requirements.lock (about 1 min)"
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

check: $(READY) ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test-fast: $(READY) ## unit and golden tests, about two minutes
	$(BIN)/pytest $(IN_PARALLEL) tests/unit tests/golden

test: check ## everything: checks, unit, golden, and the lab's real engine and cluster
	$(BIN)/pytest $(IN_PARALLEL) -m "not lab"
	$(BIN)/pytest $(ON_THE_LAB) -m lab

SERVERS ?=
prove-vllm: $(READY) ## real vLLM on a CPU, through the whole program, in a lab of its own, as root: SERVERS="one-node two-nodes"
	@$(BIN)/python -m tests.prove $(SERVERS)

format: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(READY) ## a model really answers, on the lab or with CONTEXT= on your own cluster
	@$(BIN)/python -m lab.demo $(if $(CONTEXT),--context "$(CONTEXT)")

demo-down: $(READY) ## remove what the demo made
	@$(BIN)/python -m lab.demo --down $(if $(CONTEXT),--context "$(CONTEXT)")

UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url
lock: $(READY) ## lock what pyproject.toml and stager/requirements.in ask for; newer releases with UPGRADE=--upgrade
	@$(UV_COMPILE) $(UPGRADE) --custom-compile-command "make lock" pyproject.toml --group dev -o requirements.lock
	@$(UV_COMPILE) $(UPGRADE) --no-header stager/requirements.in -o stager/requirements.txt

IN_VLLM_IMAGE := lab/build/pins/images/vllm
lock-vllm: $(READY) ## lock the wheels of the image for prove-vllm
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_36 --only-binary :all: \
		--overrides $(IN_VLLM_IMAGE).overrides.txt --excludes $(IN_VLLM_IMAGE).excludes.txt --generate-hashes \
		--no-emit-index-url --no-header --no-annotate $(IN_VLLM_IMAGE).in -o $(IN_VLLM_IMAGE).txt

schema: $(READY) ## write what follows from the models: the editor's schema, the page of keys, components' arguments
	@$(BIN)/python -m config.stack.schema
	@$(BIN)/python -m components.package.reference

PAIRS ?=
oracle: $(READY) ## build vLLM's own models without a GPU, to judge the planner; PAIRS=expression chooses: half an hour
	@$(BIN)/python -m tests.oracle vllm "$(PAIRS)"

oracle-sglang: $(READY) ## the same with SGLang's own models: five minutes
	@$(BIN)/python -m tests.oracle sglang "$(PAIRS)"

RELEASES ?=
vllm-facts: $(READY) ## read flags, backends and parsers from the wheels of vLLM's releases: RELEASES="0.33.0 0.34.0"
	@$(BIN)/python -m tests.oracle.release_facts $(RELEASES)

sglang-facts: $(READY) ## read flags, parsers and architectures from the wheels of SGLang's releases: RELEASES="0.5.23"
	@$(BIN)/python -m tests.oracle.sglang_facts $(RELEASES)

aws-instances: $(READY) ## write network cards and zones of EC2 instance types from recorded answers
	@$(BIN)/python -m tests.recorded_ec2

accuracy: $(READY) ## write docs/accuracy.md: the planner's figures against published ones
	@$(BIN)/python -m planner.report.accuracy

dashboard-picture: $(READY) ## draw docs/llama-cpp-dashboard.svg from series that a lab test recorded
	@$(BIN)/uv run --no-project --quiet --with matplotlib==3.10.8 python -m tests.dashboard_picture

aiconfigurator: $(READY) ## ask aiconfigurator for the published speeds, to compare errors: ten minutes
	@$(BIN)/python -m bench.estimates

bench-planner: $(READY) ## how long a plan takes, of 10,000: a few seconds
	@$(BIN)/python -m bench.planner

bench-preview: $(READY) ## what a preview costs beside a program with one ConfigMap, and the policies beside a preview
	@$(BIN)/python -m bench.preview

bench-scale: $(READY) ## whether 32 groups of two nodes cost more each than eight
	@$(BIN)/python -m bench.scale

bench-stager: $(READY) ## the stager beside hf download, s5cmd, boto3 and aria2c, and a fleet: half an hour
	@$(BIN)/python -m bench.stager
	@$(BIN)/python -m bench.stager --capped
	@$(BIN)/python -m bench.stager_wan
	@$(BIN)/python -m bench.stager_wan --tls
	@$(BIN)/python -m bench.stager_fleet
	@$(BIN)/python -m bench.stager_many_files

SEED ?= 1
ROUNDS ?= 1000
fuzz-stager: $(READY) ## kill, truncate, corrupt, delay and fail the disk (as root) at random: SEED=1 ROUNDS=1000
	@$(BIN)/python -m tests.fuzz.stager --seed $(SEED) --rounds $(ROUNDS)
	@$(BIN)/python -m tests.fuzz.disk --seed $(SEED) --rounds $$(($(ROUNDS) / 10))

fuzz-fleet: $(READY) ## kill, freeze, cut off and corrupt nodes that share a download: SEED=1 ROUNDS=1000, as root
	@$(BIN)/python -m tests.fuzz.fleet --seed $(SEED) --rounds $(ROUNDS)

lab: $(READY) ## take up a real engine and cluster on this machine
	@$(BIN)/python -m lab up

lab-down: $(READY) ## take them down; nothing stays but the cache
	@$(BIN)/python -m lab down
