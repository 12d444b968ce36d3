//! The page of a picture: a template with the data in it.

use super::{Mark, Note, Picture, at_micros, lane::Span};
use crate::world::report::Failure;
use onionskin_core::time::Instant;
use serde::Serialize;
use std::collections::VecDeque;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The texts at the top of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading<'a> {
    pub(crate) title: &'a str,
    pub(crate) summary: &'a str,
    /// The command that repeats the run.
    pub(crate) replay: Option<&'a str>,
    pub(crate) failure: Option<&'a Failure>,
}

/// The data of a page, as its script reads them.
#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    summary: String,
    replay: Option<&'a str>,
    failure: Option<Failed>,
    end: u128,
    lanes: Vec<DrawnLane<'a>>,
    marks: &'a VecDeque<Mark>,
    events: &'a VecDeque<Note>,
}

#[derive(Serialize)]
struct Failed {
    at: u128,
    kind: String,
    text: String,
}

#[derive(Serialize)]
struct DrawnLane<'a> {
    group: String,
    name: String,
    rows: usize,
    spans: &'a VecDeque<Span>,
}

impl Picture {
    /// Returns the page of a run that ended at this time, at which the picture has
    /// [finished](Self::finish).
    pub(crate) fn page(&self, heading: Heading<'_>, end: Instant) -> String {
        let members = self.members.values();
        let members = members.map(|(name, lane)| ("Deployment".to_owned(), name.clone(), lane));
        let clients = self.clients.iter().flat_map(|(number, client)| {
            let lanes = client.lanes();
            lanes.map(move |(name, lane)| (format!("client {number}"), name, lane))
        });
        let mut missing = self.missing_events;
        let mut lanes = Vec::new();
        for (group, name, lane) in members.chain(clients) {
            missing += lane.missing();
            lanes.push(DrawnLane {
                group,
                name,
                rows: lane.rows(),
                spans: lane.spans(),
            });
        }
        let mut summary = heading.summary.to_owned();
        if missing > 0 {
            summary += &format!("; the earliest {missing} events and spans are not shown");
        }
        let data = Data {
            title: heading.title,
            summary,
            replay: heading.replay,
            failure: heading.failure.map(|failure| Failed {
                at: at_micros(failure.at),
                kind: format!("{:?}", failure.kind),
                text: failure.message.clone(),
            }),
            end: at_micros(end),
            lanes,
            marks: &self.marks,
            events: &self.events,
        };
        // `<` occurs only within texts of the data, where the escape means the same. Without it, a
        // text could end the script element.
        let data = serde_json::to_string(&data).unwrap_or_default();
        let data = data.replace('<', "\\u003c");
        fill(
            PAGE,
            &[("/*CSS*/", STYLE), ("/*JS*/", SCRIPT), ("/*DATA*/", &data)],
        )
    }
}

/// Puts texts in the places of their names. Names in these texts have no meaning.
fn fill(template: &str, texts: &[(&str, &str)]) -> String {
    let Some(((name, text), others)) = texts.split_first() else {
        return template.to_owned();
    };
    match template.split_once(name) {
        Some((before, after)) => {
            let (before, after) = (fill(before, others), fill(after, others));
            [&before, *text, &after].concat()
        }
        None => fill(template, others),
    }
}
