//! The operation that opens a change stream, on any object.

use super::{Answer, Arguments, Done};
use crate::entities::Open;
use bson::Document;
use onionskin::{Runtime, Watch, options::ChangeStreamOptions};

/// Opens a change stream, in a session if there is one.
pub(super) async fn watch<R: Runtime, T>(
    watch: Watch<R, T>,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let slot = arguments.slot()?;
    let pipeline = arguments.documents("pipeline")?;
    let options = arguments.options::<ChangeStreamOptions>()?;
    let watch = watch.pipeline(pipeline).with_options(options);
    let open = match slot {
        None => Open::Changes(watch.await?.with_type::<Document>()),
        Some(slot) => {
            let mut borrowed = slot.borrow()?;
            let stream = watch.session(borrowed.session()).await?;
            drop(borrowed);
            Open::ChangesInSession(stream.with_type::<Document>(), slot)
        }
    };
    Ok(Answer::Cursor(Box::new(open)))
}
