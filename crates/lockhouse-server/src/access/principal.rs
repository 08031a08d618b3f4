//! The caller of a request, and its rights.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lockhouse::access::{Covered, Verb};
use lockhouse::{Code, Invalid, Owner, Request, Token, TokenGrant};

use crate::failure::Failure;

/// An authenticated caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Principal {
    /// `None` if the server asks for no tokens.
    token: Option<Arc<Token>>,
}

impl Principal {
    pub(crate) fn of(token: Arc<Token>) -> Self {
        Self { token: Some(token) }
    }

    pub(crate) fn token(&self) -> Option<&Arc<Token>> {
        self.token.as_ref()
    }

    /// The name of the caller's token.
    pub(crate) fn name(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.name.as_str())
    }

    /// Whether the caller has the right `verb` on the semaphore `name`.
    pub(crate) fn may(&self, verb: Verb, name: &str) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| token.may(verb, name))
    }

    /// Checks that the caller has the right `verb` on the semaphore `name`.
    pub(crate) fn must(&self, verb: Verb, name: &str) -> Result<(), Failure> {
        match self.may(verb, name) {
            true => Ok(()),
            false => Err(self.lacks(&format!("{verb}:{name}"))),
        }
    }

    /// Checks the right `verb` on every name that begins with `prefix`.
    pub(crate) fn must_all(&self, verb: Verb, prefix: &str) -> Result<(), Failure> {
        let token = self.token.as_ref();
        match token.is_none_or(|token| token.may_all(verb, prefix)) {
            true => Ok(()),
            false => Err(self.lacks(&format!("{verb}:{prefix}*"))),
        }
    }

    /// Checks the right `verb` on some name.
    pub(crate) fn must_some(&self, verb: Verb) -> Result<(), Failure> {
        let token = self.token.as_ref();
        match token.is_none_or(|token| token.may_any(verb)) {
            true => Ok(()),
            false => Err(self.lacks(&format!("{verb}:PREFIX on some semaphore"))),
        }
    }

    /// Whether `owner`, or no owner, is one of the caller's own.
    pub(crate) fn has(&self, owner: Option<&Owner>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        owner.and_then(Owner::token) == Some(token.name.as_str())
    }

    /// The caller's own owner called `owner`, or without a name the owner of its unnamed requests.
    pub(crate) fn own(&self, owner: Option<Owner>) -> Result<Option<Owner>, Invalid> {
        match &self.token {
            Some(token) => Owner::of_token(&token.name, owner.as_ref()).map(Some),
            None => Ok(owner),
        }
    }

    /// Checks the right `verb` on each semaphore of `request`.
    pub(crate) fn must_on_each(&self, request: &Request, verb: Verb) -> Result<(), Failure> {
        let mut names = request
            .permits
            .iter()
            .map(|permit| permit.semaphore.as_str());
        match names.all(|name| self.may(verb, name)) {
            true => Ok(()),
            // The error does not name the semaphores of another token's request.
            false => Err(self.lacks(&format!("{verb} on each of its semaphores"))),
        }
    }

    /// The part of `request` that the caller may see: all of it if it is the caller's, or else the permits
    /// on semaphores that it may read. `None` if there are none.
    pub(crate) fn seen(&self, mut request: Request) -> Option<Request> {
        if !self.has(request.owner.as_ref()) {
            let may_read = |name: &str| self.may(Verb::Read, name);
            request
                .permits
                .retain(|permit| may_read(permit.semaphore.as_str()));
        }
        (!request.permits.is_empty()).then_some(request)
    }

    /// The part of `request` that the caller may see, or the error if it may see none.
    pub(crate) fn see(&self, request: Request) -> Result<Request, Failure> {
        let seen = self.seen(request);
        seen.ok_or_else(|| self.lacks("read on one of its semaphores"))
    }

    /// The names among those that begin with `prefix` on which the caller has the right `verb`: in
    /// byte order, without overlaps.
    pub(crate) fn covered(&self, verb: Verb, prefix: &str) -> Vec<Covered<'_>> {
        let Some(token) = &self.token else {
            return vec![Covered::All("")];
        };
        let grants = token.grants.iter();
        let grants = grants.filter(|grant| grant.verb().implies(verb));
        let mut covered: Vec<_> = grants.map(TokenGrant::names).collect();
        // A prefix sorts before the names that begin with it, also before the name of the same
        // text.
        covered.sort_by_key(|covered| match *covered {
            Covered::All(prefix) => (prefix, false),
            Covered::One(name) => (name, true),
        });
        covered.retain(|covered| match *covered {
            Covered::All(own) => own.starts_with(prefix) || prefix.starts_with(own),
            Covered::One(name) => name.starts_with(prefix),
        });
        let mut last: Option<Covered<'_>> = None;
        covered.retain(|covered| {
            let (Covered::All(text) | Covered::One(text)) = *covered;
            let is_in_last = match last {
                Some(Covered::All(last)) => text.starts_with(last),
                Some(Covered::One(last)) => *covered == Covered::One(last),
                None => false,
            };
            if !is_in_last {
                last = Some(*covered);
            }
            !is_in_last
        });
        covered
    }

    fn lacks(&self, grant: &str) -> Failure {
        let name = self.name().unwrap_or_default();
        let detail = format!("token \"{name}\" lacks a grant: {grant}; use a token that has it");
        Failure::new(Code::Forbidden, detail)
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        parts
            .extensions
            .get()
            .cloned()
            .ok_or_else(|| Failure::new(Code::Internal, "the call was not checked for its rights"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse::{Timestamp, TokenName};

    fn principal(grants: &[&str]) -> Principal {
        Principal::of(Arc::new(Token {
            name: TokenName::parse("ci").unwrap(),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
            revoked_at: None,
        }))
    }

    #[test]
    fn covered_names_are_sorted_and_unique() {
        use Covered::{All, One};
        let of = principal(&[
            "read:b*",
            "read:a/1",
            "admin:a/2",
            "read:bb*",
            "read:b",
            "read:a/1",
            "hold:c*",
        ]);
        assert_eq!(
            of.covered(Verb::Read, ""),
            [One("a/1"), One("a/2"), All("b")]
        );
        assert_eq!(of.covered(Verb::Read, "a/2"), [One("a/2")]);
        assert_eq!(of.covered(Verb::Read, "bcd"), [All("b")]);
        assert_eq!(of.covered(Verb::Read, "c"), []);
        assert_eq!(Principal::default().covered(Verb::Read, "x"), [All("")]);
    }
}
