//! The second half of `mongodb+srv`: what DNS said, brought together with the string.

use super::{
    Result, Warning, invalid,
    options::{Given, Read, gather},
};
use crate::{
    address::Address,
    error::UriPart,
    options::{ClientOptions, Credential},
};

/// What a TXT record may set (DNS-30).
const ALLOWED_IN_TXT: [&str; 3] = ["authSource", "replicaSet", "loadBalanced"];

/// The options of a client whose `mongodb+srv` host is resolved: the hosts of its SRV records (as
/// many of them as `srvMaxHosts` leaves) become the seeds, and the TXT record fills in what neither
/// the string nor code has chosen (DNS-32, DNS-37). All rules are checked again, because the record
/// can break them (DNS-12).
///
/// ```
/// use onionskin_core::{address::Address, uri};
///
/// let parsed = uri::parse("mongodb+srv://cluster.example.net/?replicaSet=mine")?;
/// assert!(parsed.options.hosts().is_empty() && parsed.options.tls().enabled);
/// let hosts = vec![Address::tcp("a.example.net", 27017)];
/// let txt = "authSource=users&replicaSet=theirs";
/// let (options, _) = uri::resolve(&parsed.options, hosts, Some(txt))?;
/// assert_eq!(options.replica_set(), Some("mine"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub fn resolve(
    options: &ClientOptions,
    hosts: Vec<Address>,
    txt: Option<&str>,
) -> Result<(ClientOptions, Vec<Warning>)> {
    let mut resolved = options.clone();
    resolved.set_hosts(hosts);
    let mut warnings = Vec::new();
    if let Some(txt) = txt {
        let mut read = Read::default();
        for given in &allowed(txt, &mut read.warnings)? {
            read.apply(given)?;
        }
        if options.auth_source_is_default()
            && let Some(credential) = options.credential()
            && let Some(source) = read.draft.auth_source
        {
            let mut credential: Credential = credential.clone();
            credential.source = source;
            resolved.set_credential(credential)?;
        }
        let from_txt = read.draft.options;
        if let (None, Some(name)) = (options.replica_set(), from_txt.replica_set()) {
            resolved.set_replica_set(name)?;
        }
        if let (None, Some(on)) = (
            options.load_balanced_choice(),
            from_txt.load_balanced_choice(),
        ) {
            resolved.set_load_balanced(on);
        }
        warnings = read.warnings;
    }
    if resolved.hosts().is_empty() {
        return Err(invalid(
            UriPart::Host,
            "DNS has no SRV records for the host",
        ));
    }
    resolved.validate()?;
    Ok((resolved, warnings))
}

/// The record's options, if it has only those that it may have (DNS-30, DNS-31, DNS-33).
fn allowed(txt: &str, warnings: &mut Vec<Warning>) -> Result<Vec<Given>> {
    let given = gather(txt, warnings)?;
    let unknown = warnings
        .iter()
        .any(|w| matches!(w, Warning::Unknown { .. }));
    if unknown || given.iter().any(|g| !ALLOWED_IN_TXT.contains(&g.spec.name)) {
        let message = format!(
            "the TXT record of the host may only have {}; ask whoever runs its DNS",
            ALLOWED_IN_TXT.join(", ")
        );
        return Err(invalid(UriPart::Options, message));
    }
    Ok(given)
}
