//! Access tokens.

use lockhouse_core::store::{Error, NewToken, Page, TokenList};
use lockhouse_core::{Digest, Owner, Token, TokenName};
use rusqlite::{Connection, params};

use super::error::cannot;
use super::{clock, read, rows};

const LIST: &str = "
    SELECT name, digest, grants, created_at, expires_at, revoked_at FROM lockhouse_token
    WHERE name > ?1 ORDER BY name LIMIT ?2";

const SELECT: &str = "
    SELECT name, digest, grants, created_at, expires_at, revoked_at FROM lockhouse_token
    WHERE name = ?1";

const DELETE_ENDED: &str = "
    DELETE FROM lockhouse_token
    WHERE name = ?1 AND digest <> ?2 AND (revoked_at IS NOT NULL OR expires_at <= ?3)";

const INSERT: &str = "
    INSERT INTO lockhouse_token (name, digest, grants, created_at, expires_at, revoked_at)
    VALUES (?1, ?2, ?3, ?4, ?5, NULL) ON CONFLICT (name) DO NOTHING";

const REVOKE: &str = "
    UPDATE lockhouse_token SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL";

const HAS_SESSION: &str = "SELECT owner FROM lockhouse_owner_session WHERE owner = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LIST, SELECT, DELETE_ENDED, INSERT, REVOKE, HAS_SESSION];

pub(super) fn tokens(connection: &Connection, page: &Page<TokenName>) -> Result<TokenList, Error> {
    let after = page.after.as_ref().map_or("", TokenName::as_str);
    Ok(TokenList {
        now: clock::now()?,
        tokens: read::list(connection, LIST, params![after, page.limit], rows::token)?,
    })
}

pub(super) fn add(connection: &Connection, new: &NewToken) -> Result<Option<Token>, Error> {
    let cannot = cannot("make an access token");
    let token = new.made_at(clock::now()?);
    let now = token.created_at.as_microsecond();
    let (name, digest) = (token.name.as_str(), new.digest.to_string());
    let expires_at = token.expires_at.map(|at| at.as_microsecond());
    let ended = params![name, digest, now];
    let row = params![name, digest, token.grants_text(), now, expires_at];
    for (sql, values) in [(DELETE_ENDED, ended), (INSERT, row)] {
        let mut statement = connection.prepare_cached(sql).map_err(&cannot)?;
        statement.execute(values).map_err(&cannot)?;
    }
    let found = named(connection, &token.name)?;
    Ok(found.and_then(|(digest, found)| (digest == new.digest).then_some(found)))
}

pub(super) fn revoke(connection: &Connection, name: &TokenName) -> Result<Option<Token>, Error> {
    let cannot = cannot("revoke an access token");
    let now = clock::now()?.as_microsecond();
    let mut revoke = connection.prepare_cached(REVOKE).map_err(&cannot)?;
    revoke
        .execute(params![name.as_str(), now])
        .map_err(&cannot)?;
    Ok(named(connection, name)?.map(|(_, token)| token))
}

fn named(connection: &Connection, name: &TokenName) -> Result<Option<(Digest, Token)>, Error> {
    let found = read::list(connection, SELECT, [name.as_str()], rows::token)?;
    Ok(found.into_iter().next())
}

pub(super) fn owners_in_use(
    connection: &Connection,
    owners: &[Owner],
) -> Result<Vec<Owner>, Error> {
    let mut in_use = Vec::new();
    for owner in owners {
        let has_session =
            !read::list(connection, HAS_SESSION, [owner.as_str()], rows::owner)?.is_empty();
        if has_session || !super::due::owned_by(connection, owner, 1)?.is_empty() {
            in_use.push(owner.clone());
        }
    }
    Ok(in_use)
}
