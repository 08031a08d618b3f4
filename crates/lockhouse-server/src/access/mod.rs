//! Authentication and authorization: the one place where calls are authorized.
//!
//! [`check`] runs before the handler of every route. It finds the caller's token, and compares its
//! grants with what the route [`needs`](needs::needs). Some calls can be authorized only by their
//! body or by rows of the store. Their handlers ask the [`Principal`], which the check has added to
//! the request's extensions. A handler without a principal answers with an error.

mod failures;
mod known;
pub(crate) mod login;
mod needs;
mod principal;
mod session;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockhouse::access::{Digest, Verb, owners_in_use};
use lockhouse::{Code, Error, Lockhouse, Owner, Secret, Token};
use tokio::time::sleep;

use crate::body::{self, Limits};
use crate::connection::Caller;
use crate::failure::Failure;
use crate::path;
use crate::peer::Peer;
use crate::shares::{Listing, Shares, Wait};
use crate::tls::CertificateNames;
use failures::Failures;
use known::{Known, List};
pub(crate) use needs::needs;
use needs::{Needs, is_listing};
pub(crate) use principal::Principal;
use session::Sessions;

/// How often the token of a call that waits is looked at again.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// Whether callers need a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// Callers need a token as soon as the store has one, valid or not.
    #[default]
    Auto,
    /// Always.
    Tokens,
    /// Never: every caller that reaches the server may do everything.
    None,
}

/// Authenticates callers.
#[derive(Debug)]
pub(crate) struct Access {
    auth: Auth,
    /// Whether browsers use TLS.
    is_secure: bool,
    known: Known,
    failures: Failures,
    sessions: Sessions,
    shares: Arc<Shares>,
}

impl Access {
    pub(crate) fn new(
        lockhouse: Lockhouse,
        shares: Arc<Shares>,
        auth: Auth,
        is_secure: bool,
    ) -> Self {
        Self {
            auth,
            is_secure,
            known: Known::new(lockhouse),
            failures: Failures::new(),
            sessions: Sessions::new(),
            shares,
        }
    }

    /// A place among the waiting calls of `principal`, for a call that asks for this many `semaphores`. `None` if its token
    /// already has its full share.
    pub(crate) fn may_wait(&self, principal: &Principal, semaphores: usize) -> Option<Wait> {
        self.shares.may_wait(principal.name(), semaphores)
    }

    fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn cookie(&self, value: &str, lasts: Duration) -> HeaderValue {
        session::set_cookie(value, self.is_secure, lasts)
    }

    /// Authenticates the caller of a request.
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        names: Option<&CertificateNames>,
        peer: Peer,
    ) -> Result<Principal, Failure> {
        if self.auth == Auth::None {
            return Ok(Principal::default());
        }
        let list = self.list().await?;
        if self.auth == Auth::Auto && list.is_empty() {
            return Ok(Principal::default());
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = match given.next() {
            // A proxy before the server may have checked the other one.
            Some(_) if given.next().is_some() => {
                let detail = "two Authorization headers; send one";
                return Err(self.unauthenticated(peer, detail));
            }
            Some(credentials) => self.named_by(credentials, peer).await?,
            None => {
                let session = self.sessions.token_of(headers);
                let token = session.and_then(|digest| list.get(&digest));
                let token = token.or_else(|| names.and_then(|names| list.of_certificate(names)));
                token.ok_or_else(|| self.unauthenticated(peer, missing(names)))?
            }
        };
        match token.is_good(self.list().await?.now()) {
            true => Ok(Principal::of(token)),
            false => {
                let name = &token.name;
                let how = match token.revoked_at {
                    Some(_) => "was revoked",
                    None => "has expired",
                };
                let detail = format!("token \"{name}\" {how}; ask an administrator for a new one");
                Err(self.unauthenticated(peer, detail))
            }
        }
    }

    async fn named_by(&self, credentials: &HeaderValue, peer: Peer) -> Result<Arc<Token>, Failure> {
        let text = credentials.to_str().unwrap_or_default();
        let bearer = text
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, secret)) = bearer else {
            let detail = "Authorization is malformed; send it as Bearer TOKEN";
            return Err(self.unauthenticated(peer, detail));
        };
        self.find(secret.trim(), peer).await
    }

    /// The token whose secret is `text`, valid or not.
    async fn find(&self, text: &str, peer: Peer) -> Result<Arc<Token>, Failure> {
        let Ok(secret) = text.parse::<Secret>() else {
            let detail = "the token is malformed; a token is lh_ and 36 characters";
            return Err(self.unauthenticated(peer, detail));
        };
        if let Some(token) = self.list().await?.find(&secret) {
            return Ok(token);
        }
        // The token may have been created a moment ago.
        let refused = self.unauthenticated(peer, UNKNOWN);
        if refused.code() == Code::Overloaded {
            return Err(refused);
        }
        let again = self.known.list_again().await;
        let again = again.map_err(|error| self.unread(error))?;
        again.find(&secret).ok_or(refused)
    }

    /// The digest of a valid token whose secret is `text`.
    async fn login(&self, text: &str, peer: Peer) -> Result<Digest, Failure> {
        let token = self.find(text, peer).await?;
        let secret = text.parse::<Secret>()?;
        match token.is_good(self.list().await?.now()) {
            true => Ok(secret.digest()),
            false => {
                let detail =
                    "the token has expired or was revoked; ask an administrator for a new one";
                Err(self.unauthenticated(peer, detail))
            }
        }
    }

    fn unauthenticated(&self, peer: Peer, detail: impl Into<String>) -> Failure {
        match self.failures.is_too_many(peer.address()) {
            true => {
                let detail =
                    "too many calls without a good token from this address; try again later";
                Failure::new(Code::Overloaded, detail)
            }
            false => Failure::new(Code::Unauthenticated, detail),
        }
    }

    /// The tokens, at most 8 s old.
    async fn list(&self) -> Result<Arc<List>, Failure> {
        let list = self.known.list().await;
        list.map_err(|error| self.unread(error))
    }

    fn unread(&self, error: Error) -> Failure {
        if self.is_open() {
            return error.into();
        }
        Failure::new(error.code(), UNREAD)
    }

    /// Whether strangers may read the errors of the store: every caller may do everything.
    pub(crate) fn is_open(&self) -> bool {
        match self.auth {
            Auth::None => true,
            Auth::Tokens => false,
            Auth::Auto => self.known.latest().is_none_or(|list| list.is_empty()),
        }
    }

    /// Resolves with the reason when `principal` would no longer be let in.
    pub(crate) async fn is_lost(&self, principal: &Principal) -> Failure {
        if self.auth == Auth::None {
            return std::future::pending().await;
        }
        loop {
            sleep(LOOKED_AT_EVERY).await;
            // Without waiting for the store: one that hangs keeps no revoked token alive.
            let Some(list) = self.known.recent() else {
                return Failure::new(Code::StoreUnavailable, UNREAD);
            };
            if let Err(refused) = still_good(principal, &list) {
                return refused;
            }
        }
    }

    /// The owners in use that are called `owner`, of all tokens and of none, in order; and
    /// `principal`'s own.
    pub(crate) async fn owners_called(
        &self,
        lockhouse: &Lockhouse,
        principal: &Principal,
        owner: &Owner,
    ) -> Result<Vec<Owner>, Error> {
        if principal.token().is_none() && self.auth == Auth::None {
            return Ok(vec![owner.clone()]);
        }
        let mut owners = vec![owner.clone()];
        for token in self.known.list().await?.all() {
            // If `owner` is too long together with a token's name, that token has no such owner.
            owners.extend(Owner::of_token(&token.name, Some(owner)).ok());
        }
        let mut owners = match owners.len() {
            1 => owners,
            _ => owners_in_use(lockhouse, &owners).await?,
        };
        owners.extend(principal.own(Some(owner.clone()))?);
        owners.sort();
        owners.dedup();
        Ok(owners)
    }

    /// The owners of [`owners_called`](Access::owners_called) that are not `principal`'s own.
    pub(crate) async fn others(
        &self,
        lockhouse: &Lockhouse,
        principal: &Principal,
        owner: &Owner,
    ) -> Result<Vec<Owner>, Error> {
        let Some(own) = principal.own(Some(owner.clone()))? else {
            return Ok(Vec::new());
        };
        let mut owners = self.owners_called(lockhouse, principal, owner).await?;
        owners.retain(|other| *other != own);
        Ok(owners)
    }
}

/// Whether `principal`, which was let in before, still would be.
fn still_good(principal: &Principal, list: &List) -> Result<(), Failure> {
    let Some(token) = principal.token() else {
        if list.is_empty() {
            return Ok(());
        }
        let detail = "the server asks for a token now; send it as Authorization: Bearer TOKEN";
        return Err(Failure::new(Code::Unauthenticated, detail));
    };
    let still = list.named(token.name.as_str());
    // A newer token of the same name is another token.
    let is_good = still
        .is_some_and(|still| still.created_at == token.created_at && still.is_good(list.now()));
    if is_good {
        return Ok(());
    }
    let name = &token.name;
    let detail =
        format!("token \"{name}\" is not valid any more; ask an administrator for a new one");
    Err(Failure::new(Code::Unauthenticated, detail))
}

const UNKNOWN: &str = "the token is not known; check it, or ask an administrator for a new one";

const UNREAD: &str = "the access tokens could not be read; try again later";

/// The error for a caller without a token or a session.
fn missing(names: Option<&CertificateNames>) -> String {
    let Some(names) = names else {
        return "a token is missing; send it as Authorization: Bearer TOKEN".into();
    };
    let names = names.iter().collect::<Vec<_>>().join(", ");
    format!("no token has a name of the certificate: {names}; create one, or send a token")
}

/// Lets `request` to `route` through if its caller may make it.
pub(crate) async fn check(
    State((access, route)): State<(Arc<Access>, &'static str)>,
    mut request: Request,
    next: Next,
) -> Response {
    // A route that is missing in the table needs all rights.
    let needs = needs(request.method(), route).unwrap_or(Needs::All(Verb::Admin));
    let checked = access.principal(needs, &mut request).await;
    let principal = request.extensions().get::<Principal>().cloned();
    let answer = match checked {
        Ok(caller) => access.admit((route, needs), &caller, request, next).await,
        Err(failure) => Err(failure),
    };
    let mut response = answer.unwrap_or_else(Failure::into_response);
    // For the audit log.
    principal.map(|principal| response.extensions_mut().insert(principal));
    response
}

impl Access {
    /// Answers `request` once its body has come and `principal` is admitted. Both may take seconds, so the token is
    /// looked at again.
    async fn admit(
        &self,
        (route, needs): (&str, Needs),
        principal: &Principal,
        request: Request,
        next: Next,
    ) -> Result<Response, Failure> {
        let listing = match is_listing(request.method(), route) {
            true => Some(self.may_list(principal)?),
            false => None,
        };
        let limits = match needs {
            Needs::Nothing => Limits::OF_STRANGERS,
            _ => Limits::OF_CALLERS,
        };
        let mut request = body::receive(request, limits).await?;
        let admission = self.shares.admit(principal.name()).await?;
        if needs != Needs::Nothing && self.auth != Auth::None {
            still_good(principal, &*self.list().await?)?;
        }
        request.extensions_mut().insert(admission.clone());
        let mut response = next.run(request).await;
        drop(admission);
        // Until the answer is read.
        listing.map(|listing| response.extensions_mut().insert(listing));
        Ok(response)
    }

    fn may_list(&self, principal: &Principal) -> Result<Listing, Failure> {
        self.shares.may_list(principal.name()).ok_or_else(|| {
            let detail = "too many listings of this token are under way; read their answers first";
            Failure::new(Code::Overloaded, detail)
        })
    }

    /// Finds the caller of `request`, and adds it to the request's extensions. Returns the caller if it may make the call.
    async fn principal(&self, needs: Needs, request: &mut Request) -> Result<Principal, Failure> {
        if needs == Needs::Nothing {
            let anybody = Principal::default();
            request.extensions_mut().insert(anybody.clone());
            return Ok(anybody);
        }
        let peer = Peer::of_call(request.extensions());
        let names = request.extensions().get::<CertificateNames>().cloned();
        let names = names.as_ref();
        let principal = self.authenticate(request.headers(), names, peer).await?;
        request.extensions_mut().insert(principal.clone());
        match needs {
            Needs::All(verb) => principal.must_all(verb, "")?,
            Needs::Some(verb) => principal.must_some(verb)?,
            Needs::Named(verb) => {
                let name = path::name(request.uri(), request.extensions())?;
                principal.must(verb, &name)?;
            }
            Needs::Matched(verb) => {
                let pattern = path::name(request.uri(), request.extensions())?;
                principal.must_all(verb, pattern.strip_suffix('*').unwrap_or(&pattern))?;
            }
            // The handler checks these.
            Needs::Nothing | Needs::Token | Needs::EachNamed(_) | Needs::Own(_) => {}
        }
        if let Some(caller) = request.extensions().get::<Caller>() {
            caller.let_in();
        }
        Ok(principal)
    }
}
