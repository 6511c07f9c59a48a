# Shorthand for the scripts; nothing needs make.
.PHONY: run demo test quick ci bench-ingest lint format clean

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

bench-ingest:
	@Scripts/bench-ingest

lint:
	@Scripts/lint

format:
	@Scripts/lint --fix

clean:
	@rm -rf .build
