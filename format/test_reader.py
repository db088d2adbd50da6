"""Tests of reader.py, and of the tables and the example of the specification, on tiny ledgers from a short writer.

The writer below shares no code with the reader. If both misread the specification in the same way, only the golden
ledgers of the real program detect it. Run: python3 -m unittest format/test_reader.py
"""
import json, re, struct, subprocess, sys, tempfile, unittest, zlib
from pathlib import Path
from blake3 import blake3

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import reader  # noqa: E402
import store_reader  # noqa: E402

LEDGER, GENESIS = bytes(range(0x80, 0x90)), bytes(range(16))
UIDS = [bytes(range(16 * (n + 1), 16 * (n + 2))) for n in range(4)]
KEY = blake3(GENESIS, derive_key_context="plan-ledger v1 record").digest()
INTERVAL, EVERY_COMMIT = 0x9E3779B97F4A7C15, 0x3C6EF372FE94F82B
OPEN, CLEAN, POISONED = 0xD6E8FEB86659FD93, 0x2917014799A6026C, 0xA5A3564E27F8862B
ADA = b"\x01\x03ada"  # RunReopened { run: 1, by: "ada" }
NOTE = {"verdict": "torn", "evidence": ["R"], "predecessor": 0, "discarded": [], "survivors": None}


def le(size, *values):
    return b"".join(value.to_bytes(size, "little") for value in values)


def frame(offset, seq, chain, payload=ADA, *, uid=UIDS[0], ordinal=0, time=1_700_000_000_000_000, inflight=1, kind=11,
          codec=1, left=0, schema=1, flags=None, pad_byte=0, magic=b"PLF1", link=None):
    """One frame and its chain. The keywords break one rule at a time with correct CRCs."""
    pad = bytes([pad_byte]) * (-(48 + len(payload) + 32) % 64)
    if flags is None:
        flags = 0 if b"\0" * 512 in payload + pad else 1
    logical = le(4, len(payload)) + le(8, seq, time) + le(2, kind) + le(1, codec) + le(2, left, schema)
    covered = payload[:len(payload) - 4 - int.from_bytes(payload[-4:], "little")] if codec == 4 else payload
    chain = link or blake3(chain + logical + blake3(covered).digest(), key=KEY).digest()
    seed = zlib.crc32(uid + le(8, offset))
    header = (magic + le(4, len(payload)) + le(8, seq, time) + le(4, ordinal & 0xFFFFFFFF, inflight) + le(2, kind)
              + le(1, codec, flags) + le(2, left, schema) + le(4, zlib.crc32(payload + pad + chain, seed)))
    return header + le(4, zlib.crc32(header, seed)) + payload + pad + chain, chain


def segment_header(*, ordinal=0, base=1, prev_chain=bytes(32), prev_uid=bytes(16), prev_end=0, prev_last=None, epoch=1,
                   length=8192, reason=0, born=(0, 0), major=1, incompat=0, reserved=0, uid=None, ledger=LEDGER,
                   limit=16 << 20, genesis=GENESIS, alignment=6, magic=b"\x89PLG\r\n\x1a\n", hashed=b""):
    data = (magic + le(2, major, 0) + le(4, incompat, 0, 0) + ledger + (uid or UIDS[ordinal])
            + le(8, ordinal, base) + prev_chain + prev_uid + le(8, prev_end, base - 1 if prev_last is None else prev_last,
                                                                epoch, 1_700_000_000_000_000)
            + le(4, limit, alignment) + le(8, length) + le(2, reason) + bytes(6) + le(8, *born) + genesis)
    data = data.ljust(4059, b"\0") + bytes([reserved])
    data += blake3(data + hashed).digest()
    return data + le(4, zlib.crc32(data))


BOOT = (bytes(range(0x30, 0x40)), 7_000_000, 1_700_000_000_000_000)


def slot(seq, end, chain, *, generation=1, ordinal=0, mode=INTERVAL, state=OPEN, uid=None, ledger=LEDGER, epoch=1,
         boot=BOOT):
    data = (b"PLHEAD\r\n" + ledger + le(8, generation, epoch, mode, seq, ordinal) + (uid or UIDS[ordinal]) + le(8, end)
            + chain + le(8, state) + boot[0] + le(8, *boot[1:]))
    return (data + le(4, zlib.crc32(data))).ljust(512, b"\0") * 8


def frames(offset, seq, chain, specs, **common):
    """Consecutive frames from `specs` (keywords each): bytes, and (end, chain) after each one."""
    data, ends = b"", [(offset, chain)]
    for number, spec in enumerate(specs):
        one, chain = frame(offset + len(data), seq + number, chain, **(common | spec))
        data += one
        ends.append((offset + len(data), chain))
    return data, ends


def sealed(data, records, chain, *, uid=UIDS[0], base=1, streams=(), rule=0, index=None, **fields):
    """A segment's bytes up to its logical end, followed by index and footer. `records` are (offset, kind, time)."""
    end, seeks, kinds = len(data), [], {}
    for number, (offset, kind, _) in enumerate(records):
        if not seeks or offset - seeks[-1][1] >= 16384:
            seeks.append((base + number, offset))
        kinds.setdefault(kind, []).append(offset)
    lists, postings = b"", b""
    for key, offsets in [*sorted(kinds.items()), *streams]:
        lists += le(8, key) + le(4, len(postings) // 4, len(offsets))
        postings += le(4, *(offset // 64 for offset in offsets))
    made = b"PLINDEX\n" + le(4, len(seeks), len(kinds), len(streams), len(postings) // 4) + bytes(40)
    made += b"".join(le(8, *seek) for seek in seeks) + lists + postings
    made += bytes(-len(made) % 64)
    made += bytes(64 if (end + len(made)) % 4096 == 0 else 0)
    index = index(made) if index else made
    at, seed = end + len(index), lambda place: zlib.crc32(uid + le(8, place))
    times = [time for _, _, time in records] or [0]
    parts = {"magic": b"PLFOOT\r\n", "segment_uid": uid, "first": le(8, base), "last": le(8, base + len(records) - 1),
             "count": le(8, len(records)), "data_end": le(8, end), "index_offset": le(8, end),
             "index_length": le(8, len(index)), "index_crc": le(4, zlib.crc32(index, seed(end))), "rule": le(4, rule),
             "time_first": le(8, times[0]), "time_last": le(8, times[-1]), "chain_last": chain,
             "data_hash": blake3(data[4096:]).digest(), "replica": data[:208], "reserved": bytes(3724)}
    footer = b"".join((parts | fields).values())
    return data + index + footer + le(4, zlib.crc32(footer, seed(at)))


class LedgerCase(unittest.TestCase):
    def setUp(self):
        memory = Path("/dev/shm")  # the tests rewrite thousands of small files, which is slow on a disk
        folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "log").mkdir()

    def put(self, name, data):
        (self.root / name).write_bytes(data)

    def segment(self, header, body, *, base=1, ordinal=0, length=8192):
        name = f"log/{base:020}-{ordinal:08x}.seg"
        self.put(name, (header + body).ljust(length, b"\0"))
        return name

    def one(self, specs=({},), durable=None, length=8192, head=None, **header):
        """A ledger of one segment with these records; HEAD at record `durable` (the last, if not given)."""
        body, ends = frames(4096, 1, bytes(32), specs)
        durable = len(specs) if durable is None else durable
        self.put("HEAD", slot(durable, *ends[durable], **(head or {})) * 2)
        return self.segment(segment_header(length=length, **header), body, length=length), ends

    def two(self, reason=1, dead=b"", head_stale=False, note=None, note_frame=None, **header):
        """Record 1 in segment 0; segment 1 by rotation (record 2 in it) or by a fence (2 survives, 3 is the note)."""
        first, ends = frames(4096, 1, bytes(32), [{}])
        self.segment(segment_header(), first + dead)
        end, chain = ends[-1]
        text = json.dumps(NOTE | {"survivors": {"first": 2, "last": 2}} | (note or {})).encode()
        specs = [{}]
        if reason > 1:
            specs.append({"kind": 0x8001, "codec": 2, "payload": text, "inflight": 2} | (note_frame or {}))
        body, after = frames(4096, 2, chain, specs, uid=UIDS[1], ordinal=1)
        born = (3, after[-1][0]) if reason > 1 else (0, 0)
        header = {"ordinal": 1, "base": 2, "prev_chain": chain, "prev_uid": UIDS[0], "prev_end": end, "reason": reason,
                  "born": born, "epoch": 2} | header
        self.segment(segment_header(**header), body, base=2, ordinal=1)
        self.put("HEAD", slot(1, end, chain) * 2 if head_stale
                 else slot(1 + len(specs), *after[-1], ordinal=1) * 2)

    def report(self, status, reason=None, **expected):
        found = reader.check(self.root)
        self.assertEqual(found["status"], status, found)
        for field, value in expected.items():
            self.assertEqual(found[field], value, found)
        if reason:
            self.assertIn(reason, (found["bad"] or found["tail"])["reason"])
        return found


class Whole(LedgerCase):
    def test_one_record(self):
        _, ends = self.one()
        self.report("whole", records=1, last_seq=1, unacknowledged=0, last_chain=ends[-1][1].hex(), notes=[])

    def test_empty_ledger(self):
        self.one(specs=())
        self.report("whole", records=0, last_seq=0, last_chain="00" * 32)

    def test_batches_and_payloads_of_every_padding(self):
        specs = [{"payload": bytes([7]) * n, "left": 2 - n % 3} for n in range(132)]
        self.one(specs, length=65536)
        self.report("whole", records=132)

    def test_full_segment(self):
        self.one([{}] * 32, length=8192)
        self.report("whole", records=32)

    def test_zero_payload_clears_nz(self):
        self.one([{"payload": bytes(600)}, {"payload": b"x" + bytes(511)}, {"payload": b"x" + bytes(511) + b"y"}])
        self.report("whole", records=3)

    def test_rotation_with_head_in_either_segment(self):
        for stale in (False, True):
            self.two(head_stale=stale)
            self.report("whole", records=2, unacknowledged=int(stale))

    def test_fence_buries_the_old_tail_and_proves_what_was_born_with_it(self):
        for stale in (False, True):
            self.two(reason=2, dead=b"PLF1 rubbish" * 50, head_stale=stale)
            self.report("whole", records=3, unacknowledged=0, segments=2)

    def test_fence_without_survivors(self):
        first, ends = frames(4096, 1, bytes(32), [{}])
        self.segment(segment_header(), first + b"torn")
        end, chain = ends[1]
        body, after = frames(4096, 2, chain, [{"kind": 0x8001, "codec": 2, "payload": json.dumps(NOTE).encode()}],
                             uid=UIDS[1], ordinal=1)
        self.segment(segment_header(ordinal=1, base=2, prev_chain=chain, prev_uid=UIDS[0], prev_end=end, reason=3,
                                    born=(2, after[1][0])), body, base=2, ordinal=1)
        self.put("HEAD", slot(1, end, chain, state=POISONED) * 2)
        self.report("whole", records=2, unacknowledged=0)

    def test_unacknowledged_records(self):
        self.one([{}] * 3, durable=1)
        self.report("whole", records=3, unacknowledged=2)

    def test_newer_slot_counts_and_a_bad_one_is_noted(self):
        _, ends = self.one([{}] * 2)
        old, new = slot(1, *ends[1], generation=4), slot(2, *ends[2], generation=5, mode=EVERY_COMMIT, state=CLEAN)
        for data in (old + new, new + old):
            self.put("HEAD", data)
            self.assertEqual(self.report("whole", notes=[])["head"]["generation"], 5)
        for index in range(132):
            bad = bytearray(old + new)
            bad[4096 + index] ^= 1
            self.put("HEAD", bad)
            self.assertEqual(len(self.report("whole", unacknowledged=0)["notes"]), 1)
            for copy in range(4096, 8192, 512):
                bad[copy + index] = old[index] ^ 0xA5
            self.put("HEAD", bad)
            self.assertEqual(len(self.report("whole", unacknowledged=1)["notes"]), 1)

    def test_a_cut_or_torn_slot_keeps_its_newest_copy(self):
        _, ends = self.one([{}] * 2)
        old, new = slot(1, *ends[1], generation=4), slot(2, *ends[2], generation=5)
        for cut in range(0, 4097, 37):
            self.put("HEAD", old + new[:cut] + bytes(4096 - cut))
            generation = self.report("whole")["head"]["generation"]
            self.assertEqual(generation, 5 if cut >= 164 else 4)
        for lost in range(256):
            sectors = [(old if lost >> at & 1 else new)[at * 512:at * 512 + 512] for at in range(8)]
            self.put("HEAD", old + b"".join(sectors))
            self.assertEqual(self.report("whole")["head"]["generation"], 4 if lost == 255 else 5)

    def test_files_being_built_are_ignored(self):
        self.one()
        self.put("log/00000000000000000002-00000001.seg.tmp", b"x")
        self.put("log/notes.txt", b"x")
        self.assertEqual(len(self.report("whole")["notes"]), 1)


class Damaged(LedgerCase):
    def test_every_byte_of_an_acknowledged_record_and_its_header(self):
        """Each byte is inverted, and then has one bit flipped: both are detected in this file, before any record."""
        name, ends = self.one()
        good = (self.root / name).read_bytes()
        for index in range(ends[-1][0]):
            for mask in (0xFF, 1 << index % 8):
                bad = bytearray(good)
                bad[index] ^= mask
                self.put(name, bad)
                found = self.report("damaged")
                self.assertEqual(found["bad"]["file"], name)
                self.assertEqual(found["records"], 0)

    def test_every_byte_of_a_predecessor(self):
        self.two()
        name = "log/00000000000000000001-00000000.seg"
        good = (self.root / name).read_bytes()
        for index in range(4096, 4096 + 128):
            bad = bytearray(good)
            bad[index] ^= 0x10
            self.put(name, bad)
            self.assertEqual(self.report("damaged")["bad"]["file"], name)

    def test_every_byte_beyond_the_watermark(self):
        """This is not damage, since the record was not acknowledged, but the ledger is not whole either."""
        name, ends = self.one([{}] * 2, durable=1)
        good = (self.root / name).read_bytes()
        for index in range(ends[1][0], len(good)):
            bad = bytearray(good)
            bad[index] ^= 0xFF
            self.put(name, bad)
            self.report("unacknowledged_tail", "tail not zero", records=1 + (index >= ends[2][0]))

    def test_every_byte_of_the_only_head_slot(self):
        self.one()
        good = (self.root / "HEAD").read_bytes()[:4096] + bytes(4096)
        for index in range(4096):
            bad = bytearray(good)
            bad[index] ^= 0x01
            self.put("HEAD", bad)
            self.assertEqual(len(self.report("whole", records=1)["notes"]), 2)
        for index in range(164):
            bad = bytearray(good)
            for copy in range(0, 4096, 512):
                bad[copy + index] ^= 0x01
            self.put("HEAD", bad)
            self.report("damaged", "no valid slot", records=1)

    def test_truncation_anywhere(self):
        """For no length of the file the reader fails, or reports the ledger as whole."""
        name, _ = self.one()
        good = (self.root / name).read_bytes()
        for length in [*range(0, 4096, 61), *range(4096, 4300), *range(4300, len(good), 61), len(good) - 1]:
            self.put(name, good[:length])
            self.report("damaged")
        self.put(name, good + b"\0")
        self.report("damaged", "longer than prealloc_len")

    def test_truncated_or_missing_head(self):
        self.one()
        good = (self.root / "HEAD").read_bytes()
        for length in (0, 1, 131, 4095, 4096, 8191):
            self.put("HEAD", good[:length])
            self.report("damaged", "no valid slot")
        (self.root / "HEAD").unlink()
        self.report("damaged", "no valid slot", records=1)

    def test_acknowledged_tail_missing(self):
        name, _ = self.one()
        self.put(name, (self.root / name).read_bytes()[:4096].ljust(8192, b"\0"))
        self.report("damaged", "record 1 was acknowledged and is missing")

    def test_later_frame_proves_an_earlier_one(self):
        """HEAD is stale, but record 3 was written when 2 was durable: a bad record 2 is not torn."""
        for inflight, status in ((1, "damaged"), (2, "unacknowledged_tail")):
            name, ends = self.one([{}, {}, {"inflight": inflight}], durable=1)
            bad = bytearray((self.root / name).read_bytes())
            bad[ends[1][0] + 60] ^= 1
            self.put(name, bad)
            self.report(status)

    def test_incomplete_last_batch(self):
        self.one([{}, {"left": 1}], durable=1)
        self.report("unacknowledged_tail", "batch is not complete", records=2)

    def test_good_crcs_do_not_excuse_a_broken_rule(self):
        cases = {
            "seq 5 instead of 2": {"seq": 5}, "time goes back": {"time": 1}, "another segment": {"ordinal": 9},
            "inflight": {"inflight": 0}, "kind 0": {"kind": 0}, "codec 0": {"codec": 0}, "codec 5": {"codec": 5},
            "detached values": {"codec": 4},
            "newer reader": {"flags": 3}, "NZ": {"flags": 0}, "schema 0": {"schema": 0}, "pad": {"pad_byte": 1},
            "chain differs": {"link": b"\5" * 32}, "recovery note": {"kind": 0x8001, "codec": 2}, "batch_left": {"left": 65535},
        }
        for reason, broken in cases.items():
            with self.subTest(reason):
                name, ends = self.one([{}], durable=1)
                bad, _ = frame(ends[1][0], broken.get("seq", 2), ends[1][1],
                               **{k: v for k, v in broken.items() if k != "seq"})
                self.put(name, ((self.root / name).read_bytes()[:ends[1][0]] + bad).ljust(8192, b"\0"))
                self.report("damaged", reason, records=1)

    def test_detached_values_and_their_erasure(self):
        def payload(*values, digests=None):
            digests = digests or [blake3(salt + data).digest() for salt, data in values]
            parts = b"".join(le(4, len(data)) + salt + data for salt, data in values)
            return b"body" + b"".join(digests) + le(4, len(digests)) + parts + le(4, len(parts))

        salt, secret = b"s" * 16, b"hunter2"
        digest = blake3(salt + secret).digest()
        whole = payload((salt, secret), (salt, b""))
        erased = payload((bytes(16), bytes(7)), (salt, b""), digests=[digest, blake3(salt).digest()])
        note = {"by": "ana", "records": [1], "values": [digest.hex()], "blobs": []}
        note = {"kind": 0x8007, "codec": 2, "payload": json.dumps(note).encode()}
        chains = []
        for text in (whole, erased):
            _, ends = self.one([{"codec": 4, "payload": text}, note])
            chains.append(ends[2][1])
            self.report("whole", records=2)
        self.assertEqual(chains[0], chains[1])
        self.one([{"codec": 4, "payload": erased}])
        self.report("damaged", "no note names it")
        for bad in (payload((salt, b"hunter3"), digests=[digest]), payload((bytes(16), secret), digests=[digest]), b"\1\0\0\0",
                    payload((salt, secret))[:-1], payload(digests=[digest])):
            self.one([{"codec": 4, "payload": bad}])
            self.report("damaged", "detached values")

    def test_batches_count_down(self):
        for lefts in ((1, 1), (2, 0), (3, 1)):
            self.one([{"left": left} for left in lefts], durable=0)
            self.report("damaged", "batch_left", records=1)

    def test_frame_does_not_hold_elsewhere(self):
        """The same bytes at another offset, or in another segment file, are not a frame."""
        name, ends = self.one()
        data = (self.root / name).read_bytes()
        self.put(name, data[:ends[1][0]] + data[4096:ends[1][0]] + bytes(8192 - 2 * ends[1][0] + 4096))
        self.report("unacknowledged_tail", "crc differs", records=1)
        self.segment(segment_header(uid=UIDS[3]), data[4096:ends[1][0]])
        self.put("HEAD", slot(1, *ends[1], uid=UIDS[3]) + bytes(4096))
        self.report("damaged", "crc differs", records=0)

    def test_segment_header_rules(self):
        cases = {"reserved": {"reserved": 1}, "payload limit": {"limit": (16 << 20) + 1}, "predecessor": {"prev_end": 4096},
                 "not created": {"reason": 1}, "base_seq - 1": {"prev_last": 7}, "prealloc_len": {"length": 8193},
                 "header hash": {"hashed": b"x"}, "wrong magic": {"magic": b"\x89PNG\r\n\x1a\n"},
                 "alignment": {"alignment": 7}, "name and header": {"base": 2}}
        for reason, broken in cases.items():
            with self.subTest(reason):
                self.segment(segment_header(**broken), b"")
                self.report("damaged", reason)

    def test_frame_over_the_limit_of_its_segment(self):
        self.one([{}], limit=4)
        self.report("damaged", "over the limit", records=0)

    def test_fence_rules(self):
        cases = {"not JSON": {"note_frame": {"codec": 3}}, "alone": {"note_frame": {"left": 1}},
                 "in the wrong place": {"note_frame": {"kind": 0x8002}}, "born_end": {"born": (3, 4096)},
                 "flags": {"note_frame": {"flags": 5}}}
        for survivors in (None, {"first": 1, "last": 2}, {"first": 2, "last": 3}, {"first": 2}, 7):
            cases[f"not as specified{survivors}"] = {"note": {"survivors": survivors}}
        for number, discarded in enumerate(([{}], [{"offset": 0, "length": 1, "blake3": "00" * 32}], 5, [{"offset": "x"}])):
            cases[f"not as specified{number}"] = {"note": {"discarded": discarded}}
        for reason, broken in cases.items():
            with self.subTest(reason):
                self.two(reason=2, **broken)
                self.report("damaged", reason if reason[:6] != "not as" else "not as specified")
        self.two(reason=2, note={"discarded": [{"offset": 4224, "length": 9, "blake3": "0a" * 32}], "more": 1})
        self.report("whole", records=3)

    def test_born_past_the_logical_end(self):
        self.two()
        self.segment(segment_header(born=(2, 4352)), frames(4096, 1, bytes(32), [{}])[0])
        self.report("damaged", "born_last")

    def test_gap_in_the_ordinals(self):
        self.two(ordinal=2, uid=UIDS[1])
        (self.root / "log" / f"{2:020}-00000001.seg").rename(self.root / "log" / f"{2:020}-00000002.seg")
        self.report("damaged", "segment 1 is missing")

    def test_folder_without_segments(self):
        self.report("damaged", "no segment")

    def test_links(self):
        self.two()
        _, ends = frames(4096, 1, bytes(32), [{}])
        right = {"ordinal": 1, "base": 2, "prev_chain": ends[1][1], "prev_uid": UIDS[0], "prev_end": ends[1][0], "reason": 1}
        cases = {"does not follow": {"prev_uid": UIDS[2]}, "used before": {"uid": UIDS[0]}, "another genesis": {"genesis": LEDGER},
                 "does not continue": {"prev_chain": bytes(32)}, "belongs to another ledger": {"ledger": GENESIS}, "epoch": {"epoch": 0},
                 "batch": {}, "damaged: no frame": {"prev_end": 4352}, "past the end of its segment": {"prev_end": 4160},
                 "without its note": {"reason": 3}, "file ends": {"prev_end": 1 << 20}, "prev_data_end": {"prev_end": 4100},
                 "reason 4": {"reason": 4}}
        for reason, broken in cases.items():
            with self.subTest(reason):
                if reason == "batch":
                    body, _ = frames(4096, 1, bytes(32), [{"left": 1}])
                    self.segment(segment_header(), body)
                self.segment(segment_header(**right | broken), b"", base=2, ordinal=1)
                self.report("damaged", reason)
                self.segment(segment_header(), frames(4096, 1, bytes(32), [{}])[0])

    def test_missing_segments(self):
        self.two()
        (self.root / "log" / "00000000000000000002-00000001.seg").unlink()
        self.report("damaged", "segment 1 is missing", records=1)
        self.two()
        (self.root / "log" / "00000000000000000001-00000000.seg").unlink()
        self.report("damaged", "first segment is missing")

    def test_damage_in_the_last_header_leaves_what_is_before_it_checked(self):
        self.two()
        name = "log/00000000000000000002-00000001.seg"
        bad = bytearray((self.root / name).read_bytes())
        bad[100] ^= 1
        self.put(name, bad)
        self.assertEqual(self.report("damaged", "header crc")["bad"]["file"], name)

    def test_head_must_agree_with_the_log(self):
        _, ends = self.one([{"left": 1}, {}])
        end, chain = ends[2]
        for head in (slot(2, end, bytes(32)), slot(1, end, chain), slot(2, end, chain, uid=UIDS[1]), slot(1, *ends[1]),
                     slot(2, end, chain, ledger=GENESIS), slot(0, 4096, chain), slot(2, end - 64, chain)):
            self.put("HEAD", head + bytes(4096))
            self.assertEqual(self.report("damaged")["bad"]["file"], "HEAD")
        self.put("HEAD", slot(2, end, chain) + slot(0, 4096, bytes(32)))
        self.report("damaged", "one generation")


class Sealed(LedgerCase):
    TIME = 1_700_000_000_000_000

    def rotated(self, specs=({},), streams=lambda ends: (), **footer):
        """Segment 0 with these records, sealed; segment 1 by rotation, empty."""
        for old in (self.root / "log").iterdir():
            old.unlink()
        body, ends = frames(4096, 1, bytes(32), specs)
        end, chain = ends[-1]
        length = (end + 8191) // 4096 * 4096
        records = [(ends[n][0], spec.get("kind", 11), self.TIME) for n, spec in enumerate(specs)]
        data = sealed(segment_header(length=length) + body, records, chain, streams=streams(ends), **footer)
        self.put("log/00000000000000000001-00000000.seg", data)
        base = len(specs) + 1
        self.segment(segment_header(ordinal=1, base=base, prev_chain=chain, prev_uid=UIDS[0], prev_end=end, reason=1,
                                    epoch=2), b"", base=base, ordinal=1)
        self.put("HEAD", slot(len(specs), 4096, chain, ordinal=1) + bytes(4096))
        return end, data

    def test_sealed_segments_are_whole(self):
        self.rotated()
        self.report("whole", records=1, derived=[])
        many = [{"payload": b"x" * (n * 37 % 5000), "kind": 1 + n % 3} for n in range(100)]
        self.rotated(many)
        self.report("whole", records=100, derived=[])
        by_turns = lambda ends: [(7, [end for end, _ in ends[:-1:2]]), (9, [ends[1][0]])]
        self.rotated([{}] * 5, by_turns, rule=1)
        self.report("whole", records=5, derived=[])

    def test_the_length_of_a_sealed_file_is_no_multiple_of_4096(self):
        """All numbers of records up to the one that needs the extra pad, and some more."""
        lengths = set()
        for count in range(1, 70):
            _, data = self.rotated([{}] * count)
            lengths.add(len(data) % 4096)
            self.report("whole", records=count)
        self.assertNotIn(0, lengths)
        self.assertIn(64, lengths)

    def test_every_byte_of_index_and_footer(self):
        """No record depends on them: all records are read, and the place is reported."""
        end, good = self.rotated([{}, {"kind": 12}])
        footer = len(good) - 4096
        for index in [*range(end, footer + 376), *range(footer + 376, footer + 4088, 31), *range(footer + 4088, len(good))]:
            bad = bytearray(good)
            bad[index] ^= 1 << index % 8
            self.put("log/00000000000000000001-00000000.seg", bad)
            place, = self.report("derived_damage", records=2)["derived"]
            self.assertEqual(place["file"], "log/00000000000000000001-00000000.seg")
            self.assertEqual(place["offset"] >= footer, index >= footer, (index, place))

    def test_truncation_of_index_and_footer(self):
        end, good = self.rotated()
        for length in range(end, len(good), 13):
            self.put("log/00000000000000000001-00000000.seg", good[:length])
            self.report("whole" if length % 4096 == 0 and length >= 8192 else "derived_damage", records=1)

    def test_right_sums_do_not_excuse_what_the_frames_do_not_say(self):
        swap = lambda old, new: lambda index: index.replace(old, new, 1)
        cases = {"field first_seq": {"first": le(8, 2)}, "field last_seq": {"last": le(8, 9)}, "field count": {"count": le(8, 1)},
                 "field data_end": {"data_end": le(8, 4096)}, "field time_first": {"time_first": le(8, 1)},
                 "field time_last": {"time_last": le(8, 1)}, "field chain_last": {"chain_last": bytes(32)},
                 "field data_hash": {"data_hash": bytes(32)}, "field replica": {"replica": bytes(208)},
                 "field uid": {"segment_uid": UIDS[2]}, "footer magic": {"magic": bytes(8)}, "index crc": {"index_crc": bytes(4)},
                 "reserved": {"reserved": b"\1" + bytes(3723)}, "index header": {"index": lambda index: index + bytes(64)},
                 "seek": {"index": swap(le(8, 1, 4096), le(8, 2, 4096))}, "kinds": {"index": swap(le(4, 64), le(4, 65))},
                 "out of range": {"index": swap(le(8, 11) + le(4, 0), le(8, 11) + le(4, 1))},
                 "streams": {"streams": lambda ends: [(3, [ends[0][0]])]},
                 "streams break": {"streams": lambda ends: [(3, [4160])], "rule": 1}}
        for reason, broken in cases.items():
            with self.subTest(reason):
                self.rotated([{}, {}], **broken)
                place, = self.report("derived_damage", records=2)["derived"]
                self.assertIn(reason, place["reason"])


class Pruned(LedgerCase):
    """A log that begins with segment 1: record 1 was pruned, record 2 is present, record 5 (or none) is the note."""

    def pruned(self, change=None, *, note=True, reason=1, base=2, ordinal=1, wrong_chain=False, **header):
        _, ends = frames(4096, 1, bytes(32), [{}])
        end, chain = ends[-1]
        anchors = [{"seq": seq, "chain": "ab" * 32, "state_hash": "cd" * 32, "file": f"{seq:020}-state-v1-cdcdcdcd.snap"}
                   for seq in (3, 4)]
        text = {"first_seq": 1, "last_seq": 1, "last_ordinal": 0, "chain": chain.hex(), "anchors": anchors, "archive": None,
                "by": "ann"}
        if change:
            change(text)
        specs = [{}, {}, {}] + [{"kind": 0x8002, "codec": 2, "payload": json.dumps(text).encode()}] * note
        before = bytes([1]) * 32 if wrong_chain else chain
        body, after = frames(4096, base, before, specs, uid=UIDS[1], ordinal=ordinal)
        self.segment(segment_header(ordinal=ordinal, base=base, prev_chain=before, prev_uid=UIDS[0], prev_end=end, uid=UIDS[1],
                                    reason=reason, **header), body, base=base, ordinal=ordinal)
        self.put("HEAD", slot(base - 1 + len(specs), *after[-1], ordinal=ordinal, uid=UIDS[1]) + bytes(4096))

    def test_a_note_covers_what_is_missing(self):
        self.pruned()
        self.report("whole", first_seq=2, records=4, last_seq=5)

    def test_a_prune_that_was_cut_short_is_whole(self):
        self.pruned(lambda note: note.update(last_ordinal=1, last_seq=3))
        self.report("whole", first_seq=2, records=4)

    def test_without_a_note_segments_are_missing(self):
        self.pruned(note=False)
        self.report("damaged", first_seq=1, records=0)

    def test_a_note_that_covers_less_covers_nothing(self):
        self.pruned(base=3, ordinal=2)
        self.report("damaged", "the first segment is missing")

    def test_the_first_segment_must_be_the_one_that_was_noted(self):
        self.pruned(wrong_chain=True)
        self.report("damaged", records=0)
        for path in (self.root / "log").iterdir():
            path.unlink()
        self.pruned(base=3)
        self.report("damaged", records=0)

    def test_a_note_that_breaks_a_rule_is_none(self):
        def anchor(**fields):
            return lambda note: note["anchors"][0].update(fields)
        changes = [anchor(seq=0), anchor(file="x"), anchor(chain="0"), lambda note: note["anchors"].pop(),
                   lambda note: note.update(first_seq=0), lambda note: note.update(last_seq=4),
                   lambda note: note.update(chain=None), lambda note: note.pop("by"), lambda note: note.update(archive={}),
                   lambda note: note["anchors"].reverse()]
        for number, change in enumerate(changes):
            with self.subTest(number):
                self.pruned(change)
                self.report("damaged", first_seq=1)


class Golden(LedgerCase):
    """The ledgers in golden/, as the program wrote them: whole, or with the first bad place listed here."""
    SEGMENT = "log/00000000000000000001-00000000.seg"
    EXPECTED = {
        "minimal": ("whole", None), "good": ("whole", None), "fenced": ("whole", None),
        "torn": ("unacknowledged_tail", (SEGMENT, 5632)), "corrupt": ("damaged", (SEGMENT, 4480)),
        "pruned": ("whole", None), "based": ("whole", None),
        "future-ro-compat": ("whole", None), "future-kind": ("whole", None),
        "future-major": ("refused", None), "future-incompat": ("refused", None),
    }

    def rebuild(self, text):
        for part in re.split(r"^file ", text, flags=re.M)[1:]:
            title, *rows = part.splitlines()
            name, length = title.split()
            data = bytearray(int(length))
            for row in rows:
                if row and not row.startswith("#"):
                    offset, digits, *_ = row.split()
                    chunk = bytes.fromhex(digits)
                    data[int(offset, 16):int(offset, 16) + len(chunk)] = chunk
            self.assertEqual(len(data), int(length))
            (self.root / name).parent.mkdir(exist_ok=True)
            self.put(name, data)

    def test_each_is_what_it_is_said_to_be(self):
        folders = {path.name for path in (HERE / "golden").iterdir() if path.is_dir()}
        self.assertEqual(folders, set(self.EXPECTED) - {"minimal"})
        for name, (status, place) in self.EXPECTED.items():
            with self.subTest(name):
                for path in (self.root / "log").iterdir():
                    path.unlink()
                golden = HERE / "golden"
                self.rebuild((golden / "minimal.hex" if name == "minimal" else golden / name / "ledger.hex").read_text())
                if status == "refused":
                    with self.assertRaises(reader.Refused):
                        reader.check(self.root)
                    continue
                found = self.report(status)
                bad = found["bad"] or found["tail"]
                self.assertEqual(bad and (bad["file"], bad["offset"]), place)
                if name != "minimal":
                    self.same_as_the_program(golden / name, found)

    def same_as_the_program(self, folder, found):
        """Two readers of one specification: the same records, chain and first bad place."""
        *lines, _ = (folder / "verify.jsonl").read_text().splitlines()
        *findings, summary = map(json.loads, lines)
        damage = [line for line in findings if line["type"] == "damage"]
        if damage:
            self.assertEqual((found["bad"]["file"], found["bad"]["offset"]),
                             (damage[0]["path"].split("/", 1)[1], damage[0]["offset"]))
        else:
            self.assertEqual((summary["records"], summary["root"]["seq"], summary["root"]["chain"]),
                             (found["records"], found["last_seq"], found["last_chain"]))


class CommandLine(LedgerCase):
    def run_reader(self, *arguments):
        done = subprocess.run([sys.executable, HERE / "reader.py", *arguments], capture_output=True, text=True)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stdout

    def test_exit_codes_and_output(self):
        name, ends = self.one([{}] * 2)
        code, text = self.run_reader("--records", self.root)
        self.assertEqual((code, len(text.splitlines())), (0, 3))
        self.assertIn(f"seq 2 kind 11 time 1700000000000000 length 5 chain {ends[2][1].hex()[:8]}", text)
        code, text = self.run_reader("--json", "--records", self.root)
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([line["type"] for line in lines], ["record", "record", "summary"])
        self.assertEqual(lines[-1]["last_chain"], ends[2][1].hex())
        self.put(name, bytes(8192))
        self.assertEqual(self.run_reader(self.root)[0], 4)
        self.assertEqual(self.run_reader(self.root / "nothing")[0], 2)
        self.assertEqual(self.run_reader()[0], 2)
        self.segment(segment_header(major=2), b"")
        self.assertEqual(self.run_reader(self.root)[0], 2)
        self.segment(segment_header(incompat=1), b"")
        self.assertEqual(self.run_reader(self.root)[0], 2)


class Store(unittest.TestCase):
    """The golden store of the program: two writers, and a part of a segment that replaces the first two slots."""
    def objects(self):
        text = (HERE / "golden" / "store.hex").read_text()
        return {part.split("\n")[0]: bytes.fromhex(part.split("\n", 1)[1]) for part in text.split("# ")[1:]}

    def put(self, root, objects):
        for name, data in objects.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)

    def check(self, objects):
        with tempfile.TemporaryDirectory() as folder:
            self.put(Path(folder), objects)
            records = []
            report = store_reader.check(folder, lambda _, record: records.append(record.payload))
            return report, records

    def test_golden_store_is_whole(self):
        report, records = self.check(self.objects())
        self.assertEqual((report["status"], report["bad"], report["orphans"]), ("whole", None, []))
        self.assertEqual((report["records"], report["slots"], report["segment_objects"], report["epoch"]), (5, 5, 1, 2))
        self.assertEqual([records[1], records[2], records[4]], [b"one record", b"another one", b"after the takeover"])
        self.assertEqual(json.loads(records[3])["why"], "takeover")

    def test_slots_alone_hold_the_same_log(self):
        objects = {name: data for name, data in self.objects().items() if not name.startswith("seg/")}
        self.assertEqual(self.check(objects)[0]["last_chain"], self.check(self.objects())[0]["last_chain"])
        for name in [name for name in objects if name.startswith("tail/")][:-1]:
            report, _ = self.check({other: data for other, data in objects.items() if other != name})
            self.assertEqual(report["status"], "damaged", name)

    def test_flipped_bits_are_located(self):
        objects = self.objects()
        for name in [name for name in objects if name != "LEDGER.json"]:
            size = len(objects[name])
            for bit in sorted(set(range(0, size * 8, 1009)) | set(range(0, min(size, 256) * 8, 7)) | {size * 8 - 1}):
                data = bytearray(objects[name])
                data[bit // 8] ^= 1 << bit % 8
                try:
                    report, _ = self.check(objects | {name: bytes(data)})
                except reader.Refused as refused:
                    self.assertIn(name, str(refused))
                    continue
                self.assertEqual((report["status"], (report["bad"] or {}).get("file")), ("damaged", name), bit)

    def test_slot_of_a_collected_name_is_an_orphan(self):
        objects = self.objects()
        names = sorted(name for name in objects if name.startswith("tail/"))
        # A copy of the second writer under the name of record 2, which the segment object covers.
        late = bytearray(objects[names[4]])
        late[80:96] = le(8, 2, 2)
        late[252:] = le(4, zlib.crc32(late[:252])) + late[256:]
        report, records = self.check(objects | {names[1]: bytes(late)})
        self.assertEqual((report["status"], report["orphans"], len(records)), ("whole", [names[1]], 5))

    def test_segment_object_in_the_middle_of_a_slot_is_damage(self):
        objects = self.objects()
        name = sorted(name for name in objects if name.startswith("tail/"))[1]
        longer = bytearray(objects[name])
        longer[76:80], longer[88:96] = le(4, 2), le(8, 3)
        longer[252:256] = le(4, zlib.crc32(longer[:252]))
        report, _ = self.check(objects | {name: bytes(longer)})
        self.assertEqual((report["status"], report["bad"]["file"], report["bad"]["offset"]), ("damaged", name, 88))

    def test_other_folders_are_refused(self):
        objects = self.objects()
        for ledger in (b"", b"{}", objects["LEDGER.json"].replace(b"store 1", b"store 2")):
            self.assertRaises(reader.Refused, self.check, objects | {"LEDGER.json": ledger})
        report, _ = self.check(objects | {"LEDGER.json": objects["LEDGER.json"].strip()})
        self.assertEqual(report["bad"]["file"], "LEDGER.json")


class MovedStore(unittest.TestCase):
    """A log that another store held before: writer notes are opening slots again, and one process made all other slots."""
    NODES = [bytes([number]) * 16 for number in (0xA1, 0xA2, 0xEE)]

    def note(self, epoch, node):
        return json.dumps({"before": None, "epoch": epoch, "lost": None, "node": node.hex(), "store": 1, "why": "open"},
                          sort_keys=True, separators=(",", ":")).encode()

    def slot(self, header, frames, seq, count, offset, chains, *, epoch, node, opens):
        """A slot of a segment, under its name."""
        uid, ordinal = header[40:56], int.from_bytes(header[56:64], "little")
        body = (header if offset == 4096 else b"") + frames
        data = (store_reader.SLOT_MAGIC + le(2, 1, 0) + le(4, 0) + LEDGER + GENESIS + node + le(8, epoch)
                + le(4, opens + 2 * (offset == 4096), count) + le(8, seq, seq + count - 1) + b"".join(chains) + uid
                + le(8, ordinal, offset, offset + len(frames), 1_700_000_000_000_000, len(body)) + blake3(body).digest() + bytes(4))
        return {f"tail/{seq:020}.slot": data + le(4, zlib.crc32(data)) + body}

    def check(self, notes=(3, 5), *, shipper_epoch=None, node=None, inside=False):
        """Two segments with a note, after one without; each with another record."""
        objects = {"LEDGER.json": (json.dumps({"created": 1, "format": "plan-ledger store 1", "genesis_uid": GENESIS.hex(),
                                               "ledger_uid": LEDGER.hex()}, separators=(",", ":")) + "\n").encode()}
        chain, seq, before = bytes(32), 1, {}
        for ordinal, epoch in enumerate((0, *notes)):
            header = segment_header(ordinal=ordinal, base=seq, prev_chain=chain, **before)
            note = {"payload": self.note(epoch, self.NODES[ordinal - 1]), "kind": 0x8008, "codec": 2}
            plain = {"payload": ADA}
            order = [plain] if epoch == 0 else [plain, note] if inside else [note, plain]
            offset = 4096
            for spec in order:
                data, after = frame(offset, seq, chain, ordinal=ordinal, uid=UIDS[ordinal], **spec)
                opens = spec is note
                owner = (node or self.NODES[ordinal - 1]) if opens else self.NODES[2]
                own = epoch if opens or shipper_epoch is None else shipper_epoch
                objects |= self.slot(header, data, seq, 1, offset, (chain, after), epoch=own, node=owner, opens=opens)
                chain, seq, offset = after, seq + 1, offset + len(data)
            before = {"prev_uid": UIDS[ordinal], "prev_end": offset}
        with tempfile.TemporaryDirectory() as folder:
            for name, data in objects.items():
                (Path(folder) / name).parent.mkdir(exist_ok=True)
                (Path(folder) / name).write_bytes(data)
            return store_reader.check(folder)

    def test_epochs_of_the_store_before_are_accepted(self):
        report = self.check()
        self.assertEqual((report["status"], report["bad"], report["records"], report["epoch"]), ("whole", None, 5, 5))

    def test_other_epochs_and_processes_are_damage(self):
        for broken in ({"notes": (5, 3)}, {"notes": (3, 3)}, {"shipper_epoch": 6}, {"node": self.NODES[2]}):
            self.assertEqual(self.check(**broken)["status"], "damaged", broken)

    def test_note_inside_a_segment_is_damage(self):
        report = self.check(inside=True, shipper_epoch=0)
        self.assertIn("not the first record", report["bad"]["reason"])


class Spec(unittest.TestCase):
    def rows(self, file, heading):
        text = (HERE / file).read_text().split(f"# {heading}\n")[1]
        return [(int(a), int(b), c) for a, b, c in re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", text.split("\n#")[0], re.M)]

    def test_tables_have_no_gap_and_match_the_layouts(self):
        for file, heading, total, layout in (("log.md", "Segment header", 4096, reader.SEGMENT_LAYOUT),
                                             ("log.md", "Record frame header", 48, reader.FRAME_LAYOUT),
                                             ("log.md", "Index header", 64, reader.INDEX_LAYOUT),
                                             ("log.md", "Segment footer", 4096, reader.FOOTER_LAYOUT),
                                             ("head.md", "HEAD slot", 512, reader.HEAD_LAYOUT),
                                             ("store.md", "3. Slots", 256, store_reader.SLOT_LAYOUT)):
            rows, at = self.rows(file, heading), 0
            for offset, size, _ in rows:
                self.assertEqual(offset, at, heading)
                at += size
            self.assertEqual(at, total, heading)
            parts = re.findall(r"\d+[sx]|[HIQB]", layout)
            self.assertEqual([struct.calcsize("<" + part) for part in parts],
                             [size for _, size, _ in rows][:len(parts)], heading)

    def test_worked_example(self):
        """The writer produces the annotated bytes of log.md section 7 from the inputs stated there."""
        rows = re.findall(r"^0x10\w\w  ((?:\w\w ){15}\w\w)  ", (HERE / "log.md").read_text(), re.M)
        found = bytes.fromhex("".join(rows))
        self.assertEqual(found, frame(4096, 1, bytes(32))[0])


if __name__ == "__main__":
    unittest.main()
