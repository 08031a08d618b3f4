# shellcheck shell=bash
#
# Redis, from the machine's own release.

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=TERM

missing_packages() { have redis-server && have redis-cli || echo redis-server; }

prepare() { mkdir "$DATA"; }

start() {
  # A title of Redis's own would hide the command line.
  detach redis-server --bind 127.0.0.1 --port "$PORT" --dir "$DATA" \
    --unixsocket "$SOCKETS/redis.sock" --set-proc-title no
}

version() {
  timeout 5 redis-cli -s "$SOCKETS/redis.sock" INFO server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p' | grep .
}

url() { printf 'redis://127.0.0.1:%s/\n' "$PORT"; }
