//! Access tokens, and the requests that belong to them.

use std::time::Duration;

use lockhouse::{
    Code, ConnectOptions, ExternalId, Lockhouse, Owner, Refusal, Secret, Timestamp, Token,
    TokenGrant, TokenName, Ttl, access,
};

use super::steps::{ask, eventually, refusal};
use crate::place::Place;

const MINUTE: Duration = Duration::from_secs(60);

/// Whether `lockhouse` has a server between itself and the store.
async fn is_remote(lockhouse: &Lockhouse) -> bool {
    // A server does not reveal the digests of its tokens.
    access::known_tokens(lockhouse).await.is_err()
}

/// A client with all rights. A server asks for a token as soon as there is one.
async fn administrator(place: &Place) -> (Lockhouse, Secret) {
    let lockhouse = place.client().await;
    let all: [TokenGrant; 1] = ["admin:*".parse().unwrap()];
    let (_, secret) = lockhouse.create_token("admin", &all, None).await.unwrap();
    if !is_remote(&lockhouse).await {
        return (lockhouse, secret);
    }
    let options = ConnectOptions::new().token(secret.clone());
    let connected = Lockhouse::connect_with(place.url(), options).await;
    (connected.unwrap(), secret)
}

fn named<'a>(tokens: &'a [Token], name: &str) -> &'a Token {
    let mut tokens = tokens.iter();
    tokens.find(|token| token.name.as_str() == name).unwrap()
}

/// A token keeps its name, its grants and its times until another token of its name is created.
pub async fn tokens_are_made_listed_and_revoked(place: &Place) {
    let (lockhouse, secret) = administrator(place).await;
    let grants: [TokenGrant; 2] = [
        "hold:customer/*".parse().unwrap(),
        "read:é 'x'".parse().unwrap(),
    ];
    let later = Timestamp::from_second(4_000_000_000).unwrap();
    let (made, other) = lockhouse
        .create_token("ci", &grants, Some(later))
        .await
        .unwrap();
    assert_ne!(secret.reveal(), other.reveal());
    assert_eq!(
        (&made.grants[..], made.expires_at),
        (&grants[..], Some(later))
    );
    let listed = lockhouse.tokens().await.unwrap();
    let names: Vec<_> = listed.iter().map(|token| token.name.as_str()).collect();
    assert_eq!(names, ["admin", "ci"]);
    assert_eq!(named(&listed, "ci"), &made);

    let taken = refusal(lockhouse.create_token("ci", &grants, None).await);
    assert_eq!(taken, Refusal::TokenExists(TokenName::parse("ci").unwrap()));
    lockhouse.revoke_token("ci").await.unwrap();
    let revoked = lockhouse.tokens().await.unwrap();
    let revoked_at = named(&revoked, "ci").revoked_at.unwrap();
    assert!(revoked_at >= made.created_at);
    lockhouse.revoke_token("ci").await.unwrap();
    let again = lockhouse.tokens().await.unwrap();
    assert_eq!(named(&again, "ci").revoked_at, Some(revoked_at));

    let (created_again, _) = lockhouse
        .create_token("ci", &grants[..1], None)
        .await
        .unwrap();
    assert_eq!(
        (created_again.revoked_at, created_again.expires_at),
        (None, None)
    );
    let listed = lockhouse.tokens().await.unwrap();
    assert_eq!(named(&listed, "ci"), &created_again);

    let unknown = lockhouse.revoke_token("nobody").await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidRequest, "{unknown}");
    for refused in [
        lockhouse.create_token("x", &[], None).await,
        lockhouse.create_token("", &grants, None).await,
        lockhouse
            .create_token("x", &grants, Some(Timestamp::UNIX_EPOCH))
            .await,
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::InvalidRequest);
    }
}

/// A new token may have the name of one that has expired.
pub async fn an_expired_token_can_be_replaced(place: &Place) {
    let (lockhouse, _) = administrator(place).await;
    let grants: [TokenGrant; 1] = ["read:*".parse().unwrap()];
    let soon = Timestamp::now() + Duration::from_millis(300);
    lockhouse
        .create_token("short", &grants, Some(soon))
        .await
        .unwrap();
    eventually("another takes its place", async || {
        match lockhouse.create_token("short", &grants, None).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.code(), Code::IdempotencyConflict, "{error}");
                false
            }
        }
    })
    .await;
}

/// A token cannot end another token's requests, and tokens with owners of the same name have
/// separate owners.
pub async fn requests_belong_to_the_token_that_made_them(place: &Place) {
    let lockhouse = place.client().await;
    if is_remote(&lockhouse).await {
        // With a server, the server names the token of a call.
        return;
    }
    lockhouse.define("s", 10).await.unwrap();
    let owner = Owner::parse("ann").unwrap();
    let of = |token: &str, owner: Option<&Owner>| {
        Owner::of_token(&TokenName::parse(token).unwrap(), owner).unwrap()
    };
    let (ci, web) = (of("ci", Some(&owner)), of("web", Some(&owner)));
    for (id, owner) in [
        ("of-ci", &ci),
        ("of-web", &web),
        ("nameless", &of("ci", None)),
        ("free", &owner),
    ] {
        let mut ask = ask(id, &[("s", 1)]);
        ask.owner = Some(owner.clone());
        ask.ttl = Some(Ttl::new(MINUTE).unwrap());
        lockhouse.acquire(ask, Duration::ZERO).await.unwrap();
    }
    let id = |text: &str| ExternalId::parse(text).unwrap();
    let found = lockhouse.find("nameless").await.unwrap();
    assert_eq!(found.owner, Some(of("ci", None)));
    for other in ["of-web", "free"] {
        let renewed = access::renew_as(&lockhouse, id(other), None, Some(ci.clone())).await;
        assert_eq!(refusal(renewed), Refusal::OfAnotherToken(id(other)));
        let released = access::release_as(&lockhouse, id(other), Some(ci.clone())).await;
        assert_eq!(refusal(released), Refusal::OfAnotherToken(id(other)));
        assert!(lockhouse.find(other).await.unwrap().is_live());
    }
    let by = Some(of("ci", None));
    access::renew_as(&lockhouse, id("of-ci"), None, by.clone())
        .await
        .unwrap();
    assert!(
        access::release_as(&lockhouse, id("nameless"), by)
            .await
            .unwrap()
            .now
    );

    let candidates = [
        ci.clone(),
        web.clone(),
        owner.clone(),
        of("x", Some(&owner)),
    ];
    let mut in_use = access::owners_in_use(&lockhouse, &candidates)
        .await
        .unwrap();
    in_use.sort();
    assert_eq!(in_use, [owner.clone(), ci.clone(), web.clone()]);
    let ttl = Ttl::new(MINUTE).unwrap();
    access::heartbeat_as(&lockhouse, of("x", Some(&owner)), ttl, false)
        .await
        .unwrap();
    assert_eq!(
        access::owners_in_use(&lockhouse, &candidates)
            .await
            .unwrap()
            .len(),
        4
    );
    assert_eq!(access::goodbye_as(&lockhouse, &ci).await.unwrap(), 1);
    assert!(lockhouse.find("of-web").await.unwrap().is_live());
    assert_eq!(
        lockhouse
            .held_by(&web, None, None, 10)
            .await
            .unwrap()
            .requests
            .len(),
        1
    );
}
