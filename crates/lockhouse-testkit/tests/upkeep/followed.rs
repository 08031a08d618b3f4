//! Semaphores follow their templates: on a store that has trouble with one template, and while a template is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use lockhouse::{Lockhouse, Upkeep};
use lockhouse_core::store::{Error, FullStore, Kind, Layer, Templates as _};
use lockhouse_core::{SemaphoreName, Template};
use lockhouse_stores::Memory;

/// The trouble that a look for a template's semaphores meets.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// After the first look, another caller deletes the template.
    Deleted,
    /// The store rejects each look for the semaphores of this template.
    Rejected(&'static str),
}

#[derive(Debug)]
struct Troubled {
    memory: Arc<Memory>,
    trouble: Trouble,
    looks: AtomicUsize,
}

impl Troubled {
    fn new(memory: &Arc<Memory>, trouble: Trouble) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(memory),
            trouble,
            looks: AtomicUsize::new(0),
        })
    }
}

impl Layer for Troubled {
    fn inner(&self) -> &dyn FullStore {
        &*self.memory
    }

    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let names = self.memory.to_follow(template, limit).await?;
        let is_first = self.looks.fetch_add(1, SeqCst) == 0;
        match self.trouble {
            Trouble::Deleted if is_first => {
                self.memory.delete_template(&template.pattern).await?;
            }
            Trouble::Rejected(pattern) if template.pattern.as_str() == pattern => {
                return Err(Error::new(Kind::Rejected, "a row is malformed"));
            }
            _ => {}
        }
        Ok(names)
    }
}

async fn keyed(lockhouse: &Lockhouse, names: impl Iterator<Item = String>) {
    for name in names {
        let permit = lockhouse.semaphore(&name).try_acquire().await.unwrap();
        permit.release().await.unwrap();
    }
}

/// Otherwise each look would find all its semaphores again, and the number of looks would grow with theirs.
#[tokio::test]
async fn a_template_that_is_deleted_meanwhile_is_no_longer_followed() {
    let memory = Arc::new(Memory::new());
    let before = Lockhouse::with_store(memory.clone());
    before.template("customer/*", 1).await.unwrap();
    keyed(&before, (0..1_000).map(|n| format!("customer/{n}"))).await;
    let troubled = Troubled::new(&memory, Trouble::Deleted);
    let lockhouse = Lockhouse::with_store(troubled.clone());
    lockhouse.template("customer/*", 2).await.unwrap();
    assert_eq!(troubled.looks.load(SeqCst), 1);
    let kept = lockhouse.status("customer/7").await.unwrap().semaphore;
    assert_eq!(kept.capacity.value(), 1);
}

#[tokio::test]
async fn a_template_that_cannot_be_followed_holds_up_no_other() {
    let memory = Arc::new(Memory::new());
    let troubled = Troubled::new(&memory, Trouble::Rejected("a/*"));
    let lockhouse = Lockhouse::with_store(troubled);
    for pattern in ["a/*", "b/*"] {
        let template = lockhouse.template(pattern, 1);
        template.idle(Duration::from_millis(1)).await.unwrap();
    }
    // A second after a change of a template, the process looks at its semaphores once more.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    keyed(&lockhouse, ["a/1", "b/1"].map(str::to_owned).into_iter()).await;
    // The time of the last use is kept to the second.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let told = lockhouse.sweep(&Upkeep::default()).await.unwrap_err();
    assert!(told.to_string().contains("a row is malformed"), "{told}");
    assert!(lockhouse.status("b/1").await.is_err(), "it is idle");
    lockhouse.status("a/1").await.unwrap();
}
