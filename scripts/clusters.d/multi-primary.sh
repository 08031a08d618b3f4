# shellcheck shell=bash
#
# MySQL's Group Replication, every node of which takes writes.

PRIMARY_MODE=(--loose-group_replication_single_primary_mode=OFF
  --loose-group_replication_enforce_update_everywhere_checks=ON)
# shellcheck source=scripts/clusters.d/lib/group-replication.bash
. "$scripts/clusters.d/lib/group-replication.bash"
