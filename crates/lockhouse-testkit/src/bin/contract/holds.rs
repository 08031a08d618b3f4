//! The permits that this program holds, by the names that the scenario gives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use lockhouse::{Code, Lost, Permit, Session};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::told::{Failure, Told, say};

#[derive(Default)]
pub(crate) struct Holds {
    held: Mutex<HashMap<String, Held>>,
    leaves: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

/// A permit or session that is held, and the task that reports its loss.
struct Held {
    what: What,
    watch: JoinHandle<()>,
}

#[derive(Clone)]
pub(crate) enum What {
    Permit(Arc<Permit>),
    Session(Arc<Session>),
}

impl What {
    async fn lost(&self) -> Lost {
        match self {
            What::Permit(permit) => permit.lost().await,
            What::Session(session) => session.lost().await,
        }
    }
}

impl Holds {
    pub(crate) fn hold(&self, name: &str, what: What) {
        let (watched, told_as) = (what.clone(), name.to_owned());
        let watch = tokio::spawn(async move {
            let reason = reason(watched.lost().await);
            say(&json!({ "event": "lost", "permit": told_as, "reason": reason }));
        });
        let held = Held { what, watch };
        self.held.lock().unwrap().insert(name.to_owned(), held);
    }

    pub(crate) fn session(&self, name: &str) -> Arc<Session> {
        match &self.held.lock().unwrap()[name].what {
            What::Session(session) => Arc::clone(session),
            What::Permit(_) => panic!("{name} is no session"),
        }
    }

    pub(crate) async fn is_lost(&self, name: &str) -> Value {
        let what = self.held.lock().unwrap()[name].what.clone();
        match what.lost().now_or_never() {
            Some(lost) => json!({ "lost": true, "reason": reason(lost) }),
            None => json!({ "lost": false }),
        }
    }

    pub(crate) async fn release(&self, name: &str) -> Told {
        let Some(What::Permit(permit)) = self.take(name).await else {
            return Ok(json!({ "released": false }));
        };
        let permit = Arc::into_inner(permit).expect("nothing else has it");
        match permit.release().await {
            Ok(released) => Ok(json!({ "released": released.now })),
            Err(error) if error.code() == Code::UnknownRequest => Ok(json!({ "released": false })),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn goodbye(&self, name: &str) -> Told {
        let Some(What::Session(session)) = self.take(name).await else {
            return Ok(json!({ "released": 0 }));
        };
        let session = Arc::into_inner(session).expect("nothing else has it");
        Ok(json!({ "released": session.goodbye().await? }))
    }

    /// Waits for `leave`, as a block does for its end.
    pub(crate) async fn stay(&self, name: &str) {
        let (leave, left) = oneshot::channel();
        self.leaves.lock().unwrap().insert(name.to_owned(), leave);
        say(&json!({ "event": "entered", "permit": name }));
        // The sender is dropped when the program ends.
        let _ = left.await;
    }

    pub(crate) fn leave(&self, name: &str) -> Told {
        let leave = self.leaves.lock().unwrap().remove(name);
        let leave = leave.ok_or_else(|| Failure::new("internal", "nobody is in that block"))?;
        // Its block may have been cancelled.
        let _ = leave.send(());
        Ok(json!({}))
    }

    pub(crate) async fn drop_all(&self) {
        let names: Vec<String> = self.held.lock().unwrap().keys().cloned().collect();
        for name in names {
            drop(self.take(&name).await);
        }
    }

    async fn take(&self, name: &str) -> Option<What> {
        let held = self.held.lock().unwrap().remove(name)?;
        held.watch.abort();
        let _ = held.watch.await;
        Some(held.what)
    }
}

fn reason(lost: Lost) -> String {
    match lost {
        Lost::Ended(reason) => reason.to_string(),
        Lost::Unknown => "unknown".to_owned(),
        Lost::NotRenewed => "not_renewed".to_owned(),
        other => other.to_string(),
    }
}
