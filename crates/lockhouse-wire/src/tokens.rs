//! Access tokens.

use std::fmt;

use lockhouse_core::{Invalid, Timestamp, TokenGrant, TokenName};
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// The rights of the token, such as `hold:customer/*`.
    pub grants: Vec<String>,
    /// When it expires. Without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// The rights of the token.
    pub grants: Vec<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// A token that was just created.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Its secret, which cannot be read again.
    pub secret: String,
}

/// A page of the list of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// The body of `POST /v1/session`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The token's secret.
    pub token: String,
}

/// Without the secret.
impl fmt::Debug for MadeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut made = f.debug_struct("MadeToken");
        made.field("token", &self.token).finish_non_exhaustive()
    }
}

/// Without the secret.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl From<&lockhouse_core::Token> for Token {
    fn from(token: &lockhouse_core::Token) -> Self {
        Self {
            name: token.name.to_string(),
            grants: token.grants.iter().map(TokenGrant::to_string).collect(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
        }
    }
}

impl TryFrom<Token> for lockhouse_core::Token {
    type Error = Invalid;

    fn try_from(token: Token) -> Result<Self, Invalid> {
        let grants = token.grants.iter().map(|grant| grant.parse());
        Ok(Self {
            name: TokenName::parse(&token.name)?,
            grants: grants.collect::<Result<_, _>>()?,
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_has_no_secret() {
        let made = MadeToken {
            token: Token {
                name: "ci".into(),
                grants: vec!["hold:*".into()],
                created_at: Timestamp::UNIX_EPOCH,
                expires_at: None,
                revoked_at: None,
            },
            secret: "lh_s3cr3t".into(),
        };
        let login = Login {
            token: made.secret.clone(),
        };
        for text in [format!("{made:?}"), format!("{login:?}")] {
            assert!(!text.contains("s3cr3t"), "{text}");
        }
        let json = serde_json::to_value(&made).unwrap();
        assert_eq!(
            (&json["name"], &json["secret"]),
            (&"ci".into(), &"lh_s3cr3t".into())
        );
    }
}
