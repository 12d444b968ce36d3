//! Summaries of certificates.

use onionskin_core::time::WallTime;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    prelude::{ASN1Time, FromDer},
};

/// The maximum number of names of a certificate that are shown.
const MAX_NAMES: usize = 20;

/// The time before its expiry from which a certificate causes a warning, in seconds: 14 days.
const EXPIRES_SOON: i64 = 14 * 24 * 60 * 60;

/// The parts of a certificate that a report shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// The names and addresses for which the certificate is valid; at most [`MAX_NAMES`].
    pub(crate) names: Vec<String>,
    pub(crate) not_before: String,
    pub(crate) not_after: String,
    pub(crate) validity: Validity,
    pub(crate) is_self_issued: bool,
}

/// The validity of a certificate by the clock of this machine. Worse values are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Validity {
    Valid,
    ExpiresSoon,
    NotYet,
    Expired,
}

impl Summary {
    /// Returns the summary of a certificate in DER form; `None` if it is malformed.
    pub(crate) fn parse(der: &[u8], wall: WallTime) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        let now = i64::try_from(wall.as_unix_millis() / 1000).ok()?;
        let (from, until) = (
            validity.not_before.timestamp(),
            validity.not_after.timestamp(),
        );
        Some(Self {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            names: names_of(&certificate),
            not_before: date(validity.not_before),
            not_after: date(validity.not_after),
            validity: match () {
                () if now < from => Validity::NotYet,
                () if now > until => Validity::Expired,
                () if now > until.saturating_sub(EXPIRES_SOON) => Validity::ExpiresSoon,
                () => Validity::Valid,
            },
            is_self_issued: certificate.subject().as_raw() == certificate.issuer().as_raw(),
        })
    }

    /// Returns one line with subject, issuer and validity.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, issued by {}, valid from {} to {}",
            named(&self.subject),
            named(&self.issuer),
            self.not_before,
            self.not_after
        )
    }
}

fn named(name: &str) -> &str {
    match name {
        "" => "(no name)",
        name => name,
    }
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = extension.value.general_names.iter();
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => Some(ip_of(bytes)?.to_string()),
        _ => None,
    });
    names.take(MAX_NAMES).collect()
}

fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

/// Returns a date in the form of RFC 3339, in UTC.
fn date(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let (date, clock) = (time.date(), time.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    )
}
