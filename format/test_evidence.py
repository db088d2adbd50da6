"""Tests of evidence.py: the comparison of short runs with the page, and the sections of new parts.

Run: python3 format/test_evidence.py
"""
import json, sys, tempfile, unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import evidence  # noqa: E402


def lab(**changes):
    return {"device": "psow512", "digest": "0123456789abcdef0123", "tried": 100, "asked": 3} | changes


class ShortRuns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page, evidence.PAGE = evidence.PAGE, Path(folder.name) / "EVIDENCE.md"
        self.addCleanup(setattr, evidence, "PAGE", self.page)
        evidence.PAGE.write_text("# Evidence\n\nText.\n\n## Crash images\n\nMore.\n")
        evidence.record([lab()])

    def problems(self, *labs):
        return list(evidence.check(labs))

    def test_same_run_passes(self):
        self.assertEqual(self.problems(lab()), [])
        self.assertIn("More.", evidence.PAGE.read_text())

    def test_images_that_need_a_person_may_not_rise(self):
        self.assertEqual(self.problems(lab(asked=3)), [])
        self.assertIn("4 images need a person", self.problems(lab(asked=4))[0])

    def test_other_digest_fails(self):
        self.assertIn("the page has 0123456789abcdef", self.problems(lab(digest="f" * 64))[0])

    def test_run_that_is_missing_fails(self):
        self.assertEqual(self.problems(), ["psow512: not run"])
        self.assertEqual(len(self.problems(lab(), lab(device="psow4096"))), 2)


class Parts(unittest.TestCase):
    def lines(self, section, *arguments):
        lines = []
        section(*arguments, lines.append)
        return "\n".join(lines)

    def test_counts_of_cases_are_joined_by_subject(self):
        text = ("test ledger_time::a ... ok\nmeasured: clocks: 30 jumps\nmeasured: clocks: 7 records from the future\n"
                "test ledger_time::b ... ok\ntest ledger_time::c ... FAILED\n")
        self.assertIn("| clocks | 2 | 30 jumps; 7 records from the future |", self.lines(evidence.cases, text))
        self.assertIn("Not run", self.lines(evidence.cases, ""))

    def test_power_cuts_are_summed(self):
        row = {"fs": "xfs", "cuts": 5, "writes": 9, "flushes": 2, "acks": 7, "checked": 20, "broken": 0,
               "unmountable": 1, "derived": 2, "openings": {"clean": 4, "torn": 1}, "seconds": 3}
        text = self.lines(evidence.power, [row, row | {"fs": "ext4", "broken": 1}])
        self.assertIn("| xfs | 5 | 9 | 2 | 7 | 20 | 0 | 2 | 1 | 4 clean, 1 torn | 3 |", text)
        self.assertIn("| **all** | **10** | | | | | **1** |", text)

    def test_schedules_are_listed_by_test(self):
        text = "schedules: a queue of tickets: 30 random\nschedules: seeded bug X: found by y\n"
        lines = self.lines(evidence.schedules, text)
        self.assertIn("| a queue of tickets | random | 30 |", lines)
        self.assertNotIn("seeded", lines)

    def test_output_that_is_not_json_is_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "part"
            path.write_text('$ command\n{ not json\n' + json.dumps({"type": "power"}) + "\n")
            self.assertEqual(evidence.read(path), ([{"type": "power"}], "{ not json\n"))


unittest.main()
