//! Signature Version 4 of the request `GetCallerIdentity`, which a client of MONGODB-AWS signs
//! (AUTH-83).

use super::hex;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// The body of the request.
const BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";

/// The region of a host that names none (AUTH-86).
const DEFAULT_REGION: &str = "us-east-1";

/// The longest host, in bytes (AUTH-80).
const MAX_HOST_BYTES: usize = 255;

/// The parts of the request that differ between clients.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) access_key_id: &'a str,
    pub(crate) secret_access_key: &'a str,
    pub(crate) session_token: Option<&'a str>,
    /// The date as `YYYYMMDDTHHMMSSZ`.
    pub(crate) date: &'a str,
    pub(crate) host: &'a str,
    pub(crate) server_nonce: &'a [u8],
}

impl Request<'_> {
    /// Returns the value of the header `Authorization` (AUTH-85). Returns `None` if the host is not
    /// valid, or if the date is too short.
    pub(crate) fn authorization(&self) -> Option<String> {
        let day = self.date.get(..8)?;
        let scope = format!("{day}/{}/sts/aws4_request", region(self.host)?);
        let hash = hex(&Sha256::digest(self.canonical()));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", self.date);
        let mut key = format!("AWS4{}", self.secret_access_key).into_bytes();
        for part in scope.split('/') {
            key = hmac(&key, part);
        }
        let signature = hex(&hmac(&key, &text));
        Some(format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={}, Signature={signature}",
            self.access_key_id,
            self.signed_headers()
        ))
    }

    /// Returns the names of the signed headers (AUTH-84).
    fn signed_headers(&self) -> String {
        let names: Vec<&str> = self.headers().into_iter().map(|(name, _)| name).collect();
        names.join(";")
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-length", BODY.len().to_string()),
            (
                "content-type",
                "application/x-www-form-urlencoded".to_owned(),
            ),
            ("host", self.host.to_owned()),
            ("x-amz-date", self.date.to_owned()),
        ];
        let token = self.session_token;
        headers.extend(token.map(|token| ("x-amz-security-token", token.to_owned())));
        headers.push(("x-mongodb-gs2-cb-flag", "n".to_owned()));
        let nonce = STANDARD.encode(self.server_nonce);
        headers.push(("x-mongodb-server-nonce", nonce));
        headers
    }

    fn canonical(&self) -> String {
        let headers: String = self
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect();
        let body = hex(&Sha256::digest(BODY));
        format!("POST\n/\n\n{headers}\n{}\n{body}", self.signed_headers())
    }
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any key length is fine");
    let mac = mac.chain_update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Returns the region of an STS host, or `None` if the host is not valid (AUTH-86).
pub(crate) fn region(host: &str) -> Option<&str> {
    if host.len() > MAX_HOST_BYTES || host.split('.').any(str::is_empty) {
        return None;
    }
    match host {
        "sts.amazonaws.com" => Some(DEFAULT_REGION),
        _ => host.split('.').nth(1).or(Some(DEFAULT_REGION)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "dzw1U2IwSEtgaWI0IUxZMVJqc2xuQzNCcUxBc05wZjIGS0J9EgLwzEZ9dIzr/hnnK2mgd4D7F\
                         52t8g9yTC5cIA==";

    fn sample<'a>(host: &'a str, token: Option<&'a str>, nonce: &'a [u8]) -> Request<'a> {
        Request {
            access_key_id: "AKIAI44QH8DHBEXAMPLE",
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            session_token: token,
            date: "20191107T002607Z",
            host,
            server_nonce: nonce,
        }
    }

    #[test]
    fn the_signatures_equal_the_derived_check_values() {
        let nonce = STANDARD.decode(NONCE).expect("base64");
        let token = Some("AQoDYXdzEJrEXAMPLETOKEN");
        for (host, token, region, signature) in [
            (
                "sts.amazonaws.com",
                None,
                "us-east-1",
                "f60d862c17eaeed2d2e8703a2e7d288147decf14c0e18a3f0e1ff4650de968d1",
            ),
            (
                "sts.amazonaws.com",
                token,
                "us-east-1",
                "07daf820cd06dea82e952392a97238ed9e1c40d884c9df6273e3ebc10565160a",
            ),
            (
                "sts.us-west-2.amazonaws.com",
                None,
                "us-west-2",
                "10ca36b3426351f9d9350537da50d0089f4ccd6d34fcdf0615f7b81788741346",
            ),
        ] {
            let names = match token {
                Some(_) => "x-amz-date;x-amz-security-token;x-mongodb-gs2-cb-flag",
                None => "x-amz-date;x-mongodb-gs2-cb-flag",
            };
            let expected = format!(
                "AWS4-HMAC-SHA256 \
                 Credential=AKIAI44QH8DHBEXAMPLE/20191107/{region}/sts/aws4_request, \
                 SignedHeaders=content-length;content-type;host;{names};x-mongodb-server-nonce, \
                 Signature={signature}"
            );
            let request = sample(host, token, &nonce);
            assert_eq!(request.authorization(), Some(expected));
        }
    }

    #[test]
    fn the_canonical_request_and_the_body_have_the_derived_digests() {
        let nonce = STANDARD.decode(NONCE).expect("base64");
        let canonical = sample("sts.amazonaws.com", None, &nonce).canonical();
        assert_eq!(
            hex(&Sha256::digest(canonical)),
            "3eaaa077a2c6d514a4a0ee0700e203e1297bd6de1a9d56f6348530116caf0888"
        );
        assert_eq!(
            hex(&Sha256::digest(BODY)),
            "ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843"
        );
    }

    #[test]
    fn the_second_label_of_a_host_is_its_region() {
        for (host, expected) in [
            ("sts.amazonaws.com", Some("us-east-1")),
            ("sts.us-west-2.amazonaws.com", Some("us-west-2")),
            ("sts.us-west-2.amazonaws.com.ch", Some("us-west-2")),
            ("example.com", Some("com")),
            ("localhost", Some("us-east-1")),
            ("sts..com", None),
            (".amazonaws.com", None),
            ("sts.amazonaws.", None),
            ("", None),
        ] {
            assert_eq!(region(host), expected, "{host}");
        }
        assert_eq!(region(&"a".repeat(256)), None);
        assert_eq!(region(&"a".repeat(255)), Some("us-east-1"));
    }
}
