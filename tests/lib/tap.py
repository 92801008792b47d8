# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the tests of a script as TAP, which meson counts one by one."""

import sys
import unittest


def main():
    """Run all tests of the script and exit."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(
        sys.modules['__main__'])
    tests = [t for group in suite for t in group]
    print(f'1..{len(tests)}')
    failed = 0
    for number, test in enumerate(tests, 1):
        result = unittest.TestResult()
        group = type(test)
        skip = getattr(group, '__unittest_skip__', False)
        if not skip and (number == 1 or
                         group is not type(tests[number - 2])):
            group.setUpClass()
        test.run(result)
        if not skip and (number == len(tests) or
                         group is not type(tests[number])):
            group.tearDownClass()
            group.doClassCleanups()
        ok = result.wasSuccessful()
        failed += not ok
        skipped = ''.join(f' # SKIP {why}' for _, why in result.skipped)
        print(f'{"ok" if ok else "not ok"} {number} '
              f'{group.__name__}.{test._testMethodName}{skipped}')
        for _, text in result.failures + result.errors:
            print('\n'.join('# ' + line for line in text.splitlines()))
    sys.exit(bool(failed))
