//! Tokens, and the grants that they carry.
//!
//! A token is a name, the SHA-256 of a secret, and grants. A [`TokenGrant`] is a verb and the names
//! that it covers: `hold:customer/*`. Servers check tokens. A program that opens the database
//! itself needs no token.
//!
//! Requests and owners belong to the token that made them: their [`Owner`](crate::Owner) includes
//! the token's name.

mod grant;
mod token;

pub use grant::{Covered, TokenGrant, Verb};
pub use token::{Digest, MAX_TOKEN_GRANTS, MAX_TOKEN_NAME_BYTES, Token, TokenName};
