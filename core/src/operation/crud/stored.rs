//! Options of indexes and collections as servers return them. Servers keep the types in which an
//! application once wrote them, for example `unique: 1` or `expireAfterSeconds: 3600.0`.

use super::{CreateCollectionOptions, IndexOptions};
use bson::{Bson, Document, deserialize_from_document};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};

/// The options that are booleans.
const SWITCHES: [&str; 6] = [
    "background",
    "capped",
    "clustered",
    "hidden",
    "sparse",
    "unique",
];

/// Reads the options of an index, which stand beside its keys.
pub(super) fn index<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IndexOptions>, D::Error> {
    read(deserializer).map(Some)
}

/// Reads the options of a collection.
pub(super) fn collection<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<CreateCollectionOptions, D::Error> {
    read(deserializer)
}

fn read<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let mut options = Document::deserialize(deserializer)?;
    adapt(&mut options);
    if let Some(Bson::Document(series)) = options.get_mut("timeseries") {
        adapt(series);
    }
    deserialize_from_document(options).map_err(D::Error::custom)
}

/// Changes whole doubles to integers, and numbers in the place of booleans to booleans.
fn adapt(options: &mut Document) {
    for (name, value) in options.iter_mut() {
        if let Bson::Double(number) = *value
            && number.fract() == 0.0
            && number.abs() < 9e15
        {
            *value = Bson::Int64(number as i64);
        }
        if SWITCHES.contains(&name.as_str()) {
            match *value {
                Bson::Int32(number) => *value = Bson::Boolean(number != 0),
                Bson::Int64(number) => *value = Bson::Boolean(number != 0),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::crud::{CollectionSpecification, IndexModel};
    use bson::{deserialize_from_document, doc};
    use std::time::Duration;

    #[test]
    fn options_of_another_number_type_are_read() {
        let stored = doc! {
            "v": 2.0, "key": { "a": 1.0 }, "name": "a_1", "unique": 1, "sparse": 1.0,
            "hidden": false, "expireAfterSeconds": 3600.0, "bits": 26.0, "max": 180.5, "min": -180,
        };
        let index: IndexModel = deserialize_from_document(stored).expect("an index");
        let options = index.options.expect("it has some");
        assert_eq!(options.expire_after, Some(Duration::from_secs(3_600)));
        assert_eq!((options.unique, options.sparse), (Some(true), Some(true)));
        assert_eq!((options.bits, options.hidden), (Some(26), Some(false)));
        assert_eq!((options.max, options.min), (Some(180.5), Some(-180.0)));

        let stored = doc! {
            "name": "events", "type": "collection",
            "options": {
                "capped": 1.0, "size": 4_096.0, "max": 10,
                "timeseries": { "timeField": "t", "bucketMaxSpanSeconds": 60.0 },
            },
        };
        let found: CollectionSpecification = deserialize_from_document(stored).expect("one");
        let options = found.options;
        assert_eq!((options.capped, options.size), (Some(true), Some(4_096)));
        assert!(options.timeseries.is_some());
    }

    #[test]
    fn names_of_later_servers_are_read() {
        let stored = doc! {
            "name": "events", "type": "queue",
            "options": {
                "validationAction": "repair", "validationLevel": "some",
                "timeseries": { "timeField": "t", "granularity": "years" },
            },
        };
        let found: CollectionSpecification =
            deserialize_from_document(stored.clone()).expect("one");
        let written = bson::serialize_to_document(&found).expect("a document");
        for name in ["type", "options"] {
            assert_eq!(written.get(name), stored.get(name), "{name}");
        }
    }

    #[test]
    fn an_option_of_a_wrong_type_is_an_error() {
        for (name, value) in [
            ("unique", bson::Bson::from("yes")),
            ("expireAfterSeconds", bson::Bson::from(1.5)),
            ("name", bson::Bson::from(1)),
        ] {
            let stored = doc! { "key": { "a": 1 }, name: value };
            let read: Result<IndexModel, _> = deserialize_from_document(stored);
            assert!(read.is_err(), "{name}");
        }
    }
}
