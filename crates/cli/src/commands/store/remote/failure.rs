//! The failure of a request to a store, in words without credentials. Only the status and the code of an answer are
//! kept, since servers quote keys and signatures in the rest.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use plan_ledger::ErrorKind;
use plan_ledger::internals::store::Unclear;

use crate::output::Failure;

use super::super::url::{Engine, StoreUrl};
use super::transport::NotEncrypted;

/// A request that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFailure {
    pub(crate) reason: Reason,
    /// The status and the code of the answer, or the error of the network.
    detail: String,
    /// Whether this is an answer of the store.
    is_answer: bool,
}

/// Why a request did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Another object has the name, or another request creates it now.
    Refused,
    /// The object does not exist.
    Missing,
    /// The bucket does not exist.
    NoBucket,
    /// The credentials are unknown.
    Denied,
    /// The credentials may not do this.
    Forbidden,
    /// The store has no room left.
    Full,
    /// The environment has no credentials.
    NoCredentials,
    /// The store asked the client to slow down.
    Busy,
    /// No connection could be made.
    Unreachable,
    /// The request would not have been encrypted.
    Plain,
    /// The request was sent, and no answer arrived within this time.
    NoAnswer(Duration),
    /// The request was sent, and the connection ended before the answer.
    Interrupted,
    /// Any other failure.
    Other,
}

/// The most characters of a text of the network or of the client.
const DETAIL_MAX: usize = 160;

impl CallFailure {
    /// A request without an answer in time.
    pub(crate) fn no_answer(limit: Duration) -> Self {
        Self { reason: Reason::NoAnswer(limit), detail: String::new(), is_answer: false }
    }

    /// A request that ended with its client.
    pub(crate) fn interrupted() -> Self {
        Self { reason: Reason::Interrupted, detail: String::new(), is_answer: false }
    }

    /// The kind of an error of the client.
    pub(crate) fn of(error: &Error) -> Self {
        let text = chain(error);
        let code = between(&text, "<Code>", "</Code>").unwrap_or_default();
        if let Some(status) = between(&text, "status code: ", ":").map(|status| digits(&status)) {
            let reason = reason_of(&status, &code);
            let detail = format!("{status} {code}").trim().to_owned();
            return Self { reason, detail, is_answer: true };
        }
        let (mut source, mut last) = (error.source(), None);
        let mut kind = None;
        while let Some(each) = source {
            if each.downcast_ref::<NotEncrypted>().is_some() {
                return Self { reason: Reason::Plain, detail: String::new(), is_answer: false };
            }
            kind = kind.or_else(|| each.downcast_ref::<HttpError>().map(HttpError::kind));
            last = Some(each.to_string());
            source = each.source();
        }
        let reason = match (error, kind) {
            // The kind for a request for many objects, which has no status for each.
            (Error::NotFound { .. }, _) => Reason::Missing,
            (Error::AlreadyExists { .. } | Error::Precondition { .. }, _) => Reason::Refused,
            _ if text.contains("/latest/api/token") || text.contains("/computeMetadata/") => {
                let reason = Reason::NoCredentials;
                return Self { reason, detail: String::new(), is_answer: false };
            }
            (_, Some(HttpErrorKind::Connect)) => Reason::Unreachable,
            (
                _,
                Some(HttpErrorKind::Timeout | HttpErrorKind::Interrupted | HttpErrorKind::Request),
            ) => Reason::Interrupted,
            _ => Reason::Other,
        };
        let is_answer = matches!(reason, Reason::Missing | Reason::Refused);
        Self { reason, detail: printable(&last.unwrap_or(text)), is_answer }
    }

    /// The failure of a call without a clear outcome; `what` names the call.
    pub(super) fn unclear(&self, what: &str, engine: Engine) -> Unclear {
        let why = format!("{what}: {self}");
        let unclear = if self.is_answer { Unclear::answered(why) } else { Unclear::no_answer(why) };
        unclear.with_hint(hint(self.reason, engine))
    }

    /// The failure of a command: the event, the place, and a hint.
    pub(crate) fn of_command(&self, url: &StoreUrl, endpoint: Option<&str>) -> Failure {
        let place = match endpoint {
            Some(endpoint) => format!("{url} at {endpoint}"),
            None => url.to_string(),
        };
        let message = format!("cannot read {place}: {self}");
        match (self.reason, hint(self.reason, url.engine)) {
            (Reason::NoBucket | Reason::Plain, Some(hint)) => {
                Failure::Usage(format!("{message}\nhint: {hint}"))
            }
            (_, hint) => {
                let error = plan_ledger::Error::new(ErrorKind::Io, message);
                Failure::Ledger(match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                })
            }
        }
    }
}

/// The hint.
fn hint(reason: Reason, engine: Engine) -> Option<String> {
    let hint = match (reason, engine) {
        (Reason::NoBucket, Engine::Azure) => "create the container first, or check its name",
        (Reason::NoBucket, _) => "create the bucket first, or check its name and the endpoint",
        (Reason::Denied | Reason::NoCredentials, Engine::Azure) => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, and check their rights"
        }
        (Reason::Denied | Reason::NoCredentials, Engine::Google) => {
            "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, and check their rights"
        }
        (Reason::Denied | Reason::NoCredentials, _) => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and check their rights"
        }
        (Reason::Unreachable | Reason::NoAnswer(_) | Reason::Interrupted, _) => {
            "check the network and the endpoint, and try again"
        }
        (Reason::Forbidden, Engine::S3) => {
            "grant s3:ListBucket, s3:GetObject and s3:PutObject below the prefix (docs/src/reach.md, Rights)"
        }
        (Reason::Forbidden, _) => "give the credentials the right to create, read and list objects",
        (Reason::Full, _) => "free some space in the store or raise its quota, and try again",
        (Reason::Busy, _) => "try again later",
        (Reason::Plain, _) => "use https, or allow it with --allow-http",
        _ => return None,
    };
    Some(hint.to_owned())
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            Reason::Refused => "the store refused it, since the name exists or is being created",
            Reason::Missing => "there is no such object",
            Reason::NoBucket => "there is no such bucket",
            Reason::Denied => "access is denied",
            Reason::Forbidden => "the credentials may not do this",
            Reason::Full => "the store is full",
            Reason::NoCredentials => "there are no credentials",
            Reason::Busy => "the store is busy",
            Reason::Unreachable => "no connection can be made",
            Reason::Plain => "the endpoint is not encrypted",
            Reason::NoAnswer(limit) => {
                return write!(
                    f,
                    "no answer within {} s, so its outcome is unknown",
                    limit.as_secs()
                );
            }
            Reason::Interrupted => {
                "the connection ended before the answer, so its outcome is unknown"
            }
            Reason::Other => "the request failed",
        };
        f.write_str(what)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

/// The texts of an error and of all its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(each) = source {
        text.push_str(": ");
        text.push_str(&each.to_string());
        source = each.source();
    }
    text
}

/// The kind of an answer with a status and a code. An object is missing only if the store reports this in its own
/// words: a wrong endpoint may answer 404 to everything.
fn reason_of(status: &str, code: &str) -> Reason {
    match (status, code) {
        ("404", "NoSuchBucket" | "ContainerNotFound") => Reason::NoBucket,
        ("404", "NoSuchKey" | "BlobNotFound") => Reason::Missing,
        (
            "403",
            "AccessDenied"
            | "AllAccessDisabled"
            | "AuthorizationFailure"
            | "AuthorizationPermissionMismatch"
            | "InsufficientAccountPermissions",
        ) => Reason::Forbidden,
        ("507", _)
        | (
            _,
            "QuotaExceeded"
            | "QuotaExceededException"
            | "XMinioStorageFull"
            | "InsufficientStorage"
            | "AccountQuotaExceeded",
        ) => Reason::Full,
        ("401" | "403", _)
        | ("400", "ExpiredToken" | "InvalidToken")
        | ("409", "ContainerBeingDeleted" | "ContainerDisabled") => Reason::Denied,
        ("409" | "412" | "304", _) => Reason::Refused,
        ("408" | "429" | "503", _) => Reason::Busy,
        _ => Reason::Other,
    }
}

/// The word between two texts, if it consists of letters and digits.
fn between(text: &str, start: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(start)?;
    let (word, _) = rest.split_once(end)?;
    let is_word = |it: char| it.is_ascii_alphanumeric() || " -'".contains(it);
    (word.len() <= 64 && word.chars().all(is_word)).then(|| word.to_owned())
}

fn digits(status: &str) -> String {
    status.chars().take_while(char::is_ascii_digit).collect()
}

/// The first line of a text, without addresses, because their queries may contain secrets.
fn printable(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let words = line.split(' ').map(|word| if word.contains("://") { "(address)" } else { word });
    words.collect::<Vec<_>>().join(" ").chars().take(DETAIL_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> CallFailure {
        CallFailure::of(&Error::Generic { store: "S3", source: text.to_owned().into() })
    }

    #[test]
    fn only_status_and_code_of_an_answer_are_kept() {
        let text = "Error performing PUT http://host/b/k in 2 ms - Server returned non-2xx status code: \
                    403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>\
                    <AWSAccessKeyId>AKIASECRET</AWSAccessKeyId></Error>";
        let found = failed(text);
        assert_eq!(found.reason, Reason::Denied);
        assert_eq!(found.to_string(), "access is denied (403 SignatureDoesNotMatch)");
        let found = failed("cannot parse https://host/x?sig=SECRET now");
        assert_eq!(found.to_string(), "the request failed (cannot parse (address) now)");
    }

    /// Goal: an answer is called an answer, with its status, its code and the remedy; a lost one is not.
    #[test]
    fn answers_and_lost_answers_are_told_apart() {
        let text = "non-2xx status code: 403 Forbidden: <Error><Code>AccessDenied</Code></Error>";
        let denied = failed(text).unclear("cannot create tail/1", Engine::S3);
        assert_eq!(
            denied.message(),
            "the store answers with an error: cannot create tail/1: the credentials may not do this (403 \
             AccessDenied)"
        );
        assert!(denied.hint.unwrap().contains("s3:PutObject"));
        let full = failed("non-2xx status code: 507 Insufficient Storage: ");
        assert!(full.unclear("x", Engine::S3).hint.unwrap().contains("free some space"));
        let lost = CallFailure::no_answer(Duration::from_secs(9)).unclear("x", Engine::S3);
        assert!(lost.message().starts_with("the store does not answer: x: no answer within 9 s"));
        assert!(lost.hint.unwrap().contains("check the network"));
    }

    #[test]
    fn missing_bucket_is_not_a_missing_object() {
        let answer = |status: &str, code: &str| {
            failed(&format!("non-2xx status code: {status}: <Error><Code>{code}</Code></Error>"))
                .reason
        };
        assert_eq!(answer("404 Not Found", "NoSuchBucket"), Reason::NoBucket);
        assert_eq!(answer("404 Not Found", "ContainerNotFound"), Reason::NoBucket);
        assert_eq!(answer("404 Not Found", "NoSuchKey"), Reason::Missing);
        assert_eq!(answer("404 Not Found", "BlobNotFound"), Reason::Missing);
        assert_eq!(answer("404 Not Found", ""), Reason::Other);
        assert_eq!(answer("409 Conflict", "ConditionalRequestConflict"), Reason::Refused);
        assert_eq!(answer("412 Precondition Failed", "PreconditionFailed"), Reason::Refused);
        assert_eq!(answer("503 Slow Down", "SlowDown"), Reason::Busy);
        assert_eq!(answer("403 Forbidden", "AccessDenied"), Reason::Forbidden);
        assert_eq!(answer("403 Forbidden", "InvalidAccessKeyId"), Reason::Denied);
        assert_eq!(answer("403 Forbidden", "QuotaExceeded"), Reason::Full);
        assert_eq!(answer("507 Insufficient Storage", "XMinioStorageFull"), Reason::Full);
        assert_eq!(answer("500 Internal Server Error", "InternalError"), Reason::Other);
    }
}
