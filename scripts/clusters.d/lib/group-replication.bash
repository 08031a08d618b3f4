# shellcheck shell=bash
#
# A node of MySQL's Group Replication. Its server is that of services.d/mysql.sh.

# shellcheck source=scripts/services.d/mysql.sh
. "$scripts/services.d/mysql.sh"

# Any UUID; clusters are told apart by their ports.
group=3f4c6f0e-6c6f-636b-686f-757365303031

start() {
  detach "${MYSQLD[@]}" --datadir="$DATA" --socket="$SOCKETS/mysql.sock" \
    --bind-address=127.0.0.1 --port="$PORT" --mysqlx=OFF --max-connections=300 \
    --innodb-flush-log-at-trx-commit=1 --sync-binlog=1 \
    --server-id="$NODE" --gtid-mode=ON --enforce-gtid-consistency=ON --log-bin \
    --report-host=127.0.0.1 --report-port="$PORT" \
    --plugin-load-add=group_replication.so \
    --loose-group_replication_group_name="$group" \
    --loose-group_replication_start_on_boot=OFF \
    --loose-group_replication_local_address="127.0.0.1:$PEER_PORT" \
    --loose-group_replication_group_seeds="$(seeds)" \
    --loose-group_replication_recovery_get_public_key=ON "${PRIMARY_MODE[@]}"
}

seeds() {
  printf '127.0.0.1:%s,127.0.0.1:%s,127.0.0.1:%s' \
    "$(of_node 1 peer-port)" "$(of_node 2 peer-port)" "$(of_node 3 peer-port)"
}

# The first to come up makes the group, the others join it.
join() {
  [[ $(state) != ONLINE ]] || return 0
  if [[ ! -f $STATE/may-join ]]; then
    sql "SET SQL_LOG_BIN=0;
      CREATE USER IF NOT EXISTS peer@'%' IDENTIFIED BY 'peer';
      GRANT REPLICATION SLAVE, BACKUP_ADMIN, GROUP_REPLICATION_STREAM, CONNECTION_ADMIN ON *.* TO peer@'%';
      SET SQL_LOG_BIN=1;
      CHANGE REPLICATION SOURCE TO SOURCE_USER='peer', SOURCE_PASSWORD='peer'
        FOR CHANNEL 'group_replication_recovery';
      RESET BINARY LOGS AND GTIDS"
    : >"$STATE/may-join"
  fi
  if another_is_online; then
    sql "START GROUP_REPLICATION"
  else
    sql "SET GLOBAL group_replication_bootstrap_group=ON; START GROUP_REPLICATION;
      SET GLOBAL group_replication_bootstrap_group=OFF;
      CREATE DATABASE IF NOT EXISTS lockhouse"
  fi
  local deadline=$((SECONDS + ready_timeout_s))
  until [[ $(state) == ONLINE ]]; do
    ((SECONDS < deadline)) || die "$NAME did not become a member in $ready_timeout_s s"
    sleep 0.2
  done
}

sql() { sql_at "$SOCKETS" "$1"; }

sql_at() {
  timeout 60 "${MYSQL[@]}" --socket="$1/mysql.sock" -u root -N -B -e "$2"
}

state() { state_at "$SOCKETS"; }

state_at() {
  sql_at "$1" "SELECT MEMBER_STATE FROM performance_schema.replication_group_members
    WHERE MEMBER_ID=@@server_uuid"
}

another_is_online() {
  local node
  for node in 1 2 3; do
    if ((node != NODE)) && [[ $(state_at "$(of_node "$node" sockets)" 2>/dev/null) == ONLINE ]]; then return 0; fi
  done
  return 1
}
