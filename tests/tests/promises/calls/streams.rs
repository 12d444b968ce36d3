//! The options of change streams.

use super::{ANY, MINUTE, Sent, collation, is, secondary, sends};
use bson::{Document, Timestamp, doc};
use onionskin_core::options::ReadConcern;
use onionskin_tokio::{
    Collection,
    change_stream::{
        ChangeStream,
        event::{ChangeStreamEvent, ResumeToken},
    },
    options::{FullDocumentBeforeChangeType, FullDocumentType},
};
use std::collections::BTreeSet;

pub(super) async fn watch(sent: &Sent, seen: &mut BTreeSet<String>, things: &Collection<Document>) {
    let stream = things.watch().await;
    let stream: ChangeStream<ChangeStreamEvent<Document>> = stream.expect("open");
    drop(stream);
    let token = doc! { "_data": "00" }.try_into().expect("BSON");
    let token = ResumeToken::from_document(token);
    let time = Timestamp {
        time: 1,
        increment: 2,
    };
    let before = FullDocumentBeforeChangeType::Required;
    sends!(sent, seen, "aggregate", Watch: things.watch(), {
        batch_size(3) => "cursor.batchSize" = is(3_i64);
        collation(collation()) => "collation.locale" = is("en");
        comment(7) => "comment" = is(7);
        full_document(FullDocumentType::UpdateLookup)
            => "pipeline.0.$changeStream.fullDocument" = is("updateLookup");
        full_document_before_change(before)
            => "pipeline.0.$changeStream.fullDocumentBeforeChange" = is("required");
        join_split_events(true) => "pipeline.1.$changeStreamSplitLargeEvent" = ANY;
        read_concern(ReadConcern::majority()) => "readConcern.level" = is("majority");
        resume_after(token.clone())
            => "pipeline.0.$changeStream.resumeAfter._data" = is("00");
        selection_criteria(secondary()) => "$readPreference.mode" = is("secondary");
        show_expanded_events(true)
            => "pipeline.0.$changeStream.showExpandedEvents" = is(true);
        start_after(token.clone())
            => "pipeline.0.$changeStream.startAfter._data" = is("00");
        start_at_operation_time(time)
            => "pipeline.0.$changeStream.startAtOperationTime" = is(time);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}
