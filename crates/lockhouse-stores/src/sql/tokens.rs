//! Access tokens.

use lockhouse_core::store::{Error, NewToken, Page, TokenList};
use lockhouse_core::{Digest, Owner, Token, TokenName};

use super::Inner;
use super::dialect::Dialect;
use super::pool::Lease;
use super::read::{READ, select};
use super::rows;
use super::script::{Maybe, Script, list};

const CONTEXT: &str = "reading access tokens";

const MAKING: &str = "making an access token";

pub(crate) async fn tokens<D: Dialect>(
    store: &Inner<D>,
    page: &Page<TokenName>,
) -> Result<TokenList, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let after = page.after.as_ref().map_or("", TokenName::as_str);
    let mut script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_token t WHERE t.name>{} ORDER BY t.name LIMIT {}",
        rows::TOKEN,
        D::text(after),
        page.limit
    ));
    script.add(D::CLOCK);
    let mut answers = lease.run(&script, CONTEXT).await?;
    let now = rows::clock(&answers.pop().unwrap_or_default())?;
    let found = answers.pop().unwrap_or_default();
    let tokens = found.iter().map(rows::token);
    Ok(TokenList {
        now,
        tokens: tokens.collect::<Result<_, _>>()?,
    })
}

pub(crate) async fn add<D: Dialect>(
    store: &Inner<D>,
    token: &NewToken,
) -> Result<Option<Token>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let name = D::text(token.name.as_str()).to_string();
    let grants = token
        .made_at(lockhouse_core::Timestamp::UNIX_EPOCH)
        .grants_text();
    let mut script = Script::of(format_args!(
        "DELETE FROM lockhouse_token WHERE name={name} AND digest<>'{}' \
         AND (revoked_at IS NOT NULL OR expires_at<={})",
        token.digest,
        D::NOW
    ));
    script.add(D::add_token(&format!(
        "({name},'{}',{},{},{},NULL)",
        token.digest,
        D::text(&grants),
        D::NOW,
        Maybe(token.expires_at.map(D::time))
    )));
    lease.run(&script, MAKING).await?;
    let found = token_named(&mut lease, &name).await?;
    Ok(found.and_then(|(digest, found)| (digest == token.digest).then_some(found)))
}

pub(crate) async fn revoke<D: Dialect>(
    store: &Inner<D>,
    name: &TokenName,
) -> Result<Option<Token>, Error> {
    let mut lease = store.pool.lend(READ).await?;
    let name = D::text(name.as_str()).to_string();
    let revoke = Script::of(format_args!(
        "UPDATE lockhouse_token SET revoked_at={} WHERE name={name} AND revoked_at IS NULL",
        D::NOW
    ));
    lease.run(&revoke, "revoking an access token").await?;
    let found = token_named(&mut lease, &name).await?;
    Ok(found.map(|(_, token)| token))
}

/// The token whose name is the literal `name`.
async fn token_named<D: Dialect>(
    lease: &mut Lease<D>,
    name: &str,
) -> Result<Option<(Digest, Token)>, Error> {
    let script = Script::of(format_args!(
        "SELECT {} FROM lockhouse_token t WHERE t.name={name}",
        rows::TOKEN
    ));
    let found = select(lease, &script, CONTEXT).await?;
    found.first().map(rows::token).transpose()
}

pub(crate) async fn owners_in_use<D: Dialect>(
    store: &Inner<D>,
    owners: &[Owner],
) -> Result<Vec<Owner>, Error> {
    let mut in_use = Vec::new();
    if owners.is_empty() {
        return Ok(in_use);
    }
    let mut lease = store.pool.lend(READ).await?;
    for owners in owners.chunks(200) {
        let keys = list(owners.iter().map(|owner| D::text(owner.as_str())));
        let mut script = Script::of(format_args!(
            "SELECT DISTINCT w.owner FROM lockhouse_owner_session w WHERE w.owner IN ({keys})"
        ));
        script.add(D::holding(&keys));
        for found in lease.run(&script, "looking for owners").await? {
            for row in &found {
                in_use.push(rows::owner(row)?);
            }
        }
    }
    in_use.sort();
    in_use.dedup();
    Ok(in_use)
}
