# One image with every program of Daybook; the command says which. Built from the checkout: docker build -t daybook .
#
# The Swift runtime is linked in, so that the second stage has nothing but Debian's shared libraries which the
# programs name. Scripts/check-deploy compares that list with what the built programs need.
# The two images have to be of one Debian release: the programs use the C library of the second one.

FROM swift:6.3-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        libcurl4-openssl-dev libnghttp2-dev libpq-dev librdkafka-dev libsimdjson-dev libssl-dev node-llhttp pkg-config \
        zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /daybook
COPY Package.swift ./
COPY Sources Sources
COPY Tests Tests
COPY Benchmarks Benchmarks
RUN mkdir /out \
    && for program in ingest-service aggregator-worker wake-worker daybook; do \
        swift build --configuration release --static-swift-stdlib --product "$program" \
        && install --strip ".build/release/$program" /out/ || exit 1; \
    done
COPY deploy/daybook-ready /out/

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates libcurl4 libgcc-s1 libnghttp2-14 libpq5 librdkafka1 libsimdjson14 libssl3 libstdc++6 tzdata \
        zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin daybook
COPY --from=build /out/ /usr/local/bin/
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /
# What orchestrators ask by themselves. The address is the program's own DAYBOOK_ADMIN_ADDRESS.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["daybook-ready", "--live"]
CMD ["daybook", "--help"]
