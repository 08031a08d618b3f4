# shellcheck shell=bash
#
# PostgreSQL 18, from Debian's suite sid.

# shellcheck source=scripts/services.d/lib/sid.bash
. "$scripts/services.d/lib/sid.bash"
# shellcheck source=scripts/services.d/postgres.sh
. "$scripts/services.d/postgres.sh"

ROOT=$(root_of postgres18)

# postgresql-common makes the account that the server runs as, if root starts it.
missing_packages() {
  missing_unpacking_packages
  if ((EUID == 0)) && ! getent passwd postgres >/dev/null; then echo postgresql-common; fi
}

fetch() {
  unpack_from_sid postgresql-18 usr/lib/postgresql/18/bin/{postgres,initdb,psql}
  as_owner test -x "$(program postgres)" ||
    die "the account postgres can't enter $ROOT; set LOCKHOUSE_SERVICES_CACHE to a folder that it can"
}

program() { printf '%s\n' "$ROOT/usr/lib/postgresql/18/bin/$1"; }
