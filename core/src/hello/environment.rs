//! The environment of the program: the operating system, the function service (FaaS) and the
//! containers.

use crate::bson::DocumentWriter;

/// The maximum length of `os.type` in bytes; a longer one is truncated. Names of real systems are
/// far shorter.
const MAX_OS_TYPE_BYTES: usize = 32;

/// Facts about the operating system: the fields of `os` in the client metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsFacts {
    /// The value of the field `os.type`, for example `Linux`. If this is empty, the client sends
    /// `unknown` ([HELLO-18]).
    ///
    /// [HELLO-18]: crate::requirements::handshake#HELLO-18
    pub kind: String,
    /// The field `os.name`, for example "Debian GNU/Linux 13" ([HELLO-19]).
    ///
    /// [HELLO-19]: crate::requirements::handshake#HELLO-19
    pub name: Option<String>,
    /// The field `os.architecture`, as `uname -m` prints it.
    pub architecture: Option<String>,
    /// The field `os.version`, for example "6.12".
    pub version: Option<String>,
}

impl OsFacts {
    /// Returns the facts that are known at compile time. Pass the constants `OS` and `ARCH` of
    /// `std::env::consts`.
    ///
    /// ```
    /// use onionskin_core::client::OsFacts;
    ///
    /// let facts = OsFacts::from_target("macos", "aarch64");
    /// assert_eq!(facts.kind, "Darwin");
    /// ```
    #[must_use]
    pub fn from_target(os: &str, architecture: &str) -> Self {
        let kind = match os {
            "linux" | "android" => "Linux",
            "macos" | "ios" => "Darwin",
            "windows" => "Windows",
            "freebsd" | "netbsd" | "openbsd" | "dragonfly" => "BSD",
            "solaris" | "illumos" | "aix" | "haiku" => "Unix",
            _ => "",
        };
        Self {
            kind: kind.to_owned(),
            name: None,
            architecture: Some(architecture.to_owned()).filter(|a| !a.is_empty()),
            version: None,
        }
    }

    /// Returns `os.type`: "unknown" instead of an empty text, and at most [`MAX_OS_TYPE_BYTES`], so
    /// that all required fields fit into the document.
    pub(super) fn type_name(&self) -> &str {
        match self.kind.as_str() {
            "" => "unknown",
            kind => super::metadata::truncated(kind, MAX_OS_TYPE_BYTES),
        }
    }
}

/// A function service (FaaS), such as AWS Lambda, that the field `env.name` reports (HELLO-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    AwsLambda,
    AzureFunc,
    GcpFunc,
    Vercel,
}

impl Provider {
    const fn name(self) -> &'static str {
        match self {
            Self::AwsLambda => "aws.lambda",
            Self::AzureFunc => "azure.func",
            Self::GcpFunc => "gcp.func",
            Self::Vercel => "vercel",
        }
    }
}

/// The function service on which the program runs, and the fields of `env` about it (HELLO-26).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    provider: Provider,
    timeout_sec: Option<i32>,
    memory_mb: Option<i32>,
    region: Option<String>,
}

/// The facts about the environment of the program that the client metadata contains. Other
/// environment variables are not kept.
///
/// ```
/// use onionskin_core::client::{Environment, OsFacts};
///
/// let variables = |name: &str| (name == "VERCEL").then(|| "1".to_owned());
/// let environment = Environment::from_lookup(variables, false, OsFacts::default());
/// assert!(environment.is_faas());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    os: OsFacts,
    function: Option<Function>,
    docker: bool,
    kubernetes: bool,
}

impl Environment {
    /// Returns the facts that environment variables, `docker_env_file` and `os` give. `lookup`
    /// returns the value of a variable; an empty value counts as unset. `docker_env_file` is true
    /// if the root directory has a file `.dockerenv` ([HELLO-28]).
    ///
    /// [HELLO-28]: crate::requirements::handshake#HELLO-28
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<String>,
        docker_env_file: bool,
        os: OsFacts,
    ) -> Self {
        let value = |name: &str| lookup(name).filter(|value| !value.is_empty());
        Self {
            os,
            function: provider(&value).map(|provider| function(provider, &value)),
            docker: docker_env_file,
            kubernetes: value("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }

    /// True if the environment variables identify one function service. `serverMonitoringMode=auto`
    /// then means polling. Containers do not count.
    #[must_use]
    pub const fn is_faas(&self) -> bool {
        self.function.is_some()
    }

    /// Returns the facts about the operating system.
    #[must_use]
    pub const fn os(&self) -> &OsFacts {
        &self.os
    }

    /// True if the `env` document would have no field.
    pub(super) const fn is_empty(&self) -> bool {
        self.function.is_none() && !self.docker && !self.kubernetes
    }

    /// Writes the fields of the `env` document, or only `env.name` if `name_only` is true.
    pub(super) fn write(&self, name_only: bool, env: &mut DocumentWriter<'_>) {
        if let Some(function) = &self.function {
            env.str("name", function.provider.name());
            if !name_only {
                if let Some(seconds) = function.timeout_sec {
                    env.i32("timeout_sec", seconds);
                }
                if let Some(megabytes) = function.memory_mb {
                    env.i32("memory_mb", megabytes);
                }
                if let Some(region) = &function.region {
                    env.str("region", region);
                }
            }
        }
        if !name_only && (self.docker || self.kubernetes) {
            env.nested("container", |container| {
                if self.docker {
                    container.str("runtime", "docker");
                }
                if self.kubernetes {
                    container.str("orchestrator", "kubernetes");
                }
            });
        }
    }
}

/// Returns the function service that the environment variables identify. Vercel wins over AWS,
/// because Vercel runs on AWS. Any other combination of services counts as none (HELLO-22 to
/// HELLO-25).
fn provider(value: &impl Fn(&str) -> Option<String>) -> Option<Provider> {
    let set = |name: &str| value(name).is_some();
    let aws = value("AWS_EXECUTION_ENV").is_some_and(|v| v.starts_with("AWS_Lambda_"))
        || set("AWS_LAMBDA_RUNTIME_API");
    let azure = set("FUNCTIONS_WORKER_RUNTIME");
    let gcp = set("K_SERVICE") || set("FUNCTION_NAME");
    let vercel = set("VERCEL");
    match (vercel, aws, azure, gcp) {
        (true, _, false, false) => Some(Provider::Vercel),
        (false, true, false, false) => Some(Provider::AwsLambda),
        (false, false, true, false) => Some(Provider::AzureFunc),
        (false, false, false, true) => Some(Provider::GcpFunc),
        _ => None,
    }
}

/// Returns the function service with the fields that its environment variables give. A number that
/// is not an int32 is left out (HELLO-27).
fn function(provider: Provider, value: &impl Fn(&str) -> Option<String>) -> Function {
    let number = |name: &str| value(name)?.parse().ok();
    let (timeout_sec, memory_mb, region) = match provider {
        Provider::AwsLambda => (
            None,
            number("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
            value("AWS_REGION"),
        ),
        Provider::AzureFunc => (None, None, None),
        Provider::GcpFunc => (
            number("FUNCTION_TIMEOUT_SEC"),
            number("FUNCTION_MEMORY_MB"),
            value("FUNCTION_REGION"),
        ),
        Provider::Vercel => (None, None, value("VERCEL_REGION")),
    };
    Function {
        provider,
        timeout_sec,
        memory_mb,
        region,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_faas(names: &[&str]) -> bool {
        let lookup = |name: &str| names.contains(&name).then(|| "AWS_Lambda_x".to_owned());
        Environment::from_lookup(lookup, true, OsFacts::default()).is_faas()
    }

    #[test]
    fn faas_is_detected_for_one_service_or_vercel_with_aws() {
        // Variables decide the service (HELLO-22), several services count as none except for Vercel
        // with AWS (HELLO-24), and no variable means no service (HELLO-25).
        for (names, expected) in [
            (&[][..], false),
            (&["AWS_EXECUTION_ENV"], true),
            (&["AWS_LAMBDA_RUNTIME_API"], true),
            (&["FUNCTIONS_WORKER_RUNTIME"], true),
            (&["K_SERVICE"], true),
            (&["FUNCTION_NAME"], true),
            (&["VERCEL"], true),
            (&["K_SERVICE", "FUNCTION_NAME"], true),
            (&["VERCEL", "AWS_LAMBDA_RUNTIME_API"], true),
            (&["VERCEL", "K_SERVICE"], false),
            (&["VERCEL", "AWS_EXECUTION_ENV", "K_SERVICE"], false),
            (&["AWS_EXECUTION_ENV", "FUNCTIONS_WORKER_RUNTIME"], false),
            (&["KUBERNETES_SERVICE_HOST"], false),
        ] {
            assert_eq!(is_faas(names), expected, "{names:?}");
        }
    }

    #[test]
    fn only_aws_execution_env_requires_a_value_prefix() {
        // `AWS_EXECUTION_ENV` counts only with the prefix `AWS_Lambda_` (HELLO-23).
        for (name, value, expected) in [
            ("AWS_EXECUTION_ENV", "EC2", false),
            ("AWS_EXECUTION_ENV", "AWS_Lambda_java8", true),
            ("AWS_LAMBDA_RUNTIME_API", "EC2", true),
            ("VERCEL", "", false),
        ] {
            let lookup = |asked: &str| (asked == name).then(|| value.to_owned());
            let environment = Environment::from_lookup(lookup, false, OsFacts::default());
            assert_eq!(environment.is_faas(), expected, "{name}={value}");
        }
    }

    #[test]
    fn the_os_type_of_an_unknown_system_is_unknown() {
        // The type of an unknown system is "unknown" (HELLO-18).
        assert_eq!(OsFacts::from_target("plan9", "mips").type_name(), "unknown");
        assert_eq!(OsFacts::from_target("linux", "x86_64").type_name(), "Linux");
    }
}
