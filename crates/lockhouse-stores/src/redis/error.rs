//! Translates the errors of the driver and of the server into [`store::Error`](Error).

use lockhouse_core::store::{Error, Kind};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The kind of an `error`. `lost` is the kind if no answer came, when the command may have been
/// executed or not.
pub(super) fn kind(error: &RedisError, lost: Kind) -> Kind {
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Kind::Configuration,
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain,
        ) => Kind::Unavailable,
        ErrorKind::Server(ServerErrorKind::NoPerm) => Kind::Configuration,
        ErrorKind::Server(_) | ErrorKind::Extension => match error.code().unwrap_or_default() {
            // A script runs as a whole or is refused before it begins.
            "OOM" | "MISCONF" | "BUSY" | "NOREPLICAS" => Kind::Unavailable,
            "NOAUTH" | "WRONGPASS" => Kind::Configuration,
            _ if is_crowded(error) => Kind::Crowded,
            _ => Kind::Rejected,
        },
        _ => lost,
    }
}

/// Whether the connection can be used again. A server that refuses writes may have a successor,
/// which a new connection finds.
pub(super) fn spares_connection(error: &RedisError) -> bool {
    let is_unknown_script = error.kind() == ServerErrorKind::NoScript.into();
    is_unknown_script || kind(error, Kind::Unavailable) == Kind::Rejected
}

/// The store's error for an `error` of the driver; `context` says what failed.
pub(super) fn of(error: RedisError, lost: Kind, context: &str) -> Error {
    let kind = kind(&error, lost);
    let advice = match error.code().unwrap_or_default() {
        "OOM" => ": the server is out of memory; raise its maxmemory",
        "MISCONF" => ": the server cannot write to its disk; see its log",
        "READONLY" => ": the server is a replica, or became one; connect to the primary",
        "LOADING" => ": the server is loading its data; try again later",
        "NOAUTH" | "WRONGPASS" => ": the server wants another user or password; correct the URL",
        _ => "",
    };
    Error::new(kind, format!("{context}{advice}")).caused_by(error)
}

fn is_crowded(error: &RedisError) -> bool {
    error.to_string().contains("max number of clients")
}
