# shellcheck shell=bash
#
# A node of MariaDB with Galera. Its server is that of services.d/mariadb.sh.

# shellcheck source=scripts/services.d/mariadb.sh
. "$scripts/services.d/mariadb.sh"

provider=/usr/lib/galera/libgalera_smm.so

missing_packages() {
  have wsrep_sst_mariabackup && have mariadb || echo mariadb-server
  [[ -f $provider ]] || echo galera-4
  # These take a whole database to a node that has none.
  have mariabackup || echo mariadb-backup
  have socat || echo socat
}

# The first to come up makes the cluster, the others join it.
start() {
  local new=()
  if ! another_runs; then
    new=(--wsrep-new-cluster)
    # Of nodes that all were killed, the one that is told to is the first again.
    if [[ -f $DATA/grastate.dat ]]; then sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' "$DATA/grastate.dat"; fi
  fi
  local transfer_port
  transfer_port=$(free_port)
  detach mariadbd --no-defaults "${as_root[@]}" --datadir="$SOCKETS/data" --socket="$SOCKETS/mysql.sock" \
    --bind-address=127.0.0.1 --port="$PORT" --max-connections=300 \
    --innodb-flush-log-at-trx-commit=1 --binlog-format=ROW --innodb-autoinc-lock-mode=2 \
    --wsrep-on=ON --wsrep-provider="$provider" --wsrep-cluster-name=lockhouse \
    --wsrep-cluster-address="gcomm://$(peers)" --wsrep-node-name="$NAME" \
    --wsrep-node-address="127.0.0.1:$PEER_PORT" \
    --wsrep-node-incoming-address="127.0.0.1:$PORT" \
    --wsrep-sst-method=mariabackup --wsrep-sst-auth=root: \
    --wsrep-sst-receive-address="127.0.0.1:$transfer_port" \
    --wsrep-provider-options="gmcast.listen_addr=tcp://127.0.0.1:$PEER_PORT;ist.recv_addr=127.0.0.1:$(free_port)" \
    "${new[@]}"
}

peers() {
  printf '127.0.0.1:%s,127.0.0.1:%s,127.0.0.1:%s' \
    "$(of_node 1 peer-port)" "$(of_node 2 peer-port)" "$(of_node 3 peer-port)"
}

join() {
  local deadline=$((SECONDS + ready_timeout_s))
  until [[ $(state) == Synced ]]; do
    ((SECONDS < deadline)) || die "$NAME did not become a member in $ready_timeout_s s"
    sleep 0.2
  done
  sql 'CREATE DATABASE IF NOT EXISTS lockhouse'
}

sql() { timeout 60 mariadb --no-defaults --socket="$SOCKETS/mysql.sock" -u root -N -B -e "$1"; }

state() { sql "SHOW STATUS LIKE 'wsrep_local_state_comment'" | cut -f 2; }

another_runs() {
  local node
  for node in 1 2 3; do
    if ((node != NODE)) && with_server "${NAME%-*}-$node" running; then return 0; fi
  done
  return 1
}
