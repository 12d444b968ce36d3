use super::*;
use proptest::{collection::vec, prelude::*};

#[test]
fn padding_hides_the_least_significant_bits() {
    let stored = from_packed_bits(&[238, 224], 4).expect("valid");
    let Ok(VectorRef::PackedBit(bits)) = VectorRef::try_from(&stored) else {
        panic!("it has bits");
    };
    let text: String = bits.iter().map(|bit| if bit { '1' } else { '0' }).collect();
    assert_eq!(text, "111011101110");
    assert_eq!(
        (bits.len(), bits.get(3), bits.get(12)),
        (12, Some(false), None)
    );
}

// VEC-7 and VEC-8.
#[test]
fn invalid_payloads_are_refused() {
    for bytes in [
        &[][..],
        &[INT8],
        &[INT8, 1, 5],
        &[FLOAT32, 1, 0, 0, 0, 0],
        &[FLOAT32, 0, 0, 0, 0],
        &[PACKED_BIT, 1],
        &[PACKED_BIT, 8, 0],
        &[PACKED_BIT, 255, 0],
        &[0, 0],
        &[0x28, 0],
    ] {
        assert!(VectorRef::from_bytes(bytes).is_err(), "{bytes:?}");
    }
    let subtype = BinarySubtype::Generic;
    let bytes = vec![INT8, 0];
    assert!(VectorRef::try_from(&Binary { subtype, bytes }).is_err());
}

// VEC-6.
#[test]
fn a_vector_gives_its_data_type_padding_and_bytes() {
    let stored = from_packed_bits(&[0b1010_0000], 5).expect("valid");
    let vector = VectorRef::try_from(&stored).expect("valid");
    assert_eq!((vector.data_type(), vector.padding()), (PACKED_BIT, 5));
    assert_eq!((vector.bytes(), vector.len()), (&[0b1010_0000][..], 3));
    assert_eq!(Binary::from(vector), stored);
}

#[test]
fn a_field_of_a_struct_can_be_a_vector() {
    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Item<'a> {
        #[serde(borrow)]
        v: VectorRef<'a>,
    }

    for stored in [
        from_int8(&[1, -1]),
        from_float32(&[0.5]),
        from_bits(&[true; 9]),
    ] {
        let item = Item {
            v: VectorRef::try_from(&stored).expect("valid"),
        };
        let bytes = crate::serialize_to_vec(&item).expect("it is BSON");
        assert_eq!(bytes, bson::rawdoc! { "v": stored.clone() }.into_bytes());
        assert_eq!(crate::deserialize_from_slice(&bytes), Ok(item));
    }
    let other =
        bson::rawdoc! { "v": Binary { subtype: BinarySubtype::Generic, bytes: vec![3, 0] } };
    let error = crate::deserialize_from_slice::<Item<'_>>(other.as_bytes());
    let error = error.expect_err("another subtype");
    assert!(error.to_string().contains("subtype 0"), "{error}");
    assert_eq!(error.path(), "v");
}

// VEC-P1.
#[test]
fn encoding_with_ignored_bits_that_are_set() {
    assert!(from_packed_bits(&[255], 7).is_err());
}

// VEC-P2.
#[test]
fn decoding_with_ignored_bits_that_are_set() {
    assert!(VectorRef::from_bytes(&[PACKED_BIT, 7, 0xff]).is_err());
}

// VEC-P3. Vectors whose ignored bits are set cannot be built, so that only the second
// comparison remains.
#[test]
fn comparison_of_decoded_and_encoded_vectors() {
    let decoded = VectorRef::from_bytes(&[PACKED_BIT, 7, 0x80]).expect("valid");
    let encoded = from_packed_bits(&[128], 7).expect("valid");
    assert_eq!(VectorRef::try_from(&encoded), Ok(decoded));
}

proptest! {
    #[test]
    fn any_payload_is_read_as_the_crate_reads_it(
        kind in prop_oneof![Just(INT8), Just(FLOAT32), Just(PACKED_BIT), any::<u8>()],
        padding in prop_oneof![Just(0), 0..9_u8, any::<u8>()],
        numbers in vec(any::<u8>(), 0..20),
    ) {
        let bytes = [&[kind, padding][..], &numbers].concat();
        let theirs = Vector::from_bytes(&bytes);
        match VectorRef::from_bytes(&bytes) {
            Ok(ours) => {
                let vector = ours.to_vector().expect("both are valid");
                prop_assert_eq!(&Binary::from(vector).bytes, &bytes);
                prop_assert!(theirs.is_ok());
                prop_assert_eq!((ours.data_type(), ours.padding()), (kind, padding));
                let VectorRef::PackedBit(bits) = ours else {
                    return Ok(());
                };
                let bits: Vec<bool> = bits.iter().collect();
                prop_assert_eq!(&from_bits(&bits).bytes, &bytes);
            }
            Err(error) => prop_assert!(theirs.is_err(), "{error}"),
        }
    }

    #[test]
    fn numbers_survive(
        integers in vec(any::<i8>(), 0..20),
        floats in vec(any::<f32>(), 0..20),
    ) {
        let stored = from_int8(&integers);
        let Ok(VectorRef::Int8(read)) = VectorRef::try_from(&stored) else {
            panic!("it has integers");
        };
        prop_assert_eq!(read.iter().collect::<Vec<_>>(), integers);
        let stored = from_float32(&floats);
        let Ok(VectorRef::Float32(read)) = VectorRef::try_from(&stored) else {
            panic!("it has floating-point numbers");
        };
        let read: Vec<u32> = read.iter().map(f32::to_bits).collect();
        prop_assert_eq!(read, floats.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    }
}
