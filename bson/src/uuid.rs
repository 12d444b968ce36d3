//! Representations of UUIDs as binary data.

use crate::error::{Error, ErrorKind, Result};
use bson::{Binary, Uuid, spec::BinarySubtype, uuid::UuidRepresentation as CrateRepresentation};
use std::{fmt, str::FromStr};

/// The representation of a UUID as binary data.
///
/// Old drivers stored UUIDs with the subtype 3, each with its own order of bytes. Data with this
/// subtype can be read only by a program that knows which driver wrote it. The source is the
/// specification BSON Binary UUID, "Explicit encoding and decoding".
///
/// Conversions are explicit. Decoding gives [`Binary`], and with serde the types [`Uuid`]
/// (subtype 4 only) and the helpers of `bson::serde_helpers::uuid_1`. The type `uuid::Uuid` of the
/// crate `uuid` must not be used as a field without such a helper: serde would store it with the
/// subtype 0.
///
/// ```
/// use onionskin_bson::UuidRepresentation;
///
/// let uuid = bson::Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff")?;
/// let old = UuidRepresentation::JavaLegacy.to_binary(uuid)?;
/// assert_eq!(UuidRepresentation::JavaLegacy.to_uuid(&old)?, uuid);
/// assert!(UuidRepresentation::Standard.to_uuid(&old).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UuidRepresentation {
    /// No representation was chosen, so that no UUID can be converted. This is the default.
    #[default]
    Unspecified,
    /// Subtype 4, with the bytes in the order of RFC 4122.
    Standard,
    /// Subtype 3, with the bytes in the order of old C# drivers: the first three groups are
    /// reversed.
    CSharpLegacy,
    /// Subtype 3, with the bytes in the order of old Java drivers: both halves are reversed.
    JavaLegacy,
    /// Subtype 3, with the bytes in the order of RFC 4122, as old Python drivers wrote them.
    PythonLegacy,
}

impl UuidRepresentation {
    /// Converts a UUID to binary data.
    ///
    /// # Errors
    ///
    /// Fails for [`Unspecified`](Self::Unspecified).
    pub fn to_binary(self, uuid: Uuid) -> Result<Binary> {
        let representation = self.of_crate()?;
        Ok(Binary::from_uuid_with_representation(uuid, representation))
    }

    /// Converts binary data to a UUID.
    ///
    /// # Errors
    ///
    /// Fails for [`Unspecified`](Self::Unspecified), if the data has another subtype than the
    /// representation, and if its size is not 16 bytes.
    pub fn to_uuid(self, binary: &Binary) -> Result<Uuid> {
        let representation = self.of_crate()?;
        let expected = match self {
            Self::Standard => BinarySubtype::Uuid,
            _ => BinarySubtype::UuidOld,
        };
        if binary.subtype != expected {
            return Err(invalid(format!(
                "UUIDs of the representation {self} have the subtype {}, but the binary data has \
                 the subtype {}",
                u8::from(expected),
                u8::from(binary.subtype)
            )));
        }
        let uuid = binary.to_uuid_with_representation(representation);
        uuid.map_err(|error| invalid(error.to_string()))
    }

    fn of_crate(self) -> Result<CrateRepresentation> {
        Ok(match self {
            Self::Unspecified => {
                return Err(invalid("no representation of UUIDs was specified"));
            }
            Self::Standard => CrateRepresentation::Standard,
            Self::CSharpLegacy => CrateRepresentation::CSharpLegacy,
            Self::JavaLegacy => CrateRepresentation::JavaLegacy,
            Self::PythonLegacy => CrateRepresentation::PythonLegacy,
        })
    }

    /// Returns the name in the specification, such as `javaLegacy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Standard => "standard",
            Self::CSharpLegacy => "csharpLegacy",
            Self::JavaLegacy => "javaLegacy",
            Self::PythonLegacy => "pythonLegacy",
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Value {
        message: message.into(),
    })
}

impl fmt::Display for UuidRepresentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Fails for a text that is not a [name](UuidRepresentation::name) of the specification.
impl FromStr for UuidRepresentation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [
            Self::Unspecified,
            Self::Standard,
            Self::CSharpLegacy,
            Self::JavaLegacy,
            Self::PythonLegacy,
        ];
        let found = all.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            let names = all.map(Self::name).join(", ");
            invalid(format!(
                "{text:?} is not a representation of UUIDs; these exist: {names}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{UuidRepresentation as Representation, *};
    use bson::Bson;

    const LEGACY: [(Representation, &str); 3] = [
        (
            Representation::JavaLegacy,
            "7766554433221100ffeeddccbbaa9988",
        ),
        (
            Representation::CSharpLegacy,
            "33221100554477668899aabbccddeeff",
        ),
        (
            Representation::PythonLegacy,
            "00112233445566778899aabbccddeeff",
        ),
    ];

    fn uuid() -> Uuid {
        Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff").expect("it is a UUID")
    }

    fn binary(subtype: BinarySubtype, hex: &str) -> Binary {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        let bytes = (0..hex.len()).step_by(2).map(byte).collect();
        Binary { subtype, bytes }
    }

    // UUID-P1.
    #[test]
    fn explicit_encoding_with_standard_representation() {
        let expected = binary(BinarySubtype::Uuid, "00112233445566778899aabbccddeeff");
        assert_eq!(
            Representation::Standard.to_binary(uuid()),
            Ok(expected.clone())
        );
        assert_eq!(Binary::from_uuid(uuid()), expected);
    }

    // UUID-P2 to UUID-P4.
    #[test]
    fn explicit_encoding_with_legacy_representations() {
        for (representation, hex) in LEGACY {
            let expected = binary(BinarySubtype::UuidOld, hex);
            assert_eq!(representation.to_binary(uuid()), Ok(expected));
        }
    }

    // UUID-P5.
    #[test]
    fn explicit_encoding_without_representation_is_refused() {
        assert!(Representation::Unspecified.to_binary(uuid()).is_err());
    }

    // UUID-2.
    #[test]
    fn each_representation_reads_what_it_has_written() {
        for representation in [
            Representation::Standard,
            Representation::CSharpLegacy,
            Representation::JavaLegacy,
            Representation::PythonLegacy,
        ] {
            let stored = representation.to_binary(uuid()).expect("it is specified");
            assert_eq!(representation.to_uuid(&stored), Ok(uuid()));
        }
    }

    // UUID-4 and UUID-6.
    #[test]
    fn a_stored_uuid_is_decoded_as_binary_data() {
        for stored in [
            binary(BinarySubtype::Uuid, "00112233445566778899aabbccddeeff"),
            binary(BinarySubtype::UuidOld, "00112233445566778899aabbccddeeff"),
        ] {
            let bytes = bson::rawdoc! { "id": stored.clone() }.into_bytes();
            let document = crate::document_from_slice(&bytes).expect("BSON");
            assert_eq!(document.get("id"), Some(&Bson::Binary(stored)));
        }
    }

    // UUID-3.
    #[test]
    fn an_error_names_the_subtype_that_was_expected() {
        let stored = binary(BinarySubtype::UuidOld, "00112233445566778899aabbccddeeff");
        let error = Representation::Standard.to_uuid(&stored);
        let text = error.expect_err("another subtype").to_string();
        assert!(text.contains("standard have the subtype 4"), "{text}");
        assert!(text.contains("has the subtype 3"), "{text}");
    }

    // UUID-P6.
    #[test]
    fn explicit_decoding_of_subtype_4() {
        let stored = binary(BinarySubtype::Uuid, "00112233445566778899aabbccddeeff");
        assert_eq!(Representation::Standard.to_uuid(&stored), Ok(uuid()));
        assert_eq!(stored.to_uuid().ok(), Some(uuid()));
        let others = LEGACY.map(|(representation, _)| representation);
        for other in others.into_iter().chain([Representation::Unspecified]) {
            assert!(other.to_uuid(&stored).is_err(), "{other}");
        }
    }

    // UUID-P7.
    #[test]
    fn explicit_decoding_of_subtype_3() {
        for (representation, hex) in LEGACY {
            let stored = binary(BinarySubtype::UuidOld, hex);
            assert_eq!(representation.to_uuid(&stored), Ok(uuid()));
            assert!(stored.to_uuid().is_err());
            for other in [Representation::Standard, Representation::Unspecified] {
                assert!(other.to_uuid(&stored).is_err(), "{other}");
            }
        }
    }

    #[test]
    fn data_of_another_size_is_refused() {
        for subtype in [BinarySubtype::Uuid, BinarySubtype::UuidOld] {
            for hex in ["", "00", "00112233445566778899aabbccddeeff00"] {
                let stored = binary(subtype, hex);
                for representation in [Representation::Standard, Representation::JavaLegacy] {
                    assert!(representation.to_uuid(&stored).is_err());
                }
            }
        }
    }

    // UUID-1.
    #[test]
    fn names_are_those_of_the_specification() {
        for name in [
            "unspecified",
            "standard",
            "csharpLegacy",
            "javaLegacy",
            "pythonLegacy",
        ] {
            let parsed: Representation = name.parse().expect("it exists");
            assert_eq!(parsed.to_string(), name);
        }
        assert!("java".parse::<Representation>().is_err());
    }
}
