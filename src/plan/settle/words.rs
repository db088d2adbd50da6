//! Words of networks and servers about failures that pass by themselves.

/// Statuses of HTTP: too many requests, a bad gateway, an unavailable service, a gateway that timed out.
const STATUSES: [&str; 4] = ["429", "502", "503", "504"];

/// Words that must stand before a status.
const LEADS: [&str; 14] = [
    "http ",
    "http error ",
    "http status ",
    "http/1.0 ",
    "http/1.1 ",
    "http/2 ",
    "http/2.0 ",
    "http/3 ",
    "status ",
    "status: ",
    "status code ",
    "status code: ",
    "returned error: ",
    "server returned ",
];

/// Words that say it without a status.
const WORDS: [&str; 26] = [
    "503 service unavailable",
    "502 bad gateway",
    "504 gateway time",
    "too many requests",
    "rate limit",
    "connection reset",
    "connection refused",
    "connection timed out",
    "connect timeout",
    "request timed out",
    "request timeout",
    "read timed out",
    "operation timed out",
    "tls handshake timeout",
    "i/o timeout",
    "network is unreachable",
    "network timeout",
    "temporary failure in name resolution",
    "could not resolve host",
    "eai_again",
    "econnreset",
    "econnrefused",
    "etimedout",
    "esockettimedout",
    "enetunreach",
    "und_err_connect_timeout",
];

/// The words of a message that say that the failure passes by itself.
pub(super) fn transient_words(message: &str) -> Option<String> {
    let message = message.to_ascii_lowercase();
    let stated = || {
        STATUSES.iter().find_map(|status| {
            message.match_indices(status).find_map(|(at, _)| {
                let (before, rest) = message.split_at_checked(at)?;
                let after = rest.strip_prefix(status)?;
                let is_whole = !after.starts_with(|next: char| next.is_ascii_alphanumeric());
                let lead = LEADS.iter().find(|lead| before.ends_with(**lead) && is_whole)?;
                Some(format!("{lead}{status}"))
            })
        })
    };
    let said = || WORDS.iter().find(|words| message.contains(**words)).map(ToString::to_string);
    stated().or_else(said)
}

#[cfg(test)]
mod tests {
    //! Goal: what clients of the network print is known, and other numbers and words are not.

    use super::*;

    #[test]
    fn words_of_networks_are_transient() {
        for message in [
            "error: the request failed: HTTP 503 Service Unavailable",
            "HTTP/1.1 429 Too Many Requests",
            "< HTTP/2 502",
            "curl: (22) The requested URL returned error: 503",
            "AssertionError: expected 200, got status 503",
            "Request failed with status code 504",
            "request timed out",
            "net/http: TLS handshake timeout",
            "getaddrinfo EAI_AGAIN example.org",
            "dial tcp: i/o timeout",
            "connect ECONNREFUSED 127.0.0.1:80",
            "Error: Rate limit exceeded",
        ] {
            assert!(transient_words(message).is_some(), "{message}");
        }
        for message in [
            "exit status 1",
            "exit status 50",
            "HTTP 404 Not Found",
            "status 5034",
            "503 tests failed",
            "the test timed out",
            "returned error: 22",
            "",
        ] {
            assert_eq!(transient_words(message), None, "{message}");
        }
    }
}
