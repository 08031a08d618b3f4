# shellcheck shell=bash
#
# Redis, from the machine's own release.

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=TERM

missing_packages() { have redis-server && have redis-cli || echo redis-server; }

program() { printf '%s\n' "redis-$1"; }

prepare() { mkdir "$DATA"; }

start() {
  # An answered write is on the disk. A title set by Redis would hide the command line.
  detach "$(program server)" --bind 127.0.0.1 --port "$PORT" --dir "$DATA" \
    --appendonly yes --appendfsync always \
    --unixsocket "$SOCKETS/redis.sock" --set-proc-title no
}

# Valkey says which version of Redis it is like, before its own.
version() {
  timeout 5 "$(program cli)" -s "$SOCKETS/redis.sock" INFO server |
    sed -n 's/^\(redis\|valkey\)_version:\([0-9.]*\).*/\2/p' | tail -n 1 | grep .
}

url() { printf 'redis://127.0.0.1:%s/\n' "$PORT"; }
