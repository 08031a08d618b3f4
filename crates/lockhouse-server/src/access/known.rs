//! A cache of all tokens of the store.
//!
//! All tokens are cached, so a call with a valid or a wrong token costs no call to the store. While
//! calls come, the cache is read again, at most every 2 s. It is valid for 8 s. So all servers
//! refuse a token within 10 s after it was revoked on any server or in the database, even if the
//! store does not answer.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use lockhouse::access::{Digest, known_tokens};
use lockhouse::store::{self, Kind};
use lockhouse::{Error, Lockhouse, Secret, Timestamp, Token};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::tls::CertificateNames;

/// The shortest time between two reads.
const FRESH: Duration = Duration::from_secs(2);

/// How long the cache is valid.
const BELIEVED: Duration = Duration::from_secs(8);

/// The shortest time before a read for an unknown token, which may be new.
const AGAIN: Duration = Duration::from_millis(250);

/// The cache of tokens.
#[derive(Clone, Debug)]
pub(crate) struct Known(Arc<Cache>);

#[derive(Debug)]
struct Cache {
    lockhouse: Lockhouse,
    list: RwLock<Option<Arc<List>>>,
    /// Locked during a read; the time of the last failed one.
    reading: Mutex<Option<Instant>>,
}

/// The tokens as they were at one moment.
#[derive(Debug)]
pub(crate) struct List {
    tokens: HashMap<Digest, Arc<Token>>,
    by_name: HashMap<String, Arc<Token>>,
    /// The time just before the read.
    asked_at: Instant,
    /// The store's clock at the read, or a little later.
    now: Timestamp,
}

impl Known {
    pub(crate) fn new(lockhouse: Lockhouse) -> Self {
        Self(Arc::new(Cache {
            lockhouse,
            list: RwLock::default(),
            reading: Mutex::default(),
        }))
    }

    /// The tokens, at most 8 s old.
    ///
    /// # Errors
    /// [`Error::Store`] if the store has not answered for that long.
    pub(crate) async fn list(&self) -> Result<Arc<List>, Error> {
        match self.recent() {
            Some(list) => Ok(list),
            None => self.read(BELIEVED).await,
        }
    }

    /// The [list](Self::list) without waiting for the store. `None` if the store has not answered for 8 s. If the list is
    /// older than 2 s, a read begins in the background.
    pub(crate) fn recent(&self) -> Option<Arc<List>> {
        let list = self.believed()?;
        let age = list.asked_at.elapsed();
        if age >= FRESH && self.0.reading.try_lock().is_ok() {
            let known = self.clone();
            tokio::spawn(async move {
                // It says in the log why it failed.
                let _ = known.read(FRESH).await;
            });
        }
        Some(list)
    }

    /// The tokens, read again for a token that was not found.
    pub(crate) async fn list_again(&self) -> Result<Arc<List>, Error> {
        let called_at = Instant::now();
        let asked_at = self.believed().map(|list| list.asked_at);
        if let Some(asked_at) = asked_at {
            // Other callers may send unknown tokens too: all of them together get one read in this time.
            tokio::time::sleep_until(asked_at + AGAIN).await;
        }
        self.read(called_at.elapsed()).await
    }

    /// The tokens as they were last read, however long ago.
    pub(crate) fn latest(&self) -> Option<Arc<List>> {
        let list = self.0.list.read().unwrap_or_else(PoisonError::into_inner);
        list.clone()
    }

    fn believed(&self) -> Option<Arc<List>> {
        self.latest()
            .filter(|list| list.asked_at.elapsed() < BELIEVED)
    }

    /// Reads the tokens, unless they were read within `age`. One caller reads at a time.
    async fn read(&self, age: Duration) -> Result<Arc<List>, Error> {
        let called_at = Instant::now();
        let mut failed_at = self.0.reading.lock().await;
        if let Some(list) = self.believed().filter(|list| list.asked_at.elapsed() < age) {
            return Ok(list);
        }
        if failed_at.is_some_and(|failed_at| failed_at > called_at) {
            // The read failed while this call waited for it. Another try would double its wait.
            let what = "the access tokens could not be read; try again later";
            return Err(store::Error::new(Kind::Unavailable, what).into());
        }
        let asked_at = Instant::now();
        let read = known_tokens(&self.0.lockhouse).await;
        let read = read.inspect_err(|error| {
            tracing::warn!(%error, "access tokens could not be read");
            *failed_at = Some(Instant::now());
        })?;
        let tokens = read.tokens.into_iter();
        let tokens = tokens.map(|(digest, token)| (digest, Arc::new(token)));
        let tokens: HashMap<_, _> = tokens.collect();
        let by_name = tokens.values();
        let by_name = by_name.map(|token| (token.name.to_string(), Arc::clone(token)));
        let list = Arc::new(List {
            by_name: by_name.collect(),
            tokens,
            asked_at,
            now: read.now,
        });
        let mut known = self.0.list.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(&list));
        Ok(list)
    }
}

impl List {
    /// Whether no token exists, not even an expired or revoked one.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The token with this secret, valid or not.
    pub(crate) fn find(&self, secret: &Secret) -> Option<Arc<Token>> {
        let (digest, token) = self.tokens.get_key_value(&secret.digest())?;
        secret.is_of(digest).then(|| Arc::clone(token))
    }

    /// The token with this digest, valid or not.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<Token>> {
        self.tokens.get(digest).cloned()
    }

    /// A token whose name is one of a certificate's `names`, a valid one if there is one.
    pub(crate) fn of_certificate(&self, names: &CertificateNames) -> Option<Arc<Token>> {
        let mut named: Vec<_> = names.iter().filter_map(|name| self.named(name)).collect();
        named.sort_by_key(|token| !token.is_good(self.now()));
        named.first().map(|token| Arc::clone(token))
    }

    /// The token of this name, valid or not.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Token>> {
        self.by_name.get(name)
    }

    /// All tokens, valid or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.tokens.values()
    }

    /// The store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.now.checked_add(self.asked_at.elapsed());
        now.unwrap_or(Timestamp::MAX)
    }
}
