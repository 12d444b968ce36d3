//! Options of search indexes.

use crate::options::options;
use std::time::Duration;

options! { ($)
    /// Options of `create_search_index` and `create_search_indexes`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::CreateSearchIndexOptions;
    /// use std::time::Duration;
    ///
    /// let options = CreateSearchIndexOptions::builder().timeout(Duration::from_secs(60)).build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(60)));
    /// ```
    CreateSearchIndexOptions, built by CreateSearchIndexOptionsBuilder,
    listed by create_search_index_options => {
        /// Sets the time limit of the whole operation: server selection, check-out and exchange.
        /// Default: that of the handle, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `update_search_index`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::UpdateSearchIndexOptions;
    /// use std::time::Duration;
    ///
    /// let options = UpdateSearchIndexOptions::builder().timeout(Duration::from_secs(60)).build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(60)));
    /// ```
    UpdateSearchIndexOptions, built by UpdateSearchIndexOptionsBuilder,
    listed by update_search_index_options => {
        /// Sets the time limit of the whole operation: server selection, check-out and exchange.
        /// Default: that of the handle, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `drop_search_index`. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::DropSearchIndexOptions;
    /// use std::time::Duration;
    ///
    /// let options = DropSearchIndexOptions::builder().timeout(Duration::from_secs(10)).build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(10)));
    /// ```
    DropSearchIndexOptions, built by DropSearchIndexOptionsBuilder,
    listed by drop_search_index_options => {
        /// Sets the time limit of the whole operation: server selection, check-out and exchange.
        /// Default: that of the handle, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `list_search_indexes` beside those of its aggregation. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::crud::ListSearchIndexOptions;
    /// use std::time::Duration;
    ///
    /// let options = ListSearchIndexOptions::builder().timeout(Duration::from_secs(10)).build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(10)));
    /// ```
    ListSearchIndexOptions, built by ListSearchIndexOptionsBuilder,
    listed by list_search_index_options => {
        /// Sets the time limit of the operation, by default with every `getMore` of its cursor (see
        /// `timeout_mode`). Default: that of the aggregation's options, or else `timeoutMS` of the
        /// client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }
}
