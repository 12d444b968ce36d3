//! Answers to inquiries of the core: environment variables, files, HTTP requests, and calls of the
//! application's credential providers.

use crate::{
    Runtime, certificates,
    lookup::Services,
    resolver::Resolvers,
    socket::dial,
    user_code::{UserFuture, catch_panic},
};
use futures_channel::oneshot;
use futures_util::{AsyncReadExt, AsyncWriteExt};
use onionskin_core::{
    client::{Finding, Inquiry, MAX_FILE_BYTES},
    http::{HttpExchange, HttpRequest, HttpResponse},
    options::{CallbackError, Cryptography, ProviderCall, Secret, Supplied, TlsOptions},
    time::WallTime,
};
use std::{
    future::poll_fn,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

/// The size of the read buffer for responses in bytes.
const READ_BYTES: usize = 4096;

/// The reason of a failure if code of the application panicked, or its thread was not started.
const NO_RESULT: &str = "the callback panicked or could not be run";

/// Answers an inquiry of a [`Probe`](onionskin_core::probe::Probe) on this runtime. The error
/// states why there is no answer. The caller limits the time.
pub async fn answer_inquiry<R: Runtime>(runtime: &R, inquiry: Inquiry) -> Result<Finding, String> {
    let resolvers = Resolvers::default();
    let services = Services {
        runtime,
        resolvers: &resolvers,
        start: Duration::ZERO,
        shared: None,
        cryptography: Cryptography::default(),
    };
    answer(&services, inquiry).await
}

/// Finds the answer to an inquiry.
pub(crate) async fn answer<R: Runtime>(
    services: &Services<'_, R>,
    inquiry: Inquiry,
) -> Result<Finding, String> {
    match inquiry {
        Inquiry::Environment(names) => {
            let values = names.iter().map(|name| services.runtime.variable(name));
            let set = values.map(|value| value.filter(|text| !text.is_empty()));
            Ok(Finding::Environment(
                set.map(|value| value.map(Secret::new)).collect(),
            ))
        }
        Inquiry::File(path) => {
            let content = services.runtime.read_file(Path::new(&path), MAX_FILE_BYTES);
            match content.await {
                Ok(text) => Ok(Finding::File(Secret::new(text))),
                Err(error) => Err(format!("{path} cannot be read: {error}")),
            }
        }
        Inquiry::Http(request) => {
            let endpoint = request.to_string();
            let response = http(services, request).await;
            response
                .map(Finding::Http)
                .map_err(|reason| format!("{endpoint}: {reason}"))
        }
        Inquiry::Call(call) => {
            let result = call_provider(services.runtime, call).await;
            result.map(Finding::Supplied)
        }
    }
}

/// Sends a request on a new connection and reads the response.
async fn http<R: Runtime>(
    services: &Services<'_, R>,
    request: HttpRequest,
) -> Result<HttpResponse, String> {
    let text = |error: io::Error| error.to_string();
    let mut tls = TlsOptions::default();
    tls.cryptography = services.cryptography;
    if request.is_secure() {
        let (sender, receiver) = oneshot::channel();
        let read = move || drop(sender.send(certificates::system_roots().0));
        services.runtime.spawn_blocking(read);
        // Without an answer, the built-in list is trusted.
        tls.system_roots = receiver.await.unwrap_or_default();
    }
    let now = WallTime::from_unix(services.runtime.wall_time());
    let mut exchange = HttpExchange::new(&request, &tls, now)?;
    let stream = dial(services, &request.address()).await;
    // The message begins with the endpoint, so the server of the error would repeat it.
    let mut stream = stream.map_err(|error| error.kind().to_string())?;
    let mut buffer = vec![0; READ_BYTES];
    let mut output = Vec::new();
    loop {
        while exchange.poll_transmit(&mut output) {}
        stream.write_all(&output).await.map_err(text)?;
        output.clear();
        let count = stream.read(&mut buffer).await.map_err(text)?;
        if exchange.handle_received(&buffer[..count])? {
            return Ok(exchange.into_response());
        }
    }
}

/// Calls a provider of the application: in this task, or on a thread that may block.
async fn call_provider<R: Runtime>(runtime: &R, call: ProviderCall) -> Result<Supplied, String> {
    let result = match call {
        ProviderCall::Future(start) => {
            let mut future = UserFuture::new(start);
            poll_fn(|context| future.poll(context)).await
        }
        ProviderCall::Blocking(work) => {
            let (sender, receiver) = oneshot::channel();
            runtime.spawn_thread(move || {
                let result = catch_unwind(AssertUnwindSafe(|| work().map_err(describe)));
                match result {
                    Ok(result) => drop(sender.send(result)),
                    Err(payload) => catch_panic(|| drop(payload)),
                }
            });
            return receiver.await.unwrap_or_else(|_| Err(NO_RESULT.to_owned()));
        }
    };
    result.map_or_else(
        || Err(NO_RESULT.to_owned()),
        |result| result.map_err(describe),
    )
}

/// Returns the text of a callback's error. `Display` of the error is code of the application.
fn describe(error: CallbackError) -> String {
    let mut text = NO_RESULT.to_owned();
    catch_panic(|| text = error.to_string());
    catch_panic(|| drop(error));
    text
}
