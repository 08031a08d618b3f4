//! A check by HTTP: `https://jobs.example/jobs/{owner}`.

use async_trait::async_trait;
use lockhouse_core::{Invalid, Owner};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{StatusCode, Url};

use super::{OwnerCheck, Verdict};
use crate::remote::exchange;

/// Gets a URL that is made from a template: 2xx is alive, 404 and 410 are gone, and all else,
/// from a redirect to no answer at all, is unknown.
#[derive(Debug)]
pub struct HttpCheck {
    template: String,
    client: reqwest::Client,
}

impl HttpCheck {
    /// A check by `template`, an `http://` or `https://` URL with `{owner}` in its path or query.
    /// The owner's name is percent-encoded.
    ///
    /// # Errors
    /// `invalid_request` when the template is no such URL.
    pub fn new(template: impl Into<String>) -> Result<Self, crate::Error> {
        let template = template.into();
        let sample = template.replace("{owner}", "owner");
        let sound = template.contains("{owner}")
            && Url::parse(&sample).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !sound {
            // The template is not repeated: it may have a password in it.
            let problem = "takes an http:// or https:// URL with {owner} in its path or query";
            return Err(Invalid::new("check", problem).into());
        }
        let client = exchange::client(sample.starts_with("https"))?;
        Ok(Self { template, client })
    }
}

#[async_trait]
impl OwnerCheck for HttpCheck {
    async fn verdict(&self, owner: &Owner) -> Verdict {
        let encoded = utf8_percent_encode(owner.as_str(), NON_ALPHANUMERIC);
        let url = self.template.replace("{owner}", &encoded.to_string());
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
