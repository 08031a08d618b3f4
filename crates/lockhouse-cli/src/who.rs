//! Who types: for histories, and as the owner of what `run` holds.

use std::env;
use std::process;

use lockhouse::Owner;

/// `ann@build-7`.
pub(crate) fn user_and_host() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| {
        let user = env::var(name).ok()?;
        (!user.is_empty()).then_some(user)
    });
    let host = nix::unistd::gethostname().ok();
    let host = host.as_deref().and_then(|host| host.to_str());
    let who = format!(
        "{}@{}",
        user.as_deref().unwrap_or("somebody"),
        host.unwrap_or("somewhere")
    );
    valid(who, "somebody")
}

/// `ann@build-7:4711:1f0c9a3e`, no other process's: containers on one host, and those that start
/// again, may have the same pids.
pub(crate) fn this_process() -> String {
    let pid = process::id();
    // Of 74 random bits the last 32.
    let unique = uuid::Uuid::now_v7().as_u128() as u32;
    let own = format!("{pid}:{unique:08x}");
    valid(format!("{}:{own}", user_and_host()), &format!("pid:{own}"))
}

/// Environments can have anything in them.
fn valid(who: String, otherwise: &str) -> String {
    Owner::parse(&who).map_or_else(|_| otherwise.to_owned(), |_| who)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_process_is_its_own() {
        assert!(this_process().contains(&format!(":{}:", process::id())));
        assert_ne!(this_process(), this_process());
    }

    #[test]
    fn what_cannot_be_an_owner_is_replaced() {
        assert_eq!(valid("a\n@b".into(), "c"), "c");
        assert_eq!(valid("a@b".into(), "c"), "a@b");
    }
}
