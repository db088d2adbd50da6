//! `ledger store policy`: the rights of writers, collectors and readers of a ledger in S3, and the policy of the bucket
//! that makes it enforce the rules of the store.

use clap::Args;
use serde_json::{Value, json};

use crate::output::{Code, Failure, print_result};

use super::super::lines::StorePolicyLine;
use super::super::option::parse_url;
use super::super::url::{Engine, StoreUrl};

const EXAMPLES: &str = "\
Examples:
  ledger store policy s3://my-ledgers/night
  ledger store policy s3://my-ledgers/night --json | jq .writer >writer.json
  ledger store policy s3://my-ledgers/night --collector arn:aws:iam::111122223333:role/collector
  ledger store policy s3://my-ledgers/night --lock-days 30 --json | jq .object_lock

It prints documents for Amazon S3 and changes nothing. `bucket` is a policy of the bucket: it denies writes
without the condition that the name is free, deletes by all but the collector, and requests without
encryption. `writer`, `collector` and `reader` are policies of the roles with these names. `object_lock` keeps
objects even from the owner of the account for some days; set it before the first object is created, and
set AWS_CHECKSUM_ALGORITHM=sha256 for writers, because a bucket with it wants checksums. It keeps each version of
hints too, which every process writes each 2 seconds: let a lifecycle rule expire old versions of OWNER.json
and nodes/. Other servers that speak the protocol of S3 know only some of this: try it there.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PolicyArgs {
    #[arg(value_name = "URL", help = "The place of the ledger: s3://BUCKET/PREFIX")]
    url: String,
    /// The role that may delete, as the policy of the bucket names it
    #[arg(long, value_name = "ARN", default_value = "arn:aws:iam::ACCOUNT:role/COLLECTOR")]
    collector: String,
    /// For how many days Object Lock keeps objects
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    lock_days: u32,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn policy(args: &PolicyArgs) -> Result<Code, Failure> {
    let url = parse_url(&args.url)?;
    if url.engine != Engine::S3 {
        return Err(Failure::Usage(format!(
            "{url} is not in S3: there are policies only for s3://BUCKET/PREFIX\nhint: grant writers the right to \
             create, read and list objects, and only the collector the right to delete"
        )));
    }
    let line = line_of(&url, &args.collector, args.lock_days);
    print_result(args.json, &line, &text(&line))?;
    Ok(Code::Success)
}

/// The folders whose objects are parts of the log, or what a log starts from.
const COMMITTED: [&str; 4] = ["tail", "seg", "snap", "blob"];
/// The folders in which a collector deletes.
const COLLECTED: [&str; 3] = ["tail", "seg", "snap"];
/// The folders of hints, and the object of one.
const HINTS: [&str; 3] = ["OWNER.json", "nodes/*", "takeover/*"];

/// Names of objects in a policy.
struct Names {
    bucket: String,
    prefix: String,
}

impl Names {
    fn of(url: &StoreUrl) -> Self {
        let prefix = url.prefix.iter().map(|part| format!("{part}/")).collect();
        Self { bucket: format!("arn:aws:s3:::{}", url.bucket), prefix }
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{}{name}", self.bucket, self.prefix)
    }

    fn folders(&self, folders: &[&str]) -> Vec<String> {
        folders.iter().map(|folder| self.object(&format!("{folder}/*"))).collect()
    }

    /// Those that are created once.
    fn created_once(&self) -> Vec<String> {
        [vec![self.object("LEDGER.json")], self.folders(&COMMITTED)].concat()
    }

    /// Read and list everything of the ledger. Without the right to list, S3 answers a read of a missing object as if
    /// it were denied; there the name of the folder is not known, so the condition holds only if it is.
    fn reading(&self) -> [Value; 2] {
        [
            json!({
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": self.bucket,
                "Condition": { "StringLikeIfExists": { "s3:prefix": format!("{}*", self.prefix) } },
            }),
            json!({ "Effect": "Allow", "Action": "s3:GetObject", "Resource": self.object("*") }),
        ]
    }

    fn role(&self, more: Vec<Value>) -> Value {
        document(&[self.reading().to_vec(), more].concat())
    }
}

fn document(statements: &[Value]) -> Value {
    json!({ "Version": "2012-10-17", "Statement": statements })
}

fn line_of(url: &StoreUrl, collector: &str, lock_days: u32) -> StorePolicyLine {
    let names = Names::of(url);
    let probe = names.object("probe/*");
    let hints: Vec<String> = HINTS.iter().map(|hint| names.object(hint)).collect();
    let allow = |actions: &[&str], resources: Vec<String>| json!({ "Effect": "Allow", "Action": actions, "Resource": resources });
    let put = ["s3:PutObject"];
    let delete = ["s3:DeleteObject", "s3:DeleteObjectVersion"];
    let kept = [vec![names.object("LEDGER.json")], names.folders(&["blob"])].concat();
    let bucket = document(&[
        json!({
            "Sid": "CreateOnlyIfAbsent",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",
            "Resource": names.created_once(),
            "Condition": { "Null": { "s3:if-none-match": "true" } },
        }),
        json!({
            "Sid": "OnlyTheCollectorDeletes",
            "Effect": "Deny",
            "Principal": "*",
            "Action": delete,
            "Resource": names.folders(&COLLECTED),
            "Condition": { "ArnNotLike": { "aws:PrincipalArn": collector } },
        }),
        json!({
            "Sid": "NothingElseIsDeleted",
            "Effect": "Deny",
            "Principal": "*",
            "Action": delete,
            "Resource": kept,
        }),
        json!({
            "Sid": "OnlyEncryptedRequests",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [names.bucket, names.object("*")],
            "Condition": { "Bool": { "aws:SecureTransport": "false" } },
        }),
    ]);
    let written = [names.created_once(), hints, vec![probe.clone()]].concat();
    let writer =
        names.role(vec![allow(&put, written), allow(&["s3:DeleteObject"], vec![probe.clone()])]);
    let removed = [names.folders(&COLLECTED), vec![probe.clone()]].concat();
    let collector = names.role(vec![
        allow(&["s3:DeleteObject"], removed),
        allow(&put, vec![names.object("snap/*"), probe]),
    ]);
    StorePolicyLine {
        bucket,
        collector,
        object_lock: json!({
            "ObjectLockEnabled": "Enabled",
            "Rule": { "DefaultRetention": { "Mode": "COMPLIANCE", "Days": lock_days } },
        }),
        reader: names.role(Vec::new()),
        url: url.to_string(),
        writer,
    }
}

fn text(line: &StorePolicyLine) -> String {
    let parts = [
        ("the policy of the bucket", &line.bucket),
        ("the role of a writer: `ledger serve --store`, `ledger replicate`", &line.writer),
        ("the role of a collector: `ledger store gc`, `ledger store prune`", &line.collector),
        ("the role of a reader: `ledger inspect`, `ledger restore`", &line.reader),
        ("Object Lock, if even the owner of the account must not delete", &line.object_lock),
    ];
    let shown = parts.map(|(what, document)| {
        // A value always has a text.
        let document = serde_json::to_string_pretty(document).unwrap_or_default();
        format!("# {what}\n{document}")
    });
    shown.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> StorePolicyLine {
        let url = "s3://my-ledgers/team/night".parse().unwrap();
        line_of(&url, "arn:aws:iam::1:role/c", 7)
    }

    fn actions(document: &Value) -> String {
        let statements = document["Statement"].as_array().unwrap().iter();
        let allowed = statements.filter(|it| it["Effect"] == "Allow");
        allowed.map(|statement| statement["Action"].to_string()).collect()
    }

    #[test]
    fn only_the_collector_deletes_parts_of_the_log() {
        let line = line();
        assert!(
            !actions(&line.reader).contains("Put") && !actions(&line.reader).contains("Delete")
        );
        for (role, may_delete) in [(&line.writer, false), (&line.collector, true)] {
            let statements = role["Statement"].as_array().unwrap();
            let deletes =
                statements.iter().filter(|it| it["Action"].to_string().contains("Delete"));
            let resources: String = deletes.map(|it| it["Resource"].to_string()).collect();
            assert!(resources.contains("my-ledgers/team/night/probe/*"), "{resources}");
            for folder in COLLECTED {
                assert_eq!(
                    resources.contains(&format!("night/{folder}/*")),
                    may_delete,
                    "{resources}"
                );
            }
            assert!(!resources.contains("blob") && !resources.contains("LEDGER"), "{resources}");
        }
    }

    #[test]
    fn bucket_denies_overwriting_and_deleting() {
        let bucket = line().bucket;
        let find = |sid: &str| {
            let statements = bucket["Statement"].as_array().unwrap();
            statements.iter().find(|statement| statement["Sid"] == sid).unwrap().to_string()
        };
        let create = find("CreateOnlyIfAbsent");
        for name in ["LEDGER.json", "tail/*", "seg/*", "snap/*", "blob/*"] {
            assert!(
                create.contains(&format!("arn:aws:s3:::my-ledgers/team/night/{name}")),
                "{name}"
            );
        }
        assert!(create.contains("s3:if-none-match") && !create.contains("OWNER"), "{create}");
        assert!(find("OnlyTheCollectorDeletes").contains("arn:aws:iam::1:role/c"));
        assert!(find("NothingElseIsDeleted").contains("night/LEDGER.json"));
        assert_eq!(line().object_lock["Rule"]["DefaultRetention"]["Days"], 7);
    }

    #[test]
    fn bucket_without_a_prefix_has_policies_too() {
        let line = line_of(&"s3://b".parse().unwrap(), "arn", 1);
        assert!(line.writer.to_string().contains("arn:aws:s3:::b/tail/*"), "{}", line.writer);
    }
}
