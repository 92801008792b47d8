# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages of this checkout."""

import hashlib
import os
import shutil
import subprocess
import sys

import machine
import qemu

PACKAGE = os.path.join(qemu.TOP, 'scripts', 'package')
# Of other checkouts, whose tests may still use them
KEPT = 3


def _key():
    """A hash of all that they are made of"""
    git = ['git', '-c', f'safe.directory={qemu.TOP}', '-C', qemu.TOP]
    paths = subprocess.run([*git, 'ls-files', '-z', '--cached', '--others',
                            '--exclude-standard'], check=True,
                           capture_output=True).stdout.split(b'\0')
    key = hashlib.sha256(subprocess.run([*git, 'rev-parse', 'HEAD'], check=True,
                                        capture_output=True).stdout)
    for path in sorted(path for path in paths if path):
        try:
            with open(os.path.join(qemu.TOP.encode(), path), 'rb') as f:
                key.update(path + b'\0' + hashlib.sha256(f.read()).digest())
        except FileNotFoundError:
            pass
    return key.hexdigest()[:16]


def _make(folder):
    top = os.path.dirname(folder)
    for old in sorted((os.path.join(top, name) for name in os.listdir(top)),
                      key=os.path.getmtime)[:-KEPT]:
        shutil.rmtree(old)
    result = subprocess.run([PACKAGE, '--quick', '-o', folder], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)
    if result.returncode:
        sys.exit(result.stdout)


def paths():
    """The path of each by its name; made if needed."""
    if not shutil.which('lintian') or not shutil.which('dh'):
        qemu.skip('there is no debhelper or lintian; scripts/deps packages '
                  'installs both')
    folder = machine.cached('test-packages', _key(), _make)
    return {name.partition('_')[0]: os.path.join(folder, name)
            for name in os.listdir(folder) if name.endswith('.deb')}
