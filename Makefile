# Shorthand for the scripts; nothing needs make.
.PHONY: run demo test quick ci lint format torture clean

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

lint:
	@Scripts/lint

format:
	@Scripts/lint --fix

torture:
	@Scripts/torture

clean:
	@rm -rf .build
