# shellcheck shell=bash
#
# PostgreSQL, from the machine's own release. It refuses to run as root, and is
# then run as the account that its package makes.

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=INT # TERM would wait for the clients to leave

missing_packages() { [[ -x $(program postgres) ]] || echo postgresql; }

prepare() { initialize; }

start() { run_server; }

initialize() {
  if ((EUID == 0)); then chown postgres: "$SOCKETS"; fi
  mkdir "$DATA"
  if ((EUID == 0)); then chown postgres: "$DATA"; fi
  # The checkout may lie in a folder that only root may enter.
  if ! as_owner test -w "$DATA"; then
    rmdir "$DATA"
    DATA=$SOCKETS/data
  fi
  as_owner "$(program initdb)" --pgdata="$DATA" --username=postgres --auth=trust \
    --encoding=UTF8 --locale=C.UTF-8
  # A user of this group needs a password.
  as_owner sed -i '1i host all +with_password 127.0.0.1/32 scram-sha-256' "$DATA/pg_hba.conf"
  # Not on the command line, which a test could not change.
  printf "ssl_cert_file='%s'\nssl_key_file='%s'\n" "$certificate" "$key" |
    as_owner tee -a "$DATA/postgresql.conf" >/dev/null
}

run_server() {
  detach "${owner[@]}" "$(program postgres)" -D "$DATA" -c listen_addresses=127.0.0.1 -c port="$PORT" \
    -c unix_socket_directories="$SOCKETS" -c max_connections=600 "${tls[@]}"
}

version() {
  timeout 5 "$(program psql)" -X -A -t -h "$SOCKETS" -p "$PORT" -U postgres -c 'SHOW server_version'
}

url() { printf 'postgres://postgres@127.0.0.1:%s/postgres\n' "$PORT"; }

# The newest of the versions that are installed side by side.
program() { printf '%s\n' /usr/lib/postgresql/*/bin/"$1" | sort -V | tail -n 1; }

as_owner() { (cd / && "${owner[@]}" "$@"); }

owner=()
if ((EUID == 0)); then owner=(setpriv --reuid=postgres --regid=postgres --init-groups); fi

# With the certificate that Debian makes for the machine.
certificate=/etc/ssl/certs/ssl-cert-snakeoil.pem key=/etc/ssl/private/ssl-cert-snakeoil.key
tls=()
if as_owner test -r "$key"; then tls=(-c ssl=on); fi
