# shellcheck shell=bash
#
# etcd, from the machine's own release: one member.

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=TERM

missing_packages() { have etcd || echo etcd-server; }

prepare() { mkdir -m 700 "$DATA"; }

start() {
  local client=http://127.0.0.1:$PORT peer
  peer=http://127.0.0.1:$(free_port)
  detach etcd --name lockhouse --data-dir "$DATA" \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "lockhouse=$peer" \
    --logger zap --log-outputs "$SOCKETS/log"
}

version() {
  # Sooner than that there is no leader.
  ask /health | grep '"health":"true"' >/dev/null || return 1
  ask /version | sed -n 's/.*"etcdserver":"\([^"]*\)".*/\1/p'
}

url() { printf 'http://127.0.0.1:%s\n' "$PORT"; }

ask() {
  exec 4<>"/dev/tcp/127.0.0.1/$PORT" || return 1
  printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$1" >&4
  timeout 5 cat <&4
  exec 4>&-
}
