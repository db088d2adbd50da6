//! Failures in the form of RFC 9457: a problem with the names and numbers of the command line.

use std::ops::{Deref, DerefMut};

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::protocol::{Failure, split_hint};

/// A problem.
#[derive(Debug)]
pub(super) struct Problem(Box<ProblemDocument>);

/// The document of a problem. Its further members are those of the line of type `error`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Problem"))]
pub(super) struct ProblemDocument {
    /// `urn:plan-ledger:` and the rejection, or else the kind of the error.
    #[serde(rename = "type")]
    pub(super) name: String,
    /// The HTTP status.
    pub(super) status: u16,
    /// The rejection or the kind, as words.
    pub(super) title: String,
    /// The failure, for people.
    pub(super) detail: String,
    /// The next action, for people; null if there is no particular one.
    pub(super) hint: Option<String>,
    /// The kind of the error.
    pub(super) kind: String,
    /// The rule of the ledger that rejected the request.
    pub(super) rejection: Option<String>,
    /// The exit code of the command; null for a problem of the interface itself.
    pub(super) exit_code: Option<u64>,
    /// If a worker has the step: the number of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// If a worker has the step: that worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// If a worker has the step: when its lease expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until_micros: Option<i64>,
    /// If no run is named and several are active: their names, at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<Vec<String>>,
    /// If no process holds the ledger at an address: the seconds after which to ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<u64>,
}

/// A response of the server.
pub(super) type HttpResponse = Response<Body>;

impl Deref for Problem {
    type Target = ProblemDocument;

    fn deref(&self) -> &ProblemDocument {
        &self.0
    }
}

impl DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut ProblemDocument {
        &mut self.0
    }
}

impl Problem {
    /// A problem of the interface itself. Hints follow what is wrong.
    pub(super) fn new(status: StatusCode, kind: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let (detail, hint) = split_hint(&text);
        Self(Box::new(ProblemDocument {
            name: format!("urn:plan-ledger:{kind}"),
            status: status.as_u16(),
            title: kind.replace('_', " "),
            detail: detail.to_owned(),
            hint,
            kind: kind.to_owned(),
            rejection: None,
            exit_code: None,
            number: None,
            worker: None,
            lease_until_micros: None,
            runs: None,
            retry_after: None,
        }))
    }

    /// The problem of a line of type `error`.
    pub(super) fn of_line(line: &Value) -> Self {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        let kind = text("kind").unwrap_or_default();
        let rejection = text("rejection");
        let name = rejection.as_deref().unwrap_or(&kind).to_owned();
        let runs = line.get("runs").and_then(Value::as_array);
        // A client of this interface has no environment variables.
        let hint = if runs.is_some() { Some("name one as `run`".to_owned()) } else { text("hint") };
        Self(Box::new(ProblemDocument {
            status: status_of(&kind, rejection.as_deref().unwrap_or_default()).as_u16(),
            title: name.replace('_', " "),
            name: format!("urn:plan-ledger:{name}"),
            detail: text("message").unwrap_or_default(),
            hint,
            kind,
            rejection,
            exit_code: number("exit_code"),
            number: number("number"),
            worker: text("worker"),
            lease_until_micros: line.get("lease_until_micros").and_then(Value::as_i64),
            runs: runs.map(|runs| {
                runs.iter().filter_map(|run| run.as_str().map(str::to_owned)).collect()
            }),
            retry_after: None,
        }))
    }

    pub(super) fn response(&self) -> HttpResponse {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::LOCKED | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::of_line(&failure.json())
    }
}

/// The status of an error, by its rejection or else its kind. `format/http.md` has this table.
pub(super) fn status_of(kind: &str, rejection: &str) -> StatusCode {
    match rejection {
        "" => {}
        "inside_attempt" | "agent_session" | "wrong_role" => return StatusCode::FORBIDDEN,
        "invalid_plan" | "missing_inputs" | "invalid_input" | "bad_name" | "not_an_option"
        | "zero_cap" | "too_deep" | "too_many_events" => return StatusCode::UNPROCESSABLE_ENTITY,
        "version_differs" | "hash_differs" | "charged_differs" => {
            return StatusCode::PRECONDITION_FAILED;
        }
        _ if rejection.starts_with("no_such_") => return StatusCode::NOT_FOUND,
        _ => return StatusCode::CONFLICT,
    }
    match kind {
        "usage" => StatusCode::BAD_REQUEST,
        "bad_plan" | "key_reused" | "unencodable" => StatusCode::UNPROCESSABLE_ENTITY,
        "out_of_range" | "pruned" | "not_a_ledger" => StatusCode::NOT_FOUND,
        "conflict" | "rejected" => StatusCode::CONFLICT,
        "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "locked" | "fenced" => StatusCode::LOCKED,
        "busy" => StatusCode::TOO_MANY_REQUESTS,
        "corrupt" | "tampered" | "ambiguous" => StatusCode::SERVICE_UNAVAILABLE,
        "unsupported" => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the published table of statuses is the one that is used.

    use std::path::Path;

    use super::*;

    #[test]
    fn published_statuses_are_used() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/http.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter_map(|line| {
            let (status, names) = line.strip_prefix("| ")?.split_once(" | ")?;
            Some((status.parse::<u16>().ok()?, names))
        });
        // These are given by the interface itself.
        let own = [
            "no_access",
            "wrong_origin",
            "wrong_content_type",
            "no_such_path",
            "no_such_method",
            "timeout",
            "wrong_host",
            "internal",
            "Retry-After",
            "/v1/ready",
            // Standbys answer with these.
            "not_owner",
            "no_owner",
            "Location",
            "retry_after",
        ];
        let rejections = [
            "wrong_role",
            "inside_attempt",
            "agent_session",
            "no_such_run",
            "no_such_step",
            "held_by",
            "not_ready",
            "stale_token",
            "cap_reached",
            "paused",
            "version_differs",
            "hash_differs",
            "charged_differs",
            "invalid_plan",
            "missing_inputs",
            "invalid_input",
            "bad_name",
            "not_an_option",
            "zero_cap",
            "too_deep",
            "too_many_events",
        ];
        let mut checked = 0;
        for (status, names) in rows {
            for name in names.split('`').skip(1).step_by(2) {
                let is_own = own.contains(&name) || (name == "not_ready" && status == 503);
                if is_own {
                    continue;
                }
                let found = if rejections.contains(&name) {
                    status_of("rejected", name)
                } else {
                    status_of(name, "")
                };
                assert_eq!(found.as_u16(), status, "{name}");
                checked += 1;
            }
        }
        assert!(checked > 30, "{checked} names were checked");
    }
}
