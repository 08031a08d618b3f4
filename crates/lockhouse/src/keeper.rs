//! The part of a session that its requests and permits share.

use std::future::pending;
use std::sync::Arc;

use lockhouse_core::{Owner, Refusal};

use crate::Error;
use crate::holding::Holding;

/// The owner of a session, and its hold.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    pub(crate) owner: Owner,
    pub(crate) holding: Arc<Holding>,
}

impl Keeper {
    /// Resolves when the session of a request is lost, and with it any grant. Without a session it
    /// never resolves.
    pub(crate) async fn session_ends(keeper: Option<&Self>) -> Error {
        let Some(keeper) = keeper else {
            return pending().await;
        };
        keeper.holding.lost().await;
        Refusal::SessionEnded(keeper.owner.clone()).into()
    }
}
