//! The driver for MySQL and MariaDB servers.

use lockhouse_core::store::{Error, Kind};
use sqlx::Executor as _;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySql, MySqlConnection, MySqlRow};

use super::cluster::{Member, Node};
use super::error;
use crate::sql::{Driver, Pieces, Script, rows};

/// A MySQL or MariaDB server.
#[derive(Debug)]
pub struct MySqlServer;

/// The settings of every session, in one round trip.
///
/// The comments contain SQL that only one of the two executes. It keeps an IN of very many values a
/// range scan, which locks exactly these rows in their order. Otherwise MySQL would give the range
/// up for lack of memory, and MariaDB could turn it into a subquery.
///
/// A client that freezes in a transaction, or is cut off unnoticed, loses the transaction and its
/// locks within seconds. MariaDB has a setting for that. MySQL ends every silent session, in a
/// transaction or not, so no session is kept idle for that long.
///
/// The settings from completion_type on undo global ones that would change a result or refuse a statement:
/// `docs/operations/databases.md` lists each with its reason. Numbers are written out, since DEFAULT is the
/// global value.
const SESSION: &str = "SET NAMES utf8mb4, autocommit=1, time_zone='+00:00', \
    innodb_lock_wait_timeout=1, lock_wait_timeout=5, net_read_timeout=5, unique_checks=1, \
    sql_mode='STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
    NO_ENGINE_SUBSTITUTION' \
    /*!50709 , range_optimizer_max_mem_size=0, wait_timeout=6 */ \
    /*M! , in_predicate_conversion_threshold=0, optimizer_max_sel_arg_weight=0, \
    idle_transaction_timeout=5 */, \
    completion_type=0, sql_select_limit=18446744073709551615, \
    max_join_size=18446744073709551615, sql_big_selects=1, sql_safe_updates=0, sql_auto_is_null=0, \
    max_sort_length=1024, timestamp=DEFAULT \
    /*!50709 , max_execution_time=0, transaction_isolation='READ-COMMITTED' */ \
    /*M! , max_statement_time=0, sql_if_exists=0, tx_isolation='READ-COMMITTED' */;\
    SHOW VARIABLES WHERE Variable_name IN ('max_allowed_packet','pseudo_thread_id',\
    'hostname','port','server_id','group_replication_group_name','group_replication_single_primary_mode','read_only',\
    'wsrep_on','wsrep_provider','innodb_flush_log_at_trx_commit','sync_binlog','log_bin')";

impl Driver for MySqlServer {
    type Database = MySql;
    const SESSION: &'static str = SESSION;
    const MAY_BE_POOLED: bool = false;
    const LONGEST_SCRIPT_IS: &'static str = "max_allowed_packet";

    fn longest_script(session: &[MySqlRow]) -> Result<usize, Error> {
        Ok(Node::of(session)?.max_allowed_packet()? - 1)
    }

    fn risk(session: &[MySqlRow]) -> Result<Option<String>, Error> {
        Ok(Node::of(session)?.risk())
    }

    fn settings(session: &[MySqlRow]) -> Result<Option<String>, Error> {
        Ok(Node::of(session)?.settings())
    }

    fn interrupt(session: &[MySqlRow]) -> Result<Option<Script>, Error> {
        Ok(Some(Node::of(session)?.interruption()?))
    }

    fn is_interrupted(error: &dyn DatabaseError) -> bool {
        error::number(error) == error::code::QUERY_INTERRUPTED
    }

    fn check(session: &[MySqlRow], settled: Option<&[MySqlRow]>) -> Result<(), Error> {
        let member = match settled {
            Some([row]) => Member::Is(rows::text(row)?.unwrap_or_default()),
            Some(_) => Member::IsNone,
            None => Member::Unknown,
        };
        Node::of(session)?.check(member)
    }

    fn send<'c>(connection: &'c mut MySqlConnection, sql: &'c str) -> Pieces<'c, Self> {
        connection.fetch_many(sqlx::raw_sql(sql))
    }

    fn kind(error: &dyn DatabaseError) -> Kind {
        error::kind(error::number(error))
    }

    fn is_rolled_back(error: &dyn DatabaseError) -> bool {
        error::is_rolled_back(error::number(error))
    }

    fn advice(error: &dyn DatabaseError) -> Option<&'static str> {
        error::advice(error::number(error))
    }
}
