# shellcheck shell=bash
#
# MariaDB 11.8, from Debian's suite sid.

# shellcheck source=scripts/services.d/lib/sid.bash
. "$scripts/services.d/lib/sid.bash"
# shellcheck source=scripts/services.d/mariadb.sh
. "$scripts/services.d/mariadb.sh"

ROOT=$(root_of mariadb11)

missing_packages() { missing_unpacking_packages; }

fetch() {
  unpack_from_sid "mariadb-server-core mariadb-client-core" \
    usr/sbin/mariadbd usr/bin/{mariadb,my_print_defaults,resolveip}
}

MARIADB=("$ROOT/usr/bin/mariadb" --no-defaults --character-sets-dir="$ROOT/usr/share/mariadb/charsets")
MARIADBD=("$ROOT/usr/sbin/mariadbd" --no-defaults --basedir="$ROOT/usr" "${as_root[@]}")
INSTALL_DB=("$ROOT/usr/bin/mariadb-install-db" --no-defaults --basedir="$ROOT/usr" "${as_root[@]}")
