//! Texts, numbers and times in rows that a store keeps as one value, such as JSON. Reading a row
//! checks them.
//!
//! This form is for stores without columns. The HTTP API has its own.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Capacity, Count, Digest, EndReason, ExternalId, Idle, Invalid, Line, Note, Owner, Pattern,
    SemaphoreName, Slots, TokenGrant, TokenName, Ttl,
};

macro_rules! stored {
    ($($name:ident as $form:ty: $write:expr, $read:expr;)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn(&Self) -> $form = $write;
                write(self).serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read: fn($form) -> Result<Self, Invalid> = $read;
                read(<$form>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    )*};
}

stored! {
    SemaphoreName as String: Self::to_string, Self::stored;
    ExternalId as String: Self::to_string, Self::parse;
    Owner as String: |owner| owner.as_str().to_owned(), Self::stored;
    Note as String: |note| note.as_str().to_owned(), Self::parse;
    Line as String: Self::to_string, |text| Ok(Self::stored(&text));
    Pattern as String: Self::to_string, Self::parse;
    Slots as String: Self::to_string, |text| text.parse();
    TokenName as String: Self::to_string, Self::parse;
    TokenGrant as String: Self::to_string, |text| text.parse();
    Digest as String: Self::to_string, |text| text.parse();
    EndReason as String: Self::to_string, end_reason;
    Capacity as u32: |capacity| capacity.value(), Self::new;
    Count as u32: |count| count.value(), Self::new;
    Idle as u64: |idle| idle.as_ms(), Self::from_ms;
    Ttl as u64: |ttl| ttl.as_ms(), Self::from_ms;
}

fn end_reason(text: String) -> Result<EndReason, Invalid> {
    let unknown = || Invalid::new("end_reason", format!("{text:?} is unknown"));
    EndReason::parse(&text).ok_or_else(unknown)
}
