//! Signature Version 4 of the request `GetCallerIdentity`, which the server passes to STS.
//!
//! The crates `hmac` and `sha2` make the signature. The crate `aws-sigv4` would bring the types of
//! the AWS SDK, about 20 crates, for one request of a fixed form.

use super::AwsKeys;
use crate::time::WallTime;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bson::DateTime;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use zeroize::Zeroizing;

/// The body of the request (AUTH-83).
const BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";

/// The region of hosts without a region in their name (AUTH-86).
const DEFAULT_REGION: &str = "us-east-1";

/// The maximum length of the host of STS in bytes (AUTH-80).
const MAX_HOST_BYTES: usize = 255;

/// Returns the region of an STS host. Fails for an invalid host: an empty one, one that is longer
/// than 255 bytes, and one with an empty label (AUTH-80, AUTH-86).
pub(super) fn region(host: &str) -> Result<&str, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if host.is_empty() || host.len() > MAX_HOST_BYTES || !host.chars().all(is_plain) {
        return Err("the server names an invalid STS host".to_owned());
    }
    let mut labels = host.split('.');
    if labels.clone().any(str::is_empty) {
        return Err("the server names an STS host with an empty label".to_owned());
    }
    if host == "sts.amazonaws.com" {
        return Ok(DEFAULT_REGION);
    }
    Ok(labels.nth(1).unwrap_or(DEFAULT_REGION))
}

/// The header `Authorization` and the header `X-Amz-Date` of a signed request.
pub(super) struct Signed {
    pub(super) authorization: String,
    pub(super) date: String,
}

/// Signs the request for a server's nonce and STS host.
pub(super) fn sign(
    keys: &AwsKeys,
    wall: WallTime,
    host: &str,
    server_nonce: &[u8],
) -> Result<Signed, String> {
    let region = region(host)?;
    let date = format_date(wall)?;
    let day = &date[..8];
    let mut headers = vec![
        ("content-length", BODY.len().to_string()),
        (
            "content-type",
            "application/x-www-form-urlencoded".to_owned(),
        ),
        ("host", host.to_owned()),
        ("x-amz-date", date.clone()),
    ];
    if let Some(token) = &keys.token {
        headers.push(("x-amz-security-token", token.expose().to_owned()));
    }
    headers.push(("x-mongodb-gs2-cb-flag", "n".to_owned()));
    headers.push(("x-mongodb-server-nonce", BASE64.encode(server_nonce)));
    let mut request = Zeroizing::new("POST\n/\n\n".to_owned());
    let mut names = String::new();
    for (name, value) in &headers {
        let _ = writeln!(request, "{name}:{}", value.trim());
        let separator = if names.is_empty() { "" } else { ";" };
        let _ = write!(names, "{separator}{name}");
    }
    let _ = write!(request, "\n{names}\n{}", hex(&Sha256::digest(BODY)));
    let scope = format!("{day}/{region}/sts/aws4_request");
    let request = hex(&Sha256::digest(request.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{request}");
    let first = Zeroizing::new(format!("AWS4{}", keys.secret.expose()));
    let mut key = hmac(first.as_bytes(), day.as_bytes());
    for part in [region, "sts", "aws4_request"] {
        key = hmac(&*key, part.as_bytes());
    }
    let signature = hex(&*hmac(&*key, text.as_bytes()));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        keys.id
    );
    Ok(Signed {
        authorization,
        date,
    })
}

/// Returns the time in the form `YYYYMMDDTHHMMSSZ`, in UTC (AUTH-81).
fn format_date(wall: WallTime) -> Result<String, String> {
    let millis = i64::try_from(wall.as_unix_millis()).unwrap_or(i64::MAX);
    let seconds = DateTime::from_millis(millis - millis % 1000);
    let text = seconds.try_to_rfc3339_string();
    let text = text.map_err(|_| "the calendar time of this system cannot be written".to_owned())?;
    Ok(text.replace(['-', ':'], ""))
}

fn hmac(key: &[u8], text: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any key length is fine");
    mac.update(text);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{auth::aws::AwsSource, options::Secret};

    /// The server's nonce in the sample of the specification.
    const NONCE: &str =
        "dzw1U2IwSEtgaWI0IUxZMVJqc2xuQzNCcUxBc05wZjIGS0J9EgLwzEZ9dIzr/hnnK2mgd4D7F52t8g9yTC5cIA==";

    fn signature(token: Option<&str>, host: &str) -> String {
        let keys = AwsKeys {
            id: "AKIAI44QH8DHBEXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            token: token.map(Secret::new),
            expires_at: None,
            origin: AwsSource::Environment,
        };
        // 2019-11-07T00:26:07Z.
        let wall = WallTime::from_unix_millis(1_573_086_367_000);
        let nonce = BASE64.decode(NONCE).expect("base64");
        let signed = sign(&keys, wall, host, &nonce).expect("a valid host");
        assert_eq!(signed.date, "20191107T002607Z");
        let (rest, signature) = signed
            .authorization
            .split_once(", Signature=")
            .expect("a text");
        let names = match token {
            Some(_) => {
                "content-length;content-type;host;x-amz-date;x-amz-security-token;\
                 x-mongodb-gs2-cb-flag;x-mongodb-server-nonce"
            }
            None => {
                "content-length;content-type;host;x-amz-date;\
                 x-mongodb-gs2-cb-flag;x-mongodb-server-nonce"
            }
        };
        let region = region(host).expect("a valid host");
        assert_eq!(
            rest,
            format!(
                "AWS4-HMAC-SHA256 Credential=AKIAI44QH8DHBEXAMPLE/20191107/{region}/sts/\
                 aws4_request, SignedHeaders={names}"
            )
        );
        signature.to_owned()
    }

    #[test]
    fn signatures_are_those_of_an_independent_signer() {
        // AUTH-83 to AUTH-85. The values are those of the requirements.
        assert_eq!(
            signature(None, "sts.amazonaws.com"),
            "f60d862c17eaeed2d2e8703a2e7d288147decf14c0e18a3f0e1ff4650de968d1"
        );
        assert_eq!(
            signature(Some("AQoDYXdzEJrEXAMPLETOKEN"), "sts.amazonaws.com"),
            "07daf820cd06dea82e952392a97238ed9e1c40d884c9df6273e3ebc10565160a"
        );
        assert_eq!(
            signature(None, "sts.us-west-2.amazonaws.com"),
            "10ca36b3426351f9d9350537da50d0089f4ccd6d34fcdf0615f7b81788741346"
        );
        assert_eq!(
            hex(&Sha256::digest(BODY)),
            "ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843"
        );
    }

    #[test]
    fn the_region_is_the_second_label_of_the_host() {
        // The table of the specification (AUTH-86).
        for (host, region_name) in [
            ("sts.amazonaws.com", "us-east-1"),
            ("sts.us-west-2.amazonaws.com", "us-west-2"),
            ("sts.us-west-2.amazonaws.com.ch", "us-west-2"),
            ("example.com", "com"),
            ("localhost", "us-east-1"),
        ] {
            assert_eq!(region(host).as_deref(), Ok(region_name), "{host}");
        }
        let long = "a".repeat(256);
        for host in [
            "",
            "sts..com",
            ".amazonaws.com",
            "sts.amazonaws.",
            ".",
            &long,
            "a b",
            "a\nb",
        ] {
            assert!(region(host).is_err(), "{host:?}");
        }
    }
}
