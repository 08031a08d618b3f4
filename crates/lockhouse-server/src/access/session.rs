//! The sessions of browsers. Each gets a cookie that stands for its token at this server.
//!
//! The cookie is not the token, so a program that sees the cookie does not learn the token.
//! Sessions are in this process's memory: behind a load balancer, keep a browser on one server, or
//! log in at each.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use lockhouse::Secret;
use lockhouse::access::Digest;
use lru::LruCache;

/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 60 * 60);

/// How many sessions are kept: those that were used last.
const MOST: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not 0");

/// How many of them may be of one token.
const MOST_OF_ONE: usize = 32;

const COOKIE_NAME: &str = "lockhouse_session";

/// The sessions of this server.
#[derive(Debug)]
pub(crate) struct Sessions(Mutex<LruCache<Digest, Session>>);

#[derive(Clone, Copy, Debug)]
struct Session {
    /// The digest of the token.
    token: Digest,
    begun: Instant,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }

    /// Begins a session of the token with this digest. Returns the cookie's value.
    ///
    /// If the token has its share of sessions, the one that was used least recently ends.
    pub(super) fn begin(&self, token: Digest) -> Result<Secret, lockhouse::Error> {
        let cookie = Secret::random()?;
        let begun = Instant::now();
        let mut sessions = self.lock();
        // The one that was used last comes first.
        let mut own = sessions.iter().filter(|(_, own)| own.token == token);
        let least_used = own.nth(MOST_OF_ONE - 1).map(|(key, _)| *key);
        least_used.map(|key| sessions.pop(&key));
        sessions.put(cookie.digest(), Session { token, begun });
        Ok(cookie)
    }

    /// The digest of the token whose session the cookie among `headers` names.
    pub(crate) fn token_of(&self, headers: &HeaderMap) -> Option<Digest> {
        let key = cookie(headers)?.digest();
        let mut sessions = self.lock();
        let session = sessions.get(&key).copied()?;
        if session.begun.elapsed() >= LASTS {
            sessions.pop(&key);
            return None;
        }
        Some(session.token)
    }

    pub(super) fn end(&self, headers: &HeaderMap) {
        if let Some(cookie) = cookie(headers) {
            self.lock().pop(&cookie.digest());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<Digest, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session's cookie among `headers`.
fn cookie(headers: &HeaderMap) -> Option<Secret> {
    let values = headers.get_all(COOKIE).iter();
    let mut cookies = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    cookies.find_map(|cookie| {
        let (name, value) = cookie.trim().split_once('=')?;
        (name == COOKIE_NAME).then(|| value.parse().ok())?
    })
}

/// The header that sets the cookie. No script can read it, and no page of another site can send it.
pub(crate) fn set_cookie(value: &str, is_secure: bool, lasts: Duration) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let seconds = lasts.as_secs();
    let text = format!(
        "{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    );
    let mut header = HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    header.set_sensitive(true);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, cookie.parse().unwrap())])
    }

    #[test]
    fn a_session_goes_on_until_it_is_ended_and_its_cookie_is_not_the_token() {
        let sessions = Sessions::new();
        let token = Secret::random().unwrap();
        let cookie = sessions.begin(token.digest()).unwrap();
        assert_ne!(cookie.reveal(), token.reveal());
        let sent = headers(&format!("a=b; {COOKIE_NAME}={}; c=d", cookie.reveal()));
        assert_eq!(sessions.token_of(&sent), Some(token.digest()));
        sessions.end(&sent);
        assert_eq!(sessions.token_of(&sent), None);
        assert_eq!(sessions.token_of(&headers(COOKIE_NAME)), None);
    }

    #[test]
    fn few_sessions_are_kept() {
        let sessions = Sessions::new();
        for i in 0..MOST.get() + 10 {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&i.to_le_bytes());
            sessions.begin(Digest::new(token)).unwrap();
        }
        assert_eq!(sessions.lock().len(), MOST.get());
    }

    #[test]
    fn many_logins_of_one_token_end_only_its_own_sessions() {
        let sessions = Sessions::new();
        let [other, token] = [0, 1].map(|byte| Digest::new([byte; 32]));
        let named = |cookie: Secret| headers(&format!("{COOKIE_NAME}={}", cookie.reveal()));
        let of_other = named(sessions.begin(other).unwrap());
        let [used, unused] = [(), ()].map(|()| named(sessions.begin(token).unwrap()));
        for _ in 1..MOST_OF_ONE {
            assert_eq!(sessions.token_of(&used), Some(token));
            sessions.begin(token).unwrap();
        }
        assert_eq!(sessions.lock().len(), MOST_OF_ONE + 1);
        assert_eq!(sessions.token_of(&used), Some(token));
        assert_eq!(sessions.token_of(&unused), None);
        assert_eq!(sessions.token_of(&of_other), Some(other));
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_the_cookie() {
        let cookie = set_cookie("x", true, LASTS);
        let text = cookie.to_str().unwrap();
        let expected =
            "lockhouse_session=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure";
        assert_eq!(text, expected);
        assert_eq!(format!("{cookie:?}"), "Sensitive");
    }
}
