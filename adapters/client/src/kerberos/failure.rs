//! Errors of the GSSAPI library.

use libgssapi::error::Error;

/// The routine error for credentials that have expired (RFC 2744, section 3.9.1).
const CREDENTIALS_EXPIRED: u32 = 11;

/// The routine error for a context whose ticket has expired (RFC 2744, section 3.9.1).
const CONTEXT_EXPIRED: u32 = 12;

/// The number of the first error of RFC 4120 among the codes of MIT and Heimdal.
const FIRST_KERBEROS_ERROR: i32 = -1_765_328_384;

/// The error for a ticket that has expired (RFC 4120, section 7.5.9).
const TICKET_EXPIRED: i32 = FIRST_KERBEROS_ERROR + 32;

/// An error of the library.
#[derive(Debug)]
pub(super) struct Failure {
    what: &'static str,
    text: String,
    is_expiry: bool,
}

impl Failure {
    /// Returns a function that describes errors of the step `what`. The function must run in the
    /// thread of the error, because the library keeps the details for that thread only.
    pub(super) fn of(what: &'static str) -> impl Fn(Error) -> Self {
        move |error| {
            // `MajorFlags` takes the routine errors for single bits, but they are numbers.
            let routine = (error.major.bits() >> 16) & 0xff;
            Self {
                what,
                text: one_line(&error.to_string()),
                is_expiry: matches!(routine, CREDENTIALS_EXPIRED | CONTEXT_EXPIRED)
                    || error.minor.cast_signed() == TICKET_EXPIRED,
            }
        }
    }

    /// True if a new ticket can help.
    pub(super) const fn is_expiry(&self) -> bool {
        self.is_expiry
    }

    pub(super) fn reason(&self) -> String {
        let advice = if self.is_expiry { "; run kinit" } else { "" };
        format!("{}: {}{advice}", self.what, self.text)
    }
}

/// Returns a function that states the reason of an error of the step `what`.
pub(super) fn reason(what: &'static str) -> impl Fn(Error) -> String {
    move |error| Failure::of(what)(error).reason()
}

fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}
