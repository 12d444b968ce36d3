//! Pipelines with `$out` and `$merge` if the caller of the deployment runs jobs. The stages before
//! the last one are a query, which can become a job. Their documents are then written in parts.

use super::{
    Member,
    connection::Request,
    cursor::Cursor,
    dispatch::{Answer, Outcome},
    fault::fault,
    parts::{Progress, STEPS_OF_DOCUMENT},
    read::{FIRST_BATCH, collation, is_limited},
    retry::session_key,
    write::set_bypasses,
};
use crate::store::{Namespace, Outputs, Query, Shared};
use bson::Document;
use onionskin_core::time::Instant;

impl Member {
    /// Runs the stages of a pipeline before `$out` or `$merge`, and writes their documents.
    pub(super) fn begin_outputs(
        &mut self,
        now: Instant,
        request: &mut Request,
        pipeline: &[Document],
    ) -> Answer {
        let Some((last, stages)) = pipeline.split_last() else {
            return Err(fault(9, "the pipeline is empty"));
        };
        self.replica.store().check_output(pipeline)?;
        let command = &request.command;
        let query = Query::Aggregate(
            request.database.clone(),
            command.get_str(&request.name).ok().map(str::to_owned),
            stages.to_vec(),
            collation(command),
            command.get("hint").cloned(),
        );
        let variables = command.get_document("let").ok();
        let documents = self.query(now, variables, query)?.documents();
        let name = command.get_str(&request.name).unwrap_or("$cmd.aggregate");
        let source = Namespace::new(request.database.clone(), name);
        let outputs = self.replica.store().outputs(source, last, documents)?;
        self.write_outputs(now, request, outputs)
    }

    /// Goes on with a pipeline that has paused.
    pub(super) fn continue_outputs(&mut self, now: Instant, request: &mut Request) -> Answer {
        match request.progress.take().map(|progress| *progress) {
            Some(Progress::Outputs(outputs)) => self.write_outputs(now, request, outputs),
            _ => Err(fault(1, "the pipeline has not paused")),
        }
    }

    fn write_outputs(
        &mut self,
        now: Instant,
        request: &mut Request,
        mut outputs: Outputs,
    ) -> Answer {
        let command = &request.command;
        let most = self.can_wait_for_jobs().then_some(STEPS_OF_DOCUMENT);
        let limits = (most, self.pausing());
        let variables = command.get_document("let").ok();
        self.with_limits(now, variables, limits, |store, environment| {
            set_bypasses(environment, command);
            store.write_some(&mut outputs, environment)
        })?;
        if !outputs.is_complete() {
            request.progress = Some(Box::new(Progress::Outputs(outputs)));
            return self.pause(now, request);
        }
        let cursor = self.pipeline_cursor(request, Vec::new(), true);
        let reply = self.first_batch(now, cursor, FIRST_BATCH, false)?;
        Ok(Outcome::Written(reply))
    }

    /// Returns the cursor over the result of a pipeline.
    pub(super) fn pipeline_cursor(
        &self,
        request: &Request,
        documents: Vec<Shared>,
        ends_early: bool,
    ) -> Cursor {
        let (command, database) = (&request.command, &request.database);
        let name = command.get_str(&request.name).unwrap_or("$cmd.aggregate");
        let full = format!("{database}.{name}");
        let place = full.split_once('.').unwrap_or_default();
        Cursor {
            serial: self
                .replica
                .store()
                .serial_of(&Namespace::new(place.0, place.1)),
            namespace: full,
            session: session_key(command),
            transaction: None,
            documents: documents.into(),
            tail: None,
            stream: None,
            no_timeout: false,
            ends_early,
            is_limited: is_limited(command),
            bytes: 0,
        }
    }
}
