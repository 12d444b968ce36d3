//! Vectors of numbers as binary data (subtype 9).

use crate::error::{Error, ErrorKind, Result};
use bson::{
    Binary, RawBinaryRef,
    binary::{PackedBitVector, Vector},
    spec::BinarySubtype,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The data types of vectors (VEC-2).
const INT8: u8 = 0x03;
const FLOAT32: u8 = 0x27;
const PACKED_BIT: u8 = 0x10;

/// The number of bits in the last byte of a vector of bits that can be ignored.
const MAX_PADDING: u8 = 7;

/// A vector of numbers, which borrows the bytes of binary data with the subtype 9.
///
/// The source is the specification BSON Binary Subtype 9 - Vector. The owned type is
/// [`bson::binary::Vector`], which [`to_vector`](Self::to_vector) returns. [`from_int8`],
/// [`from_float32`], [`from_bits`] and [`from_packed_bits`] convert numbers to binary data.
///
/// ```
/// use onionskin_bson::vector::{VectorRef, from_float32};
///
/// let stored = from_float32(&[1.5, -2.0]);
/// let VectorRef::Float32(numbers) = VectorRef::try_from(&stored)? else {
///     panic!("it has floating-point numbers");
/// };
/// assert_eq!(numbers.iter().sum::<f32>(), -0.5);
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VectorRef<'a> {
    /// Integers of 8 bits, with a sign.
    Int8(Int8Ref<'a>),
    /// Floating-point numbers of 32 bits.
    Float32(Float32Ref<'a>),
    /// Bits.
    PackedBit(PackedBitRef<'a>),
}

/// Integers of 8 bits, one in each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int8Ref<'a>(&'a [u8]);

/// Floating-point numbers of 32 bits, in little-endian order.
#[derive(Clone, Copy, Debug)]
pub struct Float32Ref<'a>(&'a [[u8; 4]]);

/// Bits, eight in each byte, of which the first is the most significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedBitRef<'a> {
    bytes: &'a [u8],
    padding: u8,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Value {
        message: message.into(),
    })
}

impl<'a> VectorRef<'a> {
    /// Returns the vector in the bytes of binary data: the data type, the padding, and the numbers.
    ///
    /// # Errors
    ///
    /// Fails if there are fewer than two bytes, if the data type is unknown, if the padding is not
    /// zero and the data type is not that of bits, if the size of floating-point numbers is not a
    /// multiple of four bytes, or for bits if the padding is larger than seven, larger than zero
    /// without a byte, or hides a bit that is set.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self> {
        let [kind, padding, numbers @ ..] = bytes else {
            return Err(invalid(
                "a vector has at least two bytes: data type and padding",
            ));
        };
        if *kind == PACKED_BIT {
            return PackedBitRef::new(numbers, *padding).map(Self::PackedBit);
        }
        if *padding != 0 {
            let message = format!("the padding of a vector that is not of bits is {padding}");
            return Err(invalid(message));
        }
        match *kind {
            INT8 => Ok(Self::Int8(Int8Ref(numbers))),
            FLOAT32 => match numbers.as_chunks() {
                (numbers, []) => Ok(Self::Float32(Float32Ref(numbers))),
                _ => Err(invalid(format!(
                    "{} bytes are not a whole number of 32-bit floating-point numbers",
                    numbers.len()
                ))),
            },
            other => Err(invalid(format!(
                "0x{other:02x} is not a data type of vectors; 0x03, 0x10 and 0x27 exist"
            ))),
        }
    }

    /// Returns the byte of the data type: 0x03 for integers of 8 bits, 0x27 for floating-point
    /// numbers of 32 bits, 0x10 for bits.
    #[must_use]
    pub fn data_type(&self) -> u8 {
        match self {
            Self::Int8(_) => INT8,
            Self::Float32(_) => FLOAT32,
            Self::PackedBit(_) => PACKED_BIT,
        }
    }

    /// Returns the number of bits in the last byte that are ignored; zero except for bits.
    #[must_use]
    pub fn padding(&self) -> u8 {
        match self {
            Self::PackedBit(bits) => bits.padding,
            Self::Int8(_) | Self::Float32(_) => 0,
        }
    }

    /// Returns the bytes of the numbers, without data type and padding.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Int8(numbers) => numbers.bytes(),
            Self::Float32(numbers) => numbers.bytes(),
            Self::PackedBit(bits) => bits.bytes(),
        }
    }

    /// Returns the number of elements: numbers or bits.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Int8(numbers) => numbers.len(),
            Self::Float32(numbers) => numbers.len(),
            Self::PackedBit(bits) => bits.len(),
        }
    }

    /// True if there are no numbers and no bits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a copy of the vector.
    ///
    /// # Errors
    ///
    /// Fails only if the crate `bson` has stricter rules than this function.
    pub fn to_vector(&self) -> Result<Vector> {
        Ok(match self {
            Self::Int8(numbers) => Vector::Int8(numbers.iter().collect()),
            Self::Float32(numbers) => Vector::Float32(numbers.iter().collect()),
            Self::PackedBit(bits) => {
                let vector = PackedBitVector::new(bits.bytes.to_vec(), bits.padding);
                Vector::PackedBit(vector.map_err(|error| invalid(error.to_string()))?)
            }
        })
    }
}

/// Fails as [`VectorRef::from_bytes`] does, and if the data has another subtype.
impl<'a> TryFrom<RawBinaryRef<'a>> for VectorRef<'a> {
    type Error = Error;

    fn try_from(binary: RawBinaryRef<'a>) -> Result<Self> {
        check_subtype(binary.subtype)?;
        Self::from_bytes(binary.bytes)
    }
}

/// Fails as [`VectorRef::from_bytes`] does, and if the data has another subtype.
impl<'a> TryFrom<&'a Binary> for VectorRef<'a> {
    type Error = Error;

    fn try_from(binary: &'a Binary) -> Result<Self> {
        check_subtype(binary.subtype)?;
        Self::from_bytes(&binary.bytes)
    }
}

impl From<VectorRef<'_>> for Binary {
    fn from(vector: VectorRef<'_>) -> Self {
        let (kind, padding) = (vector.data_type(), vector.padding());
        binary(kind, padding, vector.bytes().iter().copied())
    }
}

/// Encodes the vector as binary data.
impl Serialize for VectorRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        Binary::from(*self).serialize(serializer)
    }
}

/// Decodes binary data as a vector that borrows from it. Fails as [`VectorRef::from_bytes`] does,
/// and if the value is not binary data with the subtype 9. Types for which serde collects the
/// fields first (`flatten`, `untagged`, `tag`) need the owned [`Vector`] instead.
impl<'de: 'a, 'a> Deserialize<'de> for VectorRef<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let binary = RawBinaryRef::deserialize(deserializer)?;
        Self::try_from(binary).map_err(D::Error::custom)
    }
}

fn check_subtype(subtype: BinarySubtype) -> Result<()> {
    if subtype == BinarySubtype::Vector {
        return Ok(());
    }
    let subtype = u8::from(subtype);
    Err(invalid(format!(
        "expected binary data of subtype 9, found subtype {subtype}"
    )))
}

impl<'a> Int8Ref<'a> {
    /// Returns the bytes of the numbers, one for each.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns how many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no numbers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = i8> + Clone + 'a {
        self.0.iter().map(|byte| byte.cast_signed())
    }

    /// Returns the number at this index; `None` after the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i8> {
        self.0.get(index).map(|byte| byte.cast_signed())
    }
}

impl<'a> Float32Ref<'a> {
    /// Returns the bytes of the numbers, four for each, with the least significant first.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// Returns how many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no numbers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f32> + Clone + 'a {
        self.0.iter().map(|&bytes| f32::from_le_bytes(bytes))
    }

    /// Returns the number at this index; `None` after the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<f32> {
        self.0.get(index).map(|&bytes| f32::from_le_bytes(bytes))
    }
}

/// Compares the numbers, so that a vector with a NaN is not equal to itself.
impl PartialEq for Float32Ref<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> PackedBitRef<'a> {
    fn new(bytes: &'a [u8], padding: u8) -> Result<Self> {
        if padding > MAX_PADDING {
            return Err(invalid(format!(
                "a padding of {padding} bits is larger than 7"
            )));
        }
        let last = bytes.last().copied();
        if padding > 0 && last.is_none() {
            return Err(invalid("a vector of bits without a byte has a padding"));
        }
        // Padding hides the least significant bits (VEC-3), which must be zero (VEC-9).
        if last.is_some_and(|last| last & ((1 << padding) - 1) != 0) {
            return Err(invalid("a bit that the padding hides is set"));
        }
        Ok(Self { bytes, padding })
    }

    /// Returns the bytes that contain the bits.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of bits in the last byte that are ignored, from zero to seven.
    #[must_use]
    pub fn padding(&self) -> u8 {
        self.padding
    }

    /// Returns the number of bits.
    #[must_use]
    pub fn len(&self) -> usize {
        // The product has more bits than an address of 32 bits only above 512 MiB.
        self.bytes.len().saturating_mul(8) - usize::from(self.padding)
    }

    /// True if there are no bits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bits.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = bool> + Clone + 'a {
        let bytes = self.bytes;
        (0..self.len()).map(move |index| bit(bytes, index))
    }

    /// Returns the bit at this index; `None` after the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<bool> {
        (index < self.len()).then(|| bit(self.bytes, index))
    }
}

fn bit(bytes: &[u8], index: usize) -> bool {
    bytes[index / 8] & (0x80 >> (index % 8)) != 0
}

fn binary(kind: u8, padding: u8, numbers: impl Iterator<Item = u8>) -> Binary {
    Binary {
        subtype: BinarySubtype::Vector,
        bytes: [kind, padding].into_iter().chain(numbers).collect(),
    }
}

/// Converts integers of 8 bits to binary data.
///
/// ```
/// let binary = onionskin_bson::vector::from_int8(&[1, -1]);
/// assert_eq!(binary.bytes, [0x03, 0, 0x01, 0xff]);
/// ```
#[must_use]
pub fn from_int8(numbers: &[i8]) -> Binary {
    binary(INT8, 0, numbers.iter().map(|number| number.cast_unsigned()))
}

/// Converts floating-point numbers of 32 bits to binary data.
///
/// ```
/// let binary = onionskin_bson::vector::from_float32(&[1.0]);
/// assert_eq!(binary.bytes, [0x27, 0, 0, 0, 0x80, 0x3f]);
/// ```
#[must_use]
pub fn from_float32(numbers: &[f32]) -> Binary {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    binary(FLOAT32, 0, bytes)
}

/// Converts bits to binary data, with as much padding as the last byte needs.
///
/// ```
/// let binary = onionskin_bson::vector::from_bits(&[true, false, true]);
/// assert_eq!(binary.bytes, [0x10, 5, 0b1010_0000]);
/// ```
#[must_use]
pub fn from_bits(bits: &[bool]) -> Binary {
    let padding = (8 - bits.len() % 8) % 8;
    let bytes = bits.chunks(8).map(|eight| {
        let places = (0..8).zip(eight);
        places.fold(0, |byte, (place, bit)| {
            byte | (u8::from(*bit) << (7 - place))
        })
    });
    binary(PACKED_BIT, padding as u8, bytes)
}

/// Converts bytes with bits to binary data. `padding` is the number of bits in the last byte that
/// are ignored.
///
/// # Errors
///
/// Fails if the padding is larger than seven, is larger than zero without a byte, or hides a bit
/// that is set.
///
/// ```
/// let binary = onionskin_bson::vector::from_packed_bits(&[238, 224], 4)?;
/// assert_eq!(binary.bytes, [0x10, 4, 238, 224]);
/// assert!(onionskin_bson::vector::from_packed_bits(&[255], 7).is_err());
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
pub fn from_packed_bits(bytes: &[u8], padding: u8) -> Result<Binary> {
    PackedBitRef::new(bytes, padding)?;
    Ok(binary(PACKED_BIT, padding, bytes.iter().copied()))
}

#[cfg(test)]
mod tests;
