# shellcheck shell=bash
#
# MySQL, which Debian has in its suite sid only. Its libraries are newer than a
# release's, so it is unpacked beside the system and run by its own loader.

# shellcheck disable=SC2034 # read by `stop`
STOP_SIGNAL=TERM
unpacked=${LOCKHOUSE_SERVICES_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/lockhouse}/mysql

missing_packages() { :; }

prepare() {
  [[ -d $unpacked ]] || fetch
  use "$unpacked"
  "${MYSQLD[@]}" --datadir="$DATA" --initialize-insecure
}

start() {
  # A database to try things in; tests make their own.
  echo 'CREATE DATABASE IF NOT EXISTS lockhouse;' >"$SOCKETS/init.sql"
  detach "${MYSQLD[@]}" --datadir="$DATA" --socket="$SOCKETS/mysql.sock" \
    --init-file="$SOCKETS/init.sql" \
    --bind-address=127.0.0.1 --port="$PORT" --mysqlx=OFF --max-connections=600 \
    --innodb-flush-log-at-trx-commit=1 --sync-binlog=1
}

version() {
  use "$unpacked"
  timeout 5 "${MYSQL[@]}" --socket="$SOCKETS/mysql.sock" -u root -N -B -e 'SELECT VERSION()'
}

url() { printf 'mysql://root@127.0.0.1:%s/\n' "$PORT"; }

# use ROOT: sets MYSQLD and MYSQL, the command lines of what is unpacked there.
use() {
  local loader=("$1"/usr/lib/*-linux-gnu/ld-linux*.so.* --library-path "$1"/usr/lib/*-linux-gnu)
  MYSQL=("${loader[@]}" "$1/usr/bin/mysql" --no-defaults
    --character-sets-dir="$1/usr/share/mysql/charsets")
  MYSQLD=("${loader[@]}" "$1/usr/sbin/mysqld" --no-defaults
    --lc-messages-dir="$1/usr/share/mysql" --character-sets-dir="$1/usr/share/mysql/charsets"
    --plugin-dir="$1/usr/lib/mysql/plugin" --secure-file-priv=)
  if ((EUID == 0)); then MYSQLD+=(--user=root); fi
}

# What is half downloaded or half unpacked never has the final name. The lock
# lets one checkout fetch while others wait; it ends with the subshell.
fetch() (
  have apt-get || die "mysql is unpacked from Debian's packages: apt-get is missing"
  mkdir -p "$(dirname "$unpacked")"
  exec 8>"$unpacked.lock"
  flock 8
  [[ ! -d $unpacked ]] || return 0
  say "fetching MySQL from Debian's suite sid"
  partial=$unpacked.partial
  trap 'rm -rf -- "$partial"' EXIT
  rm -rf -- "$partial"
  mkdir -p "$partial/root"
  download "$partial/apt"
  for deb in "$partial"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$partial/root" --no-same-owner --keep-directory-symlink
  done
  use "$partial/root"
  "${MYSQLD[@]}" --version
  mv -T "$partial/root" "$unpacked"
)

# Asks an apt of our own, which knows of sid and of no installed package.
download() {
  mkdir -p "$1"/{sources,lists/partial,cache/archives/partial}
  : >"$1/status"
  sid_sources "$1/sources"
  local apt=(apt-get -q -y -o APT::Sandbox::User=root -o Acquire::Languages=none
    -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$1/sources"
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State::lists="$1/lists" -o Dir::State::status="$1/status" -o Dir::Cache="$1/cache")
  "${apt[@]}" update || true # a source of a third party may have no sid
  "${apt[@]}" --no-install-recommends --download-only install mysql-server-core mysql-client-core ||
    die "no apt source of this machine has MySQL in a suite sid"
}

# sid_sources FOLDER: writes there the machine's own sources of its Debian
# release, with the same mirror and keyring, for sid.
sid_sources() {
  local file codename release
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME-}")
  release="(${codename:-stable}|oldstable|stable|testing|unstable|sid)"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -f $file ]] || sid_lines "$release" <"$file" >"$1/${file##*/}.list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ ! -f $file ]] || sid_stanzas "$release" <"$file" >"$1/${file##*/}"
  done
}

sid_lines() {
  sed -nE "s#^deb[ \t]+(\[[^]]*\][ \t]+)?([^ \t]+)[ \t]+$1[ \t]+.*#deb \1\2 sid main#p"
}

sid_stanzas() {
  awk -v RS= -v ORS='\n\n' -v suites="(^|\n)Suites:([^\n]*[ \t])?$1([ \t\n]|\$)" '$0 ~ suites' |
    sed -E 's/^Types:.*/Types: deb/; s/^Suites:.*/Suites: sid/; s/^Components:.*/Components: main/'
}
