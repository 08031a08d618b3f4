# shellcheck shell=bash
#
# Valkey, from Debian's suite sid.

# shellcheck source=scripts/services.d/lib/sid.bash
. "$scripts/services.d/lib/sid.bash"
# shellcheck source=scripts/services.d/redis.sh
. "$scripts/services.d/redis.sh"

ROOT=$(root_of valkey)

missing_packages() { missing_unpacking_packages; }

fetch() { unpack_from_sid valkey-server usr/bin/valkey-{server,cli}; }

program() { printf '%s\n' "$ROOT/usr/bin/valkey-$1"; }
