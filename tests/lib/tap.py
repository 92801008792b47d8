# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the tests of a script as TAP, which meson counts one by one."""

import sys
import unittest

import pycotap


def main():
    """Run all tests of the script and exit."""
    # The arguments are the script's, not those of unittest.
    program = unittest.main(
        argv=sys.argv[:1], exit=False, testRunner=pycotap.TAPTestRunner(
            message_log=pycotap.LogMode.LogToDiagnostics,
            test_output_log=pycotap.LogMode.LogToDiagnostics))
    # pycotap prints no line for a test that fails in a subtest: meson misses
    # that line, and these say what has failed.
    for test, text in program.result.failures + program.result.errors:
        if hasattr(test, 'test_case'):
            print('\n'.join('# ' + line for line in
                            [test.id(), *text.splitlines()]))
    sys.exit(not program.result.wasSuccessful())
