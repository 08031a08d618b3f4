//! Any number of access tokens.

use std::sync::Arc;

use lockhouse::Lockhouse;
use lockhouse::access::{Digest, known_tokens};
use lockhouse_core::store::{NewToken, Tokens as _};
use lockhouse_stores::Memory;

/// There are more tokens than a store lists at once, and all but the last are revoked.
#[tokio::test]
async fn a_token_is_found_behind_ten_thousand_revoked_ones() {
    let store = Arc::new(Memory::new());
    for number in 0..20_001_u32 {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_be_bytes());
        let token = NewToken {
            name: format!("t-{number:05}").parse().unwrap(),
            digest: Digest::new(digest),
            grants: vec!["read:*".parse().unwrap()],
            expires_at: None,
        };
        store.add_token(&token).await.unwrap().unwrap();
        store.revoke_token(&token.name).await.unwrap().unwrap();
    }
    let lockhouse = Lockhouse::with_store(store);
    let grants = ["hold:*".parse().unwrap()];
    let (made, secret) = lockhouse.create_token("z", &grants, None).await.unwrap();
    let known = known_tokens(&lockhouse).await.unwrap();
    let (digest, token) = known.tokens.last().unwrap();
    assert!(secret.is_of(digest) && *token == made && token.is_good(known.now));
    assert_eq!(known.tokens.len(), 20_002);
    let listed = lockhouse.tokens().await.unwrap();
    assert_eq!(listed.len(), 20_002);
    assert!(listed.is_sorted_by(|one, next| one.name < next.name));
    let after = listed[20_000].name.clone();
    let page = lockhouse.tokens_after(Some(&after), 1).await.unwrap();
    assert_eq!(page, [made]);
}
