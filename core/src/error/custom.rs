//! Errors that applications make.

use super::{BsonError, Error, ErrorKind};
use std::{any::Any, fmt, sync::Arc};

/// A value of an application, as an error. Two of them are equal only if one is a clone of the
/// other.
#[derive(Clone)]
pub struct CustomError(Arc<dyn Any + Send + Sync>);

impl PartialEq for CustomError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for CustomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomError(..)")
    }
}

impl Error {
    /// Returns an error that holds a value of the application, for example for functions that
    /// return this error type. The driver makes no such errors.
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct OutOfStock(u32);
    ///
    /// let error = Error::custom(OutOfStock(7));
    /// assert_eq!(error.get_custom::<OutOfStock>(), Some(&OutOfStock(7)));
    /// assert_eq!(error.get_custom::<String>(), None);
    /// ```
    pub fn custom(value: impl Any + Send + Sync) -> Self {
        Self::new(ErrorKind::Custom(CustomError(Arc::new(value))))
    }

    /// Returns the value of an error that [`custom`](Self::custom) made; `None` for other errors,
    /// and if the value has another type.
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// let error = Error::custom("out of stock");
    /// assert_eq!(error.get_custom::<&str>(), Some(&"out of stock"));
    /// assert_eq!(Error::argument("no documents").get_custom::<&str>(), None);
    /// ```
    #[must_use]
    pub fn get_custom<T: Any>(&self) -> Option<&T> {
        match self.kind() {
            ErrorKind::Custom(CustomError(value)) => value.downcast_ref(),
            _ => None,
        }
    }
}

/// The kind is [`ErrorKind::Bson`].
impl From<bson::error::Error> for Error {
    fn from(error: bson::error::Error) -> Self {
        Self::new(ErrorKind::Bson(BsonError::new(error.to_string(), "")))
    }
}
