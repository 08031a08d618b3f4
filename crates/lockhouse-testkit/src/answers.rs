//! Answers that no caller may get, whatever fails. A call succeeds, is refused by a rule that its caller knows, or has an
//! unknown outcome. The code `internal` shows a defect: in Lockhouse, or in how a store maps its database's errors.

use std::collections::BTreeMap;

use crate::history::{Answer, Operation, Refused};

/// Parts of the texts of refusals for which histories have no variant.
const KNOWN: [&str; 3] = [
    "are held; release them first",
    "too many calls; try again later",
    // An operator has to correct this setting.
    "default_transaction_read_only is on",
];

/// The answers that no rule explains: each text with the number of its calls, and the first of them.
pub(crate) fn unexplained(history: &[Operation]) -> Vec<String> {
    let mut by_text: BTreeMap<&str, (u64, &Operation)> = BTreeMap::new();
    for operation in history {
        if let Answer::Refused(Refused::Other(text)) = &operation.answer
            && !KNOWN.iter().any(|known| text.contains(known))
        {
            by_text.entry(text).or_insert((0, operation)).0 += 1;
        }
    }
    let told = by_text.into_iter().map(|(text, (times, first))| {
        format!("answers: {times} calls get {text:?}, which no rule explains\n  {first}")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use lockhouse::store::{self, Kind};
    use lockhouse::{Error, Refusal, SemaphoreName};

    use super::*;
    use crate::history::Call;

    fn told(error: &Error) -> Vec<String> {
        let operation = Operation {
            client: 1,
            call: Call::Delete {
                semaphore: "a".into(),
            },
            begun: 1,
            ended: 2,
            answer: Answer::Refused(Refused::Other(error.to_string())),
        };
        unexplained(&[operation.clone(), operation])
    }

    #[test]
    fn internal_errors_are_reported_and_refusals_are_not() {
        let in_use = Refusal::SemaphoreInUse {
            name: SemaphoreName::parse("a").unwrap(),
            in_use: 2,
        };
        assert_eq!(told(&in_use.into()), [""; 0]);
        assert_eq!(told(&Error::Overloaded), [""; 0]);
        let set_to_read =
            "doing a batch: default_transaction_read_only is on, so nothing can be written";
        let set_to_read = store::Error::new(Kind::Configuration, set_to_read);
        assert_eq!(told(&set_to_read.into()), [""; 0]);
        let defect = Error::Internal("a lane ended without an answer".into());
        assert!(matches!(&told(&defect)[..], [one] if one.starts_with("answers: 2 calls")));
    }
}
