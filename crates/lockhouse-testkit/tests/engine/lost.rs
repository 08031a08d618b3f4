//! Writes whose answers are lost after the commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockhouse::store::{Error, FullStore, Kind, Layer};
use lockhouse::{Lockhouse, Pattern};
use lockhouse_stores::Memory;

/// Loses the answer to the first deletion of a template, and then refuses so many tries.
#[derive(Debug)]
struct Losing {
    memory: Memory,
    refused: u32,
    tries: AtomicU32,
}

impl Layer for Losing {
    fn inner(&self) -> &dyn FullStore {
        &self.memory
    }

    async fn delete_template(&self, pattern: &Pattern) -> Result<bool, Error> {
        let tries = self.tries.fetch_add(1, Ordering::SeqCst);
        if (1..=self.refused).contains(&tries) {
            return Err(Error::new(Kind::Unavailable, "the connection was refused"));
        }
        let deleted = self.inner().delete_template(pattern).await?;
        match tries {
            0 => Err(Error::new(Kind::Unknown, "the answer to a commit was lost")),
            _ => Ok(deleted),
        }
    }
}

async fn losing(refused: u32) -> Lockhouse {
    let lockhouse = Lockhouse::with_store(Arc::new(Losing {
        memory: Memory::new(),
        refused,
        tries: AtomicU32::new(0),
    }));
    lockhouse.template("t/*", 1).await.unwrap();
    lockhouse
}

/// P9
#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_template_is_one_after_a_lost_answer_too() {
    for refused in [0, 2] {
        let lockhouse = losing(refused).await;
        assert!(lockhouse.delete_template("t/*").await.unwrap());
        assert!(!lockhouse.delete_template("t/*").await.unwrap());
    }
}

/// P9
#[tokio::test(start_paused = true)]
async fn a_lost_answer_stays_unknown_if_every_later_try_fails() {
    let lockhouse = losing(100).await;
    let error = lockhouse.delete_template("t/*").await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
}
