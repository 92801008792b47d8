#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Leaves marks by the command and prints what they are."""

import subprocess

for value in -1, 0, 17, 2**40:
    subprocess.run(['backtrail-mark', 'python value', str(value)], check=True)
    print(f'BT: mark {value % 2**64} python value')
subprocess.run(['backtrail-mark', 'python none'], check=True)
print('BT: mark - python none')
