//! Secrets of credentials that come from the environment, from files and from endpoints.

use super::{MARK, Stage, play, secret};
use onionskin_core::options::{AuthMechanism, Credential, Secret};
use onionskin_tests::{peers::Scratch, variables::WithVariables};
use onionskin_tokio::TokioRuntime;
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    thread,
};

/// Starts an endpoint that repeats the whole request in each error, as proxies do. It answers `PUT`
/// with a session token that has the mark, and paths with `/lie` with credentials that have it and
/// cannot be used.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that has gone costs its own connection only.
            let _ = answer(stream);
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut request, mut body_length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let field = line.to_ascii_lowercase();
        if let Some(length) = field.strip_prefix("content-length:") {
            body_length = length.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
        request.push_str(&line);
    }
    let mut body = vec![0; body_length];
    reader.read_exact(&mut body)?;
    request.push_str(&String::from_utf8_lossy(&body));
    let (status, body) = if request.starts_with("PUT") {
        (200, secret("ec2"))
    } else if request.contains("/lie") {
        let lie = json!({
            "AccessKeyId": "", "SecretAccessKey": secret("aws"), "Token": secret("session"),
            "access_token": 7, "expires_in": secret("seconds"),
        });
        (200, lie.to_string())
    } else {
        let echo = json!({
            "Code": "Denied", "Message": request, "Request": request,
            "error": request, "error_description": request,
        });
        (403, echo.to_string())
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A client with these environment variables and this credential.
struct Case {
    name: &'static str,
    variables: Vec<(&'static str, String)>,
    credential: Credential,
    is_right: bool,
}

fn of(mechanism: AuthMechanism, properties: &[(&str, &str)]) -> Credential {
    let mut credential = Credential::builder().source("$external".to_owned()).build();
    credential.mechanism = Some(mechanism);
    for (name, value) in properties {
        credential
            .mechanism_properties
            .insert((*name).to_owned(), Secret::new(*value));
    }
    credential
}

/// The files with secrets, and the endpoint.
struct Place {
    _scratch: Scratch,
    marked: PathBuf,
    token: PathBuf,
    endpoint: String,
}

impl Place {
    fn new(token: &str) -> Self {
        let scratch = Scratch::new().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let (marked, token) = (write("marked", &secret("file")), write("token", token));
        Self {
            _scratch: scratch,
            marked,
            token,
            endpoint: echo(),
        }
    }

    fn aws(&self) -> Vec<Case> {
        let marked = || self.marked.display().to_string();
        let at = |path: &str| format!("{}{path}", self.endpoint);
        let with_user = |path: &str| at(path).replace("http://", &format!("http://ada:{MARK}@"));
        let role = || ("AWS_ROLE_ARN", "arn:aws:iam::1:role/app".to_owned());
        let keys = |secret_key: String| {
            vec![
                ("AWS_ACCESS_KEY_ID", "ASIAONE".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", secret_key),
                ("AWS_SESSION_TOKEN", secret("session")),
            ]
        };
        let container = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let authorization = || ("AWS_CONTAINER_AUTHORIZATION_TOKEN", secret("container"));
        let file = || ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", marked());
        let web = || ("AWS_WEB_IDENTITY_TOKEN_FILE", marked());
        let sts = "AWS_ENDPOINT_URL_STS";
        let ec2 = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
        let cases = [
            ("the right keys", keys(secret("aws"))),
            ("wrong keys", keys(secret("wrong"))),
            ("half of the keys", keys(secret("aws")).split_off(1)),
            ("STS echoes", vec![web(), role(), (sts, at("/"))]),
            ("STS lies", vec![web(), role(), (sts, at("/lie"))]),
            ("STS has a user", vec![web(), role(), (sts, with_user("/"))]),
            (
                "a container echoes",
                vec![(container, at("/")), authorization()],
            ),
            ("a container's file", vec![(container, at("/")), file()]),
            (
                "a container lies",
                vec![(container, at("/lie")), authorization()],
            ),
            ("a container has a user", vec![(container, with_user("/"))]),
            (
                "a container is far",
                vec![(
                    container,
                    format!("http://ada:{MARK}@far.example/{MARK}?{MARK}"),
                )],
            ),
            ("EC2 echoes", vec![(ec2, at(""))]),
            ("EC2 lies", vec![(ec2, at("/lie"))]),
            ("EC2 has a user", vec![(ec2, with_user(""))]),
        ];
        let cases = cases.into_iter().map(|(name, variables)| Case {
            is_right: name == "the right keys",
            name,
            variables,
            credential: of(AuthMechanism::MongoDbAws, &[]),
        });
        cases.collect()
    }

    fn oidc(&self) -> Vec<Case> {
        let token_file = |path: &PathBuf| vec![("OIDC_TOKEN_FILE", path.display().to_string())];
        let host = |path: &str| self.endpoint.replace("http://", "") + path;
        let google = |host: String| vec![("GCE_METADATA_HOST", host)];
        let azure = |host: String| vec![("AZURE_POD_IDENTITY_AUTHORITY_HOST", host)];
        let cluster = self.marked.display().to_string();
        let cases = [
            ("the right token", "test", token_file(&self.token)),
            ("a wrong token", "test", token_file(&self.marked)),
            (
                "Kubernetes",
                "k8s",
                vec![("AZURE_FEDERATED_TOKEN_FILE", cluster)],
            ),
            ("Google echoes", "gcp", google(host(""))),
            ("Google lies", "gcp", google(host("/lie"))),
            (
                "Google has a user",
                "gcp",
                google(format!("ada:{MARK}@{}", host(""))),
            ),
            ("Azure echoes", "azure", azure(self.endpoint.clone())),
            ("Azure lies", "azure", azure(self.endpoint.clone() + "/lie")),
            (
                "Azure has a user",
                "azure",
                azure(format!("http://ada:{MARK}@{}", host(""))),
            ),
        ];
        let cases = cases.into_iter().map(|(name, environment, variables)| {
            let resource = ("TOKEN_RESOURCE", "onionskin");
            let properties = match environment {
                "gcp" | "azure" => &[("ENVIRONMENT", environment), resource][..],
                _ => &[("ENVIRONMENT", environment)],
            };
            Case {
                is_right: name == "the right token",
                name,
                variables,
                credential: of(AuthMechanism::MongoDbOidc, properties),
            }
        });
        cases.collect()
    }
}

#[test]
fn no_secret_of_an_environment_a_file_or_an_endpoint_is_shown() {
    let stage = Stage::new();
    let token = stage.token();
    let place = Place::new(&token);
    for case in place.aws().into_iter().chain(place.oidc()) {
        let mut runtime = WithVariables::new(TokioRuntime::default());
        for (name, value) in &case.variables {
            runtime = runtime.with(name, value);
        }
        let (is_accepted, shown) = play(runtime, &stage, case.credential);
        assert_eq!(is_accepted, case.is_right, "{}: {shown:?}", case.name);
        for text in &shown {
            let is_shown = text.contains(MARK) || text.contains(&token);
            assert!(!is_shown, "{}: {text}", case.name);
        }
    }
}
