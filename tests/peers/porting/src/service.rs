//! A web service for the members of a club, with four handlers.

use crate::{
    Failure,
    driver::{
        Client, Collection,
        bson::{doc, oid::ObjectId},
        error::{Error, ErrorKind, WriteFailure},
        results::{DeleteResult, InsertOneResult},
    },
};
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    #[serde(rename = "_id")]
    id: u32,
    name: String,
    active: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sponsor: Option<ObjectId>,
}

/// An error as a reply.
struct Refusal(Error);

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match *self.0.kind {
            ErrorKind::Write(WriteFailure::WriteError(ref write)) if write.code == 11000 => {
                StatusCode::CONFLICT
            }
            ErrorKind::Io(_) => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::ServerSelection { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, "refused").into_response()
    }
}

async fn add_member(
    State(members): State<Collection<Member>>,
    Json(member): Json<Member>,
) -> Result<Json<InsertOneResult>, Refusal> {
    let result = members.insert_one(member).await?;
    Ok(Json(result))
}

async fn get_member(
    State(members): State<Collection<Member>>,
    Path(id): Path<u32>,
) -> Result<Json<Option<Member>>, Refusal> {
    let member = members.find_one(doc! { "_id": id }).await?;
    Ok(Json(member))
}

async fn list_members(
    State(members): State<Collection<Member>>,
) -> Result<Json<Vec<Member>>, Refusal> {
    let cursor = members
        .find(doc! { "active": true })
        .sort(doc! { "_id": 1 })
        .await?;
    Ok(Json(cursor.try_collect().await?))
}

async fn delete_member(
    State(members): State<Collection<Member>>,
    Path(id): Path<u32>,
) -> Result<Json<DeleteResult>, Refusal> {
    Ok(Json(members.delete_one(doc! { "_id": id }).await?))
}

fn app(client: &Client) -> Router {
    let members: Collection<Member> = client.database("porting_service").collection("members");
    Router::new()
        .route("/create", post(add_member))
        .route("/read/{id}", get(get_member))
        .route("/list", get(list_members))
        .route("/delete/{id}", delete(delete_member))
        .with_state(members)
}

/// Sends one request, and returns the status line and the body of the reply.
async fn request(port: u16, head: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    let status = reply.lines().next().unwrap_or_default().to_string();
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(format!("{head}: {status}: {body}"))
}

pub async fn run(uri: &str) -> Result<(), Failure> {
    let client = Client::with_uri_str(uri).await?;
    client.database("porting_service").drop().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let serving = tokio::spawn(axum::serve(listener, app(&client)).into_future());
    for (head, body) in [
        ("POST /create", r#"{"_id":1,"name":"Ada","active":true}"#),
        ("POST /create", r#"{"_id":2,"name":"Bob","active":false}"#),
        (
            "POST /create",
            r#"{"_id":3,"name":"Eve","active":true,"sponsor":{"$oid":"64b0c0ffee64b0c0ffee64b0"}}"#,
        ),
        ("POST /create", r#"{"_id":1,"name":"Ada","active":true}"#),
        ("GET /read/1", ""),
        ("GET /read/3", ""),
        ("GET /read/9", ""),
        ("GET /list", ""),
        ("DELETE /delete/1", ""),
        ("DELETE /delete/1", ""),
        ("GET /list", ""),
    ] {
        println!("{}", request(port, head, body).await?);
    }
    serving.abort();
    client.database("porting_service").drop().await?;
    client.shutdown().await;
    Ok(())
}
