# Daily work; `just` lists it. Without just, each line is a command of its own.

# What needs no server, fast.
test:
    cargo test --workspace

# The whole suite on real servers.
test-all *ARGUMENTS:
    scripts/test {{ARGUMENTS}}

# Real servers for a day's work; then: eval "$(scripts/services env)"
services:
    scripts/services up

# The servers, stopped.
stop:
    scripts/services down

# How fast it is, beside the yardsticks; about half an hour.
bench *ARGUMENTS:
    scripts/bench {{ARGUMENTS}}

# What CI checks, and more slowly than any of its parts.
ci:
    .ci/run

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets --all-features -- -D warnings

docs:
    cargo doc --workspace --no-deps --open
