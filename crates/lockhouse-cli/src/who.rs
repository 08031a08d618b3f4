//! The name of the user: for histories, and as the owner of the permits of `run`.

use std::env;
use std::ffi::OsString;
use std::process;

use lockhouse::Owner;

/// The longest owner, in bytes.
const LONGEST: usize = 255;

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

/// `ann@build-7:4711:1f0c9a3e restic backup /home`: this process, which runs `command`. The random
/// part makes it unique, since containers on one host may have the same pids.
pub(crate) fn runs(command: &[OsString]) -> String {
    let pid = process::id();
    // The last 32 of 74 random bits.
    let unique = uuid::Uuid::now_v7().as_u128() as u32;
    let own = format!("{pid}:{unique:08x}");
    let process = valid(format!("{}:{own}", user_and_host()), &format!("pid:{own}"));
    with_command(process, command)
}

/// `process` and as much of `command` as an owner has room for, on one line.
fn with_command(process: String, command: &[OsString]) -> String {
    let command = command.iter().map(|word| word.to_string_lossy());
    let line = command.collect::<Vec<_>>().join(" ");
    let words = line.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let owner = format!("{process} {}", words.join(" "));
    let owner = owner.trim_end();
    if owner.len() <= LONGEST {
        return owner.to_owned();
    }
    let cut = &owner[..owner.floor_char_boundary(LONGEST - '…'.len_utf8())];
    match cut.strip_prefix(&process) {
        Some(_) => format!("{cut}…"),
        None => process,
    }
}

/// The environment may hold any text.
fn valid(who: String, otherwise: &str) -> String {
    Owner::parse(&who).map_or_else(|_| otherwise.to_owned(), |_| who)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_process_is_its_own() {
        let runs = || runs(&["true".into()]);
        assert!(runs().contains(&format!(":{}:", process::id())));
        assert_ne!(runs(), runs());
    }

    #[test]
    fn a_command_is_one_line_and_cut_where_there_is_no_more_room() {
        let owner = |command: &[&str]| {
            let command: Vec<_> = command.iter().map(OsString::from).collect();
            with_command("ann@host:1:ff".into(), &command)
        };
        assert_eq!(
            owner(&["sh", "-c", " echo\n\tü \u{7} "]),
            "ann@host:1:ff sh -c echo ü"
        );
        assert_eq!(owner(&["", " "]), "ann@host:1:ff");
        for long in ["x".repeat(300), "ü".repeat(150), "a b ".repeat(100)] {
            let owner = owner(&[&long]);
            assert!(owner.ends_with('…') && owner.len() > 250, "{owner}");
            Owner::parse(&owner).unwrap();
        }
        let full = owner(&[&"x".repeat(LONGEST - "ann@host:1:ff ".len())]);
        assert_eq!((full.len(), full.ends_with('x')), (LONGEST, true));
        let process = "p".repeat(LONGEST - 2);
        assert_eq!(with_command(process.clone(), &["true".into()]), process);
    }

    #[test]
    fn an_invalid_owner_is_replaced() {
        assert_eq!(valid("a\n@b".into(), "c"), "c");
        assert_eq!(valid("a@b".into(), "c"), "a@b");
    }
}
