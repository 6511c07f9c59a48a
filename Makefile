# Shorthand for the scripts; nothing needs make.
.PHONY: run demo test quick ci nightly fuzz bench-ingest bench-wake torture lint format clean

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

bench-ingest:
	@Scripts/bench-ingest

bench-wake:
	@Scripts/bench-wake

lint:
	@Scripts/lint

format:
	@Scripts/lint --fix

torture:
	@Scripts/torture

clean:
	@rm -rf .build
