//! Tests of the rules for chunks and for the documents of files.

use super::{
    Bucket, FilesCollectionDocument, GridFsUploadOptions, StreamLimit, Upload,
    buffer::{ChunkBuffer, MAX_BATCH_BYTES, MAX_CHUNK_BYTES},
    layout::Layout,
};
use crate::{
    bson::deserialize,
    error::{
        Argument, Error, ErrorKind, GridFsErrorKind, IndexedWriteError, InsertManyError,
        NetworkFault,
    },
    operation::{Abandoned, Program, Step, crud::Defaults},
};
use bson::{
    Binary, Bson, DateTime, RawDocument, RawDocumentBuf, doc, oid::ObjectId, rawdoc,
    spec::BinarySubtype,
};

fn new_id() -> ObjectId {
    ObjectId::from_bytes([7; 12])
}

fn file(length: impl Into<Bson>, chunk_size: impl Into<Bson>) -> Result<Layout, Error> {
    let stored = doc! {
        "_id": 1, "length": length.into(), "chunkSize": chunk_size.into(),
        "uploadDate": DateTime::from_millis(0), "filename": "f",
    };
    let bytes = RawDocumentBuf::try_from(&stored).expect("it is BSON");
    Layout::new(&deserialize::<FilesCollectionDocument>(bytes.as_bytes())?)
}

fn chunk(n: impl Into<bson::RawBson>, size: usize) -> RawDocumentBuf {
    let data = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![1; size],
    };
    rawdoc! { "_id": 1, "files_id": 1, "n": n.into(), "data": data }
}

fn mistake(layout: Layout, next: u64, chunk: &RawDocument) -> GridFsErrorKind {
    let error = layout.check(next, chunk).expect_err("a mistake");
    match error.kind() {
        ErrorKind::GridFs(kind) => kind.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_of_every_type_are_read() {
    for length in [Bson::Int32(9), Bson::Int64(9), Bson::Double(9.0)] {
        for size in [Bson::Int32(4), Bson::Int64(4), Bson::Double(4.0)] {
            let layout = file(length.clone(), size).expect("a file");
            assert_eq!(layout.chunks(), 3);
        }
    }
}

#[test]
fn hostile_files_are_refused() {
    for (length, size) in [
        (Bson::Int64(-1), Bson::Int32(4)),
        (Bson::Double(-1.0), Bson::Int32(4)),
        (Bson::Double(1.5), Bson::Int32(4)),
        (Bson::Double(f64::NAN), Bson::Int32(4)),
        (Bson::Double(f64::INFINITY), Bson::Int32(4)),
        (Bson::from("9"), Bson::Int32(4)),
        (Bson::Int32(9), Bson::Int32(-4)),
        (Bson::Int32(9), Bson::Int64(i64::MAX)),
        (Bson::Int32(9), Bson::Double(1e300)),
        (Bson::Int32(9), Bson::Int32(0)),
    ] {
        assert!(
            file(length.clone(), size.clone()).is_err(),
            "{length} {size}"
        );
    }
    // A huge file is one of many chunks, of which the first that is missing is an error.
    let huge = file(i64::MAX, 1).expect("it can be described");
    assert_eq!(huge.chunks(), i64::MAX as u64);
    assert!(huge.check(0, &chunk(0, 1)).is_ok());
    assert!(huge.check_end(1).is_err());
    assert_eq!(file(0, 0).expect("empty").chunks(), 0);
}

#[test]
fn chunks_have_their_index_and_size() {
    let layout = file(9, 4).expect("a file");
    for n in 0..2 {
        assert!(layout.check(n, &chunk(n as i32, 4)).is_ok());
    }
    let last = chunk(2.0, 1);
    let place = layout.check(2, &last).expect("it fits");
    let data = last.get_binary("data").expect("data").bytes;
    assert_eq!(last.as_bytes().get(place), Some(data));
    assert!(layout.check_end(3).is_ok());

    let missing = GridFsErrorKind::MissingChunk { n: 1 };
    assert_eq!(mistake(layout, 1, &chunk(2, 1)), missing);
    assert_eq!(layout.check_end(1), Err(Error::gridfs(missing)));
    for (next, n) in [(1, 0), (1, -1), (3, 3), (3, 2)] {
        let extra = GridFsErrorKind::ExtraChunk { n: n.into() };
        assert_eq!(mistake(layout, next, &chunk(n, 4)), extra);
    }
    for (n, actual_size, expected_size) in [(0, 3, 4), (1, 5, 4), (2, 4, 1), (2, 0, 1)] {
        let wrong = GridFsErrorKind::WrongSizeChunk {
            actual_size,
            expected_size,
            n: n as u64,
        };
        assert_eq!(mistake(layout, n as u64, &chunk(n, actual_size)), wrong);
    }
    for invalid in [
        rawdoc! { "n": "0", "data": 1 },
        rawdoc! { "n": 0, "data": "text" },
        rawdoc! {},
    ] {
        let kind = mistake(layout, 0, &invalid);
        assert!(
            matches!(kind, GridFsErrorKind::InvalidChunk { n: 0, .. }),
            "{kind:?}"
        );
    }
}

/// Returns the indexes and the data of chunk documents.
fn split(mut documents: &[u8]) -> Vec<(i32, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(size) = documents.first_chunk::<4>() {
        let (first, rest) = documents.split_at(i32::from_le_bytes(*size) as usize);
        let document = RawDocument::from_bytes(first).expect("a document");
        assert_eq!(document.get("files_id").expect("BSON"), Some("id".into()));
        let data = document.get_binary("data").expect("data").bytes.to_vec();
        all.push((document.get_i32("n").expect("an index"), data));
        documents = rest;
    }
    all
}

#[test]
fn bytes_are_cut_into_chunks_however_they_are_written() {
    let bytes: Vec<u8> = (0..23).collect();
    for piece in [1, 2, 5, 7, 23] {
        let mut buffer = ChunkBuffer::new(&"id".into(), 5).expect("an id");
        let mut sent = Vec::new();
        for piece in bytes.chunks(piece) {
            assert_eq!(buffer.write(piece, &mut new_id), Ok(piece.len()));
            if piece[0] % 2 == 0 {
                sent.extend(buffer.take_complete());
            }
        }
        buffer.end_chunk();
        sent.extend(buffer.take_complete());
        let expected: Vec<_> = (0..).zip(bytes.chunks(5).map(<[u8]>::to_vec)).collect();
        assert_eq!(split(&sent), expected, "{piece}");
        buffer.end_chunk();
        assert!(buffer.take_complete().is_empty() && !buffer.has_complete());
    }
}

#[test]
fn a_full_buffer_takes_no_more_bytes() {
    let size = MAX_CHUNK_BYTES / 3;
    let mut buffer = ChunkBuffer::new(&"id".into(), size).expect("an id");
    let bytes = vec![3; 4 * size as usize];
    let taken = buffer.write(&bytes, &mut new_id).expect("few chunks");
    assert_eq!(taken, 2 * size as usize);
    assert!(buffer.is_full() && buffer.write(&bytes, &mut new_id) == Ok(0));
    assert!(buffer.take_complete().len() <= MAX_BATCH_BYTES);
    assert!(!buffer.is_full());
}

fn upload(chunk_size: u32) -> Result<Upload, Error> {
    let bucket = Bucket::new(&"db".into(), &Default::default(), &Defaults::default());
    let options = GridFsUploadOptions::builder()
        .chunk_size_bytes(chunk_size)
        .build();
    let limit = StreamLimit::default();
    Upload::new(bucket, "id".into(), "name".to_owned(), options, limit, true)
}

#[test]
fn chunk_sizes_are_checked() {
    for size in [0, MAX_CHUNK_BYTES + 1, u32::MAX] {
        let error = upload(size).expect_err("no size");
        assert!(matches!(
            error.kind(),
            ErrorKind::InvalidArgument {
                argument: Argument::Option("chunkSizeBytes"),
                ..
            }
        ));
    }
    assert!(upload(MAX_CHUNK_BYTES).is_ok());
}

#[test]
fn metadata_that_cannot_be_encoded_is_refused_before_a_chunk_is_stored() {
    let bucket = Bucket::new(&"db".into(), &Default::default(), &Defaults::default());
    let options = GridFsUploadOptions::builder()
        .metadata(doc! { "inner": { "a\0b": 1 } })
        .build();
    let (id, name, limit) = ("id".into(), "name".to_owned(), StreamLimit::default());
    let error = Upload::new(bucket, id, name, options, limit, true).expect_err("no key");
    assert!(matches!(error.kind(), ErrorKind::Bson { .. }), "{error:?}");
}

#[test]
fn an_upload_that_has_sent_nothing_leaves_nothing_to_delete() {
    let mut idle = upload(4).expect("an upload");
    assert!(matches!(idle.start(), Step::Wait));
    assert_eq!(idle.write(&[1; 9], new_id), Ok(9));
    assert!(matches!(idle.abandon(), Abandoned::Nothing));
    idle.send();
    assert!(matches!(idle.handle_input(), Step::Run(insert) if insert.name() == "insert"));
    assert!(matches!(idle.abandon(), Abandoned::Run(delete) if delete.name() == "delete"));

    let mut aborted = upload(4).expect("an upload");
    aborted.write(&[1; 9], new_id).expect("few chunks");
    aborted.abort();
    assert!(matches!(aborted.handle_input(), Step::Done(Ok(()))));
}

#[test]
fn the_chunks_of_a_dropped_upload_are_deleted_although_its_last_insert_fails() {
    let mut upload = upload(4).expect("an upload");
    upload.write(&[1; 9], new_id).expect("few chunks");
    upload.send();
    assert!(matches!(upload.handle_input(), Step::Run(insert) if insert.name() == "insert"));
    upload.stop();
    let lost = Error::network(NetworkFault::Reset, "reset");
    assert!(matches!(upload.handle_error(lost), Step::Wait));
    assert!(matches!(upload.abandon(), Abandoned::Run(delete) if delete.name() == "delete"));
}

#[test]
fn the_chunks_of_another_file_with_the_id_of_a_dropped_upload_are_kept() {
    let mut upload = upload(4).expect("an upload");
    upload.write(&[1; 9], new_id).expect("few chunks");
    upload.send();
    assert!(matches!(upload.handle_input(), Step::Run(insert) if insert.name() == "insert"));
    upload.stop();
    let taken = rawdoc! { "index": 0, "code": 11_000, "errmsg": "duplicate key" };
    let taken = InsertManyError {
        write_errors: Some(vec![IndexedWriteError::from_document(&taken)]),
        ..InsertManyError::default()
    };
    let taken = Error::new(ErrorKind::InsertMany(taken));
    assert!(matches!(upload.handle_error(taken), Step::Wait));
    assert!(matches!(upload.abandon(), Abandoned::Nothing));
}
