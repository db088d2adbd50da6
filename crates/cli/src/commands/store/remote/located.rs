//! Errors about a store, for people: each names the address or the object, and has a hint about damage.

use std::path::Path;

use plan_ledger::internals::store::{ObjectName, Unclear};
use plan_ledger::{Error, ErrorKind};

use crate::output::{Failure, quoted};

/// The same error, with the place of the object that it is about, or the address of the store.
pub(crate) fn at_store(error: Error, url: &str) -> Error {
    let store = Path::new(url);
    let error = match error.location().path.clone() {
        Some(path) if ObjectName::is_below_prefix(&path) => error.at_path(&store.join(path)),
        None if is_about_store(error.kind()) => error.at_path(store),
        _ => error,
    };
    let path = error.location().path.as_deref();
    let object = path.and_then(|path| path.strip_prefix(store).ok()).and_then(Path::to_str);
    match object {
        Some(object) if error.is_corrupt() && error.hint().is_none() => {
            let hint = damage_hint(url, object);
            error.with_hint(hint)
        }
        _ => error,
    }
}

/// The same for the failure of a command.
pub(crate) fn failure_at_store(failure: Failure, url: &str) -> Failure {
    match failure {
        Failure::Ledger(error) => Failure::Ledger(at_store(error, url)),
        failure => failure,
    }
}

/// The failure of a command after a call without a clear answer.
pub(crate) fn unanswered(why: &Unclear, url: &str) -> Failure {
    at_store(why.error(), url).into()
}

/// Kinds of errors that are about the store if they name no file.
fn is_about_store(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Io
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Corrupt
            | ErrorKind::Unsupported
            | ErrorKind::NotALedger
            | ErrorKind::OutOfRange
    )
}

/// The hint about damage in a store.
fn damage_hint(url: &str, object: &str) -> String {
    let url = quoted(url);
    let program = format!("`ledger serve --store {url}` or `ledger replicate {url}`");
    match ObjectName::parse(object) {
        Some(ObjectName::Ledger | ObjectName::Segment(_)) => format!(
            "if a folder has the whole ledger, move this object out of the prefix, and keep it: {program} with that folder \
             makes it again; if none has it, restore it from another copy of the store"
        ),
        Some(ObjectName::Slot(_)) => format!(
            "{program} with a folder that has the whole ledger repairs it, and names what else is damaged; if that ends with \
             this error, this is the newest object, and may be the only copy of its records: end every process of the ledger, \
             move it out of the prefix, keep it, and start with that folder"
        ),
        _ => format!(
            "{program} with a folder that has the whole ledger repairs it, and names what else is damaged"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "s3://b/night";

    fn shown(error: Error) -> String {
        format!("{:#}", at_store(error, URL))
    }

    #[test]
    fn error_about_an_object_names_its_address() {
        let corrupt = |path: &str| Error::new(ErrorKind::Corrupt, "why").at_path(path.as_ref());
        let slot = "tail/00000000000000000412.slot";
        let text = shown(corrupt(slot).at_seq(412));
        assert!(text.starts_with(&format!("{URL}/{slot}: record 412: why\nhint: ")), "{text}");
        assert!(text.contains("move it out of the prefix, keep it"), "{text}");
        // It has its place already.
        assert_eq!(shown(corrupt(&format!("{URL}/{slot}")).at_seq(412)), text);
        let segment = "seg/00000000000000000001-00000000000000000005-00000000.seg";
        let text = shown(corrupt(segment));
        assert!(text.contains("move this object out of the prefix, and keep it"), "{text}");
        let text = shown(corrupt("LEDGER.json"));
        assert!(text.contains("move this object out of the prefix, and keep it"), "{text}");
        for name in ["blob/0f", "snap/a.snap", "probe/x"] {
            assert!(shown(corrupt(name)).starts_with(&format!("{URL}/{name}: why")), "{name}");
        }
        let hinted = shown(corrupt(slot).with_hint("its own"));
        assert!(hinted.ends_with("hint: its own"), "{hinted}");
    }

    /// A file of a folder keeps its path, and the hint that commands give for folders.
    #[test]
    fn errors_about_folders_stay() {
        for path in [".ledger/log/000.seg", "tail", "tail/x/y", "/srv/ledger/HEAD"] {
            let error = Error::new(ErrorKind::Corrupt, "why").at_path(path.as_ref());
            assert_eq!(shown(error), format!("{path}: why"));
        }
        let fenced = Error::new(ErrorKind::Fenced, "why");
        assert_eq!(shown(fenced), "why");
        let away = Unclear::no_answer("cannot list tail/: time-out");
        let text = unanswered(&away, URL).to_string();
        assert!(text.starts_with("s3://b/night: the store does not answer: cannot list"), "{text}");
        let full = Unclear::answered("cannot create x: full").with_hint(Some("free it".to_owned()));
        assert_eq!(
            unanswered(&full, URL).to_string(),
            "s3://b/night: the store answers with an error: cannot create x: full\nhint: free it"
        );
    }
}
