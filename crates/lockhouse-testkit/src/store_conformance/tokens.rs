//! [`Tokens`](lockhouse_core::store::Tokens): names and digests, and the owners that are in use.

use std::time::Duration;

use lockhouse_core::store::{FullStore, NewToken, Page, TokenList};
use lockhouse_core::{Digest, TokenName};

use super::words::*;
use crate::place::Place;

fn token(name: &str, digest: u8) -> NewToken {
    NewToken {
        name: name.parse().unwrap(),
        digest: Digest::new([digest; 32]),
        grants: vec!["hold:customer/*".parse().unwrap()],
        expires_at: None,
    }
}

async fn listed(store: &dyn FullStore, after: Option<&TokenName>, limit: u32) -> TokenList {
    let after = after.cloned();
    store.tokens(&Page { after, limit }).await.unwrap()
}

/// Revoked and expired tokens stay listed until then. A call that is repeated after a lost answer gets the same answer.
pub async fn a_token_is_replaced_only_after_its_end(place: &Place) {
    let store = place.store().await;
    let made = store.add_token(&token("b", 1)).await.unwrap().unwrap();
    assert_eq!(made.grants, token("b", 1).grants);
    assert_eq!(store.add_token(&token("b", 1)).await.unwrap(), Some(made));
    assert_eq!(store.add_token(&token("b", 2)).await.unwrap(), None);
    store.add_token(&token("B", 3)).await.unwrap().unwrap();

    let unknown = "unknown".parse().unwrap();
    assert_eq!(store.revoke_token(&unknown).await.unwrap(), None);
    let b = "b".parse().unwrap();
    let revoked = store.revoke_token(&b).await.unwrap().unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(store.revoke_token(&b).await.unwrap(), Some(revoked));
    let digests = async || {
        let list = listed(&*store, None, 9).await.tokens;
        let listed = list
            .iter()
            .map(|(digest, token)| (digest.as_bytes()[0], token.revoked_at.is_some()));
        listed.collect::<Vec<_>>()
    };
    assert_eq!(
        digests().await,
        [(3, false), (1, true)],
        "by bytes of the name"
    );

    let now = listed(&*store, None, 9).await.now;
    let brief = NewToken {
        expires_at: Some(now + Duration::from_millis(1)),
        ..token("b", 2)
    };
    store.add_token(&brief).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(digests().await, [(3, false), (2, false)]);
    store.add_token(&token("b", 4)).await.unwrap().unwrap();
    assert_eq!(digests().await, [(3, false), (4, false)]);
}

/// They are in byte order of their names, revoked ones included.
pub async fn tokens_are_listed_page_by_page(place: &Place) {
    let store = place.store().await;
    let names = ["B", "a", "a b", "b", "é"];
    for (name, digest) in names.iter().rev().zip(1..) {
        store.add_token(&token(name, digest)).await.unwrap();
    }
    store.revoke_token(&"a".parse().unwrap()).await.unwrap();
    let (mut found, mut pages) = (Vec::new(), Vec::new());
    let mut after = None;
    while found.len() < names.len() {
        let page = listed(&*store, after.as_ref(), 2).await.tokens;
        pages.push(page.len());
        found.extend(page.into_iter().map(|(_, token)| token.name));
        after = found.last().cloned();
    }
    assert_eq!(pages, [2, 2, 1]);
    assert_eq!(found, names.map(|name| name.parse().unwrap()));
    assert!(listed(&*store, after.as_ref(), 2).await.tokens.is_empty());
}

pub async fn owners_in_use_have_a_session_or_a_live_request(place: &Place) {
    let store = place.store().await;
    let commands = [
        define("a", 9),
        acquire_for("x", &["a"], Some("holds"), None),
        acquire_for("y", &["a"], Some("held"), None),
        heartbeat("heard", 600_000),
    ];
    run(&store, commands).await;
    run(&store, [release("y")]).await;
    let asked = ["heard", "Heard", "held", "holds", "unknown"].map(owner);
    let mut in_use = store.owners_in_use(&asked).await.unwrap();
    in_use.sort();
    assert_eq!(in_use, ["heard", "holds"].map(owner));
    assert!(store.owners_in_use(&[]).await.unwrap().is_empty());
}
