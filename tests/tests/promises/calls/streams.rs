//! The options of change streams.

use super::{ANY, Calls, MINUTE, collation, is, secondary, sends};
use bson::{Timestamp, doc, rawdoc};
use onionskin::{
    Runtime,
    change_stream::event::ResumeToken,
    options::{FullDocumentBeforeChangeType, FullDocumentType},
};
use onionskin_core::options::ReadConcern;

pub(super) async fn watch<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();
    // FerretDB has neither change streams nor times.
    let stream = things.watch().await.ok();
    let token = stream.and_then(|stream| stream.resume_token());
    let other = || ResumeToken::from_document(rawdoc! { "_data": "00" });
    let token = token.unwrap_or_else(other);
    let data = token.as_document().get_str("_data").expect("a text");
    let ping = calls.database.run_command(doc! { "ping": 1 }).await;
    let time = ping.expect("a reply").get_timestamp("operationTime").ok();
    let time = time.unwrap_or(Timestamp {
        time: 1,
        increment: 2,
    });
    let before = FullDocumentBeforeChangeType::Required;
    sends!(calls, "aggregate", Watch: things.watch(), {
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
            => "pipeline.0.$changeStream.resumeAfter._data" = is(data);
        selection_criteria(secondary().into()) => "$readPreference.mode" = is("secondary");
        show_expanded_events(true)
            => "pipeline.0.$changeStream.showExpandedEvents" = is(true);
        start_after(token.clone())
            => "pipeline.0.$changeStream.startAfter._data" = is(data);
        start_at_operation_time(time)
            => "pipeline.0.$changeStream.startAtOperationTime" = is(time);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}
