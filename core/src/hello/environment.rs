//! Where the program runs: facts that come from outside, reduced to what a handshake may tell.

use crate::bson::DocumentWriter;

/// The longest `os.type` that is told, in bytes; the names of real systems are far shorter.
const MAX_OS_TYPE_BYTES: usize = 32;

/// What is known about the operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsFacts {
    /// `os.type`, as `uname -s` gives it; empty if it is not known (HELLO-18).
    pub kind: String,
    /// `os.name`, for example "Debian GNU/Linux 13" (HELLO-19).
    pub name: Option<String>,
    /// `os.architecture`, as `uname -m` gives it.
    pub architecture: Option<String>,
    /// `os.version`.
    pub version: Option<String>,
}

impl OsFacts {
    /// What the compiler knows about its target: pass the constants `OS` and `ARCH` of
    /// `std::env::consts`.
    ///
    /// ```
    /// use onionskin_core::hello::OsFacts;
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

    /// `os.type`: never empty, and short enough to fit beside everything else that is required.
    pub(super) fn type_name(&self) -> &str {
        match self.kind.as_str() {
            "" => "unknown",
            kind => super::metadata::truncated(kind, MAX_OS_TYPE_BYTES),
        }
    }
}

/// A function service that programs run on (HELLO-22).
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

/// The function service and what it says about this function's place and size (HELLO-26).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    provider: Provider,
    timeout_sec: Option<i32>,
    memory_mb: Option<i32>,
    region: Option<String>,
}

/// The facts about the surroundings that a handshake tells. Variables that it does not tell are
/// not kept.
///
/// ```
/// use onionskin_core::hello::{Environment, OsFacts};
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
    /// Takes what is needed out of the environment variables that `lookup` gives.
    /// `docker_env_file` says whether the root directory holds the file `.dockerenv` (HELLO-28).
    ///
    /// An empty variable counts as one that is not set.
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

    /// True on exactly one known function service. There, `serverMonitoringMode=auto` means
    /// polling; containers play no part in that.
    #[must_use]
    pub const fn is_faas(&self) -> bool {
        self.function.is_some()
    }

    /// What is known about the operating system.
    #[must_use]
    pub const fn os(&self) -> &OsFacts {
        &self.os
    }

    /// True if the `env` document would have no field.
    pub(super) const fn is_empty(&self) -> bool {
        self.function.is_none() && !self.docker && !self.kubernetes
    }

    /// Writes the fields of the `env` document; with `name_only` nothing but `env.name`.
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

/// The one service that the variables speak of. Vercel runs on AWS, so it wins over that; any other
/// pair proves nothing (HELLO-22 to HELLO-25).
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

/// What the service's variables say; a number that is none, or no int32, is left out (HELLO-27).
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
    fn exactly_one_service_counts_and_vercel_beats_aws() {
        // HELLO-22, HELLO-24, HELLO-25
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
    fn only_the_execution_environment_needs_a_prefix() {
        // HELLO-23
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
    fn an_unknown_system_has_a_type_all_the_same() {
        // HELLO-18
        assert_eq!(OsFacts::from_target("plan9", "mips").type_name(), "unknown");
        assert_eq!(OsFacts::from_target("linux", "x86_64").type_name(), "Linux");
    }
}
