"""Tests of evidence.py: the comparison of short runs with the page, and the sections of new parts.

Run: python3 format/test_evidence.py
"""
import json, subprocess, sys, tempfile, unittest
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

    def test_power_cuts_are_summed(self):
        row = {"fs": "xfs", "cuts": 5, "in_prune": 2, "writes": 9, "flushes": 2, "acks": 7, "checked": 20, "broken": 0,
               "unmountable": 1, "derived": 2, "openings": {"clean": 4, "torn": 1}, "seconds": 3}
        text = self.lines(evidence.power, [row, row | {"fs": "ext4", "broken": 1}])
        self.assertIn("| xfs | 5 | 2 | 9 | 2 | 7 | 20 | 0 | 2 | 1 | 4 clean, 1 torn | 3 |", text)
        self.assertIn("| **all** | **10** | **4** | | | | | **1** |", text)

    def test_schedules_are_listed_by_test(self):
        text = "schedules: a queue of tickets: 30 random\nschedules: seeded bug X: found by y\n"
        lines = self.lines(evidence.schedules, text)
        self.assertIn("| a queue of tickets | random | 30 |", lines)
        self.assertIn("each of 1 seeded bugs: X.", lines)

    def test_output_that_is_not_json_is_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "part"
            path.write_text('{ not json\n' + json.dumps({"type": "power"}) + "\n")
            self.assertEqual(evidence.read(path), ([{"type": "power"}], "{ not json\n"))


class Page(unittest.TestCase):
    """The page is made of all parts of one commit, in whatever calls and with whatever arguments they were run."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page, evidence.PAGE = evidence.PAGE, Path(folder.name) / "EVIDENCE.md"
        self.addCleanup(setattr, evidence, "PAGE", self.page)
        evidence.PAGE.write_text("# Evidence\n\n" + evidence.SHORT + "\nold digests\n\n## Crash images\n\nold\n")
        self.folder = Path(folder.name) / "1234abc"
        self.folder.mkdir()

    def part(self, name, *lines, status=0, machine="2 processors", commit="1234abc"):
        about = {"type": "part", "commit": commit, "command": f"run {name}", "exit": status, "seconds": 7,
                 "date": "2026-01-02", "program": "", "toolchain": "rustc 1", "machine": machine}
        text = [line if isinstance(line, str) else json.dumps(line) for line in (*lines, about)]
        (self.folder / name).write_text("\n".join(text) + "\n")

    def made(self):
        evidence.page(self.folder, "1234abc")
        return evidence.PAGE.read_text()

    def test_images_that_two_runs_share_count_once(self):
        hashes = self.folder.parent / "hashes"
        hashes.mkdir()
        (hashes / "crashes.hashes").write_text("aa\nbb\n")
        (hashes / "crashes-psow512.hashes").write_text("bb\ncc\ndd\n")
        (hashes / "crashes-interrupted.hashes").write_text("ee\n")
        run = {"type": "lab", "ops": 4, "seed": 1, "seconds": 3, "workloads": 1, "workloads_all": 1, "broken": 0}
        run |= dict.fromkeys(("clean", "unacknowledged", "torn", "absent", "asked", "examined"), 1)
        for key in ("", "_again"):
            run |= dict.fromkeys((f"points{key}", f"points{key}_whole", f"images{key}", f"distinct{key}"), 1)
        run |= {"images_third": 1, "distinct_third": 1, "tried": 10, "digest": "0" * 64}
        self.part("crashes", run | {"device": "atomic-sector"})
        self.part("crashes-psow512", run | {"device": "psow512"})
        self.part("different", evidence.different(self.folder, hashes))
        (hashes / "crashes.hashes").rename(hashes / "elsewhere")
        with self.assertRaisesRegex(SystemExit, "the hashes of crashes are not here"):
            evidence.different(self.folder, hashes)
        text = self.made()
        self.assertIn("| crash images | 4 different of 20 | 0 promises broken; a person must judge 2 of 2,", text)
        self.assertIn("crashes 2; crashes-psow512 3.", text)
        self.part("crashes-psow4096", run | {"device": "psow4096"})
        self.assertIn("| crash images | 30, different ones not counted |", self.made())

    def test_parts_of_an_earlier_program_are_left_out(self):
        self.part("fuzz-c", "c: 6 runs, 0 new inputs, 601 seconds")
        self.part("life", {"type": "endured"}, commit="0000000")
        text = self.made()
        self.assertIn("Left out, because an earlier program was measured: life.", text)
        self.assertIn("Not run for this page: `format/evidence.sh life`.", text)
        self.assertNotIn("| life |", text)

    def test_a_commit_is_since_those_before_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root, evidence.ROOT = evidence.ROOT, Path(folder)
            self.addCleanup(setattr, evidence, "ROOT", root)
            git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
            subprocess.run([*git, "init", "--quiet"], check=True)
            for text in ("one", "two"):
                subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", text], check=True)
            self.assertTrue(evidence.is_since("HEAD", "HEAD~1"))
            self.assertFalse(evidence.is_since("HEAD~1", "HEAD"))

    def test_parts_name_their_commands_and_what_they_measured(self):
        self.part("fuzz-a+b", "a: 5 runs, 1 new inputs, 600 seconds")
        self.part("fuzz-c", "c: 6 runs, 0 new inputs, 601 seconds")
        text = self.made()
        self.assertIn("Measured at commit `1234abc`.", text)
        self.assertIn("| fuzz-a+b | `run fuzz-a+b` | 1234abc |  | 2026-01-02 | 7 |", text)
        self.assertIn("- All parts: rustc 1, 2 processors", text)
        self.assertIn("Not run for this page: damaged_ledger, ", text)
        self.assertIn("| runs of fuzz targets | 11 | 0 crashes; 2 targets, each 600 seconds or more |", text)
        self.assertIn("| c | 6 | 0 | 601 |", text)
        self.assertIn("old digests", text)
        self.part("schedules", "schedules: tickets: 30 random", machine="4 processors")
        text = self.made()
        self.assertIn("- fuzz-a+b, fuzz-c: rustc 1, 2 processors", text)
        self.assertIn("- schedules: rustc 1, 4 processors", text)

    def test_part_that_was_interrupted_does_not_count(self):
        (self.folder / "mutants.part").write_text("mutant: A H1 killed-by=a::b hits=1 passed-before=0 seconds=1.0\n")
        self.assertIn("Not run for this page: `format/evidence.sh mutants`.", self.made())

    def test_part_that_failed_is_shown_without_its_figures(self):
        self.part("fuzz-a+b", "a: 5 runs, 1 new inputs, 600 seconds", status=1)
        self.part("fuzz-c", "c: 6 runs, 0 new inputs, 601 seconds")
        self.part("miri", "test result: ok. 7 passed; 0 failed;", status=101)
        text = self.made()
        self.assertIn("| part `fuzz-a+b` |  | **failed**, exit code 1: `evidence/fuzz-a+b` |", text)
        self.assertIn("**Failed**: fuzz-a+b, with exit code 1.", text)
        self.assertIn("**Failed**: miri, with exit code 101.", text)
        self.assertIn("| c | 6 | 0 | 601 |", text)
        self.assertNotIn("| a | 5", text)
        self.assertNotIn("It found none", text)

    def test_part_without_figures_is_an_error(self):
        self.part("coverage", "a table of another form")
        with self.assertRaisesRegex(SystemExit, "no figure in the part coverage"):
            self.made()

    def test_mutations_and_miri_are_summed(self):
        self.part("cargo-mutants", "mutations: src/a.rs: 5 caught, 1 missed, 0 timeout, 2 unviable", "note: One in four.")
        self.part("miri", "test result: ok. 7 passed; 0 failed;", "test result: ok. 4 passed; 0 failed;")
        text = self.made()
        self.assertIn("| src/a.rs | 5 | 1 | 0 | 2 |\n| **all** | **5** | **1** | **0** | **2** |", text)
        self.assertIn("One in four.", text)
        self.assertIn("11 tests ran in Miri", text)


unittest.main()
