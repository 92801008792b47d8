# SPDX-License-Identifier: GPL-2.0-or-later
"""What a trace must be, whatever happened while it was made."""

import json
import os
import subprocess

import backtrail
import qemu


def examine(path, *options):
    """The facts of a trace, by tests/integration/examine: a dictionary."""
    build = os.path.dirname(os.path.dirname(os.path.dirname(
        backtrail.binary())))
    program = os.path.join(build, 'tests', 'integration', 'examine')
    result = subprocess.run([program, *options, path],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=300)
    if result.returncode:
        raise qemu.QemuError(f'examine: {result.stderr}')
    facts = json.loads(result.stdout)
    facts['streams'] = {s['vcpu']: s for s in facts['streams']}
    return facts


class TraceChecks:
    """For a unittest.TestCase."""

    def assert_sound(self, path, end, filtered=False, begun_stopped=False,
                     boot=False):
        """A whole file that accounts for all it lacks; returns its streams.

        end is how each stream ends, as transport.h numbers it.  In what is
        not filtered, control flows forward from each record to the next.
        boot is for examine: the trace begins with the firmware.
        """
        facts = examine(path, *(['--boot'] if boot else []))
        self.assertTrue(facts['complete'])
        self.assertEqual((facts['damage'], facts['cut_bytes']), (0, 0))
        for s in facts['streams'].values():
            self.assertEqual(s['holes'], sum(s['lost'].values()), s)
            self.assertEqual(s['records'] + s['holes'], s['next'], s)
            self.assertEqual((s['synthetic'], s['lost_unknown']), (0, 0), s)
            self.assertEqual((s['ends'], s['end'], s['after_end']),
                             (1, end, 0), s)
            self.assertEqual(s['unpaired'], 1 if begun_stopped else 0, s)
            self.assertEqual((s['untimed'], s['flags']), (0, 0), s)
            self.assertEqual((s['host_backwards'], s['tsc_backwards'],
                              s['icount_backwards']), (0, 0, 0), s)
            if not filtered:
                self.assertEqual((s['backwards'], s['far']), (0, 0), s)
        verified = backtrail.run('verify', path, check=False)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        return facts['streams']

    def assert_all(self, streams, info):
        """The streams are all that branch-trace-stop or a query counts.

        For a file that one agent wrote from beginning to end.
        """
        vcpus = {v['cpu-index']: v for v in info['vcpus']}
        self.assertEqual(streams.keys(), vcpus.keys())
        for i, s in streams.items():
            self.assertEqual(s['next'], vcpus[i]['records'], (s, vcpus[i]))
            self.assertEqual(sum(s['lost'].values()), vcpus[i]['lost'],
                             (s, vcpus[i]))
