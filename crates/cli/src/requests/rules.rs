//! The rules of a request, which every interface reads: the command line, the socket, and all others.

use serde::{Deserialize, Serialize};

/// The rules of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// The lowest role that may make it.
    pub role: Role,
    /// Whether it names an attempt by its token.
    pub token: TokenRule,
    /// Why it may be repeated after a lost connection.
    pub repetition: Repetition,
    /// Whether it is accepted from inside an attempt: a report of a worker about its own step.
    pub from_attempt: bool,
    /// Whether it decides for a person: an agent session may not make it.
    pub decides: bool,
    /// How long its execution takes.
    #[serde(skip)]
    pub effort: Effort,
    /// Its method and path over HTTP, if it has them. The parameters of the path are members.
    #[serde(skip)]
    pub http: Option<HttpOperation>,
    /// Whether it controls a run, for a model: the tool `ledger_control` makes it.
    pub control: bool,
}

/// The operation over HTTP that makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpOperation {
    /// Its method.
    pub method: HttpMethod,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Whether it creates something: the status is 201.
    pub creates: bool,
}

/// A method that changes the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// Adds something.
    Post,
    /// Replaces something.
    Put,
    /// Changes a part.
    Patch,
    /// Removes something.
    Delete,
}

/// The role of a client. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Works on steps.
    Worker,
    /// Controls runs.
    Operator,
}

/// Whether a request names an attempt by its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenRule {
    /// It has no token.
    None,
    /// It may have a token.
    Optional,
    /// It needs a token.
    Required,
}

/// Why a request may be repeated after a lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// Under the same key it is executed once, and every repetition gets the first response.
    Keyed,
    /// It needs no key: repeating it has no further effect.
    Idempotent,
}

/// How long the execution of a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// No longer than to decide and write one command.
    Quick,
    /// Longer: it reads or writes many records or files.
    Long,
}

impl Rules {
    /// A quick request without a token, which is executed once under its key.
    pub(crate) const fn of(role: Role) -> Self {
        Self {
            role,
            token: TokenRule::None,
            repetition: Repetition::Keyed,
            from_attempt: false,
            decides: false,
            effort: Effort::Quick,
            http: None,
            control: false,
        }
    }

    pub(crate) const fn with_attempts(self) -> Self {
        Self { from_attempt: true, ..self }
    }

    pub(crate) const fn of_person(self) -> Self {
        Self { decides: true, ..self }
    }

    pub(crate) const fn token(self, token: TokenRule) -> Self {
        Self { token, ..self }
    }

    pub(crate) const fn idempotent(self) -> Self {
        Self { repetition: Repetition::Idempotent, ..self }
    }

    pub(crate) const fn long(self) -> Self {
        Self { effort: Effort::Long, ..self }
    }

    /// The request with its operation over HTTP.
    pub(crate) const fn at(self, method: HttpMethod, path: &'static str) -> Self {
        Self { http: Some(HttpOperation { method, path, creates: false }), ..self }
    }

    /// As `at`, for a request that creates something.
    pub(crate) const fn creating_at(self, path: &'static str) -> Self {
        let http = HttpOperation { method: HttpMethod::Post, path, creates: true };
        Self { http: Some(http), ..self }
    }

    pub(crate) const fn of_control(self) -> Self {
        Self { control: true, ..self }
    }
}
