# shellcheck shell=bash
#
# MySQL, from Debian's suite sid.

# shellcheck source=scripts/services.d/lib/sid.bash
. "$scripts/services.d/lib/sid.bash"

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=TERM
ROOT=$(root_of mysql)

missing_packages() { missing_unpacking_packages; }

fetch() { unpack_from_sid "mysql-server-core mysql-client-core" usr/sbin/mysqld usr/bin/mysql; }

prepare() { "${MYSQLD[@]}" --datadir="$DATA" --initialize-insecure; }

start() {
  # A database to try things in; tests make their own.
  echo 'CREATE DATABASE IF NOT EXISTS lockhouse;' >"$SOCKETS/init.sql"
  detach "${MYSQLD[@]}" --datadir="$DATA" --socket="$SOCKETS/mysql.sock" \
    --init-file="$SOCKETS/init.sql" \
    --bind-address=127.0.0.1 --port="$PORT" --mysqlx=OFF --max-connections=600 \
    --innodb-flush-log-at-trx-commit=1 --sync-binlog=1
}

version() {
  timeout 5 "${MYSQL[@]}" --socket="$SOCKETS/mysql.sock" -u root -N -B -e 'SELECT VERSION()'
}

url() { printf 'mysql://root@127.0.0.1:%s/\n' "$PORT"; }

MYSQL=("$ROOT/usr/bin/mysql" --no-defaults --character-sets-dir="$ROOT/usr/share/mysql/charsets")
MYSQLD=("$ROOT/usr/sbin/mysqld" --no-defaults
  --lc-messages-dir="$ROOT/usr/share/mysql" --character-sets-dir="$ROOT/usr/share/mysql/charsets"
  --plugin-dir="$ROOT/usr/lib/mysql/plugin" --secure-file-priv=)
if ((EUID == 0)); then MYSQLD+=(--user=root); fi
