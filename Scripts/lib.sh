# shellcheck shell=bash
# Functions that the scripts here share. Sourced, never run.

# The checkout, and the release binaries in it.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
tool=$root/.build/release/daybook
built_stamp=$root/.build/daybook-release-is-built
readonly root tool built_stamp

# What the first release build takes on two cores, as the scripts announce it.
readonly first_build_time="two to four minutes on two cores"
readonly needed_swift="6.3"

say() { printf '%s\n' "$*" >&2; }

# fail STATUS MESSAGE…: one message, and the end.
fail() {
    local status=$1
    shift
    printf 'error: %s\n' "$*" >&2
    exit "$status"
}

# The way out for a machine that is not Debian 12 or where nothing may be installed.
container_line() {
    cat >&2 <<TEXT
In a container it runs on any Linux with Docker or Podman:
  docker run --rm -it --network host -v "$root":/daybook -w /daybook swift:6.3-bookworm Scripts/run
TEXT
}

# Ends with a clear message where there is no Swift toolchain, or one that is too old.
require_swift() {
    local text version
    if ! command -v swift >/dev/null 2>&1; then
        say "error: there is no Swift toolchain in PATH; Daybook needs Swift $needed_swift or later."
        say "Get it for Debian 12 from https://www.swift.org/install/linux/ (Swiftly, or the tarball unpacked,"
        say "with its usr/bin in PATH), then start this again."
        container_line
        exit 69
    fi
    if ! text=$(swift --version 2>&1); then
        say "error: the Swift toolchain in PATH does not run ($(command -v swift)). It says:"
        say "$text"
        say "Install what it misses; the list for Debian 12 is at https://www.swift.org/install/linux/."
        exit 69
    fi
    version=$(sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' <<<"$text" | head -n 1)
    if [ -z "$version" ] || [ "$(printf '%s\n%s\n' "$needed_swift" "$version" | sort -V | head -n 1)" != "$needed_swift" ]; then
        say "error: Swift ${version:-of an unknown version} is too old; Daybook needs $needed_swift or later."
        say "Get it from https://www.swift.org/install/linux/."
        exit 69
    fi
}

# Whether the release binaries are there and no source is younger than the last build of them.
is_built() {
    [ -x "$tool" ] && [ -e "$built_stamp" ] || return 1
    [ -z "$(find "$root/Package.swift" "$root/Sources" -newer "$built_stamp" -print -quit)" ]
}

# Builds the release binaries if they are not there or older than the sources. All output goes to stderr.
build_release() {
    local now
    is_built && return
    require_swift
    if [ -x "$tool" ]; then
        say "Building what has changed …"
    else
        say "Building Daybook for the first time: about $first_build_time."
    fi
    # Taken before the build: a source that is changed meanwhile is younger.
    mkdir -p "$root/.build"
    now=$(mktemp "$root/.build/stamp.XXXXXX")
    if ! (cd "$root" && swift build -c release) >&2; then
        rm -f "$now"
        fail 70 "the build failed; its messages are above"
    fi
    mv "$now" "$built_stamp"
}
