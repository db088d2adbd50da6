//! The golden ledger: every byte of a small ledger, annotated and fixed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::{
    FOOTER_SIZE, FRAME_HEADER_SIZE, HEAD_COPY_SIZE, HEAD_FIELDS_SIZE, HEADER_REPLICA_SIZE,
    INDEX_HEADER_SIZE, SEGMENT_HEADER_SIZE, SNAPSHOT_HEADER_SIZE, SegmentHeader, Uid,
};
use plan_ledger::internals::ledger::{IdSource, SegmentSizes};
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{LogItem, LogReader, RecordStatus};
use plan_ledger::{
    BackgroundWork, Clock, Environment, HeadSync, Json, Ledger, OnAmbiguous, Plan, Receipt,
    RunPolicy,
};

/// A clock that advances a millisecond per call.
#[derive(Debug)]
pub(crate) struct Ticking(pub(crate) AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

/// Identifiers that count up.
#[derive(Debug)]
struct Counting(AtomicU64);

impl IdSource for Counting {
    fn next_id(&self) -> Uid {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        let mut id = [0xA0; 16];
        id[8..].copy_from_slice(&count.to_le_bytes());
        id
    }
}

/// The disk, with a clock and identifiers that are the same in every run.
pub(crate) fn deterministic() -> Environment {
    Environment {
        storage: Arc::new(DiskStorage),
        clock: Arc::new(Ticking(AtomicU64::new(1_700_000_000_000_000))),
        ids: Arc::new(Counting(AtomicU64::new(1))),
        holder: "a test".to_owned(),
        head_sync: HeadSync::Interval,
        background_work: BackgroundWork::Inline,
        on_ambiguous: OnAmbiguous::Refuse,
        allow_unsafe_locks: false,
        for_group: false,
        blob_threshold: 64 << 10,
        snapshot_every: Some(65_536),
        segments: SegmentSizes::DEFAULT,
    }
}

fn plan() -> Plan {
    serde_json::from_str(r#"{"steps": [{"id": "one", "outputs": ["x"]}]}"#).unwrap()
}

/// One run of one step, closed.
fn make(dir: &Path) {
    let ledger = Ledger::create(dir, &deterministic()).unwrap();
    let run = ledger.start_run("demo", &plan(), RunPolicy::default()).unwrap();
    let task = ledger.dispatch(run, "worker").unwrap().unwrap();
    let output = Json::new(&serde_json::json!(42));
    ledger
        .record_receipt(task.token, Receipt { output: output.into(), ..Receipt::default() })
        .unwrap();
    ledger.close().unwrap();
}

const HEADER_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 2, "format major"),
    (10, 2, "format minor"),
    (12, 4, "incompat flags"),
    (16, 4, "ro-compat flags"),
    (20, 4, "compat flags"),
    (24, 16, "ledger uid"),
    (40, 16, "segment uid"),
    (56, 8, "ordinal"),
    (64, 8, "base seq"),
    (72, 32, "prev_chain"),
    (104, 16, "predecessor's segment uid"),
    (120, 8, "prev_data_end"),
    (128, 8, "predecessor's last seq"),
    (136, 8, "writer epoch"),
    (144, 8, "created"),
    (152, 4, "payload limit"),
    (156, 4, "alignment log2"),
    (160, 8, "prealloc_len"),
    (168, 2, "reason"),
    (170, 6, "reserved"),
    (176, 8, "born_last"),
    (184, 8, "born_end"),
    (192, 16, "genesis uid"),
    (4060, 32, "blake3 of [0, 4060)"),
    (4092, 4, "crc32 of [0, 4092)"),
];

const FRAME_FIELDS: &[(usize, usize, &str)] = &[
    (0, 4, "magic"),
    (4, 4, "payload_length"),
    (8, 8, "seq"),
    (16, 8, "time"),
    (24, 4, "segment ordinal"),
    (28, 4, "inflight"),
    (32, 2, "kind"),
    (34, 1, "codec"),
    (35, 1, "flags"),
    (36, 2, "batch_left"),
    (38, 2, "schema"),
    (40, 4, "body_crc"),
    (44, 4, "header_crc"),
];

const HEAD_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 16, "ledger uid"),
    (24, 8, "generation"),
    (32, 8, "writer epoch"),
    (40, 8, "mode"),
    (48, 8, "durable seq"),
    (56, 8, "ordinal"),
    (64, 16, "segment uid"),
    (80, 8, "data_end"),
    (88, 32, "chain"),
    (120, 8, "state"),
    (128, 16, "boot id"),
    (144, 8, "boot clock"),
    (152, 8, "boot time"),
    (160, 4, "crc32"),
];

const INDEX_HEADER_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 4, "seek_count"),
    (12, 4, "kind_count"),
    (16, 4, "stream_count"),
    (20, 4, "posting_count"),
    (24, 40, "reserved"),
];

const FOOTER_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 16, "segment_uid"),
    (24, 8, "first_seq"),
    (32, 8, "last_seq"),
    (40, 8, "count"),
    (48, 8, "data_end"),
    (56, 8, "index_offset"),
    (64, 8, "index_length"),
    (72, 4, "index_crc"),
    (76, 4, "stream_rule"),
    (80, 8, "time_first"),
    (88, 8, "time_last"),
    (96, 32, "chain_last"),
    (128, 32, "data_hash"),
    (160, HEADER_REPLICA_SIZE, "header_replica"),
    (368, 3724, "reserved"),
    (4092, 4, "footer_crc"),
];

/// The bytes of a field of a footer or index header, by its name in the spec.
pub(crate) fn sealed_field<'a>(bytes: &'a [u8], name: &str) -> &'a [u8] {
    let fields = if bytes.len() == FOOTER_SIZE { FOOTER_FIELDS } else { INDEX_HEADER_FIELDS };
    let (offset, size, _) = fields.iter().find(|field| field.2 == name).unwrap();
    &bytes[*offset..offset + size]
}

const SNAPSHOT_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 2, "format major"),
    (10, 2, "format minor"),
    (12, 4, "incompat flags"),
    (16, 16, "ledger uid"),
    (32, 16, "genesis uid"),
    (48, 8, "seq"),
    (56, 8, "time"),
    (64, 32, "chain"),
    (96, 32, "state hash"),
    (128, 4, "projection's version"),
    (132, 4, "chunk size"),
    (136, 8, "body length"),
    (144, 32, "blake3 of the body"),
    (176, 1, "length of the projection's name"),
    (177, 7, "reserved"),
    (184, 64, "projection's name"),
    (248, 8, "bytes of the chunks"),
    (508, 4, "crc32 of [0, 508)"),
];

/// Bytes in rows of 32, the first with its note; the offset is that in the file.
fn rows(text: &mut String, bytes: &[u8], base: usize, note: &str) {
    for (row, chunk) in bytes.chunks(32).enumerate() {
        let hex: String = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let note = if row == 0 { note } else { "" };
        writeln!(text, "{:08x}  {hex:64}  {note}", base + row * 32).unwrap();
    }
}

fn fields(text: &mut String, bytes: &[u8], base: usize, fields: &[(usize, usize, &str)]) {
    for (offset, size, name) in fields {
        rows(text, &bytes[*offset..offset + size], base + offset, name);
    }
}

fn annotate(dir: &Path) -> String {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let reader = LogReader::open(&storage, dir).unwrap();
    let segment = reader.segments().remove(0);
    let bytes = std::fs::read(&segment.path).unwrap();
    let mut text = String::from(
        "# A whole ledger: one run of one step. `offset  bytes  field`; everything that is not\n\
         # shown is zero. See log.md and head.md.\n",
    );
    let name = segment.path.file_name().unwrap().to_str().unwrap().to_owned();
    writeln!(text, "\nfile log/{name} {}\n# segment header", bytes.len()).unwrap();
    fields(&mut text, &bytes, 0, HEADER_FIELDS);
    for item in reader.walk(1) {
        let LogItem::Record(record, RecordStatus::Durable) = item.unwrap() else {
            panic!("damaged")
        };
        let kind = plan_ledger::internals::ledger::Kind::from_number(record.kind).unwrap();
        let start = usize::try_from(record.offset).unwrap();
        let end = start + usize::try_from(record.size).unwrap();
        let payload_end = start + 48 + record.payload.len();
        writeln!(text, "# record {}: {}", record.seq, kind.name()).unwrap();
        fields(&mut text, &bytes[start..end], start, FRAME_FIELDS);
        rows(&mut text, &bytes[start + 48..payload_end], start + 48, "payload");
        rows(&mut text, &bytes[payload_end..end - 32], payload_end, "pad");
        rows(&mut text, &bytes[end - 32..end], end - 32, "chain");
    }
    let head = std::fs::read(dir.join("HEAD")).unwrap();
    for (slot, base) in [(0, 0), (1, 4096)] {
        if slot == 0 {
            writeln!(text, "\nfile HEAD {}", head.len()).unwrap();
        }
        writeln!(text, "# slot {slot}").unwrap();
        fields(&mut text, &head[base..base + HEAD_COPY_SIZE], base, HEAD_FIELDS);
        for copy in 1..8 {
            let base = base + copy * HEAD_COPY_SIZE;
            rows(&mut text, &head[base..base + HEAD_FIELDS_SIZE], base, &format!("copy {copy}"));
        }
    }
    text
}

/// The files that an annotated ledger describes.
pub(crate) fn parse(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["file", name, length] = words[..] {
            files.push((name.to_owned(), vec![0; length.parse().unwrap()]));
        } else {
            let offset = usize::from_str_radix(words[0], 16).unwrap();
            let bytes = &mut files.last_mut().unwrap().1;
            for (place, pair) in words[1].as_bytes().chunks(2).enumerate() {
                let pair = std::str::from_utf8(pair).unwrap();
                bytes[offset + place] = u8::from_str_radix(pair, 16).unwrap();
            }
        }
    }
    files
}

fn golden() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("format/golden/minimal.hex")
}

/// Goal: the same calls give the same bytes, and they are the golden ones.
#[test]
fn small_ledger_has_the_golden_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("minimal.ledger");
    make(&dir);
    let text = annotate(&dir);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden(), &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(golden()).unwrap(), text);
    // The annotation is complete: it describes every byte that is not zero.
    for (name, bytes) in parse(&text) {
        assert!(std::fs::read(dir.join(&name)).unwrap() == bytes, "{name}");
    }
}

/// Goal: the golden bytes, written from the annotation alone, are a ledger that opens and
/// continues.
#[test]
fn the_golden_bytes_are_a_ledger() {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden.ledger");
    let _ = std::fs::remove_dir_all(&kept);
    std::fs::create_dir_all(kept.join("log")).unwrap();
    for (name, bytes) in parse(&std::fs::read_to_string(golden()).unwrap()) {
        std::fs::write(kept.join(name), bytes).unwrap();
    }
    let (ledger, report) = Ledger::open_with(&kept, &deterministic()).unwrap();
    assert_eq!(report.verdict, "clean");
    let state = ledger.state().unwrap();
    let run = state.run_named("demo").unwrap();
    assert_eq!(run.variables["x"].value.as_str(), "42");
    assert_eq!(ledger.state_at(ledger.head().seq).unwrap().seq, ledger.head().seq);
}

/// Offset and size of every field of a table of the spec, in order.
fn table(page: &str, heading: &str) -> Vec<(usize, usize)> {
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("format").join(page);
    let text = std::fs::read_to_string(page).unwrap();
    let rows = text.split(&format!("### {heading}\n")).nth(1).unwrap();
    let rows = rows.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            (cells[1].parse().unwrap(), cells[2].parse().unwrap())
        })
        .collect()
}

/// Goal: the tables of the spec and the layout of the golden ledger agree field by field, and
/// cover every byte.
#[test]
fn tables_of_the_spec_match_the_layout() {
    let tables = [
        ("log.md", "Segment header", HEADER_FIELDS, SEGMENT_HEADER_SIZE),
        ("log.md", "Record frame header", FRAME_FIELDS, FRAME_HEADER_SIZE),
        ("log.md", "Index header", INDEX_HEADER_FIELDS, INDEX_HEADER_SIZE),
        ("log.md", "Segment footer", FOOTER_FIELDS, FOOTER_SIZE),
        ("head.md", "HEAD slot", HEAD_FIELDS, HEAD_COPY_SIZE),
        ("snapshot.md", "Snapshot header", SNAPSHOT_FIELDS, SNAPSHOT_HEADER_SIZE),
    ];
    for (page, heading, fields, size) in tables {
        let rows = table(page, heading);
        let end = rows.iter().fold(0, |end, (offset, size)| {
            assert_eq!(*offset, end, "{heading}: a gap or an overlap");
            offset + size
        });
        assert_eq!(end, size, "{heading}");
        for (offset, size, name) in fields {
            assert!(rows.contains(&(*offset, *size)), "{heading}: {name}");
        }
    }
}

/// Goal: the golden header decodes to the expected fields.
#[test]
fn the_golden_header_decodes() {
    let files = parse(&std::fs::read_to_string(golden()).unwrap());
    let segment = &files.iter().find(|(name, _)| name.starts_with("log/")).unwrap().1;
    let header = SegmentHeader::decode(&segment[..SEGMENT_HEADER_SIZE]).unwrap();
    assert_eq!((header.ordinal, header.base_seq), (0, 1));
    assert_eq!(header.prealloc_len, u64::try_from(segment.len()).unwrap());
}
