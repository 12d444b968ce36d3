//! Log messages of server selection (SEL-61 to SEL-64).

use super::Record;
use crate::event::{SelectionEvent, SelectionFacts};

pub(super) fn record(event: &SelectionEvent) -> Record {
    let mut record;
    match event {
        SelectionEvent::Started { facts } => {
            record = of_selection(
                "Server selection started",
                "Server selection started for operation {operation} with ID {operationId}. \
                 Selector: {selector}, topology description: {topologyDescription}",
                facts,
            );
        }
        SelectionEvent::Succeeded { facts, address } => {
            record = of_selection(
                "Server selection succeeded",
                "Server selection succeeded for operation {operation} with ID {operationId}. \
                 Selected server: {server}. Selector: {selector}, topology description: \
                 {topologyDescription}",
                facts,
            );
            record.server(address);
        }
        SelectionEvent::Failed { facts, failure } => {
            record = of_selection(
                "Server selection failed",
                "Server selection failed for operation {operation} with ID {operationId}. \
                 Failure: {failure}. Selector: {selector}, topology description: \
                 {topologyDescription}",
                facts,
            );
            record.text("failure", failure.to_string());
        }
        SelectionEvent::Waiting { facts, remaining } => {
            record = of_selection(
                "Waiting for suitable server to become available",
                "Waiting for server to become available for operation {operation} with ID \
                 {operationId}.[ Remaining time: {remainingTimeMS} ms.] Selector: {selector}, \
                 topology description: {topologyDescription}",
                facts,
            );
            if let Some(remaining) = remaining {
                record.millis("remainingTimeMS", *remaining);
            }
        }
    }
    record
}

fn of_selection(message: &'static str, template: &'static str, facts: &SelectionFacts) -> Record {
    let mut record = Record::new(message, template);
    record.text("selector", &*facts.selector);
    record.count("operationId", facts.operation_id);
    record.text("operation", &*facts.operation);
    record.text("topologyDescription", facts.topology.to_string());
    record
}
