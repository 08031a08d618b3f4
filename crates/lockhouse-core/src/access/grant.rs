//! Grants `VERB:PREFIX`: the rights of a token, and the names that they cover.

use std::fmt;
use std::str::FromStr;

use crate::{Invalid, NamePrefix, SemaphoreName};

/// A right on the semaphores that a grant covers.
///
/// No verb implies another, but `admin` implies all.
///
/// ```
/// use lockhouse_core::Verb;
///
/// assert!(Verb::ALL.into_iter().all(|verb| Verb::Admin.implies(verb)));
/// assert!(!Verb::Define.implies(Verb::Read));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read a semaphore, its holders, its waiters and its history.
    Read,
    /// Acquire permits; renew and release the token's own requests; send heartbeats and goodbyes
    /// for its own owners.
    Hold,
    /// Create, resize and delete semaphores and templates.
    Define,
    /// Renew, release and force-release requests of other tokens.
    Force,
    /// All of these rights; on `*` also manage tokens.
    Admin,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Verb; 5] = [
        Verb::Read,
        Verb::Hold,
        Verb::Define,
        Verb::Force,
        Verb::Admin,
    ];

    /// The verb as a word, such as `read`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Hold => "hold",
            Verb::Define => "define",
            Verb::Force => "force",
            Verb::Admin => "admin",
        }
    }

    /// Whether a grant of this verb includes the right `other`.
    pub fn implies(self, other: Verb) -> bool {
        self == other || self == Verb::Admin
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A verb and the names that it covers, such as `hold:customer/*`.
///
/// A text that ends with `*` covers all names that begin with the text before the `*`. Any other
/// text covers that one name.
///
/// ```
/// use lockhouse_core::{Covered, TokenGrant, Verb};
///
/// let grant: TokenGrant = "hold:customer/*".parse()?;
/// assert_eq!((grant.verb(), grant.names()), (Verb::Hold, Covered::All("customer/")));
/// assert!(grant.allows(Verb::Hold, "customer/17"));
/// assert!(!grant.allows(Verb::Hold, "network"));
/// assert!(!grant.allows(Verb::Define, "customer/17"));
/// assert!(grant.allows_all(Verb::Hold, "customer/eu/"));
/// # Ok::<(), lockhouse_core::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenGrant {
    verb: Verb,
    names: CoveredNames,
}

/// The names that a grant covers; [`TokenGrant`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covered<'a> {
    /// This name.
    One(&'a str),
    /// All names that begin with this prefix.
    All(&'a str),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CoveredNames {
    One(SemaphoreName),
    Prefix(NamePrefix),
}

impl TokenGrant {
    /// The verb of the grant.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The names that the grant covers.
    pub fn names(&self) -> Covered<'_> {
        match &self.names {
            CoveredNames::One(name) => Covered::One(name.as_str()),
            CoveredNames::Prefix(prefix) => Covered::All(prefix.as_str()),
        }
    }

    /// Whether the grant allows `verb` on the semaphore `name`.
    pub fn allows(&self, verb: Verb, name: &str) -> bool {
        self.verb.implies(verb)
            && match &self.names {
                CoveredNames::One(one) => one.as_str() == name,
                CoveredNames::Prefix(prefix) => name.starts_with(prefix.as_str()),
            }
    }

    /// Whether the grant allows `verb` on every name that begins with `prefix`.
    pub fn allows_all(&self, verb: Verb, prefix: &str) -> bool {
        let CoveredNames::Prefix(own) = &self.names else {
            return false;
        };
        self.verb.implies(verb) && prefix.starts_with(own.as_str())
    }
}

impl FromStr for TokenGrant {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let takes = "takes VERB:PREFIX, such as hold:customer/* or admin:*";
        let (verb, names) = text.split_once(':').ok_or_else(|| {
            let problem = format!("is {text:?}, it {takes}");
            Invalid::new("grants", problem)
        })?;
        let known = Verb::ALL.into_iter().find(|known| known.as_str() == verb);
        let verb = known.ok_or_else(|| {
            let verbs = Verb::ALL.map(Verb::as_str).join(", ");
            Invalid::new(
                "grants",
                format!("has the verb {verb:?}; the verbs are {verbs}"),
            )
        })?;
        let covered = match names.strip_suffix('*') {
            Some(prefix) => NamePrefix::parse(prefix).map(CoveredNames::Prefix),
            None => SemaphoreName::parse(names).map(CoveredNames::One),
        };
        let names = covered.map_err(|invalid| {
            let problem = format!("has {names:?}, which {}; {takes}", invalid.problem());
            Invalid::new("grants", problem)
        })?;
        Ok(Self { verb, names })
    }
}

impl fmt::Display for TokenGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            CoveredNames::One(name) => write!(f, "{}:{name}", self.verb),
            CoveredNames::Prefix(prefix) => write!(f, "{}:{prefix}*", self.verb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> TokenGrant {
        text.parse().unwrap()
    }

    #[test]
    fn a_grant_is_written_as_it_is_read() {
        for text in [
            "read:*",
            "hold:customer/*",
            "define:backup-slots",
            "force:a:b*",
            "admin:*",
        ] {
            assert_eq!(grant(text).to_string(), text);
        }
    }

    #[test]
    fn a_grant_covers_one_name_or_all_with_a_prefix() {
        assert!(grant("read:a*").allows(Verb::Read, "a"));
        assert!(grant("read:a*").allows(Verb::Read, "ab"));
        assert!(!grant("read:a*").allows(Verb::Read, "b"));
        assert!(grant("read:a").allows(Verb::Read, "a"));
        assert!(!grant("read:a").allows(Verb::Read, "ab"));
        assert!(grant("read:*").allows(Verb::Read, "anything"));
        assert!(grant("define:c/*").allows_all(Verb::Define, "c/eu/"));
        assert!(!grant("define:c/*").allows_all(Verb::Define, "c"));
        assert!(!grant("define:c").allows_all(Verb::Define, "c"));
    }

    #[test]
    fn only_admin_implies_other_verbs() {
        for verb in Verb::ALL {
            for other in Verb::ALL {
                let implies = verb == other || verb == Verb::Admin;
                assert_eq!(verb.implies(other), implies, "{verb} {other}");
            }
        }
    }

    #[test]
    fn a_malformed_grant_names_the_problem() {
        for (text, problem) in [
            (
                "hold",
                "grants is \"hold\", it takes VERB:PREFIX, such as hold:customer/* or admin:*",
            ),
            (
                "own:*",
                "grants has the verb \"own\"; the verbs are read, hold, define, force, admin",
            ),
        ] {
            assert_eq!(text.parse::<TokenGrant>().unwrap_err().to_string(), problem);
        }
        for text in [
            "hold:",
            "hold: a",
            "hold:a\n*",
            "hold:lockhouse:x",
            "Hold:*",
        ] {
            assert!(text.parse::<TokenGrant>().is_err(), "{text}");
        }
    }
}
