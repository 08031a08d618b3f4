//! Bodies that are JSON objects. Serde's derived code for a struct also accepts an array of its
//! members' values, which no caller sends on purpose.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A `T` that is read from a JSON object, and from nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfMembers(PhantomData))
    }
}

struct OfMembers<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMembers<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

/// A list of objects.
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(object)| object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acquire, Renew};

    #[test]
    fn an_array_is_no_object() {
        let read = |text| serde_json::from_str::<Object<Renew>>(text);
        assert_eq!(read(r#"{"ttl_ms":7}"#).unwrap().0.ttl_ms, Some(7));
        for text in ["[7]", "[]", "null", "7"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("expected a JSON object"), "{error}");
        }
        assert!(read(r#"{"ttl":7}"#).is_err());
    }

    #[test]
    fn an_array_within_a_list_is_no_object() {
        let read = |text| serde_json::from_str::<Object<Acquire>>(text);
        assert!(read(r#"{"permits":[{"semaphore":"a"}]}"#).is_ok());
        assert!(read(r#"{"permits":[["a",1]]}"#).is_err());
    }
}
