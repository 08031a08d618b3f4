//! Parses `sqlite:PATH`.

use std::fs;
use std::path::{self, PathBuf};

use lockhouse_core::store::Error;

use crate::misconfigured::configuration;

/// The file that `url` names. Everything between `sqlite:` and the first `?` is the path, taken
/// literally: `%20` is no space. The path is absolute, so that it stays the same file when the
/// process changes its folder.
pub(super) fn parse(url: &str) -> Result<PathBuf, Error> {
    let rest = url
        .strip_prefix("sqlite:")
        .ok_or_else(|| configuration("the URL does not begin with sqlite:"))?;
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let file = match place.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => {
            // The message does not repeat the URL: a host may have a password before it.
            return Err(configuration(
                "the URL names no file: write sqlite:///folder/file for an absolute path, \
                 sqlite:folder/file for a relative one",
            ));
        }
        None => place,
    };
    if file.is_empty() {
        return Err(configuration(
            "the URL names no file; try sqlite:lockhouse.db",
        ));
    }
    if file == ":memory:" {
        let problem = "SQLite in memory can't be shared by connections; use memory: instead";
        return Err(configuration(problem));
    }
    if file == "~" || file.starts_with("~/") {
        return Err(configuration(
            "the URL's path begins with ~, which no shell has replaced by a home folder; write the whole path",
        ));
    }
    if file.contains(char::is_control) {
        let problem =
            "the URL's path has a control character, such as the end of a line; leave it out";
        return Err(configuration(problem));
    }
    let file = path::absolute(file).map_err(|source| {
        configuration("the URL's file has no full path; write one").caused_by(source)
    })?;
    if !parameters.is_empty() {
        return Err(configuration(
            "an sqlite: URL takes no parameters; leave out the ? and what follows",
        ));
    }
    // Opening the file shows whether a missing or unreadable file can be created.
    if fs::metadata(&file).is_ok_and(|found| !found.is_file()) {
        return Err(configuration(
            "the URL's path is a folder or a device; name a file",
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use lockhouse_core::store::Kind;

    use super::*;

    #[test]
    fn a_path_may_be_absolute_or_relative_and_is_taken_as_it_is() {
        let file = |url| parse(url).unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(file("sqlite:/var/lib/a.db"), PathBuf::from("/var/lib/a.db"));
        assert_eq!(file("sqlite:///var/lib/a.db"), file("sqlite:/var/lib/a.db"));
        assert_eq!(file("sqlite:a.db"), here.join("a.db"));
        assert_eq!(
            file("sqlite:my files/a%20b.db"),
            here.join("my files/a%20b.db")
        );
        assert_eq!(file("sqlite:file:a.db"), here.join("file:a.db"));
    }

    #[test]
    fn a_url_without_a_usable_file_or_with_an_unknown_parameter_is_refused() {
        for url in [
            "sqlite:",
            "sqlite://",
            "sqlite://host/a.db",
            "sqlite::memory:",
            "sqlite:?",
            "sqlite:a.db?mode=rwc",
            "sqlite:a.db?cache=shared",
            "sqlite:~",
            "sqlite:~/a.db",
            "sqlite:a.db\n",
            "sqlite:/",
            "sqlite:/dev/null",
            "mysql://host/a",
        ] {
            assert_eq!(parse(url).unwrap_err().kind(), Kind::Configuration, "{url}");
        }
    }
}
