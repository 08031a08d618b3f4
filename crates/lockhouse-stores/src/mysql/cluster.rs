//! Settings and checks of a session on a cluster node.
//!
//! - **A read sees every commit that was answered before it**, through any node. Without that, a
//!   node that lags would refuse calls wrongly: an ask for lack of room that was just released, or
//!   the renewal of a request that it does not know yet. Writes need no setting: two transactions
//!   that wrote one semaphore's row cannot both commit.
//! - **Lockhouse uses only members.** A node of Group Replication that has started but not joined
//!   yet is a separate server, and takes writes that no other node will see. A node that is not the
//!   primary would answer reads wrongly, and fail at writes.
//! - **A transaction that has ended writes nothing.** A node may abort a transaction in favour of
//!   another node's between two statements, and execute the next statement without an error. So
//!   autocommit is off, and a savepoint shows whether it is still the same transaction.
//!
//! Galera needs no check of membership: a node that is no member refuses every statement.

use std::collections::BTreeMap;

use lockhouse_core::store::{Error, Kind};

use super::sql::Text;
use crate::sql::Script;
use crate::sql::rows::TextRow;

/// For a group with several writers.
const SEVERAL: &str = "SET SESSION group_replication_consistency='BEFORE';";

/// For a group with one primary: a new primary first applies what the last one left.
const PRIMARY: &str = "SET SESSION group_replication_consistency='BEFORE_ON_PRIMARY_FAILOVER';";

const MEMBER: &str = "SELECT member_state FROM performance_schema.replication_group_members \
    WHERE member_id=@@server_uuid";

/// For SELECT and the start of a transaction. A node that has lost its cluster answers no read.
const GALERA: &str = "SET SESSION wsrep_sync_wait=@@wsrep_sync_wait|1, wsrep_dirty_reads=OFF";

/// A server's state in its group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Member<'a> {
    /// Its state.
    Is(&'a str),
    /// It has not been a member since it started.
    IsNone,
    /// The user may not read the state.
    Unknown,
}

/// The variables of a server that describe its cluster.
#[derive(Debug)]
pub(super) struct Node(BTreeMap<String, String>);

impl Node {
    pub(super) fn of(rows: &[impl TextRow]) -> Result<Self, Error> {
        let text = |row: &_, column| -> Result<String, Error> {
            let text = TextRow::text(row, column);
            let text = text.map_err(|error| unclear().caused_by(error))?;
            Ok(text.unwrap_or_default().to_owned())
        };
        let variables = rows.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?)));
        Ok(Self(variables.collect::<Result<_, Error>>()?))
    }

    pub(super) fn max_allowed_packet(&self) -> Result<usize, Error> {
        let number = self.get("max_allowed_packet").parse();
        number.map_err(|_| unclear())
    }

    /// The script that interrupts the session's INSERT from another session. It fails if no session waits for a row lock, as
    /// a slow server is no reason, and if the session executes another statement: a COMMIT must not be interrupted, since it may
    /// have committed already. Behind a proxy the other session may be at another node, where the number is another session's.
    /// There it fails too: on MySQL no session has the number 0, and on MariaDB no query has the number -1, while a
    /// session that is just connecting may have the query number 0.
    ///
    /// MariaDB interrupts the session only if it still executes that statement, MySQL whatever it executes a moment after the
    /// look. On both an INSERT that is about to end may succeed, and the statement after it fail.
    pub(super) fn interruption(&self) -> Result<Script, Error> {
        let number = |name| self.get(name).parse::<u64>().map_err(|_| unclear());
        let (id, port, server) = (
            number("pseudo_thread_id")?,
            number("port")?,
            number("server_id")?,
        );
        let host = Text(self.get("hostname"));
        let mut script = Script::of(format_args!(
            "SET @lockhouse=(SELECT /*!50709 id */ /*M! query_id */ FROM information_schema.processlist \
             WHERE id={id} AND info LIKE 'INSERT %' \
             AND @@hostname={host} AND @@port={port} AND @@server_id={server} AND EXISTS \
             (SELECT 1 FROM /*!50709 performance_schema */ /*M! information_schema */ .global_status \
             WHERE variable_name='Innodb_row_lock_current_waits' AND variable_value>0))"
        ));
        script.add("KILL QUERY /*M! ID */ IFNULL(@lockhouse,/*!50709 0 */ /*M! -1 */)");
        Ok(script)
    }

    /// How a crash of its machine may lose answered commits, if it can.
    pub(super) fn risk(&self) -> Option<String> {
        let flushes = self.get("innodb_flush_log_at_trx_commit");
        let syncs = self.get("sync_binlog");
        let mut set = Vec::new();
        if !matches!(flushes, "" | "1") {
            set.push(format!("innodb_flush_log_at_trx_commit={flushes}"));
        }
        if self.is_on("log_bin") && !matches!(syncs, "" | "1") {
            set.push(format!("sync_binlog={syncs}"));
        }
        if set.is_empty() {
            return None;
        }
        let set = set.join(" and ");
        Some(format!(
            "the server is set to {set}: a crash of its machine may lose grants and releases that it \
             has answered; set 1"
        ))
    }

    /// Further settings of its sessions. The last statement returns its state in the group.
    pub(super) fn settings(&self) -> Option<String> {
        if self.is_in_a_group() {
            let consistency = if self.has_a_primary() {
                PRIMARY
            } else {
                SEVERAL
            };
            return Some(format!("{consistency}{MEMBER}"));
        }
        self.is_galera().then(|| GALERA.to_owned())
    }

    /// Checks that the server may be used.
    pub(super) fn check(&self, member: Member<'_>) -> Result<(), Error> {
        if !self.is_in_a_group() {
            return Ok(());
        }
        let problem = match member {
            Member::Is("ONLINE") | Member::Unknown => {
                if !self.has_a_primary() || !self.is_on("read_only") {
                    return Ok(());
                }
                "the server is not the primary of its group; connect to that"
            }
            _ => "the server is not online in its group; START GROUP_REPLICATION makes it so",
        };
        Err(Error::new(Kind::Unavailable, problem))
    }

    fn is_in_a_group(&self) -> bool {
        !self.get("group_replication_group_name").is_empty()
    }

    fn has_a_primary(&self) -> bool {
        self.is_on("group_replication_single_primary_mode")
    }

    fn is_galera(&self) -> bool {
        let provider = self.get("wsrep_provider");
        self.is_on("wsrep_on") && !provider.is_empty() && provider != "none"
    }

    fn is_on(&self, variable: &str) -> bool {
        self.get(variable) == "ON"
    }

    fn get(&self, variable: &str) -> &str {
        self.0.get(variable).map_or("", String::as_str)
    }
}

fn unclear() -> Error {
    Error::new(Kind::Unavailable, "setting the session")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(variables: &[(&str, &str)]) -> Node {
        let variables = variables.iter();
        Node(
            variables
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn a_server_that_may_lose_commits_is_reported_by_its_settings() {
        let flushes = ("innodb_flush_log_at_trx_commit", "1");
        for (variables, told) in [
            (vec![flushes, ("sync_binlog", "1"), ("log_bin", "ON")], ""),
            (vec![flushes, ("sync_binlog", "0"), ("log_bin", "OFF")], ""),
            (vec![], ""),
            (
                vec![("innodb_flush_log_at_trx_commit", "2")],
                "innodb_flush_log_at_trx_commit=2",
            ),
            (
                vec![flushes, ("sync_binlog", "100"), ("log_bin", "ON")],
                "sync_binlog=100",
            ),
        ] {
            let risk = server(&variables).risk();
            assert_eq!(risk.is_some(), !told.is_empty(), "{variables:?}");
            assert!(risk.unwrap_or_default().contains(told), "{variables:?}");
        }
    }

    const GROUP: (&str, &str) = ("group_replication_group_name", "3f4c6f0e");
    const HAS_A_PRIMARY: (&str, &str) = ("group_replication_single_primary_mode", "ON");

    /// A user that may not read the state is served all the same: it needs no further rights than
    /// on a single server.
    #[test]
    fn a_user_that_may_not_ask_is_served() {
        assert!(server(&[GROUP]).check(Member::Unknown).is_ok());
        let secondary = server(&[GROUP, HAS_A_PRIMARY, ("read_only", "ON")]);
        assert!(secondary.check(Member::Unknown).is_err());
    }

    #[test]
    fn a_server_by_itself_is_left_as_it_is() {
        for alone in [
            server(&[("read_only", "ON")]),
            server(&[("group_replication_group_name", ""), HAS_A_PRIMARY]),
            server(&[("wsrep_on", "ON"), ("wsrep_provider", "none")]),
            server(&[("wsrep_on", "OFF"), ("wsrep_provider", "libgalera_smm.so")]),
        ] {
            assert_eq!(alone.settings(), None);
            assert!(alone.check(Member::Unknown).is_ok());
        }
    }

    /// P9: all nodes know what one node has answered.
    #[test]
    fn sessions_on_a_cluster_read_what_other_nodes_have_answered() {
        let several = server(&[GROUP, ("group_replication_single_primary_mode", "OFF")]);
        assert!(several.settings().unwrap().contains("='BEFORE'"));
        let primary = server(&[GROUP, HAS_A_PRIMARY]);
        let settings = primary.settings().unwrap();
        assert!(settings.contains("='BEFORE_ON_PRIMARY_FAILOVER'"));
        let galera = server(&[("wsrep_on", "ON"), ("wsrep_provider", "libgalera_smm.so")]);
        assert!(galera.settings().unwrap().contains("wsrep_sync_wait"));
    }

    /// P1: a node that is cut off would grant permits that other nodes grant too.
    #[test]
    fn only_a_member_that_takes_writes_is_spoken_to() {
        let several = server(&[GROUP]);
        assert!(several.check(Member::Is("ONLINE")).is_ok());
        let others = ["OFFLINE", "RECOVERING", "ERROR"].map(Member::Is);
        for member in others.into_iter().chain([Member::IsNone]) {
            let refused = several.check(member).unwrap_err();
            assert_eq!(refused.kind(), Kind::Unavailable);
        }
        let primary = server(&[GROUP, HAS_A_PRIMARY, ("read_only", "OFF")]);
        assert!(primary.check(Member::Is("ONLINE")).is_ok());
        let secondary = server(&[GROUP, HAS_A_PRIMARY, ("read_only", "ON")]);
        assert!(secondary.check(Member::Is("ONLINE")).is_err());
    }
}
