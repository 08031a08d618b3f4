//! A check by HTTP: `https://jobs.example/jobs/{owner}`.

use std::fmt;

use async_trait::async_trait;
use lockhouse_core::{Invalid, Owner};
use lockhouse_stores::without_credentials;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{StatusCode, Url};

use super::check::{OwnerCheck, Verdict};
use crate::remote::exchange;

/// A check that gets a URL: status 2xx means alive, 404 and 410 mean gone. Any other answer, a redirect or no answer means
/// unknown.
pub struct HttpCheck {
    template: String,
    client: reqwest::Client,
}

impl HttpCheck {
    /// A check by `template`, an `http://` or `https://` URL with `{owner}` in its path or query, and nowhere else. The
    /// owner's name is percent-encoded.
    ///
    /// The owners `.` and `..` are always unknown, since in a path they name another resource, however they are encoded.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the template is not such a URL.
    pub fn new(template: impl Into<String>) -> Result<Self, crate::Error> {
        let template = template.into();
        let Some(sample) = sample(&template) else {
            // The message does not repeat the template, which may contain a password.
            let problem = "takes an http:// or https:// URL with {owner} in its path or query";
            return Err(Invalid::new("check", problem).into());
        };
        let client = exchange::client(&sample, None)?;
        Ok(Self { template, client })
    }

    /// The URL to ask about `owner`. `None` if no URL can name it.
    fn url(&self, owner: &Owner) -> Option<Url> {
        if matches!(owner.name(), "." | "..") {
            return None;
        }
        let encoded = utf8_percent_encode(owner.name(), NON_ALPHANUMERIC).to_string();
        Url::parse(&self.template.replace("{owner}", &encoded)).ok()
    }
}

/// The URL for some owner, if the owner's name changes only the path and the query of `template`.
fn sample(template: &str) -> Option<Url> {
    let of = |owner| Url::parse(&template.replace("{owner}", owner)).ok();
    let (one, other) = (of("1")?, of("2")?);
    let asked = |url: &Url| (url.path().to_owned(), url.query().map(str::to_owned));
    let fixed = |mut url: Url| {
        url.set_path("");
        url.set_query(None);
        url
    };
    let is_sound = matches!(one.scheme(), "http" | "https")
        && fixed(one.clone()) == fixed(other.clone())
        && asked(&one) != asked(&other);
    is_sound.then_some(one)
}

impl fmt::Debug for HttpCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = without_credentials(&self.template);
        f.debug_tuple("HttpCheck").field(&shown).finish()
    }
}

#[async_trait]
impl OwnerCheck for HttpCheck {
    async fn verdict(&self, owner: &Owner) -> Verdict {
        let Some(url) = self.url(owner) else {
            return Verdict::Unknown;
        };
        match self
            .client
            .get(url)
            .send()
            .await
            .map(|answer| answer.status())
        {
            Ok(status) if status.is_success() => Verdict::Alive,
            Ok(StatusCode::NOT_FOUND | StatusCode::GONE) => Verdict::Gone,
            _ => Verdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(template: &str, owner: &str) -> Option<String> {
        let check = HttpCheck::new(template).unwrap();
        let url = check.url(&Owner::parse(owner).unwrap());
        url.map(Into::into)
    }

    #[test]
    fn an_owner_is_percent_encoded_in_the_path_and_the_query() {
        for (template, owner, url) in [
            (
                "http://h/jobs/{owner}",
                "a/b?c#d",
                "http://h/jobs/a%2Fb%3Fc%23d",
            ),
            (
                "http://h/jobs/{owner}/state",
                "..a",
                "http://h/jobs/%2E%2Ea/state",
            ),
            (
                "https://u:p@h:1/?job={owner}",
                "a&b",
                "https://u:p@h:1/?job=a%26b",
            ),
        ] {
            assert_eq!(asked(template, owner).as_deref(), Some(url));
        }
    }

    #[test]
    fn owners_that_a_path_can_not_hold_are_not_asked_about() {
        for owner in [".", ".."] {
            for template in ["http://h/jobs/{owner}", "http://h/jobs/.{owner}"] {
                assert_eq!(asked(template, owner), None, "{template} {owner}");
            }
        }
    }

    #[test]
    fn an_owner_outside_of_path_and_query_is_refused() {
        for template in [
            "http://{owner}/jobs",
            "http://{owner}.jobs.example/{owner}",
            "http://h:80{owner}/jobs/{owner}",
            "http://{owner}@h/jobs/{owner}",
            "http://u:{owner}@h/jobs/{owner}",
            "http:///{owner}",
            "{owner}://h/{owner}",
            "http{owner}://h/",
            "http://h/jobs#{owner}",
            "http://h/{owner}#{owner}",
            "http://h/jobs",
            "ftp://h/{owner}",
        ] {
            let refused = HttpCheck::new(template).map(|_| ()).unwrap_err();
            assert!(!refused.to_string().contains("jobs"), "{refused}");
        }
    }
}
