//! Lists that a store without SQL keeps whole, since they are short: templates and access tokens.

use std::collections::BTreeMap;
use std::ops::Bound;

use lockhouse_core::store::{NewToken, Page};
use lockhouse_core::{Digest, Pattern, Template, TemplateDefinition, Timestamp, Token, TokenName};

pub(crate) type Templates = BTreeMap<Pattern, Template>;

pub(crate) type Tokens = BTreeMap<TokenName, (Digest, Token)>;

/// Creates or changes a template. Returns it, and whether it is new.
pub(crate) fn define(
    templates: &mut Templates,
    definition: &TemplateDefinition,
    now: Timestamp,
) -> (Template, bool) {
    let before = templates.get(&definition.pattern);
    let (template, is_new) = (definition.applied_to(before, now), before.is_none());
    templates.insert(template.pattern.clone(), template.clone());
    (template, is_new)
}

/// Creates a token, or replaces one that has expired or was revoked. Returns `None` if a valid token
/// has that name and another digest.
pub(crate) fn add_token(tokens: &mut Tokens, token: &NewToken, now: Timestamp) -> Option<Token> {
    let made = || (token.digest, token.made_at(now));
    let (digest, found) = tokens.entry(token.name.clone()).or_insert_with(made);
    if *digest != token.digest && !found.is_good(now) {
        (*digest, *found) = made();
    }
    (*digest == token.digest).then(|| found.clone())
}

/// Revokes a token, unless it was revoked before. Returns `None` if there is no such token.
pub(crate) fn revoke(tokens: &mut Tokens, name: &TokenName, now: Timestamp) -> Option<Token> {
    let (_, token) = tokens.get_mut(name)?;
    token.revoked_at.get_or_insert(now);
    Some(token.clone())
}

/// The rows of `page`.
pub(crate) fn page<K: Ord, V: Clone>(all: &BTreeMap<K, V>, page: &Page<K>) -> Vec<V> {
    let after = page
        .after
        .as_ref()
        .map_or(Bound::Unbounded, Bound::Excluded);
    let rest = all.range((after, Bound::Unbounded)).map(|(_, row)| row);
    rest.take(page.limit as usize).cloned().collect()
}
