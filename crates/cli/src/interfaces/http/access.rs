//! Access control: tokens of roles, names of the server, origins of pages.
//!
//! A request has a bearer token, and the token has a role. `Host` must be a name of this server,
//! and `Origin`, if present, must be this server too. So the server first refuses pages of other
//! sites, and names of other sites that point to this server.

use std::path::Path;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};

use plan_ledger::Environment;
use plan_ledger::internals::ledger::bytes_hash;

use crate::protocol::{Failure, hex};
use crate::requests::Role;

use super::problem::Problem;

/// The roles that have tokens, and their names in a token file.
pub(super) const ROLES: [(Role, &str); 3] =
    [(Role::Viewer, "viewer"), (Role::Worker, "worker"), (Role::Operator, "operator")];

/// The shortest token that a file may have.
const TOKEN_LENGTH_MIN: usize = 16;

/// Decides about requests.
#[derive(Debug)]
pub(super) struct Access {
    /// The hashes of the tokens: comparing hashes reveals nothing about a token.
    tokens: Vec<(Role, String)>,
    /// Names without ports.
    hosts: Vec<String>,
}

#[derive(Debug)]
pub(super) struct RoleToken {
    pub(super) role: Role,
    pub(super) token: String,
}

/// New tokens, one for each role.
pub(super) fn new_tokens(environment: &Environment) -> Vec<RoleToken> {
    let token =
        || format!("{}{}", hex(&environment.ids.next_id()), hex(&environment.ids.next_id()));
    ROLES.iter().map(|(role, _)| RoleToken { role: *role, token: token() }).collect()
}

/// The tokens in a file: `ROLE TOKEN` on each line, and comments with `#`.
pub(super) fn read_tokens(path: &Path) -> Result<Vec<RoleToken>, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{shown}: cannot read the tokens: {error}")))?;
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let invalid = |what: &str| {
            let message = format!("{shown}:{}: {what}\nhint: a line is `ROLE TOKEN`", number + 1);
            Failure::Usage(message)
        };
        let (word, token) =
            line.split_once(char::is_whitespace).ok_or_else(|| invalid("no token"))?;
        let role = ROLES.iter().find(|(_, name)| *name == word).map(|(role, _)| *role);
        let role = role.ok_or_else(|| invalid("expected viewer, worker or operator"))?;
        let token = token.trim().to_owned();
        if token.len() < TOKEN_LENGTH_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let what = format!("a token has at least {TOKEN_LENGTH_MIN} letters, digits or signs");
            return Err(invalid(&what));
        }
        tokens.push(RoleToken { role, token });
    }
    if tokens.is_empty() {
        return Err(Failure::Usage(format!(
            "{shown}: there is no token\nhint: a line is `ROLE TOKEN`"
        )));
    }
    Ok(tokens)
}

fn token_hash(token: &str) -> String {
    bytes_hash(&mut token.as_bytes()).map(|hash| hash.to_string()).unwrap_or_default()
}

impl Access {
    pub(super) fn new(tokens: &[RoleToken], hosts: Vec<String>) -> Self {
        let tokens = tokens.iter().map(|it| (it.role, token_hash(&it.token))).collect();
        Self { tokens, hosts }
    }

    /// Checks that the request is for this server and does not come from a page of another one.
    pub(super) fn expect_own(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| uri.authority().map(Authority::as_str));
        let host = host.unwrap_or_default();
        if !self.is_own(host) {
            let detail = format!(
                "the host {host:?} is not a name of this server\nhint: `ledger serve --http-host NAME` \
                 adds one"
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail));
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if authority.is_some_and(|authority| authority == host) {
            return Ok(());
        }
        let detail = format!("the page of {origin:?} may not use this server");
        Err(Problem::new(StatusCode::FORBIDDEN, "wrong_origin", detail))
    }

    /// Whether `name` is a name of this server, with or without a port.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or(host, |(name, _)| name),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The role of the token in a request.
    pub(super) fn role(&self, headers: &HeaderMap) -> Result<Role, Problem> {
        let refused = |detail: &str| {
            let detail = format!(
                "{detail}\nhint: send `Authorization: Bearer TOKEN`; the tokens are in http.json in the \
                 ledger's folder, or in the file that --token-file names"
            );
            Problem::new(StatusCode::UNAUTHORIZED, "no_access", detail)
        };
        let header = headers.get(AUTHORIZATION).ok_or_else(|| refused("there is no token"))?;
        let header = header.to_str().unwrap_or_default();
        let (scheme, token) = header.split_once(' ').unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(refused("the token is not a bearer token"));
        }
        let hash = token_hash(token.trim());
        let found = self.tokens.iter().filter(|(_, own)| *own == hash).map(|(role, _)| *role).max();
        found.ok_or_else(|| refused("the token is unknown"))
    }
}

/// Rejects a request that needs another role.
pub(super) fn expect_role(role: Role, needed: Role) -> Result<(), Problem> {
    if role >= needed {
        return Ok(());
    }
    let word = |role| ROLES.iter().find(|(it, _)| *it == role).map_or("", |(_, word)| *word);
    let detail =
        format!("this needs the role {}; the token has the role {}", word(needed), word(role));
    Err(Problem::new(StatusCode::FORBIDDEN, "wrong_role", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let token = |role, token: &str| RoleToken { role, token: token.to_owned() };
        let tokens =
            [token(Role::Viewer, "viewer-token-0001"), token(Role::Operator, "operator-token-01")];
        Access::new(&tokens, vec!["localhost".into(), "127.0.0.1".into(), "::1".into()])
    }

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let access = access();
        let is_own = |of: &[(&'static str, &str)]| {
            access.expect_own(&headers(of), &Uri::from_static("/v1/runs")).is_ok()
        };
        assert!(is_own(&[("host", "127.0.0.1:4000")]));
        assert!(is_own(&[("host", "localhost")]));
        assert!(is_own(&[("host", "[::1]:80")]));
        assert!(!is_own(&[("host", "evil.example:4000")]));
        assert!(!is_own(&[("host", "127.0.0.1.evil.example")]));
        assert!(!is_own(&[]));
        assert!(is_own(&[("host", "127.0.0.1:4000"), ("origin", "http://127.0.0.1:4000")]));
        assert!(!is_own(&[("host", "127.0.0.1:4000"), ("origin", "http://127.0.0.1:5000")]));
        assert!(!is_own(&[("host", "127.0.0.1:4000"), ("origin", "null")]));
        assert!(!is_own(&[("host", "127.0.0.1:4000"), ("origin", "https://evil.example")]));
    }

    #[test]
    fn role_is_that_of_the_token() {
        let access = access();
        let role = |value: &str| access.role(&headers(&[("authorization", value)])).ok();
        assert_eq!(role("Bearer viewer-token-0001"), Some(Role::Viewer));
        assert_eq!(role("bearer operator-token-01"), Some(Role::Operator));
        assert_eq!(role("Bearer viewer-token-0002"), None);
        assert_eq!(role("Basic viewer-token-0001"), None);
        assert_eq!(role(""), None);
        assert!(access.role(&HeaderMap::new()).is_err());
    }
}
