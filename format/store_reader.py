#!/usr/bin/env python3
"""An independent reader of a ledger's log in a store (format/store.md), written from the pages of this folder alone.

usage: store_reader.py [--json] [--records] STORE_DIR

STORE_DIR is a copy of the prefix of one ledger, with all objects as files. Verifies every slot and the segment objects, and
reports the first bad place. It writes nothing. Index and footer of a `.seg`, and index objects, are not checked here, since no record
depends on them.
Exit code: 0 whole; 2 usage, not a store, or a newer version; 4 damaged.
"""
import argparse, json, re, struct, sys, tempfile, zlib
from collections import namedtuple
from pathlib import Path
from blake3 import blake3
from reader import (START, Damage, NoFrame, Refused, Segment, check_erasures, check_record, read_frame, read_segment_header,
                    require, retention_note, zero)

SLOT_HEADER, SLOT_LIMIT, WRITER_NOTE = 256, 64 << 20, 0x8008
SLOT_MAGIC = b"\x89PLT\r\n\x1a\n"
SLOT_LAYOUT = "<8sHHI16s16s16sQIIQQ32s32s16sQQQQQ32s4xI"
SLOT_FIELDS = ("magic major minor incompat ledger_uid genesis node epoch flags count first_seq last_seq chain_before chain_after "
               "uid ordinal offset end time body_length body_hash crc")
Slot = namedtuple("Slot", SLOT_FIELDS)
LEDGER_MEMBERS = {"format", "ledger_uid", "genesis_uid", "created"}


def read_ledger(root):
    try:
        data = (root / "LEDGER.json").read_bytes()
        ledger = json.loads(data)
    except (OSError, ValueError) as error:
        raise Refused(f"{root}: not a store of a ledger: {error}") from None
    if ledger.get("format") != "plan-ledger store 1":
        raise Refused(f"{root}: needs a newer reader: {ledger.get('format')}")
    canonical = json.dumps(ledger, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    require(data == canonical and ledger.keys() == LEDGER_MEMBERS, "LEDGER.json", 0, "not canonical")
    return bytes.fromhex(ledger["ledger_uid"]), bytes.fromhex(ledger["genesis_uid"])


def read_slot(root, name, ids):
    """A slot whose checksums, name and fields hold, and its body."""
    file, data = f"tail/{name}", (root / "tail" / name).read_bytes()
    require(SLOT_HEADER <= len(data) <= SLOT_LIMIT, file, len(data), "length is out of range")
    slot = Slot(*struct.unpack_from(SLOT_LAYOUT, data))
    body = data[SLOT_HEADER:]
    require(slot.magic == SLOT_MAGIC, file, 0, "not a slot: wrong magic")
    require(slot.crc == zlib.crc32(data[:252]), file, 252, "slot header crc differs")
    if slot.major != 1 or slot.incompat:
        raise Refused(f"{file}: needs a reader of version {slot.major}.{slot.minor}, flags {slot.incompat:#x}")
    require(zero(data[248:252]), file, 248, "reserved bytes are not zero")
    require(int(name[:20]) == slot.first_seq, file, 80, "name and header disagree")
    require((slot.ledger_uid, slot.genesis) == ids, file, 16, "belongs to another ledger")
    require(not zero(slot.node), file, 48, "node_uid is zero")
    require(slot.epoch > 0 or not slot.flags & 1, file, 64, "an opening slot with epoch zero")
    require(slot.flags < 4 and bool(slot.flags & 2) == (slot.offset == START), file, 72, "flags are wrong")
    require(slot.last_seq - slot.first_seq + 1 == slot.count > 0 < slot.first_seq, file, 76, "count is wrong")
    require(slot.offset >= START and slot.offset % 64 == slot.end % 64 == 0 and slot.end > slot.offset, file, 184,
            "offset or end is out of range")
    due = slot.end - slot.offset + (START if slot.flags & 2 else 0)
    require(slot.body_length == due == len(body), file, 208, "body_length is wrong")
    require(slot.body_hash == blake3(body).digest(), file, 216, "body hash differs")
    return slot, body


def writer_note(file, record):
    """The note in a record of its kind."""
    frame = record.frame
    try:
        note = json.loads(record.payload)
        before, lost = note["before"], note["lost"]
        good = (frame.codec == 2 and frame.schema == 1 and frame.batch_left == 0 and note["store"] == 1 and note["epoch"] > 0
                and len(bytes.fromhex(note["node"])) == 16 and note["why"] in ("create", "open", "takeover", "restore", "rejoin")
                and (lost is not None) == (note["why"] == "rejoin")
                and (lost is None or 0 < lost["first"] <= lost["last"] and len(bytes.fromhex(lost["chain"])) == 32)
                and (before is None or before["epoch"] < note["epoch"] and len(bytes.fromhex(before["node"])) == 16))
    except (ValueError, KeyError, TypeError):
        good = False
    require(good, file, record.offset, "writer note is not as specified")
    return note


class Log:
    """The position in the log: record `seq`, its time, chain value, epoch, and segment."""
    def __init__(self, ids, emit):
        self.ids, self.emit = ids, emit
        self.key = blake3(ids[1], derive_key_context="plan-ledger v1 record").digest()
        self.seq, self.time, self.chain, self.epoch, self.segment, self.end = 0, 0, bytes(32), 0, None, 0
        self.chains, self.found = {0: bytes(32)}, {"erased": [], "named": set()}
        self.pruned = None

    def begin_later(self, file, data, base_seq, ordinal):
        """The log begins with this segment object. A retention note must say so."""
        self.pruned = False
        self.seq = base_seq - 1
        header = self.segment_of(file, data, base_seq, ordinal).header
        self.chain, self.epoch, self.before = header.prev_chain, None, (self.seq, header.prev_chain)
        self.chains = {self.seq: self.chain}

    def note_prune(self, record):
        """Looks for the retention note that makes the log begin later."""
        note = retention_note(record.frame, record.payload)
        if note and (note["last_seq"] > self.before[0] or (note["last_seq"], bytes.fromhex(note["chain"])) == self.before):
            self.pruned = True

    def segment_of(self, file, data, base_seq, ordinal):
        """The segment header in an object, which must continue the log or the current segment."""
        with tempfile.TemporaryDirectory() as folder:
            root, name = Path(folder), f"{base_seq:020}-{ordinal:08x}.seg"
            (root / "log").mkdir()
            (root / "log" / name).write_bytes(data[:START])
            try:
                header = read_segment_header(root, name).header
            except Damage as damage:
                raise Damage(file, damage.place["offset"], damage.place["reason"]) from None
        require((header.ledger_uid, header.genesis) == self.ids, file, 0, "segment header of another ledger")
        if self.segment and header.uid == self.segment.header.uid:
            require(header == self.segment.header, file, 0, "another header of the same segment")
        else:
            before = self.segment.header if self.segment else None
            due = (before.ordinal + 1, before.uid, self.end) if before else (0, bytes(16), 0)
            if self.pruned is not None and not before:
                self.chain, due = header.prev_chain, (header.ordinal, header.prev_uid, header.prev_data_end)
            require((header.ordinal, header.prev_uid, header.prev_data_end) == due, file, 0, "segment has another predecessor")
            require((header.base_seq - 1, header.prev_last_seq, header.prev_chain) == (self.seq, self.seq, self.chain), file, 0,
                    "segment does not continue the log")
        return Segment(file, None, header, None)

    def take(self, segment, frames, offset, last_seq, skip_to):
        """Verify frames that start at `offset` of their segment, up to record `last_seq`. Records up to `skip_to` are known."""
        data, notes, left = bytes(offset) + frames, [], 0
        header = segment.header
        if offset == START and header.base_seq <= skip_to:
            seq, time, chain = header.base_seq - 1, 0, header.prev_chain
        else:
            seq, time, chain = self.seq, self.time, self.chain
        while seq < last_seq:
            try:
                record, pad = read_frame(segment, data, offset, len(data))
            except NoFrame as reason:
                raise Damage(segment.file, offset, f"record {seq + 1}: {reason}") from None
            check_record(segment, record, pad, (seq, time, chain, left), self.key, self.found)
            seq, time, chain, left = record.frame.seq, record.frame.time, record.chain, record.frame.batch_left
            offset = record.end
            require(self.chains.setdefault(seq, chain) == chain, segment.file, record.offset, "follows other records")
            if record.frame.kind == WRITER_NOTE:
                require(record.offset == START, segment.file, record.offset, "a writer note that is not the first record of its segment")
                notes.append((seq, writer_note(segment.file, record)))
            if self.pruned is False:
                self.note_prune(record)
            if seq > skip_to:
                self.emit(segment, record)
        require(left == 0, segment.file, offset, "the last batch is not complete")
        self.seq, self.time, self.chain, self.segment, self.end = seq, time, chain, segment, offset
        return notes

    def take_slot(self, file, slot, body):
        require((slot.first_seq, slot.chain_before) == (self.seq + 1, self.chain), file, 96, "slot does not continue the log")
        opens = slot.flags & 1
        epoch = slot.epoch - opens if self.epoch is None else self.epoch
        require(slot.epoch > epoch if opens else slot.epoch == epoch, file, 64,
                f"epoch {slot.epoch} after {self.epoch}")
        if slot.flags & 2:
            segment, frames = self.segment_of(file, body, slot.first_seq, slot.ordinal), body[START:]
            require(segment.header.uid == slot.uid, file, 160, "segment header of another segment")
        else:
            segment, frames = self.segment, body
            require(segment and (segment.header.uid, segment.header.ordinal, self.end) == (slot.uid, slot.ordinal, slot.offset),
                    file, 160, "slot does not continue its segment")
            segment = segment._replace(file=file)
        notes = self.take(segment, frames, slot.offset, slot.last_seq, self.seq)
        require((self.chain, self.end, self.time) == (slot.chain_after, slot.end, slot.time), file, 128,
                "chain_after, end or time differs from the frames")
        last = notes[-1] if notes else (0, None)
        is_opened = last[0] == slot.last_seq and (last[1]["epoch"], last[1]["node"]) == (slot.epoch, slot.node.hex())
        require(is_opened if opens else not notes, file, 72, "opening slots, and no others, end in a writer note")
        self.epoch = slot.epoch


def check(root, emit=lambda *_: None):
    """Verifies the log in a store. The report's `status` is whole or damaged."""
    root, notes = Path(root), []
    report = {"status": "whole", "segment_objects": 0, "slots": 0, "orphans": [], "records": 0, "last_chain": bytes(32).hex(),
              "epoch": 0, "bad": None, "notes": notes}
    try:
        log = Log(read_ledger(root), emit)
        objects = []
        for path in sorted((root / "seg").iterdir()) if (root / "seg").is_dir() else []:
            match = re.fullmatch(r"(\d{20})-(\d{20})-([0-9a-f]{8,16})\.(seg|part)", path.name)
            if match:
                objects.append((int(match[1]), int(match[2]), int(match[3], 16), match[4] == "seg", path))
            elif not re.fullmatch(r"\d{20}-\d{20}-[0-9a-f]{8,16}\.index", path.name):
                notes.append(f"seg/{path.name}: not an object of the log")
        floor = max((last for _, last, *_ in objects), default=0)
        base_seq, _, ordinal, _, path = min(objects, default=(1, 0, 0, False, None))
        if base_seq > 1:
            log.begin_later(f"seg/{path.name}", path.read_bytes(), base_seq, ordinal)
        while log.seq < floor:
            held = [each for each in objects if each[0] <= log.seq + 1 <= each[1]]
            require(held, "seg/", 0, f"no segment object holds record {log.seq + 1}")
            base_seq, last_seq, ordinal, _, path = max(held, key=lambda each: (each[3], each[1]))
            file, data = f"seg/{path.name}", path.read_bytes()
            segment = log.segment_of(file, data, base_seq, ordinal)
            found = log.take(segment, data[START:], START, last_seq, log.seq)
            require(path.suffix == ".seg" or log.end == len(data), file, log.end, "bytes after the last record")
            log.epoch = found[-1][1]["epoch"] if found else log.epoch
            report["segment_objects"] += 1
        for path in sorted((root / "tail").iterdir()) if (root / "tail").is_dir() else []:
            if not re.fullmatch(r"\d{20}\.slot", path.name):
                notes.append(f"tail/{path.name}: not an object of the log")
                continue
            slot, body = read_slot(root, path.name, log.ids)
            report["slots"] += 1
            if slot.first_seq > floor:
                log.take_slot(f"tail/{path.name}", slot, body)
            elif slot.last_seq > floor and log.chains.get(slot.first_seq - 1) == slot.chain_before:
                raise Damage(f"tail/{path.name}", 88, "a segment object ends in the middle of this slot")
            elif log.pruned is not None and slot.last_seq <= log.before[0]:
                pass
            elif log.chains.get(slot.last_seq) != slot.chain_after:
                report["orphans"].append(f"tail/{path.name}")
        require(log.pruned is not False, "seg/", 0, "the first segment objects are missing, and no retention note covers them")
        check_erasures(log.found)
    except Damage as damage:
        report.update(status="damaged", bad=damage.place)
    else:
        report.update(records=log.seq, last_chain=log.chain.hex(), epoch=log.epoch or 0)
    return report


def main():
    parser = argparse.ArgumentParser(description="verify a log in a store, independently of the program that wrote it")
    parser.add_argument("--json", action="store_true", help="one JSON object per line; the last is the summary")
    parser.add_argument("--records", action="store_true", help="print each record")
    parser.add_argument("store", metavar="STORE_DIR")
    options = parser.parse_args()

    def emit(segment, record):
        row = {"seq": record.frame.seq, "kind": record.frame.kind, "time": record.frame.time, "object": segment.file}
        print(json.dumps({"type": "record"} | row) if options.json else "seq {seq} kind {kind} time {time} {object}".format(**row))

    try:
        report = check(options.store, emit if options.records else lambda *_: None)
    except (Refused, OSError) as error:
        print(f"store_reader: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"type": "summary"} | report))
    else:
        for note in report["notes"] + [f"{name}: an orphan, not part of the log" for name in report["orphans"]]:
            print(f"note: {note}")
        print("{status}: {records} records in {segment_objects} segment objects and {slots} slots, epoch {epoch}, chain "
              "{last_chain}".format(**report))
        if report["bad"]:
            print("{file}: offset {offset}: {reason}".format(**report["bad"]))
    return 0 if report["status"] == "whole" else 4


if __name__ == "__main__":
    sys.exit(main())
