# Each target sets up what it needs: .venv is built on first use and kept until the requirements change.
#   make PYTHON=/path/of/python3.12 ...   chooses the Python
#   make test PYTEST_ARGS='-k tokenizer'  passes options on
#   make tpu-check TPU_CHECK_ARGS='--model_size=base --chip=v6e'  checks another step than the two by default
.DEFAULT_GOAL := help
export PYTHON

RUN = .venv/bin/python
# Modules that share costly fixtures name a group, and stay on one worker. Three workers keep two cores busy: tests also
# wait, for commands that they start and stop.
PYTEST = -m pytest -n 3 --dist=loadgroup --no-loadscope-reorder --durations=15

.PHONY: help env env-tpu demo demo-clean test test-quick test-thorough test-tf220 test-kill test-peers tpu-check bench lint format clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

env:  ## builds .venv (every other target does so by itself)
	@sh setup/prepare.sh main

env-tpu:  ## builds .venv-tpu, for pretraining on a TPU machine
	@sh setup/prepare.sh tpu

demo: env  ## the whole path on real English: vocabulary, shards, pretraining, export, an answer; resumes where it stopped
	@$(RUN) -m demo

demo-clean: env  ## removes what the demo made
	@$(RUN) -m demo --clean

test: env  ## all tests, at most 15 minutes
	$(RUN) $(PYTEST) $(PYTEST_ARGS)

test-quick: env  ## the tests that take a few seconds each
	$(RUN) $(PYTEST) -m 'not (slow or kill or peers or thorough)' $(PYTEST_ARGS)

test-thorough: env  ## the costliest tests, and further variants of others; some ten minutes
	$(RUN) $(PYTEST) -m thorough $(PYTEST_ARGS)

test-tf220:  ## all tests on TensorFlow 2.20, in an environment of its own
	@sh setup/prepare.sh tf220
	.venv-tf220/bin/python $(PYTEST) $(PYTEST_ARGS)

bench:  ## predictions and fine-tuning steps beside KerasHub and transformers; BENCH_ARGS='--data_dir=SST-2 --tokenizer=FOLDER'
	@sh setup/prepare.sh peers
	.venv-peers/bin/python -m benchmarks.classification $(BENCH_ARGS)

# Both are run, also where the first does not fit.
tpu-check: env  ## compiles training steps for a TPU that is not there: do they fit? (base and large on v5e; minutes)
	@sh setup/prepare.sh tpu-check
ifdef TPU_CHECK_ARGS
	$(RUN) -m albert_tf.tpu_check $(TPU_CHECK_ARGS)
else
	@first=0; \
	$(RUN) -m albert_tf.tpu_check --model_size=base --train_batch_size=32 --max_seq_length=128 --chip=v5e || first=$$?; \
	$(RUN) -m albert_tf.tpu_check --model_size=large --train_batch_size=32 --max_seq_length=512 --remat --chip=v5e && exit $$first
endif

test-kill: env  ## a run killed 25 times, against an undisturbed one; some ten minutes
	$(RUN) -m pytest -m kill -s tests/end_to_end $(PYTEST_ARGS)

test-peers:  ## compares with live models of transformers and KerasHub, in an environment of its own
	@sh setup/prepare.sh peers
	.venv-peers/bin/python -m pytest -m peers $(PYTEST_ARGS)

lint: env  ## ruff, format check, mypy
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: env  ## puts the sources into form
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

clean:  ## removes the environments and caches (not the demo's folder)
	rm -rf .venv .venv-tf220 .venv-tpu .venv-tpu-check .venv-peers .mypy_cache .ruff_cache .pytest_cache *.egg-info
