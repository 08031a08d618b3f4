//! The URL of the server, and of each of its resources.
//!
//! A name or an id is one percent-encoded segment of the path, so `a/b`, `%2F` and `?` arrive
//! unchanged. Only `.` and `..` cannot be encoded: in a URL they mean "here" and "one up" in any
//! spelling, `%2E%2E` too, and clients and proxies may resolve them. So this module refuses them
//! rather than address another resource.

use std::fmt::Display;

use lockhouse_core::store::{Error, Kind, Page};
use lockhouse_core::{ExternalId, Invalid, Owner, Pattern, SemaphoreName, TokenName};
use lockhouse_stores::refuse_misplaced;
use reqwest::Url;

use lockhouse_wire as wire;

#[derive(Clone)]
pub(super) struct Address {
    base: Url,
    /// The URL without credentials, for messages.
    shown: String,
}

/// A name as one segment of a path.
struct Segment<'a> {
    field: &'static str,
    text: &'a str,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        refuse_misplaced(url)?;
        let base = Url::parse(url).map_err(|error| {
            // The message does not repeat the URL, which may contain a password.
            Error::new(Kind::Configuration, "the server's URL is malformed").caused_by(error)
        })?;
        if !matches!(base.scheme(), "http" | "https") {
            // A URL without a host, such as `mailto:ann`, has no resources.
            let context = "the server's URL starts with neither http:// nor https://";
            return Err(Error::new(Kind::Configuration, context));
        }
        let mut plain = base.clone();
        // These fail only for URLs that can't have credentials.
        let _ = plain.set_username("");
        let _ = plain.set_password(None);
        let shown = plain.as_str().trim_end_matches('/').to_owned();
        if base.query().is_some() || base.fragment().is_some() {
            let context = "the server's URL has a query or a fragment, and takes neither";
            return Err(Error::new(Kind::Configuration, context));
        }
        Ok(Self { base, shown })
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// The URL to show, without credentials.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn readyz(&self) -> Url {
        self.join(["readyz"])
    }

    pub(super) fn semaphores(&self) -> Url {
        self.join(["v1", "semaphores"])
    }

    pub(super) fn requests(&self) -> Url {
        self.join(["v1", "requests"])
    }

    pub(super) fn templates(&self) -> Url {
        self.join(["v1", "templates"])
    }

    /// The URL of a template.
    pub(super) fn template(&self, pattern: &Pattern) -> Result<Url, Invalid> {
        let segment = Segment {
            field: "pattern",
            text: pattern.as_str(),
        };
        self.named("templates", &segment, &[])
    }

    /// The URL of a semaphore, or of the resource `below` it.
    pub(super) fn semaphore(&self, name: &SemaphoreName, below: &[&str]) -> Result<Url, Invalid> {
        let segment = Segment {
            field: "semaphore",
            text: name.as_str(),
        };
        self.named("semaphores", &segment, below)
    }

    /// The URL of a request, or of the resource `below` it.
    pub(super) fn request(&self, id: &ExternalId, below: &[&str]) -> Result<Url, Invalid> {
        let segment = Segment {
            field: "external_id",
            text: id.as_str(),
        };
        self.named("requests", &segment, below)
    }

    /// The URL of an owner's session.
    pub(super) fn owner(&self, owner: &Owner) -> Result<Url, Invalid> {
        let segment = Segment {
            field: "owner",
            text: owner.as_str(),
        };
        self.named("owners", &segment, &[])
    }

    pub(super) fn tokens(&self) -> Url {
        self.join(["v1", "tokens"])
    }

    /// The URL of an access token.
    pub(super) fn token(&self, name: &TokenName) -> Result<Url, Invalid> {
        let segment = Segment {
            field: "name",
            text: name.as_str(),
        };
        self.named("tokens", &segment, &[])
    }

    /// The URL of `page` of the listing at `url`.
    pub(super) fn page<K: Display>(&self, mut url: Url, page: &Page<K>) -> Url {
        let mut query = url.query_pairs_mut();
        query.append_pair("limit", &page.limit.to_string());
        if let Some(after) = &page.after {
            query.append_pair("cursor", &wire::cursor(&after.to_string()));
        }
        drop(query);
        url
    }

    fn named(&self, of: &str, segment: &Segment<'_>, below: &[&str]) -> Result<Url, Invalid> {
        if matches!(segment.text, "." | "..") {
            let problem = format!(
                "is \"{}\", which the path of a URL can't hold; choose another",
                segment.text
            );
            return Err(Invalid::new(segment.field, problem));
        }
        let segments = ["v1", of, segment.text].into_iter();
        Ok(self.join(segments.chain(below.iter().copied())))
    }

    /// The base URL with `segments`, each percent-encoded.
    fn join<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_an_address_or_refused(
            text: String,
            rest in "[a-z0-9/:@?#&=%.\\[\\]\\\\ ]{0,24}",
            name in "\\PC{1,40}",
        ) {
            let secret = "https://ann:s3cr3t";
            for url in [
                text,
                format!("http:{rest}"),
                format!("{secret}@{rest}"),
                format!("{secret}{rest}@host"),
                format!("https://ann:{rest}s3cr3t@host"),
            ] {
                let shown = match Address::parse(&url) {
                    Ok(address) => {
                        if let Ok(name) = SemaphoreName::parse(&name) {
                            let below = address.semaphores().path().to_owned();
                            if let Ok(url) = address.semaphore(&name, &[]) {
                                let segment = url.path().strip_prefix(&format!("{below}/"));
                                prop_assert!(segment.is_some_and(|it| !it.contains('/')), "{url}");
                            }
                        }
                        format!("{} {address:?}", address.shown())
                    }
                    Err(refused) => format!("{refused} {refused:?}"),
                };
                prop_assert!(!shown.contains("s3cr3t"), "{shown}");
            }
        }
    }

    fn path(name: &str) -> String {
        let address = Address::parse("http://host").unwrap();
        let name = SemaphoreName::parse(name).unwrap();
        let url = address.semaphore(&name, &["holders"]).unwrap();
        assert_eq!((url.query(), url.fragment()), (None, None));
        url.path().to_owned()
    }

    #[test]
    fn a_name_is_one_segment_whatever_is_in_it() {
        let names = [
            ("a", "a"),
            ("a/b", "a%2Fb"),
            ("/", "%2F"),
            ("%2F", "%252F"),
            ("%2e%2E", "%252e%252E"),
            (".a", ".a"),
            ("...", "..."),
            ("../a", "..%2Fa"),
            ("a?b#c", "a%3Fb%23c"),
            ("a b", "a%20b"),
            ("a\\b", "a%5Cb"),
            ("é", "%C3%A9"),
            ("job::1", "job::1"),
        ];
        for (name, segment) in names {
            let expected = format!("/v1/semaphores/{segment}/holders");
            assert_eq!(path(name), expected, "{name}");
        }
    }

    #[test]
    fn dots_alone_are_refused() {
        let address = Address::parse("http://host").unwrap();
        for dots in [".", ".."] {
            let name = SemaphoreName::parse(dots).unwrap();
            let refused = address.semaphore(&name, &[]).unwrap_err();
            assert_eq!(refused.field(), "semaphore");
            let id = ExternalId::parse(dots).unwrap();
            let refused = address.request(&id, &["renew"]).unwrap_err();
            assert_eq!(refused.field(), "external_id");
            let owner = Owner::parse(dots).unwrap();
            assert_eq!(address.owner(&owner).unwrap_err().field(), "owner");
        }
    }

    #[test]
    fn the_path_of_the_base_is_kept() {
        for base in ["https://host:1/locks", "https://host:1/locks/"] {
            let address = Address::parse(base).unwrap();
            assert_eq!(address.readyz().as_str(), "https://host:1/locks/readyz");
            assert_eq!(address.shown(), "https://host:1/locks");
        }
    }

    #[test]
    fn credentials_are_sent_and_never_shown() {
        let address = Address::parse("http://ann:secret@host/").unwrap();
        assert!(address.semaphores().as_str().contains("secret"));
        assert!(!address.shown().contains("ann"));
        assert!(!format!("{address:?}").contains("secret"));
        let refused = Address::parse("http://ann:secret@ho st/").unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }

    #[test]
    fn a_page_names_its_limit_and_where_it_begins() {
        let address = Address::parse("http://host").unwrap();
        let page = |after: Option<&str>| {
            let after = after.map(|name| SemaphoreName::parse(name).unwrap());
            address.page(address.semaphores(), &Page { after, limit: 7 })
        };
        assert_eq!(page(None).query(), Some("limit=7"));
        assert_eq!(page(Some("a")).query(), Some("limit=7&cursor=YQ"));
    }

    #[test]
    fn a_url_with_a_query_is_refused() {
        assert!(Address::parse("http://host/?a=b").is_err());
        assert!(Address::parse("http://host/#a").is_err());
    }

    #[test]
    fn a_url_that_is_not_of_http_is_refused() {
        for url in ["mailto:ann", "A:", "ftp://host/", "data:,", "file:///etc"] {
            let refused = Address::parse(url).unwrap_err();
            assert_eq!(refused.kind(), Kind::Configuration, "{url}");
        }
        assert!(Address::parse("HTTPS://host").is_ok());
    }
}
