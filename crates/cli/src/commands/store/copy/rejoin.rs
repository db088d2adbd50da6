//! `ledger store rejoin`: a folder that has diverged from its store makes place for a restored one.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store;
use plan_ledger::log::{LogReader, LoggedRecord};
use plan_ledger::{Environment, Error, ErrorKind};

use crate::options::{AsJson, LedgerOption, environment};
use crate::output::{Code, Failure, print_result};
use plan_ledger_views::count;

use crate::protocol::{counted, ledger_option, quoted};
use crate::server::forget_root;

use super::super::lines::RejoinLine;
use super::super::option::StoreOption;
use super::super::patience::patient_client;
use super::super::reading::{Extent, storage_at};
use super::super::remote::at_store;

const EXAMPLES: &str = "\
Examples:
  ledger store rejoin s3://my-ledgers/night        show what only the folder has
  ledger store rejoin s3://my-ledgers/night --yes  set it aside, and restore the store in its place
  ledger serve --store s3://my-ledgers/night --standby      then follow the process that took over

A folder diverges if its server acknowledged results that the store did not have yet (--ack bounded or
local), and another machine took over. With --yes the records that only the folder has are written to
lost-FIRST-LAST.jsonl in it, the folder is renamed to NAME.diverged-EPOCH, and the store is restored under
its name. Nothing is deleted, and the store is only read. What the lost records say is to be done again, by a
person: the ledger continued without them. The exit code is 5 if a process has the folder, 6 if the folder
did not diverge or has another ledger, and 7 if the store does not answer.";

/// Makes the JSON of a record, without a newline.
pub(crate) type RecordJson = fn(&LoggedRecord) -> String;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RejoinArgs {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    place: LedgerOption,
    /// Rejoin; without this, only show the records that the store lacks
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn rejoin(args: &RejoinArgs, record_json: RecordJson) -> Result<Code, Failure> {
    let environment = environment();
    let line = if args.yes {
        carry_out(args, &environment, record_json)?
    } else {
        compare(args, &environment)?
    };
    print_result(args.json.0, &line, &text(&line))?;
    Ok(Code::Success)
}

fn carry_out(
    args: &RejoinArgs,
    environment: &Environment,
    record_json: RecordJson,
) -> Result<RejoinLine, Failure> {
    let (store, dir) = (args.store.open()?, &args.place.dir);
    let client = patient_client(&store, environment);
    let mut line = |record: &LoggedRecord| record_json(record);
    let rejoined = store::rejoin(dir, environment.log_options(), &client, &mut line)
        .map_err(|error| at_store(error, client.url()))?;
    // The records of this machine about the folder belong to the one that was set aside.
    forget_root(dir);
    Ok(RejoinLine {
        acknowledged: rejoined.acknowledged,
        common_seq: rejoined.common_seq,
        dir: dir.display().to_string(),
        done: true,
        exported: rejoined.exported.map(|path| path.display().to_string()),
        kept: Some(rejoined.kept.display().to_string()),
        lost: rejoined.lost,
        seq: rejoined.end.seq,
        url: store.url.to_string(),
    })
}

/// The records that only the folder has. Writes nothing.
fn compare(args: &RejoinArgs, environment: &Environment) -> Result<RejoinLine, Failure> {
    let (url, dir) = (args.store.url()?.to_string(), &args.place.dir);
    let read = |storage: &Arc<dyn Storage>, place: &Path| LogReader::open(storage, place);
    let own = read(&environment.storage, dir)?;
    let place = Path::new(&url);
    let other = read(&storage_at(place, environment, Extent::Whole)?, place)?;
    if own.uids() != other.uids() {
        let message = "the store and the folder have the logs of different ledgers";
        return Err(Error::new(ErrorKind::Rejected, message).at_path(dir).into());
    }
    let (own_end, other_end) = (last_seq(&own)?, last_seq(&other)?);
    let common_seq = last_common(&own, &other, own_end.min(other_end))?;
    if common_seq == own_end.min(other_end) {
        let message = "the folder did not diverge from the store";
        let hint = "open it with the store: `ledger serve --store URL`";
        let error = Error::new(ErrorKind::Conflict, message).with_hint(hint);
        return Err(error.at_path(dir).into());
    }
    let durable = own.head().map_or(0, |head| head.durable_seq);
    Ok(RejoinLine {
        acknowledged: durable.min(own_end).saturating_sub(common_seq),
        common_seq,
        dir: dir.display().to_string(),
        done: false,
        exported: None,
        kept: None,
        lost: own_end - common_seq,
        seq: other_end,
        url,
    })
}

fn last_seq(reader: &LogReader) -> Result<u64, Error> {
    let last = reader.records_reverse(u64::MAX).next().transpose()?;
    Ok(last.map_or(reader.first_seq().saturating_sub(1), |record| record.seq))
}

/// The last common record up to a limit. If two chain values are equal, so are all earlier records.
fn last_common(own: &LogReader, other: &LogReader, last: u64) -> Result<u64, Error> {
    let (mut common, mut different) = (own.first_seq().saturating_sub(1), last.saturating_add(1));
    while different - common > 1 {
        let middle = common + (different - common) / 2;
        let (own, other) = (own.record(middle)?, other.record(middle)?);
        let is_common = own.zip(other).is_some_and(|(own, other)| own.chain == other.chain);
        if is_common {
            common = middle;
        } else {
            different = middle;
        }
    }
    Ok(common)
}

fn text(line: &RejoinLine) -> String {
    let RejoinLine { acknowledged, common_seq, dir, exported, kept, lost, seq, url, .. } = line;
    let mut text = match kept {
        Some(_) => format!("{dir}: restored from {url} to record {}\n", count(*seq)),
        None => format!("{dir}: diverged from {url}\n"),
    };
    let (first, last) = (common_seq + 1, common_seq + lost);
    // Writing to a string does not fail.
    let _ = writeln!(text, "  common    up to record {}", count(*common_seq));
    let _ = writeln!(
        text,
        "  lost      {}, {first} to {last}, of which {} known to be acknowledged",
        counted(*lost, "record"),
        count(*acknowledged)
    );
    match kept {
        Some(kept) => {
            let _ = writeln!(text, "  kept      {kept}");
            if let Some(exported) = exported {
                let _ = writeln!(text, "  records   {exported}");
            }
            let _ = write!(
                text,
                "  next      `ledger serve --store {} {} --standby` follows the owner",
                quoted(url),
                ledger_option(Path::new(dir))
            );
        }
        None => {
            let _ = writeln!(text, "  store     continues to record {}", count(*seq));
            let _ = write!(
                text,
                "  next      add --yes: it saves these records and restores the store"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_is_lost_and_where_it_is() {
        let plan = RejoinLine {
            acknowledged: 1,
            common_seq: 4,
            dir: "night".to_owned(),
            done: false,
            exported: None,
            kept: None,
            lost: 2,
            seq: 9,
            url: "s3://b/night".to_owned(),
        };
        let shown = text(&plan);
        assert!(shown.starts_with("night: diverged from s3://b/night\n"), "{shown}");
        assert!(shown.contains("lost      2 records, 5 to 6, of which 1 known to be"), "{shown}");
        assert!(shown.contains("continues to record 9"), "{shown}");
        let kept = "night.diverged-3";
        let exported = Some(format!("{kept}/lost-5-6.jsonl"));
        let shown = text(&RejoinLine { done: true, kept: Some(kept.to_owned()), exported, ..plan });
        assert!(shown.starts_with("night: restored from s3://b/night to record 9\n"), "{shown}");
        assert!(shown.contains("night.diverged-3/lost-5-6.jsonl\n"), "{shown}");
    }
}
