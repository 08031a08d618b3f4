# shellcheck shell=bash
#
# PostgreSQL with streaming replication: the first node is the primary, the others are its standbys. A commit is answered
# once a standby has it on disk, or at once if synchronous_standby_names is emptied. The server is that of
# services.d/postgres.sh.
#
# Nobody promotes a standby but an operator or a test. A primary that was killed and is started again is still a
# primary: leave it down once another is promoted.

# shellcheck source=scripts/services.d/postgres.sh
. "$scripts/services.d/postgres.sh"

# Where the account of PostgreSQL may enter, wherever the checkout lies.
if [[ $SOCKETS ]]; then DATA=$SOCKETS/data; fi

prepare() {
  DATA=$SOCKETS/data
  # The others are copies, for which the first has to run.
  ((NODE == 1)) || return 0
  initialize
  printf "synchronous_standby_names='ANY 1 (*)'\nwal_retrieve_retry_interval=500ms\n" |
    as_owner tee -a "$DATA/postgresql.conf" >/dev/null
}

start() {
  [[ -d $DATA ]] || copy_the_first >>"$STATE/log" 2>&1
  run_server
}

# --write-recovery-conf makes the copy a standby of the first.
copy_the_first() {
  if ((EUID == 0)); then chown postgres: "$SOCKETS"; fi
  as_owner "$(program pg_basebackup)" --pgdata="$DATA" --checkpoint=fast --write-recovery-conf \
    --dbname="host=127.0.0.1 port=$(of_node 1 port) user=postgres application_name=$NAME"
}
