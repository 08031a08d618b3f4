# shellcheck shell=bash
#
# MySQL's Group Replication, one node of which takes writes: the first, until it
# is gone.

PRIMARY_MODE=(--loose-group_replication_single_primary_mode=ON)
# shellcheck source=scripts/clusters.d/lib/group-replication.bash
. "$scripts/clusters.d/lib/group-replication.bash"
