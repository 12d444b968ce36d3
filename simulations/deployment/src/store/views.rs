//! The checks of a view's definition.

use bson::{Bson, Document};

use super::collection::Collection;
use super::error::StoreError;
use super::pipeline::{MAX_DEPTH, parse, pipeline};
use super::read::not_on_view;
use super::release::Release;
use super::stages::stage_name;
use super::types::Namespace;
use super::{Answer, Store};

/// The first release whose error about an empty `viewOn` has no full stop.
const NO_FULL_STOP: Release = Release([5, 0, 0]);

impl Store {
    /// Returns an error if this is a view, for a command that has no meaning for one.
    pub(crate) fn refuse_view(&self, namespace: &Namespace) -> Answer<()> {
        let is_view = |found: &Collection| found.view_on().is_some();
        match self.collection(namespace).is_some_and(is_view) {
            true => Err(not_on_view(namespace)),
            false => Ok(()),
        }
    }

    /// Returns an error if these are options of a view whose pipeline is malformed or writes, or
    /// which depends on itself or on too many other views.
    pub(super) fn check_view(&self, namespace: &Namespace, options: &Document) -> Answer<()> {
        let Ok(on) = options.get_str("viewOn") else {
            if options.contains_key("pipeline") {
                let text = "'pipeline' requires 'viewOn' to also be specified";
                return Err(StoreError::new(72, text));
            }
            return Ok(());
        };
        if on.is_empty() {
            let end = if self.release < NO_FULL_STOP {
                ".'"
            } else {
                ""
            };
            let text = format!("'viewOn' cannot be empty{end}");
            return Err(StoreError::bad_value(text));
        }
        let none = Bson::Array(Vec::new());
        let stages = pipeline(options.get("pipeline").unwrap_or(&none), self.release)?;
        for stage in &stages {
            if let name @ ("$out" | "$merge") = stage_name(stage)? {
                let text = format!("The aggregation stage {name} cannot be used in a view");
                return Err(StoreError::new(167, text));
            }
        }
        parse(&stages, 0, self.release)?;
        self.check_dependencies(namespace, on)
    }

    fn check_dependencies<'a>(&'a self, namespace: &Namespace, mut on: &'a str) -> Answer<()> {
        for _ in 0..MAX_DEPTH {
            if on == namespace.collection {
                let text = format!("View cycle detected: {namespace} depends on itself");
                return Err(StoreError::new(5, text));
            }
            let place = Namespace::new(namespace.database.clone(), on);
            match self.collection(&place).and_then(|found| found.view_on()) {
                Some(next) => on = next,
                None => return Ok(()),
            }
        }
        let text = format!("View depth limit exceeded; maximum depth is {MAX_DEPTH}");
        Err(StoreError::new(165, text))
    }
}
