# Shorthand for the scripts; nothing needs make.
.PHONY: run demo test quick ci nightly fuzz soak bench-ingest bench-aggregator bench-wake torture drill check-deploy load-stack lint format clean

run:
	@Scripts/run

demo:
	@Scripts/run --exit-after-demo

test:
	@Scripts/test

quick:
	@Scripts/test --quick

ci:
	@.ci/run

nightly:
	@Scripts/nightly

fuzz:
	@Scripts/fuzz

soak:
	@Scripts/soak

bench-ingest:
	@Scripts/bench-ingest

bench-aggregator:
	@Scripts/bench-aggregator

check-deploy:
	@Scripts/check-deploy

load-stack:
	@Scripts/load-stack

bench-wake:
	@Scripts/bench-wake

lint:
	@Scripts/lint

format:
	@Scripts/lint --fix

torture:
	@Scripts/torture

drill:
	@Scripts/drill

clean:
	@rm -rf .build
