//! Operands of expressions that are documents of named arguments.

use bson::Bson;

use super::calendar::{self, Unit};
use super::format::Zone;
use super::operators::argument;
use super::values::truthy;
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::order::type_name;

type Answer<T> = Result<T, StoreError>;

/// An operand that is a document. Each field is evaluated when it is asked for.
pub(super) struct Arguments<'a> {
    pub(super) operator: &'a str,
    pub(super) operand: &'a Bson,
    pub(super) scope: &'a Scope<'a>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(operator: &'a str, operand: &'a Bson, scope: &'a Scope<'a>) -> Answer<Self> {
        if operand.as_document().is_none() {
            let text = format!("{operator} only supports an object as its argument");
            return Err(StoreError::new(18629, text));
        }
        Ok(Self {
            operator,
            operand,
            scope,
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.operand
            .as_document()
            .is_some_and(|d| d.contains_key(name))
    }

    /// Returns the value of a field; `None` if the value is missing or null.
    pub(super) fn value(&self, name: &str) -> Evaluated {
        let given = self.operand.as_document().and_then(|d| d.get(name));
        let value = given.map_or(Ok(None), |given| eval(given, self.scope))?;
        Ok(value.filter(|value| !matches!(value, Bson::Null | Bson::Undefined)))
    }

    /// Returns the value of a field that must be given; `None` if the value is missing or null.
    pub(super) fn required(&self, name: &str) -> Evaluated {
        argument(self.operator, self.operand, name)?;
        self.value(name)
    }

    pub(super) fn text(&self, name: &str, code: i32) -> Answer<Option<String>> {
        match self.value(name)? {
            None => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text)),
            Some(other) => {
                let (operator, kind) = (self.operator, type_name(&other));
                let text = format!("{operator} requires '{name}' to be a string, found: {kind}");
                Err(StoreError::new(code, text))
            }
        }
    }

    /// Returns the time zone, or `None` if it is given and null.
    pub(super) fn zone(&self) -> Answer<Option<Zone>> {
        match self.text("timezone", 40517)? {
            None if self.has("timezone") => Ok(None),
            None => Ok(Some(Zone::UTC)),
            Some(name) => Zone::parse(&name).map(Some),
        }
    }

    pub(super) fn unit(&self, code: i32) -> Answer<Option<Unit>> {
        let name = self.text("unit", code)?;
        name.map(|name| Unit::parse(&name)).transpose()
    }

    /// Returns the number of the day on which weeks start, from 0 for Sunday.
    pub(super) fn start_of_week(&self) -> Answer<Option<i64>> {
        match self.text("startOfWeek", 5_439_015)? {
            None if self.has("startOfWeek") => Ok(None),
            None => Ok(Some(0)),
            Some(name) => calendar::day_of_week(&name).map(Some),
        }
    }
}

/// True if an option such as `useLongestLength` is set.
pub(super) fn is_set(operand: &Bson, name: &str) -> bool {
    operand
        .as_document()
        .and_then(|d| d.get(name))
        .is_some_and(truthy)
}
