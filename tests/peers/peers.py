# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs, from pinned packages, and how they are asked"""

import atexit
import functools
import glob
import os
import re
import shlex
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
import backtrail
import kept
import known
import qemu

TIMEOUT = 300
KEEP = 20                       # sets of packages, of some 100 MB each


class Missing(Exception):
    """A program cannot be had here; the message says why."""


class Wrong(Exception):
    """A program shows something else than is so; the message says what."""


def equal(what, got, want):
    if got != want:
        raise Wrong(f'{what}: {got!r}, not {want!r}')


def said(command, **kwargs):
    """What a program prints; it must succeed."""
    result = subprocess.run(command, check=False, text=True, timeout=TIMEOUT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            **kwargs)
    if result.returncode:
        raise Wrong(f'{os.path.basename(command[0])}: status '
                    f'{result.returncode}: {result.stderr.strip()[-2000:]}')
    return result.stdout


def export(form, *args):
    """The path of an export, and what it is"""
    path = os.path.join(scratch(), f'known.{form}')
    backtrail.run('export', '-f', form, '--sysroot', known.root(), '-o',
                  path, *args, known.trace())
    return path


@functools.cache
def scratch():
    """A folder that goes away at the end"""
    path = tempfile.mkdtemp(prefix='backtrail-peers-')
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def unpacked(*words):
    """The folder that unpack makes of packages; see there."""
    def make(path):
        words_with_folder = list(words)
        words_with_folder.insert(2 if words[0] == '--source' else 1, path)
        result = subprocess.run([os.path.join(HERE, 'unpack'),
                                 *words_with_folder], check=False, text=True,
                                capture_output=True)
        if result.returncode:
            raise Missing(' '.join((result.stdout + result.stderr).split()))

    with open(os.path.join(HERE, 'unpack'), encoding='utf-8') as f:
        return kept.folder('peers', KEEP, [f.read(), *words], make)


def npm(package, version):
    """The folder of a package of npm, without what that depends on"""
    if not shutil.which('npm'):
        raise Missing('there is no npm')

    def make(path):
        result = subprocess.run(
            ['npm', 'pack', '--silent', f'{package}@{version}'], cwd=path,
            check=False, text=True, capture_output=True)
        if result.returncode:
            raise Missing(f'npm has no {package}@{version}: '
                          f'{result.stderr.strip()[-200:]}')
        file, = os.listdir(path)
        subprocess.run(['tar', '-xzf', file], cwd=path, check=True)
        os.remove(os.path.join(path, file))

    return os.path.join(kept.folder('peers', KEEP, [package, version], make),
                        'package')


class Programs:
    """Programs of a folder that unpacked() has made, as commands.

    They run with the libraries that were unpacked, as their names in the folder
    bin, which can be in PATH.
    """

    def __init__(self, unpacked_to):
        self.root = unpacked_to
        self.bin = tempfile.mkdtemp(dir=scratch())

    def add(self, path, *args, name=None, **env):
        """The command of a program; it leaves a file NAME.used"""
        loader = next((os.path.join(at, 'ld-linux-x86-64.so.2')
                       for at, _, files in os.walk(self.root)
                       if 'ld-linux-x86-64.so.2' in files), None)
        libraries = ':'.join(os.path.join(self.root, lib) for lib in (
            'lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu',
            'usr/lib/llvm-19/lib', 'usr/lib/llvm-21/lib'))
        command = os.path.join(self.bin, name or os.path.basename(path))
        words = [f'{key}={value}' for key, value in env.items()]
        words = ['exec', 'env', *words, loader, '--library-path', libraries,
                 os.path.join(self.root, path), *args]
        with open(command, 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\n: >{shlex.quote(command)}.used\n'
                    f'{shlex.join(words)} "$@"\n')
        os.chmod(command, 0o755)
        return command

    def add_perl(self, *scripts):
        """Scripts, with the perl that was unpacked"""
        library = f'{self.root}/usr/lib/x86_64-linux-gnu'
        paths = [path for pattern in (
            f'{self.root}/usr/share/perl/5.*', f'{library}/perl/5.*',
            f'{library}/perl5/5.*', f'{library}/perl-base',
            f'{self.root}/usr/share/perl5') for path in glob.glob(pattern)]
        for script in scripts:
            self.add('usr/bin/perl', os.path.join(self.root, script),
                     name=os.path.basename(script),
                     PERL5LIB=':'.join(reversed(paths)))

    def env(self):
        """An environment in which they are found first"""
        return {**os.environ, 'PATH': f'{self.bin}:{os.environ["PATH"]}'}

    def run(self, name, *args, **kwargs):
        """What one of them prints"""
        return said([os.path.join(self.bin, name), *args], env=self.env(),
                    **kwargs)


def tested(programs, name, test, *parts):
    """A test of ./check passes with one of these programs in place of ours."""
    used = os.path.join(programs.bin, f'{name}.used')
    if os.path.exists(used):
        os.remove(used)
    result = subprocess.run(
        [os.path.join(qemu.TOP, 'tests', 'integration', test), *parts],
        check=False, text=True, stdin=subprocess.DEVNULL, env=programs.env(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        raise Wrong(f'{test} {" ".join(parts)}:\n{result.stdout[-4000:]}')
    if not os.path.exists(used) or 'skipped' in result.stdout:
        raise Wrong(f'{test} has not run {name}:\n{result.stdout}')
