//! [`Fence`]: the fence that a writer sends, as the value of a request header.

use std::fmt;
use std::str::FromStr;

use lockhouse_core::MAX_SLOTTED_CAPACITY;

/// The fence that a writer sends to the gate of a resource: `RESOURCE;SLOT;FENCE`, such as
/// `reports;0;42`.
///
/// ```
/// use lockhouse_gate::Fence;
///
/// let shown: Fence = "reports;0;42".parse()?;
/// assert_eq!((shown.resource.as_str(), shown.slot, shown.fence), ("reports", 0, 42));
/// assert_eq!(shown.to_string(), "reports;0;42");
/// # Ok::<(), lockhouse_gate::Malformed>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The resource, in 1 to 255 bytes. It may contain semicolons.
    pub resource: String,
    /// A slot of the permit, below 4,096; 0 at capacity 1.
    pub slot: u32,
    /// The permit's fence, above 0.
    pub fence: u64,
}

/// A text that is not a [`Fence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not RESOURCE;SLOT;FENCE; write it as in reports;0;42")
    }
}

impl std::error::Error for Malformed {}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};{};{}", self.resource, self.slot, self.fence)
    }
}

impl FromStr for Fence {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut parts = text.rsplitn(3, ';');
        let fence = parts.next().and_then(number).filter(|fence| *fence > 0);
        let slot = parts.next().and_then(number);
        let slot = slot.filter(|slot| *slot < u64::from(MAX_SLOTTED_CAPACITY));
        let slot = slot.and_then(|slot| u32::try_from(slot).ok());
        let resource = parts
            .next()
            .filter(|resource| (1..=255).contains(&resource.len()));
        match (resource, slot, fence) {
            (Some(resource), Some(slot), Some(fence)) => Ok(Self {
                resource: resource.to_owned(),
                slot,
                fence,
            }),
            _ => Err(Malformed),
        }
    }
}

/// A number of digits only, without the sign that `parse` would accept.
fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_fence_parses_back() {
        for text in ["r;0;1", "a;b;4095;18446744073709551615", "é é;3;7"] {
            let parsed: Fence = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn a_malformed_fence_is_refused() {
        let long = format!("{};0;1", "r".repeat(256));
        let texts = [
            "",
            "1",
            "0;1",
            ";0;1",
            "r;0;0",
            "r;0;-1",
            "r;+0;1",
            "r;4096;1",
            "r;0;x",
            "r;0;",
            "r; 0;1",
            "r;0;18446744073709551616",
            &long,
        ];
        for text in texts {
            assert_eq!(text.parse::<Fence>(), Err(Malformed), "{text}");
        }
    }
}
