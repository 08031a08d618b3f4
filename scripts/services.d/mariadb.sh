# shellcheck shell=bash
#
# MariaDB, from the machine's own release.

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=TERM

# The core packages have the server without its init script and system account.
missing_packages() {
  have mariadbd && have mariadb-install-db || echo mariadb-server-core
  have mariadb || echo mariadb-client-core
}

prepare() {
  # mariadb-install-db takes no spaces in the folder's name.
  mkdir "$DATA"
  ln -s "$DATA" "$SOCKETS/data"
  # A MariaDB that starts deletes the temporary tables that it finds in its folder for them, whosever they are.
  TMPDIR=$SOCKETS "${INSTALL_DB[@]}" --datadir="$SOCKETS/data" --auth-root-authentication-method=normal --skip-test-db
}

start() {
  # A database to try things in; tests make their own.
  echo 'CREATE DATABASE IF NOT EXISTS lockhouse;' >"$SOCKETS/init.sql"
  detach "${MARIADBD[@]}" --datadir="$DATA" --socket="$SOCKETS/mysql.sock" \
    --tmpdir="$SOCKETS" --init-file="$SOCKETS/init.sql" \
    --bind-address=127.0.0.1 --port="$PORT" --max-connections=600 \
    --innodb-flush-log-at-trx-commit=1 --sync-binlog=1
}

version() {
  timeout 5 "${MARIADB[@]}" --socket="$SOCKETS/mysql.sock" -u root -N -B -e 'SELECT VERSION()'
}

url() { printf 'mysql://root@127.0.0.1:%s/\n' "$PORT"; }

as_root=()
if ((EUID == 0)); then as_root=(--user=root); fi
MARIADB=(mariadb --no-defaults)
MARIADBD=(mariadbd --no-defaults "${as_root[@]}")
INSTALL_DB=(mariadb-install-db --no-defaults "${as_root[@]}")
