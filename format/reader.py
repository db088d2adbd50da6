#!/usr/bin/env python3
"""An independent reader of plan-ledger format 1.0, written from log.md, head.md, recovery.md and retention.md alone.

usage: reader.py [--json] [--records] LEDGER_DIR

Verifies the whole ledger and reports the first bad place. It writes nothing, takes no lock and repairs nothing.
Exit code: 0 whole; 2 usage, not a ledger, or a newer version; 4 damaged (an index or a footer too), or unacknowledged bytes
at the end.
Needs Python 3.11 and the package blake3.
"""
import argparse, json, os, re, struct, sys, zlib
from collections import namedtuple
from pathlib import Path
from blake3 import blake3

START, FRAME_HEADER, CHAIN, LIMIT, SLOT, SECTOR = 4096, 48, 32, 16 << 20, 4096, 512
SEGMENT_MAGIC, FRAME_MAGIC, HEAD_MAGIC = b"\x89PLG\r\n\x1a\n", b"PLF1", b"PLHEAD\r\n"
INDEX_MAGIC, FOOTER_MAGIC, FOOTER, SEEK_STEP = b"PLINDEX\n", b"PLFOOT\r\n", 4096, 16384
SEGMENT_LAYOUT = "<8sHHIII16s16sQQ32s16sQQQQIIQH6xQQ16s"
SEGMENT_FIELDS = ("magic major minor incompat ro_compat compat ledger_uid uid ordinal base_seq prev_chain prev_uid "
                  "prev_data_end prev_last_seq epoch created payload_limit alignment prealloc_len reason born_last "
                  "born_end genesis")
FRAME_LAYOUT = "<4sIQQIIHBBHHII"
FRAME_FIELDS = "magic length seq time ordinal inflight kind codec flags batch_left schema body_crc header_crc"
FOOTER_LAYOUT = "<8s16sQQQQQQIIQQ32s32s208s"
FOOTER_FIELDS = ("magic uid first_seq last_seq count data_end index_offset index_length index_crc stream_rule time_first "
                 "time_last chain_last data_hash replica")
INDEX_LAYOUT = "<8sIIII"
HEAD_LAYOUT = "<8s16sQQQQQ16sQ32sQ16sQQI"
HEAD_FIELDS = ("magic ledger_uid generation epoch mode durable_seq ordinal uid data_end chain state boot boot_clock boot_time "
               "crc")
MODES = {0x9E3779B97F4A7C15: "interval", 0x3C6EF372FE94F82B: "every_commit"}
STATES = {0xD6E8FEB86659FD93: "open", 0x2917014799A6026C: "clean", 0xA5A3564E27F8862B: "poisoned"}
NOTE, RETENTION, ERASURE = 0x8001, 0x8002, 0x8007
HASH = re.compile("[0-9a-f]{64}")
Header, Frame, Head, Footer = map(namedtuple, ("Header", "Frame", "Head", "Footer"),
                                  (SEGMENT_FIELDS, FRAME_FIELDS, HEAD_FIELDS, FOOTER_FIELDS))
Segment = namedtuple("Segment", "file path header length")
Record = namedtuple("Record", "frame offset end payload chain")


class Damage(Exception):
    """Bytes that break the format: the place and the reason."""
    def __init__(self, file, offset, reason):
        super().__init__(f"{file}: offset {offset}: {reason}")
        self.place = {"file": file, "offset": offset, "reason": reason}


class NoFrame(Exception):
    """There is no valid frame at this offset. Its place determines whether this is damage."""


class Refused(Exception):
    """Not a ledger, or a ledger of a newer version."""


def zero(data):
    return data.count(0) == len(data)


def require(condition, file, offset, reason):
    if not condition:
        raise Damage(file, offset, reason)


def head_copy(data):
    """The record of one sector of a slot, if it is valid."""
    head = Head(*struct.unpack_from(HEAD_LAYOUT, data))
    is_valid = (head.magic == HEAD_MAGIC and head.crc == zlib.crc32(data[:160]) and head.mode in MODES
                and head.state in STATES and (not zero(head.boot) or head.boot_clock == head.boot_time == 0))
    return head if is_valid else None


def read_head(root, notes):
    """The slot that counts. If it is None, the end of the log is unacknowledged."""
    try:
        data = (root / "HEAD").read_bytes()
    except OSError:
        return None
    valid = []
    for index in range(2 if len(data) == 2 * SLOT else 0):
        slot = data[index * SLOT:(index + 1) * SLOT]
        copies = [slot[at:at + SECTOR] for at in range(0, SLOT, SECTOR)]
        heads = [head for head in map(head_copy, copies) if head]
        if not heads:
            notes.append(f"HEAD: slot {index} is damaged; the other one counts")
            continue
        if len(heads) < len(copies) or not all(zero(copy[164:]) for copy in copies):
            notes.append(f"HEAD: a copy in slot {index} is damaged; the newest valid one counts")
        elif len(set(copies)) > 1:
            notes.append(f"HEAD: a write of slot {index} was interrupted; its newest copy counts")
        valid.append(max(heads, key=lambda head: head.generation))
    require(len(valid) < 2 or valid[0].generation != valid[1].generation or valid[0] == valid[1],
            "HEAD", 0, "two different slots of one generation")
    return max(valid, key=lambda head: head.generation, default=None)


def read_segment_header(root, name):
    file, path = f"log/{name}", root / "log" / name
    with open(path, "rb") as handle:
        data, length = handle.read(START), os.fstat(handle.fileno()).st_size
    require(len(data) == START, file, len(data), "file ends inside the segment header")
    header = Header(*struct.unpack_from(SEGMENT_LAYOUT, data))
    require(header.magic == SEGMENT_MAGIC, file, 0, "not a segment: wrong magic")
    require(struct.unpack_from("<I", data, 4092)[0] == zlib.crc32(data[:4092]), file, 4092, "header crc differs")
    require(data[4060:4092] == blake3(data[:4060]).digest(), file, 4060, "header hash differs")
    if header.major != 1 or header.incompat:
        raise Refused(f"{file}: needs a reader of version {header.major}.{header.minor}, flags {header.incompat:#x}")
    require(zero(data[170:176]) and zero(data[208:4060]), file, 170, "reserved bytes are not zero")
    require(name == f"{header.base_seq:020}-{header.ordinal:08x}.seg", file, 56, "name and header disagree")
    require(header.alignment == 6, file, 156, "alignment is not 64")
    require(0 < header.payload_limit <= LIMIT, file, 152, "payload limit is out of range")
    require(header.prealloc_len > START and header.prealloc_len % 64 == 0, file, 160, "prealloc_len is out of range")
    return Segment(file, path, header, length)


def retention_note(frame, payload):
    """The retention note in a record; None if the record is not a valid one."""
    if (frame.kind, frame.codec, frame.schema) != (RETENTION, 2, 1):
        return None
    try:
        note = json.loads(payload)
        older, newer = note["anchors"]
        good = (1 <= note["first_seq"] <= note["last_seq"] <= older["seq"] < newer["seq"] < frame.seq
                and int(note["last_ordinal"]) >= 0 and HASH.fullmatch(note["chain"]) and isinstance(note["by"], str)
                and all(HASH.fullmatch(anchor["chain"]) and HASH.fullmatch(anchor["state_hash"])
                        and re.fullmatch(f"{anchor['seq']:020}-state-v[1-9][0-9]*-{anchor['state_hash'][:8]}[.]snap", anchor["file"])
                        for anchor in (older, newer))
                and (note["archive"] is None or HASH.fullmatch(note["archive"]["blake3"])))
    except (ValueError, KeyError, TypeError):
        good = False
    return note if good else None


def find_note(root, names):
    """The newest retention note of the log. This reads the whole log, without indexes."""
    for name in reversed(names):
        try:
            segment = read_segment_header(root, name)
        except (Damage, OSError):
            continue
        data, at, newest = segment.path.read_bytes(), START, None
        while (at := data.find(FRAME_MAGIC, at)) > 0:
            try:
                record = read_frame(segment, data, at, len(data))[0] if at % 64 == 0 else None
            except (NoFrame, Damage):
                record = None
            newest = retention_note(record.frame, record.payload) or newest if record else newest
            at = record.end if record else at + 1
        if newest:
            return newest
    return None


def beginning(root, names):
    """The start of the log: (ordinal, base_seq, prev_chain); prev_chain is None if only the segment has it."""
    base_seq, ordinal = int(names[0][:20]), int(names[0][21:-4], 16)
    note = find_note(root, names) if ordinal else None
    if not note:
        return 0, 1, bytes(32)
    if ordinal <= note["last_ordinal"]:  # an interrupted prune
        return ordinal, base_seq, None
    return note["last_ordinal"] + 1, note["last_seq"] + 1, bytes.fromhex(note["chain"])


def check_link(segment, before, uids, first):
    """Check a segment against its predecessor. The first segment has none, and begins at `first`."""
    file, header = segment.file, segment.header
    require(header.uid not in uids, file, 40, "segment uid was used before")
    require(header.base_seq == header.prev_last_seq + 1, file, 128, "prev_last_seq is not base_seq - 1")
    if before is None:
        require(header.ordinal == first[0], file, 56, "the first segment is missing")
        require(header.base_seq == first[1] and first[2] in (None, header.prev_chain), file, 64,
                "the first segment does not begin after the retention note's records")
    if before is None and header.ordinal > 0:
        return
    if before is None:
        require(header.reason in (0, 4), file, 168, "the first segment was not created as such")
        require(header.base_seq == 1 and header.prev_data_end == 0 and zero(header.prev_chain + header.prev_uid),
                file, 64, "the first segment has a predecessor")
        return
    last = before.header
    require(header.ordinal == last.ordinal + 1, file, 56, f"segment {last.ordinal + 1} is missing or duplicate")
    require(header.reason in (1, 2, 3), file, 168, f"reason {header.reason} is unknown")
    require(header.ledger_uid == last.ledger_uid, file, 24, "belongs to another ledger")
    require(header.genesis == last.genesis, file, 192, "has another genesis")
    require(header.prev_uid == last.uid, file, 104, "does not follow the previous segment")
    require(header.epoch >= last.epoch, file, 136, "writer epoch goes back")
    end = header.prev_data_end
    require(end >= START and end % 64 == 0, file, 120, "prev_data_end is out of range")
    require(header.reason == 1 or header.born_last >= header.base_seq, file, 176, "a fence without its note")


def read_frame(segment, data, offset, limit):
    """The frame at `offset`. Only the CRCs are checked here, before any other field is used."""
    head = data[offset:offset + FRAME_HEADER]
    if len(head) < FRAME_HEADER or head[:4] != FRAME_MAGIC:
        raise NoFrame("no frame" if zero(head) else "wrong frame magic")
    frame = Frame(*struct.unpack(FRAME_LAYOUT, head))
    seed = zlib.crc32(segment.header.uid + struct.pack("<Q", offset))
    if frame.header_crc != zlib.crc32(head[:44], seed):
        raise NoFrame("frame header crc differs")
    end = offset + (FRAME_HEADER + frame.length + CHAIN + 63) // 64 * 64
    require(frame.length <= segment.header.payload_limit, segment.file, offset + 4, "payload is over the limit")
    require(end <= limit, segment.file, offset + 4, "frame reaches past the end of its segment")
    body = data[offset + FRAME_HEADER:end]
    if frame.body_crc != zlib.crc32(body, seed):
        raise NoFrame("frame body crc differs")
    return Record(frame, offset, end, body[:frame.length], body[-CHAIN:]), body[frame.length:-CHAIN]


def detached(payload):
    """The covered part and the values (digest, salt, bytes) of a payload of codec 4; None if it is not as specified."""
    end = len(payload) - 4
    start = end - int.from_bytes(payload[end:], "little") if end >= 0 else -1
    count = int.from_bytes(payload[start - 4:start], "little") if start >= 4 else -1
    if count < 0 or start - 4 - 32 * count < 0:
        return None
    values, at = [], start
    for index in range(count):
        digest = payload[start - 4 - 32 * (count - index):][:32]
        length, salt = int.from_bytes(payload[at:at + 4], "little"), payload[at + 4:at + 20]
        data = payload[at + 20:at + 20 + length]
        at += 20 + length
        if at > end or not (zero(data) if zero(salt) else blake3(salt + data).digest() == digest):
            return None
        values.append((digest, salt, data))
    return (payload[:start], values) if at == end else None


def check_erasures(found):
    """Every erased value must be named by an erasure note. `found` has both, in the order of the log."""
    for segment, record, digests in found["erased"]:
        require(digests <= found["named"], segment.file, record.offset + FRAME_HEADER,
                f"a value of record {record.frame.seq} was erased, and no note names it")


def check_record(segment, record, pad, before, key, found):
    """Check all other rules. `before` is (seq, time, chain, batch_left) of the previous record."""
    frame, file, at = record.frame, segment.file, record.offset
    seq, time, chain, batch_left = before
    require(frame.seq == seq + 1, file, at + 8, f"seq {frame.seq} instead of {seq + 1}")
    require(frame.time >= time, file, at + 16, "time goes back")
    require(frame.ordinal == segment.header.ordinal & 0xFFFFFFFF, file, at + 24, "frame of another segment")
    require(1 <= frame.inflight <= frame.seq, file, at + 28, "inflight is out of range")
    require(frame.kind != 0, file, at + 32, "kind 0")
    require(frame.codec != 0, file, at + 34, "codec 0")
    require(frame.codec < 5, file, at + 34, f"codec {frame.codec} needs a newer reader")
    require(frame.flags < 2, file, at + 35, f"flags {frame.flags:#x} need a newer reader")
    require(bool(frame.flags & 1) == (bytes(512) not in record.payload + pad), file, at + 35, "flag NZ is wrong")
    require(frame.batch_left == batch_left - 1 if batch_left else frame.batch_left < 65535,
            file, at + 36, f"batch_left {frame.batch_left} after {batch_left}")
    require(frame.schema != 0, file, at + 38, "schema 0")
    require(zero(pad), file, at + FRAME_HEADER + frame.length, "pad is not zero")
    fields = struct.pack("<IQQHBHH", frame.length, frame.seq, frame.time, frame.kind, frame.codec, frame.batch_left,
                         frame.schema)
    parts = detached(record.payload) if frame.codec == 4 else (record.payload, [])
    require(parts, file, at + FRAME_HEADER, "detached values are not as specified")
    link = blake3(chain + fields + blake3(parts[0]).digest(), key=key).digest()
    require(record.chain == link, file, record.end - CHAIN, "chain differs")
    erased = {digest for digest, salt, _ in parts[1] if zero(salt)}
    if erased:
        found["erased"].append((segment, record._replace(payload=None), erased))
    if (frame.kind, frame.codec, frame.schema) == (ERASURE, 2, 1):
        try:
            found["named"] |= {bytes.fromhex(text) for text in json.loads(record.payload)["values"]}
        except (ValueError, KeyError, TypeError):
            raise Damage(file, at + FRAME_HEADER, "erasure note is not as specified") from None
    is_last_born = segment.header.reason in (2, 3) and frame.seq == segment.header.born_last
    require((frame.kind == NOTE) == is_last_born, file, at + 32, "recovery note is in the wrong place")
    if is_last_born:
        check_note(segment, record)
    require(frame.kind != RETENTION or retention_note(frame, record.payload), file, at + FRAME_HEADER,
            "retention note is not as specified")


def check_note(segment, record):
    frame, header, at = record.frame, segment.header, record.offset
    require(frame.codec == 2, segment.file, at + 34, "recovery note is not JSON")
    require(frame.batch_left == 0, segment.file, at + 36, "recovery note is not alone in its batch")
    try:
        note = json.loads(record.payload)
        good = (isinstance(note["verdict"], str) and all(isinstance(bit, str) for bit in note["evidence"])
                and note["predecessor"] == header.ordinal - 1
                and all(int(r["offset"]) >= START and int(r["length"]) > 0 and len(bytes.fromhex(r["blake3"])) == 32
                        for r in note["discarded"])
                and (note["survivors"] is None if frame.seq == header.base_seq else
                     (note["survivors"]["first"], note["survivors"]["last"]) == (header.base_seq, frame.seq - 1)))
    except (ValueError, KeyError, TypeError):
        good = False
    require(good, segment.file, at + FRAME_HEADER, "recovery note is not as specified")


def check_end(segment, data, offset, seq, batch_left, watermark, why, report):
    """Check the end of the newest segment. `offset` has no valid frame; `seq` is the last record before it."""
    rest = data[offset:]
    if seq < watermark:
        raise Damage(segment.file, offset, f"record {seq + 1} was acknowledged and is "
                     + ("missing" if zero(rest) else f"damaged: {why}") + f" (durable up to {watermark})")
    report["unacknowledged"] = seq - watermark
    if zero(rest):
        if batch_left:
            report["tail"] = {"file": segment.file, "offset": offset, "reason": "the last batch is not complete"}
        return
    at = offset
    while (at := data.find(FRAME_MAGIC, at + 1)) > 0:
        try:
            later = read_frame(segment, data, at, len(data))[0].frame if at % 64 == 0 else None
        except (NoFrame, Damage):
            continue
        require(not later or later.seq - later.inflight <= seq, segment.file, offset,
                f"record {seq + 1} is damaged ({why}) and was durable when a later one was written")
    first = len(data) - len(rest.lstrip(b"\0"))
    report["tail"] = {"file": segment.file, "offset": first, "reason": f"tail not zero: {why}"}


def check_sealed(segment, successor, data, records, chain):
    """If the segment is sealed, compare its index and footer with its frames."""
    file, header, end, length = segment.file, segment.header, successor.header.prev_data_end, len(data)
    if successor.header.reason != 1 or (length % 4096 == 0 and length >= header.prealloc_len):
        return
    at = length - FOOTER
    require(at >= end + 64 and (at - end) % 64 == 0, file, end, "file ends inside its index or footer")
    slot, index = data[at:], data[end:at]
    footer = Footer(*struct.unpack_from(FOOTER_LAYOUT, slot))
    seeds = [zlib.crc32(header.uid + struct.pack("<Q", place)) for place in (end, at)]
    require(footer.magic == FOOTER_MAGIC, file, at, "wrong footer magic")
    require(struct.unpack_from("<I", slot, 4092)[0] == zlib.crc32(slot[:4092], seeds[1]), file, at, "footer crc differs")
    require(zero(slot[368:4092]), file, at + 368, "reserved bytes of the footer are not zero")
    times = [record.frame.time for record in records] or [0]
    expected = footer._replace(uid=header.uid, first_seq=header.base_seq, last_seq=header.base_seq + len(records) - 1,
                               count=len(records), data_end=end, index_offset=end, index_length=len(index),
                               time_first=times[0], time_last=times[-1], chain_last=chain,
                               data_hash=blake3(data[START:end]).digest(), replica=data[:208])
    for field, found, due in zip(Footer._fields, footer, expected):
        require(found == due, file, at, f"footer field {field} differs from the segment")
    require(len(index) <= LIMIT, file, end, "index is over the limit")
    require(footer.index_crc == zlib.crc32(index, seeds[0]), file, end, "index crc differs")
    check_index(segment, index, end, length, records, footer.stream_rule)


def check_index(segment, index, end, length, records, stream_rule):
    magic, *counts = struct.unpack_from(INDEX_LAYOUT, index)
    seeks, kinds, streams, postings = counts
    used = 64 + 16 * (seeks + kinds + streams) + 4 * postings
    size = (used + 63) // 64 * 64
    size += 64 if (end + size + FOOTER) % 4096 == 0 else 0
    require(magic == INDEX_MAGIC and zero(index[24:64]) and size == len(index) and zero(index[used:]), segment.file, end,
            "index header, length or pad is wrong")
    entries = list(struct.iter_unpack("<QQ", index[64:64 + 16 * seeks]))
    lists = list(struct.iter_unpack("<QII", index[64 + 16 * seeks:64 + 16 * (seeks + kinds + streams)]))
    places = [64 * place for place, in struct.iter_unpack("<I", index[used - 4 * postings:used])]
    due, of_kind = [], {}
    for record in records:
        if not due or record.offset >= due[-1][1] + SEEK_STEP:
            due.append((record.frame.seq, record.offset))
        of_kind.setdefault(record.frame.kind, []).append(record.offset)
    require(entries == due, segment.file, end + 64, "index: seek entries differ from the frames")
    found, total = [], 0
    for key, first, count in lists:
        require(first == total and 0 < count <= postings - total, segment.file, end, "index: a list is out of range")
        found.append((key, places[first:first + count]))
        total += count
    require(total == postings, segment.file, end, "index: postings without a list")
    require(found[:kinds] == sorted(of_kind.items()), segment.file, end, "index: kinds differ from the frames")
    of_stream = [place for _, of_one in found[kinds:] for place in of_one]
    offsets = {record.offset for record in records}
    require([key for key, _ in found[kinds:]] == sorted({key for key, _ in found[kinds:]})
            and all(of_one == sorted(of_one) for _, of_one in found[kinds:]) and (stream_rule or not streams)
            and len(of_stream) == len(set(of_stream)) and offsets.issuperset(of_stream),
            segment.file, end, "index: streams break a rule")


def check_segment(segment, successor, head, before, key, report, emit, found):
    """Check all frames up to the logical end. Returns (seq, time, chain, batch_left) of the last record."""
    file, header = segment.file, segment.header
    data = segment.path.read_bytes()
    limit = successor.header.prev_data_end if successor else header.prealloc_len
    require(len(data) >= limit, file, len(data), f"file ends before {limit}")
    require(successor or len(data) == limit, file, limit, "the active file is longer than prealloc_len")
    seq, time, chain, batch_left = before
    require((header.base_seq - 1, header.prev_chain) == (seq, chain), file, 64, "does not continue the log")
    here = head and head.ordinal == header.ordinal
    watermark = max(seq, header.born_last, head.durable_seq if here else 0)
    agrees = here and (head.data_end, head.durable_seq, head.chain) == (START, seq, chain)
    offset, why, records = START, "the segment is full", []
    while offset < limit:
        try:
            record, pad = read_frame(segment, data, offset, limit)
        except NoFrame as reason:
            why = str(reason)
            break
        check_record(segment, record, pad, (seq, time, chain, batch_left), key, found)
        seq, time, chain, batch_left = record.frame.seq, record.frame.time, record.chain, record.frame.batch_left
        require(header.born_last != seq or header.born_end == record.end, file, record.offset, "born_end is not the end of record born_last")
        if here and head.data_end == record.end:
            agrees = (head.durable_seq, head.chain, 0) == (seq, chain, batch_left)
        offset = record.end
        records.append(record._replace(payload=None))
        report.update(records=report["records"] + 1, last_seq=seq, last_chain=chain.hex())
        emit(segment, record, bool(not successor and seq > watermark))
    if successor:
        require(offset == limit, file, offset, f"record {seq + 1} is damaged: {why}")
        require(batch_left == 0, file, offset, "the last batch before the logical end is not complete")
        require(seq >= header.born_last, file, 176, "born_last is past the logical end")
        try:
            check_sealed(segment, successor, data, records, chain)
        except Damage as damage:  # no record depends on it
            report["derived"].append(damage.place)
    else:
        check_end(segment, data, offset, seq, batch_left, watermark, why, report)
    require(not here or agrees, "HEAD", 0, "watermark is not the end of a batch of this log")
    return seq, time, chain, batch_left


def check(root, emit=lambda *_: None):
    """Verifies the ledger. The report's `status` is whole, unacknowledged_tail, derived_damage or damaged."""
    root, notes = Path(root), []
    if not (root / "log").is_dir():
        raise Refused(f"{root}: not a ledger: it has no folder `log`")
    report = {"status": "whole", "segments": 0, "first_seq": 1, "records": 0, "last_seq": 0, "last_chain": bytes(32).hex(),
              "unacknowledged": 0, "tail": None, "bad": None, "derived": [], "head": None, "notes": notes}
    segments, uids, broken, order = [], set(), None, []
    found = {"erased": [], "named": set()}
    for name in sorted(os.listdir(root / "log")):
        match = re.fullmatch(r"[0-9]{20}-([0-9a-f]{8,16})\.seg", name)
        if match:
            order.append((int(match[1], 16), name))
        elif not name.endswith(".tmp"):
            notes.append(f"log/{name}: not a file of the log")
    try:
        head = read_head(root, notes)
        first = beginning(root, [name for _, name in sorted(order)]) if order else (0, 1, bytes(32))
        for _, name in sorted(order):
            try:
                segment = read_segment_header(root, name)
                check_link(segment, segments[-1] if segments else None, uids, first)
            except (Damage, OSError) as damage:  # the segments before it are still readable
                broken = damage if isinstance(damage, Damage) else Damage(f"log/{name}", 0, f"cannot be read: {damage}")
                break
            segments.append(segment)
            uids.add(segment.header.uid)
        require(segments or broken, "log", 0, "there is no segment")
        report["segments"] = len(segments)
        if head:
            report["head"] = {"generation": head.generation, "mode": MODES[head.mode], "state": STATES[head.state],
                              "durable_seq": head.durable_seq, "ordinal": head.ordinal, "data_end": head.data_end}
        report["first_seq"] = first[1]
        position = (first[1] - 1, 0, first[2] or (segments[0].header.prev_chain if segments else bytes(32)), 0)
        for index, segment in enumerate(segments):
            successor = segments[index + 1] if index + 1 < len(segments) else None
            if broken and not successor:
                break  # its logical end is in an invalid header
            if head and head.ordinal == segment.header.ordinal:
                require((head.ledger_uid, head.uid) == (segment.header.ledger_uid, segment.header.uid), "HEAD", 8,
                        "names another ledger or segment")
            key = blake3(segment.header.genesis, derive_key_context="plan-ledger v1 record").digest()
            position = check_segment(segment, successor, head, position, key, report, emit, found)
        if broken:
            raise broken
        check_erasures(found)
        require(head, "HEAD", 0, "no valid slot: the end of the log is unknown")
        require(head.ordinal <= segments[-1].header.ordinal, "HEAD", 56, f"segment {head.ordinal} is missing")
        require(head.ordinal >= first[0], "HEAD", 56, f"segment {head.ordinal} was pruned")
    except Damage as damage:
        report.update(status="damaged", bad=damage.place)
    except OSError as error:
        report.update(status="damaged", bad={"file": str(error.filename), "offset": 0, "reason": error.strerror})
    else:
        report["status"] = "derived_damage" if report["derived"] else "unacknowledged_tail" if report["tail"] else "whole"
    return report


def main():
    parser = argparse.ArgumentParser(description="verify a ledger, independently of the program that wrote it")
    parser.add_argument("--json", action="store_true", help="one JSON object per line; the last is the summary")
    parser.add_argument("--records", action="store_true", help="print each record")
    parser.add_argument("ledger", metavar="LEDGER_DIR")
    options = parser.parse_args()

    def emit(segment, record, unacknowledged):
        frame = record.frame
        row = {"seq": frame.seq, "kind": frame.kind, "time": frame.time, "length": frame.length,
               "chain": record.chain.hex() if options.json else record.chain.hex()[:8], "unacknowledged": unacknowledged}
        if options.json:
            place = {"type": "record", "file": segment.file, "offset": record.offset, "batch_left": frame.batch_left}
            print(json.dumps(place | row | {"codec": frame.codec, "schema": frame.schema}))
        else:
            print("seq {seq} kind {kind} time {time} length {length} chain {chain}".format(**row)
                  + (" unacknowledged" if unacknowledged else ""))

    try:
        report = check(options.ledger, emit if options.records else lambda *_: None)
    except (Refused, OSError) as error:
        print(f"reader: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"type": "summary"} | report))
    else:
        for note in report["notes"]:
            print(f"note: {note}")
        for derived in report["derived"]:
            print("derived: {file}: offset {offset}: {reason}".format(**derived))
        place = report["bad"] or report["tail"]
        print("{status}: {records} records from {first_seq} in {segments} segments, last seq {last_seq}, chain {last_chain}, "
              "{unacknowledged} unacknowledged".format(**report))
        if place:
            print("{file}: offset {offset}: {reason}".format(**place))
    return 0 if report["status"] == "whole" else 4


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
